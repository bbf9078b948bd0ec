// The learning rate of a step: a linear warm-up, then constant, linear or cosine.
//
// With rate r, least rate m, W warm-up steps and decay until step D (steps count from 0):
//   step < W       r (step + 1) / W           step 0 has r / W, step W - 1 has r
//   kConstant      r
//   step >= D      m
//   kLinear        m + (r - m) (1 - x)        x = (step - W) / (D - W)
//   kCosine        m + (r - m) (1 + cos(pi x)) / 2        Loshchilov & Hutter 2017 (SGDR), eq. 5
// A function of the settings and the step alone, so that a resumed run has the rates of an unbroken
// one; no libm, so that every machine has the same bits.
#ifndef TIDELINE_MODELS_IR_LEARNING_RATE_H_
#define TIDELINE_MODELS_IR_LEARNING_RATE_H_

#include <cstdint>

#include "models/ir/attributes.h"

namespace tideline {

// In fp64; without a schedule exactly `settings.learning_rate`. `step`: optimizer steps done
// before. Any settings give a number; planner/plan/validate.h says which make sense.
double LearningRateAt(const AdamSettings& settings, int64_t step);

}  // namespace tideline

#endif  // TIDELINE_MODELS_IR_LEARNING_RATE_H_

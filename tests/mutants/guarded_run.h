// Plays a Program that may be broken in any way: on emulated devices, in a process of its own, for
// a limited time, without asking the verifier.
#ifndef TIDELINE_TESTS_MUTANTS_GUARDED_RUN_H_
#define TIDELINE_TESTS_MUTANTS_GUARDED_RUN_H_

#include <cstdint>
#include <string>

#include "planner/plan/plan.h"
#include "planner/program/program.h"

namespace tideline {

struct GuardedRun {
  enum class End { kFinished, kRefused, kCrashed, kHung };
  End end = End::kFinished;
  // kFinished: the bits of the losses and of everything in the checkpoint after the last step.
  // kRefused: the message.
  std::string result;
};

// Two steps of `program`, lowered from `plan`, one operation at a time in an order drawn by `seed`.
GuardedRun PlayGuarded(const Plan& plan, const Program& program, uint64_t seed);

}  // namespace tideline

#endif  // TIDELINE_TESTS_MUTANTS_GUARDED_RUN_H_

// A training Program written by hand for tests and benchmarks: 1F1B pipeline stages of transformer
// layers with tensor-parallel all-reduces, sends and receives, gradient sync and update, as
// planner/techniques lower them, but without a model. Deterministic.
#ifndef TIDELINE_TESTS_PLANNER_PROGRAM_PIPELINE_PROGRAM_H_
#define TIDELINE_TESTS_PLANNER_PROGRAM_PIPELINE_PROGRAM_H_

#include <cstdint>

#include "planner/program/program.h"

namespace tideline {

struct PipelineShape {
  int32_t data = 1;
  int32_t stages = 1;
  int32_t tensor = 1;
  int32_t layers = 2;  // per stage
  int32_t micro_batches = 4;
  int64_t hidden_bytes = 4096;     // one [batch, sequence, hidden] activation
  int64_t attention_bytes = 8192;  // one rank's [batch, heads, sequence, sequence]
  bool with_memory = true;         // lifetimes and addresses
};

Program MakePipelineProgram(const PipelineShape& options);

}  // namespace tideline

#endif  // TIDELINE_TESTS_PLANNER_PROGRAM_PIPELINE_PROGRAM_H_

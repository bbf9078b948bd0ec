// Knobs of pipelining that no plan carries.
#ifndef TIDELINE_PLANNER_TECHNIQUES_PIPELINE_OPTIONS_H_
#define TIDELINE_PLANNER_TECHNIQUES_PIPELINE_OPTIONS_H_

#include <cstdint>

namespace tideline {

struct PipelineOptions {
  // Most chunks per stage proposed unless pinned: transfers grow with chunks, the bubble shrinks
  // ever less.
  int32_t most_chunks = 8;
};

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_PIPELINE_OPTIONS_H_

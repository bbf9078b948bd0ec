// Ways to cut the layers into stages and to order their micro-batches.
#ifndef TIDELINE_PLANNER_TECHNIQUES_PIPELINE_PROPOSE_H_
#define TIDELINE_PLANNER_TECHNIQUES_PIPELINE_PROPOSE_H_

#include <vector>

#include "planner/techniques/propose.h"

namespace tideline {

// pp: the GPUs that tp and dp leave, where they divide the layers. Schedules: 1f1b, and interleaved
// with every number of chunks up to PipelineOptions::most_chunks that divides a stage's layers,
// where pp divides the micro-batches. gpipe only when pinned: never faster than 1f1b, never
// smaller.
std::vector<Pins> ProposePipeline(const ProposeContext& context, const Pins& partial);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_PIPELINE_PROPOSE_H_

// Pipeline parallelism: blocks in contiguous chunks on stages, units in the order of a schedule.
#ifndef TIDELINE_PLANNER_TECHNIQUES_PIPELINE_LOWER_H_
#define TIDELINE_PLANNER_TECHNIQUES_PIPELINE_LOWER_H_

#include "base/status.h"
#include "planner/draft/draft.h"

namespace tideline {

bool UsesPipeline(const Plan& plan);

// Sets mesh[pp], the chunks, and each stage's list of units and transfers. Transfers are placed by
// playing the schedule with unit times in proportion to blocks, backward twice forward (three times
// with full recomputation).
Status LowerPipeline(Draft& draft);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_PIPELINE_LOWER_H_

// ParameterGather: with ZeRO 3, where whole parameters come from while a block runs.
//
// The parameters of each (unit, block) step are gathered while the step before it runs and freed
// after the step; a step that needs what the step before it had keeps it.
#ifndef TIDELINE_PLANNER_LOWERING_PARAMETER_GATHER_H_
#define TIDELINE_PLANNER_LOWERING_PARAMETER_GATHER_H_

#include <cstdint>
#include <vector>

#include "planner/lowering/section_writer.h"
#include "planner/lowering/stage_context.h"

namespace tideline {

class ParameterGather {
 public:
  // Both must outlive this. `blocks`: the block of every step of the body, in order.
  ParameterGather(StageContext* context, SectionWriter* writer, std::vector<int32_t> blocks);

  // Before the first instruction of each step.
  void BeginStep();

  // The buffer that holds the whole parameters of a bucket in this step.
  uint32_t Whole(int32_t bucket) const;

 private:
  void Gather(size_t step, std::vector<uint32_t>* whole);

  StageContext& context_;
  SectionWriter& writer_;
  std::vector<int32_t> blocks_;
  std::vector<std::vector<int32_t>> buckets_of_block_;
  size_t next_step_ = 0;
  std::vector<uint32_t> now_;   // per bucket; kNoId: not gathered
  std::vector<uint32_t> next_;  // of the step after this one
};

}  // namespace tideline

#endif  // TIDELINE_PLANNER_LOWERING_PARAMETER_GATHER_H_

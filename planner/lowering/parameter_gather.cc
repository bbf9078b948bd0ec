#include "planner/lowering/parameter_gather.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace tideline {

ParameterGather::ParameterGather(StageContext* context, SectionWriter* writer,
                                 std::vector<int32_t> blocks)
    : context_(*context), writer_(*writer), blocks_(std::move(blocks)) {
  const std::vector<Bucket>& buckets = context_.parameters.buckets;
  buckets_of_block_.resize(context_.graph().blocks);
  for (size_t b = 0; b < buckets.size(); ++b) {
    for (const int32_t block : buckets[b].blocks) {
      buckets_of_block_[block].push_back(static_cast<int32_t>(b));
    }
  }
  now_.assign(buckets.size(), kNoId);
  next_ = now_;
}

uint32_t ParameterGather::Whole(int32_t bucket) const {
  if (context_.zero < 3) return context_.buffers[bucket].parameter;
  TL_CHECK(now_[bucket] != kNoId, "a step reads only parameters of its own block");
  return now_[bucket];
}

void ParameterGather::BeginStep() {
  if (context_.zero < 3) return;
  if (next_step_ == 0) Gather(0, &next_);
  now_ = next_;
  std::fill(next_.begin(), next_.end(), kNoId);
  ++next_step_;
  if (next_step_ < blocks_.size()) Gather(next_step_, &next_);
}

void ParameterGather::Gather(size_t step, std::vector<uint32_t>* whole) {
  const DType dtype = context_.draft->plan.dtype;
  for (const int32_t b : buckets_of_block_[blocks_[step]]) {
    if (now_[b] != kNoId) {
      (*whole)[b] = now_[b];
      continue;
    }
    const Bucket& bucket = context_.parameters.buckets[b];
    const std::string name = absl::StrCat("gather bucket ", b);
    const int64_t shard_bytes = bucket.shard * SizeOf(dtype);
    const int64_t whole_bytes = bucket.padded * SizeOf(dtype);
    (*whole)[b] = context_.AddBuffer(name, whole_bytes, Category::kCommunication);
    Instruction gather = context_.Communicate(name, CollectiveKind::kAllGather, context_.data_lane,
                                              context_.data_group, dtype, 1, bucket.shard,
                                              Reduction::kSum, Phase::kForward);
    gather.layer = blocks_[step];
    const Operand operands[] = {ReadOf(context_.buffers[b].parameter, 0, shard_bytes),
                                WriteOf((*whole)[b], 0, whole_bytes)};
    const uint32_t waits[] = {writer_.Last(kComputeLane)};
    writer_.Append(gather, operands, waits);
  }
}

}  // namespace tideline

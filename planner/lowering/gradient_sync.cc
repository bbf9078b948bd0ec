#include "planner/lowering/gradient_sync.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "planner/lowering/update_gate.h"

namespace tideline {

GradientSync::GradientSync(StageContext* context, SectionWriter* writer)
    : context_(*context),
      writer_(*writer),
      dtype_(context->draft->plan.grad_dtype),
      element_bytes_(SizeOf(dtype_)) {
  const std::vector<Bucket>& buckets = context_.parameters.buckets;
  states_.resize(buckets.size());
  for (size_t b = 0; b < buckets.size(); ++b) {
    State& state = states_[b];
    state.whole = context_.buffers[b].gradient;
    state.tied = !buckets[b].stages.empty();
    for (const ParameterSlot& slot : buckets[b].slots) {
      state.gradients += slot.gradients.size();
      state.tied |= slot.gradients.size() > 1;
    }
    state.missing = state.gradients;
  }
}

bool GradientSync::reduces_each(const State& state) const {
  return context_.draft->reduce == GradientReduction::kEachMicroBatch && context_.zero >= 2 &&
         !state.tied;
}

std::string GradientSync::Label(std::string_view what, size_t bucket) const {
  return absl::StrCat(std::string(what), " bucket ", bucket);
}

void GradientSync::StartWhole(size_t b) {
  const Bucket& bucket = context_.parameters.buckets[b];
  states_[b].whole = context_.AddBuffer(Label("gradients", b), bucket.padded * element_bytes_,
                                        Category::kGradient);
  if (bucket.padded == bucket.elements) return;
  const int64_t padding = bucket.padded - bucket.elements;
  const Instruction fill =
      context_.Compute("zero padding", Op::kFill, Attributes(),
                       {{{padding}, dtype_, Access::kWrite}}, Phase::kBackward);
  const Operand operands[] = {
      WriteOf(states_[b].whole, bucket.elements * element_bytes_, padding * element_bytes_)};
  writer_.Append(fill, operands);
}

Operand GradientSync::Target(TensorId gradient, int64_t bytes, Access access) {
  const StageParameters& parameters = context_.parameters;
  const int32_t b = parameters.bucket_of[gradient];
  const int32_t slot = parameters.slot_of[gradient];
  const int32_t use = parameters.use_of[gradient];
  TL_CHECK(b != kNone && use != kNone, "every gradient of the stage has its place");
  if (use > 0) {
    return {
        .buffer = context_.buffers[b].more_uses[slot][use - 1], .bytes = bytes, .access = access};
  }
  if (states_[b].whole == kNoId) StartWhole(b);
  return {.buffer = states_[b].whole,
          .offset = parameters.buckets[b].slots[slot].offset * element_bytes_,
          .bytes = bytes,
          .access = access};
}

bool GradientSync::Overwrites(TensorId gradient, int32_t micro_batch) const {
  return micro_batch == 0 || reduces_each(states_[context_.parameters.bucket_of[gradient]]);
}

void GradientSync::Wrote(TensorId gradient, int32_t micro_batch) {
  const size_t b = context_.parameters.bucket_of[gradient];
  State& state = states_[b];
  const bool each = reduces_each(state);
  if (!each && micro_batch + 1 < context_.draft->micro_batches) return;
  if (--state.missing > 0 || state.tied) return;
  Reduce(b, micro_batch);
  if (each) state.missing = state.gradients;
}

void GradientSync::AllReduceInPlace(const std::string& name, uint32_t buffer, int64_t elements,
                                    uint16_t lane, uint32_t group) {
  const Instruction instruction =
      context_.Communicate(name, CollectiveKind::kAllReduce, lane, group, dtype_, 1, elements,
                           Reduction::kSum, Phase::kUpdate);
  const Operand operands[] = {UpdateOf(buffer, 0, elements * element_bytes_)};
  writer_.Append(instruction, operands);
}

void GradientSync::Reduce(size_t b, int32_t micro_batch) {
  const Bucket& bucket = context_.parameters.buckets[b];
  AddLaterUses(b);
  if (bucket.tensor_partial) {
    AllReduceInPlace(Label("sum over tp", b), states_[b].whole, bucket.elements,
                     context_.tensor_lane, context_.tensor_group);
  }
  if (!bucket.stages.empty()) {
    AllReduceInPlace(Label("sum uses", b), states_[b].whole, bucket.elements, context_.tied_lane,
                     context_.tied_group);
  }
  ReduceOverData(b, micro_batch);
  if (micro_batch + 1 == context_.draft->micro_batches) reduced_.push_back(b);
}

void GradientSync::AddLaterUses(size_t b) {
  const Bucket& bucket = context_.parameters.buckets[b];
  for (size_t s = 0; s < bucket.slots.size(); ++s) {
    const ParameterSlot& slot = bucket.slots[s];
    for (const uint32_t accumulator : context_.buffers[b].more_uses[s]) {
      const Instruction add = context_.Compute(
          Label("add use", b), Op::kAccumulate, Attributes(),
          {{{slot.elements}, dtype_, Access::kRead}, {{slot.elements}, dtype_, Access::kReadWrite}},
          Phase::kUpdate);
      const int64_t bytes = slot.elements * element_bytes_;
      const Operand operands[] = {ReadOf(accumulator, 0, bytes),
                                  UpdateOf(states_[b].whole, slot.offset * element_bytes_, bytes)};
      writer_.Append(add, operands);
    }
  }
}

void GradientSync::ReduceOverData(size_t b, int32_t micro_batch) {
  if (context_.draft->size(Axis::kData) == 1) return;
  const Bucket& bucket = context_.parameters.buckets[b];
  State& state = states_[b];
  if (context_.zero == 0) {
    AllReduceInPlace(Label("reduce", b), state.whole, bucket.padded, context_.data_lane,
                     context_.data_group);
    return;
  }
  const Instruction scatter = context_.Communicate(
      Label("reduce", b), CollectiveKind::kReduceScatter, context_.data_lane, context_.data_group,
      dtype_, 1, bucket.shard, Reduction::kSum, Phase::kUpdate);
  if (context_.zero == 1) {
    const Operand in_place[] = {UpdateOf(state.whole, 0, bucket.padded * element_bytes_)};
    writer_.Append(scatter, in_place);
    return;
  }
  const int64_t shard_bytes = bucket.shard * element_bytes_;
  const uint32_t shard = context_.buffers[b].gradient_shard;
  const bool adds = reduces_each(state) && micro_batch > 0;
  const uint32_t target =
      adds ? context_.AddBuffer(Label("reduced", b), shard_bytes, Category::kGradient) : shard;
  const Operand operands[] = {ReadOf(state.whole, 0, bucket.padded * element_bytes_),
                              WriteOf(target, 0, shard_bytes)};
  writer_.Append(scatter, operands);
  state.whole = kNoId;
  if (!adds) return;
  const Instruction add = context_.Compute(
      Label("add micro-batch", b), Op::kAccumulate, Attributes(),
      {{{bucket.shard}, dtype_, Access::kRead}, {{bucket.shard}, dtype_, Access::kReadWrite}},
      Phase::kUpdate);
  const Operand sums[] = {ReadOf(target, 0, shard_bytes), UpdateOf(shard, 0, shard_bytes)};
  writer_.Append(add, sums);
}

void GradientSync::Update(size_t b) {
  const Bucket& bucket = context_.parameters.buckets[b];
  const BucketBuffers& buffers = context_.buffers[b];
  const Plan& plan = context_.draft->plan;
  const Affine begin = context_.ShardBegin(bucket);
  Attributes attributes;
  attributes.adam = plan.optimizer;
  attributes.element_offset = begin;
  const auto add_span = [&](int64_t end, bool decay) {
    std::vector<AdamSpan>& spans = attributes.spans;
    if (spans.empty() || spans.back().decay != decay) {
      spans.push_back({spans.empty() ? 0 : spans.back().end, end, decay});
    }
    spans.back().end = end;
  };
  for (const ParameterSlot& slot : bucket.slots) {
    add_span(slot.offset + slot.elements, context_.graph().tensors[slot.parameter].decay);
  }
  if (bucket.padded > bucket.elements) add_span(bucket.padded, false);

  const std::vector<int64_t> shape = {bucket.shard};
  std::vector<OperandSpec> specs;
  std::vector<Operand> operands;
  const auto add = [&](uint32_t buffer, DType dtype, Access access, bool whole) {
    specs.push_back({shape, dtype, access});
    Operand operand{.buffer = buffer, .bytes = bucket.shard * SizeOf(dtype), .access = access};
    if (whole) {
      Affine bytes = begin;
      for (int64_t& coefficient : bytes.per_coordinate) coefficient *= SizeOf(dtype);
      operand.affine = context_.builder->InternOffset(bytes);
    }
    operands.push_back(operand);
  };
  specs.push_back({shape, dtype_, Access::kRead});
  operands.push_back(FinalGradient(context_, b));
  add(buffers.parameter, plan.dtype, Access::kReadWrite, context_.zero < 3);
  if (buffers.master != kNoId) add(buffers.master, DType::kF32, Access::kReadWrite, false);
  add(buffers.momentum, DType::kF32, Access::kReadWrite, false);
  add(buffers.variance, DType::kF32, Access::kReadWrite, false);
  const UpdateGate& gate = context_.gate;
  std::vector<uint32_t> scalars;
  if (gate.factor != kNoId) scalars.push_back(gate.factor);
  if (gate.skipped_steps != kNoId) scalars.push_back(gate.skipped_steps);
  Instruction update =
      context_.Compute(Label("update", b), Op::kAdamW, attributes, specs, Phase::kUpdate, scalars);
  update.guard = gate.update;
  writer_.Append(update, operands);
}

void GradientSync::GatherParameters(size_t b) {
  if (context_.zero != 1 && context_.zero != 2) return;
  const Bucket& bucket = context_.parameters.buckets[b];
  const DType dtype = context_.draft->plan.dtype;
  Instruction gather = context_.Communicate(Label("gather", b), CollectiveKind::kAllGather,
                                            context_.data_lane, context_.data_group, dtype, 1,
                                            bucket.shard, Reduction::kSum, Phase::kUpdate);
  gather.guard = context_.gate.update;
  const Operand in_place[] = {
      UpdateOf(context_.buffers[b].parameter, 0, bucket.padded * SizeOf(dtype))};
  writer_.Append(gather, in_place);
}

void GradientSync::Finish() {
  const int32_t last = static_cast<int32_t>(context_.draft->micro_batches) - 1;
  for (size_t b = 0; b < states_.size(); ++b) {
    if (!states_[b].tied) continue;
    TL_CHECK(states_[b].missing == 0, "every use of a tied parameter has its gradient");
    Reduce(b, last);
  }
  TL_CHECK(reduced_.size() == states_.size(), "every bucket is reduced once");
  if (context_.gate.control.any()) EmitGate(context_, writer_);
  for (const size_t b : reduced_) {
    Update(b);
    GatherParameters(b);
  }
}

}  // namespace tideline

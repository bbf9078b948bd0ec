#include "planner/lowering/prologue.h"

#include "planner/lowering/section_writer.h"

namespace tideline {
namespace {

class Prologue {
 public:
  explicit Prologue(StageContext& context)
      : context_(context), writer_(&context.role(), &context.role().prologue) {}

  void Run() {
    for (size_t i = 0; i < context_.parameters.buckets.size(); ++i) {
      InitBucket(context_.parameters.buckets[i], context_.buffers[i]);
    }
    for (const auto& [tensor, buffer] : context_.state_of) InitState(tensor, buffer);
  }

 private:
  void InitBucket(const Bucket& bucket, const BucketBuffers& buffers) {
    const DType dtype = context_.draft->plan.dtype;
    const bool sharded = context_.zero > 0;
    // Where the fp32 values are drawn: in place where a whole fp32 copy is kept.
    uint32_t drawn = buffers.parameter;
    const bool keeps_whole_fp32 = dtype == DType::kF32 ? context_.zero < 3 : !sharded;
    if (dtype != DType::kF32 && !sharded) drawn = buffers.master;
    if (!keeps_whole_fp32) {
      drawn = context_.AddBuffer("initial values", bucket.padded * 4, Category::kWorkspace);
    }
    for (const ParameterSlot& slot : bucket.slots) InitParameter(slot, drawn);
    FillPadding(bucket, drawn, DType::kF32);

    const Affine shard = context_.ShardBegin(bucket);
    if (drawn != buffers.parameter) {
      const bool cut = context_.zero == 3;
      Cast(drawn, cut ? shard : Affine(), buffers.parameter, dtype,
           cut ? bucket.shard : bucket.padded);
    }
    if (buffers.master != kNoId && drawn != buffers.master) {
      Cast(drawn, shard, buffers.master, DType::kF32, bucket.shard);
    }
    Zero("zero momentum", buffers.momentum, 0, bucket.shard, DType::kF32);
    Zero("zero variance", buffers.variance, 0, bucket.shard, DType::kF32);
    if (buffers.gradient != kNoId) {
      FillPadding(bucket, buffers.gradient, context_.draft->plan.grad_dtype);
    }
  }

  void InitParameter(const ParameterSlot& slot, uint32_t drawn) {
    const Tensor& tensor = context_.graph().tensors[slot.parameter];
    Attributes attributes;
    InitBox box;
    box.parameter = tensor.name;
    box.extent = tensor.shape;
    box.valid_rows = tensor.valid_rows;
    box.full_shape = tensor.shape;
    box.first.resize(tensor.shape.size());
    for (size_t d = 0; d < tensor.cut_by.size(); ++d) {
      if (tensor.cut_by[d] == kNone) continue;
      const size_t axis = static_cast<uint8_t>(tensor.cut_by[d]);
      box.full_shape[d] *= context_.draft->mesh[axis];
      box.first[d].per_coordinate[axis] = tensor.shape[d];
    }
    attributes.init.push_back(std::move(box));
    const bool drawn_from_normal = tensor.init_stddev > 0;
    attributes.init_stddev = drawn_from_normal ? tensor.init_stddev : 0.0f;
    attributes.constant = drawn_from_normal ? 0.0f : tensor.init_value;
    const Instruction instruction =
        context_.Compute(tensor.name, drawn_from_normal ? Op::kInitNormal : Op::kFill, attributes,
                         {{tensor.shape, DType::kF32, Access::kWrite}}, Phase::kUpdate);
    const Operand operands[] = {WriteOf(drawn, slot.offset * 4, slot.elements * 4)};
    writer_.Append(instruction, operands);
  }

  void InitState(TensorId id, uint32_t buffer) {
    const Tensor& tensor = context_.graph().tensors[id];
    Attributes attributes;
    attributes.constant = tensor.init_value;
    // Named, so that checkpoints know which tensor this is.
    attributes.init = {{.parameter = tensor.name,
                        .full_shape = tensor.shape,
                        .extent = tensor.shape,
                        .first = std::vector<Affine>(tensor.shape.size()),
                        .valid_rows = 0}};
    const Instruction instruction =
        context_.Compute(tensor.name, Op::kFill, attributes,
                         {{tensor.shape, tensor.dtype, Access::kWrite}}, Phase::kUpdate);
    const Operand operands[] = {WriteOf(buffer, 0, Bytes(tensor))};
    writer_.Append(instruction, operands);
  }

  void FillPadding(const Bucket& bucket, uint32_t buffer, DType dtype) {
    if (bucket.padded == bucket.elements) return;
    Zero("zero padding", buffer, bucket.elements, bucket.padded - bucket.elements, dtype);
  }

  void Zero(std::string_view name, uint32_t buffer, int64_t begin, int64_t elements, DType dtype) {
    const Instruction instruction = context_.Compute(
        name, Op::kFill, Attributes(), {{{elements}, dtype, Access::kWrite}}, Phase::kUpdate);
    const Operand operands[] = {WriteOf(buffer, begin * SizeOf(dtype), elements * SizeOf(dtype))};
    writer_.Append(instruction, operands);
  }

  // The fp32 elements of `from` at `begin` become the first ones of `to`.
  void Cast(uint32_t from, Affine begin, uint32_t to, DType dtype, int64_t elements) {
    const Instruction instruction = context_.Compute(
        "cast initial values", Op::kCast, Attributes(),
        {{{elements}, DType::kF32, Access::kRead}, {{elements}, dtype, Access::kWrite}},
        Phase::kUpdate);
    for (int64_t& coefficient : begin.per_coordinate) coefficient *= 4;
    Operand source = ReadOf(from, 0, elements * 4);
    source.affine = context_.builder->InternOffset(begin);
    const Operand operands[] = {source, WriteOf(to, 0, elements * SizeOf(dtype))};
    writer_.Append(instruction, operands);
  }

  StageContext& context_;
  SectionWriter writer_;
};

}  // namespace

void EmitPrologue(StageContext& context) { Prologue(context).Run(); }

}  // namespace tideline

#include "planner/lowering/update_gate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/square_sum.h"

namespace tideline {
namespace {

// Elements that one block of a kernel sums, and the most blocks of one bucket.
constexpr int64_t kElementsPerPart = 4096;
constexpr int64_t kMostParts = 1024;
constexpr int64_t kSumBytes = SquareSum::kValues * 4;

class GateWriter {
 public:
  GateWriter(StageContext& context, SectionWriter& writer) : context_(context), writer_(writer) {}

  void Run() {
    const uint32_t total = context_.AddBuffer("gradient squares", kSumBytes, Category::kWorkspace);
    if (context_.buffers.empty()) Clear(total);  // a stage without parameters takes part too
    for (size_t bucket = 0; bucket < context_.buffers.size(); ++bucket) Sum(bucket, total);
    if (context_.world_group != kNoId) {
      Instruction reduce = context_.Communicate("sum gradient squares", CollectiveKind::kAllReduce,
                                                context_.world_lane, context_.world_group,
                                                DType::kF32, 1, SquareSum::kValues, Reduction::kSum,
                                                Phase::kUpdate, CollectiveAlgorithm::kTree);
      const Operand in_place[] = {UpdateOf(total, 0, kSumBytes)};
      writer_.Append(reduce, in_place);
    }
    const uint32_t pinned = context_.AddBuffer("gradient squares", kSumBytes, Category::kInput,
                                               /*persistent=*/false, Space::kPinnedHost);
    Instruction copy{
        .kind = InstructionKind::kCopy, .phase = Phase::kUpdate, .lane = context_.device_to_host};
    copy.name = context_.builder->Intern("copy gradient squares");
    const Operand copied[] = {ReadOf(total, 0, kSumBytes), WriteOf(pinned, 0, kSumBytes)};
    writer_.Append(copy, copied);
    Instruction gate{
        .kind = InstructionKind::kHostCompute, .phase = Phase::kUpdate, .lane = kHostLane};
    HostTask task;
    task.kind = HostTaskKind::kGateUpdate;
    task.gate = context_.gate;
    gate.what = context_.builder->Intern(task);
    gate.name = context_.builder->Intern("gate update");
    const Operand read[] = {ReadOf(pinned, 0, kSumBytes)};
    writer_.Append(gate, read);
  }

 private:
  void Clear(uint32_t total) {
    const Operand cleared[] = {WriteOf(total, 0, kSumBytes)};
    writer_.Append(
        context_.Compute("no gradient squares", Op::kFill, Attributes(),
                         {{{SquareSum::kValues}, DType::kF32, Access::kWrite}}, Phase::kUpdate),
        cleared);
  }

  // Adds the squares of one bucket's gradients to `total`.
  void Sum(size_t b, uint32_t total) {
    const int64_t elements = context_.parameters.buckets[b].shard;
    const int64_t parts =
        std::clamp<int64_t>((elements + kElementsPerPart - 1) / kElementsPerPart, 1, kMostParts);
    const OperandSpec part_spec{{parts, SquareSum::kValues}, DType::kF32, Access::kWrite};
    Attributes attributes;
    attributes.element_offset = context_.ShardBegin(context_.parameters.buckets[b]);
    attributes.norm_spans = Spans(b);
    const std::string bucket = absl::StrCat("bucket ", b);
    const uint32_t buffer = context_.AddBuffer("gradient squares of " + bucket, parts * kSumBytes,
                                               Category::kWorkspace);
    const Operand summed[] = {FinalGradient(context_, b), WriteOf(buffer, 0, parts * kSumBytes)};
    writer_.Append(
        context_.Compute("square " + bucket, Op::kSquareSumParts, attributes,
                         {{{elements}, context_.draft->plan.grad_dtype, Access::kRead}, part_spec},
                         Phase::kUpdate),
        summed);
    Attributes sum;
    sum.accumulate = b > 0;
    const Access access = b > 0 ? Access::kReadWrite : Access::kWrite;
    const Operand added[] = {ReadOf(buffer, 0, parts * kSumBytes),
                             {.buffer = total, .bytes = kSumBytes, .access = access}};
    writer_.Append(context_.Compute("sum squares of " + bucket, Op::kSquareSum, sum,
                                    {{part_spec.shape, DType::kF32, Access::kRead},
                                     {{SquareSum::kValues}, DType::kF32, access}},
                                    Phase::kUpdate),
                   added);
  }

  // The parameters of a bucket; neighbours that are copied alike are one span.
  std::vector<NormSpan> Spans(size_t b) const {
    const Bucket& bucket = context_.parameters.buckets[b];
    std::vector<NormSpan> spans;
    for (const ParameterSlot& slot : bucket.slots) {
      NormSpan span{.begin = slot.offset, .end = slot.offset + slot.elements};
      const std::vector<int8_t>& cuts = context_.graph().tensors[slot.parameter].cut_by;
      const bool is_cut =
          std::find(cuts.begin(), cuts.end(), static_cast<int8_t>(Axis::kTensor)) != cuts.end();
      if (!is_cut) span.copy.per_coordinate[static_cast<size_t>(Axis::kTensor)] = 1;
      if (context_.zero == 0) span.copy.per_coordinate[static_cast<size_t>(Axis::kData)] = 1;
      if (!bucket.stages.empty() && bucket.stages.front() != context_.stage) span.copy.base = 1;
      if (!spans.empty() && spans.back().end == span.begin && spans.back().copy == span.copy) {
        spans.back().end = span.end;
      } else {
        spans.push_back(span);
      }
    }
    return spans;
  }

  StageContext& context_;
  SectionWriter& writer_;
};

}  // namespace

UpdateGate AddGate(const GradientControl& control, Program* program) {
  UpdateGate gate{.control = control};
  const auto add = [&](Register entry) {
    entry.replicated = true;
    program->registers.push_back(std::move(entry));
    return static_cast<uint32_t>(program->registers.size() - 1);
  };
  if (!control.any()) return gate;
  gate.factor = add({.name = "gradient factor", .floating = true, .lower = 0, .upper = 1});
  if (!control.scales_loss()) return gate;
  gate.update = add({.name = "update", .lower = 0, .upper = 1});
  gate.loss_scale = add({.name = "loss scale",
                         .floating = true,
                         .lower = 1,
                         .upper = kLargestLossScale,
                         .persistent = true,
                         .initial = control.initial_loss_scale});
  gate.clean_steps = add({.name = "clean steps",
                          .lower = 0,
                          .upper = static_cast<double>(control.growth_steps),
                          .persistent = true});
  gate.skipped_steps = add(
      {.name = "skipped steps", .lower = 0, .upper = kLargestWholeRegister, .persistent = true});
  return gate;
}

Operand FinalGradient(StageContext& context, size_t b) {
  const Bucket& bucket = context.parameters.buckets[b];
  const int64_t element_bytes = SizeOf(context.draft->plan.grad_dtype);
  const bool whole = context.zero < 2;
  Operand operand = ReadOf(whole ? context.buffers[b].gradient : context.buffers[b].gradient_shard,
                           0, bucket.shard * element_bytes);
  if (whole) {
    Affine begin = context.ShardBegin(bucket);
    for (int64_t& coefficient : begin.per_coordinate) coefficient *= element_bytes;
    operand.affine = context.builder->InternOffset(begin);
  }
  return operand;
}

void EmitGate(StageContext& context, SectionWriter& writer) { GateWriter(context, writer).Run(); }

}  // namespace tideline

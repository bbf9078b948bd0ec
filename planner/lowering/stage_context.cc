#include "planner/lowering/stage_context.h"

#include "absl/strings/str_cat.h"
#include "models/ops/op_table.h"

namespace tideline {
namespace {

void AddLanes(StageContext& context) {
  const Draft& draft = *context.draft;
  ProgramBuilder& builder = *context.builder;
  const uint32_t role = context.role_id;
  const bool first = context.has_block(0);
  const bool last = context.has_block(draft.graph.blocks - 1);
  if (first || last) context.host_to_device = builder.LaneOf(role, {LaneKind::kHostToDevice});
  const bool gated = context.gate.control.any();
  if (last || gated) context.device_to_host = builder.LaneOf(role, {LaneKind::kDeviceToHost});
  const auto add_group = [&](const Group& group, uint16_t* lane, uint32_t* id) {
    *id = builder.Intern(group);
    *lane = builder.LaneOf(role, {LaneKind::kGroup, *id});
  };
  if (draft.size(Axis::kTensor) > 1) {
    add_group({{Axis::kTensor}, {}}, &context.tensor_lane, &context.tensor_group);
  }
  if (draft.size(Axis::kData) > 1) {
    add_group({{Axis::kData}, {}}, &context.data_lane, &context.data_group);
  }
  for (const Bucket& bucket : context.parameters.buckets) {
    if (bucket.stages.empty()) continue;
    add_group({{Axis::kPipeline}, bucket.stages}, &context.tied_lane, &context.tied_group);
  }
  if (gated) {
    Group world;
    for (const Axis axis : {Axis::kData, Axis::kPipeline, Axis::kTensor}) {
      if (draft.size(axis) > 1) world.axes.push_back(axis);
    }
    if (!world.axes.empty()) add_group(world, &context.world_lane, &context.world_group);
  }
  for (const ScheduleItem& item : draft.order[context.stage]) {
    if (item.kind == ScheduleItem::Kind::kRun) continue;
    const Peer peer{Axis::kPipeline, PeerDelta(item, draft.size(Axis::kPipeline))};
    const LaneKind kind =
        item.kind == ScheduleItem::Kind::kSend ? LaneKind::kSendTo : LaneKind::kReceiveFrom;
    builder.LaneOf(role, {kind, builder.Intern(peer)});
  }
}

void AddBucketBuffers(StageContext& context, size_t index) {
  const Bucket& bucket = context.parameters.buckets[index];
  const Plan& plan = context.draft->plan;
  const int64_t parameter_size = SizeOf(plan.dtype);
  const int64_t gradient_size = SizeOf(plan.grad_dtype);
  BucketBuffers& buffers = context.buffers.emplace_back();
  const std::string prefix = absl::StrCat("bucket ", index, " ");
  const auto add = [&](std::string_view name, int64_t bytes, Category category) {
    return context.AddBuffer(prefix + std::string(name), bytes, category, /*persistent=*/true);
  };
  buffers.parameter =
      add("parameters", (context.zero == 3 ? bucket.shard : bucket.padded) * parameter_size,
          Category::kParameter);
  if (context.zero >= 2) {
    buffers.gradient_shard =
        add("gradient shard", bucket.shard * gradient_size, Category::kGradient);
  } else {
    buffers.gradient = add("gradients", bucket.padded * gradient_size, Category::kGradient);
  }
  if (plan.dtype != DType::kF32) {
    buffers.master = add("master weights", bucket.shard * 4, Category::kOptimizer);
  }
  buffers.momentum = add("momentum", bucket.shard * 4, Category::kOptimizer);
  buffers.variance = add("variance", bucket.shard * 4, Category::kOptimizer);
  for (const ParameterSlot& slot : bucket.slots) {
    std::vector<uint32_t>& uses = buffers.more_uses.emplace_back();
    for (size_t use = 1; use < slot.gradients.size(); ++use) {
      uses.push_back(context.AddBuffer(context.graph().tensors[slot.gradients[use]].name,
                                       slot.elements * gradient_size, Category::kGradient,
                                       /*persistent=*/true));
    }
  }
}

// State is the same on every replica.
void AddStateBuffers(StageContext& context) {
  const Graph& graph = context.graph();
  for (TensorId id = 0; id < static_cast<TensorId>(graph.tensors.size()); ++id) {
    const Tensor& tensor = graph.tensors[id];
    if (tensor.role != TensorRole::kState || !context.has_block(tensor.layer)) continue;
    context.state_of[id] =
        context.AddBuffer(tensor.name, Bytes(tensor), Category::kParameter, /*persistent=*/true);
  }
}

}  // namespace

bool StageContext::has_block(int32_t block) const {
  for (const StageChunk& chunk : draft->chunks) {
    if (chunk.stage == stage && block >= chunk.first_block &&
        block < chunk.first_block + chunk.blocks) {
      return true;
    }
  }
  return false;
}

uint32_t StageContext::AddBuffer(std::string_view name, int64_t bytes, Category category,
                                 bool persistent, Space space) {
  return builder->AddBuffer(role_id, name, bytes, category, space, persistent);
}

Instruction StageContext::Compute(std::string_view name, Op op, const Attributes& attributes,
                                  const std::vector<OperandSpec>& operands, Phase phase,
                                  const std::vector<uint32_t>& scalars) {
  Kernel kernel;
  kernel.op = op;
  kernel.attributes = attributes;
  kernel.operands = operands;
  kernel.work = WorkOf(op, attributes, operands);
  kernel.compute_dtype = draft->plan.dtype;
  kernel.scalars = scalars;
  Instruction instruction{.kind = InstructionKind::kCompute, .phase = phase, .lane = kComputeLane};
  instruction.what = builder->Intern(kernel);
  instruction.name = builder->Intern(name);
  return instruction;
}

Instruction StageContext::Communicate(std::string_view name, CollectiveKind kind, uint16_t lane,
                                      uint32_t group, DType dtype, int64_t outer, int64_t block,
                                      Reduction reduction, Phase phase,
                                      std::optional<CollectiveAlgorithm> algorithm) {
  const Collective collective{.kind = kind,
                              .reduction = reduction,
                              .algorithm = algorithm.value_or(draft->plan.collective_algorithm),
                              .order = draft->plan.reduction_order,
                              .group = group,
                              .dtype = dtype,
                              .outer = outer,
                              .block = block};
  Instruction instruction{.kind = InstructionKind::kCollective, .phase = phase, .lane = lane};
  instruction.what = builder->Intern(collective);
  instruction.name = builder->Intern(name);
  return instruction;
}

Affine StageContext::ShardBegin(const Bucket& bucket) const {
  Affine begin;
  if (zero > 0) begin.per_coordinate[static_cast<size_t>(Axis::kData)] = bucket.shard;
  return begin;
}

int32_t PeerDelta(const ScheduleItem& transfer, int32_t pp) {
  const bool sends = transfer.kind == ScheduleItem::Kind::kSend;
  return pp == 2 || sends != transfer.unit.backward ? 1 : -1;
}

Operand ReadOf(uint32_t buffer, int64_t offset, int64_t bytes) {
  return {.buffer = buffer, .offset = offset, .bytes = bytes, .access = Access::kRead};
}
Operand WriteOf(uint32_t buffer, int64_t offset, int64_t bytes) {
  return {.buffer = buffer, .offset = offset, .bytes = bytes, .access = Access::kWrite};
}
Operand UpdateOf(uint32_t buffer, int64_t offset, int64_t bytes) {
  return {.buffer = buffer, .offset = offset, .bytes = bytes, .access = Access::kReadWrite};
}

StageContext MakeStageContext(const Draft& draft, int32_t stage, Program* program,
                              ProgramBuilder* builder, uint32_t role_id, const UpdateGate& gate) {
  StageContext context;
  context.gate = gate;
  context.draft = &draft;
  context.stage = stage;
  context.parameters = LayOutParameters(draft, stage);
  context.zero = EffectiveZero(draft);
  context.program = program;
  context.builder = builder;
  context.role_id = role_id;
  AddLanes(context);
  for (size_t bucket = 0; bucket < context.parameters.buckets.size(); ++bucket) {
    AddBucketBuffers(context, bucket);
  }
  AddStateBuffers(context);
  return context;
}

}  // namespace tideline

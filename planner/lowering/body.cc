#include "planner/lowering/body.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/check.h"
#include "planner/lowering/compiled_nodes.h"
#include "planner/lowering/gradient_sync.h"
#include "planner/lowering/parameter_gather.h"
#include "planner/lowering/section_writer.h"

namespace tideline {
namespace {

// A stage's list, of an evaluation the forward half of it: what goes forward keeps its order on
// both ends of every transfer, so the half is as consistent as the whole.
std::vector<ScheduleItem> ItemsOf(const Draft& draft, int32_t stage, BodyKind kind) {
  std::vector<ScheduleItem> items = draft.order[stage];
  if (kind == BodyKind::kEvaluation) {
    std::erase_if(items, [](const ScheduleItem& item) { return item.unit.backward; });
  }
  return items;
}

// The blocks a stage runs, unit after unit.
std::vector<int32_t> StepBlocks(const Draft& draft, const std::vector<ScheduleItem>& items) {
  std::vector<int32_t> blocks;
  for (const ScheduleItem& item : items) {
    if (item.kind != ScheduleItem::Kind::kRun) continue;
    const StageChunk& chunk = draft.chunks[item.unit.chunk];
    for (int64_t i = 0; i < chunk.blocks; ++i) {
      blocks.push_back(static_cast<int32_t>(chunk.first_block +
                                            (item.unit.backward ? chunk.blocks - 1 - i : i)));
    }
  }
  return blocks;
}

class Body {
 public:
  Body(StageContext& context, BodyKind kind)
      : context_(context),
        draft_(*context.draft),
        graph_(context.graph()),
        items_(ItemsOf(draft_, context.stage, kind)),
        writer_(&context.role(), &context.role().bodies.emplace_back()),
        nodes_(CompileNodes(context, kind == BodyKind::kTraining)),
        by_block_(NodesByBlock(graph_)),
        boundaries_(BlockBoundaries(graph_)),
        gather_(&context, &writer_, StepBlocks(draft_, items_)) {
    if (kind == BodyKind::kTraining) gradients_.emplace(&context, &writer_);
  }

  void Run() {
    FindInputs();
    CountItems();
    if (context_.has_block(graph_.blocks - 1)) {
      loss_total_ = context_.AddBuffer("loss total", 4, Category::kWorkspace);
    }
    for (const ScheduleItem& item : items_) {
      item.kind == ScheduleItem::Kind::kRun ? RunUnit(item.unit) : Transfer(item);
      const int32_t micro_batch = item.unit.micro_batch;
      if (--items_left_[micro_batch] == 0) {
        std::vector<uint32_t>().swap(instances_[micro_batch]);
      }
    }
    if (gradients_) gradients_->Finish();
    ReportLoss();
  }

 private:
  // ---- Instances of storages ----

  std::vector<uint32_t>& Instances(int32_t micro_batch) {
    std::vector<uint32_t>& instances = instances_[micro_batch];
    if (instances.empty()) instances.assign(graph_.tensors.size(), kNoId);
    return instances;
  }

  uint32_t NewInstance(TensorId storage, int32_t micro_batch) {
    const Tensor& tensor = graph_.tensors[storage];
    Category category = Category::kActivation;
    if (tensor.role == TensorRole::kInput) category = Category::kInput;
    if (tensor.role == TensorRole::kWorkspace) category = Category::kWorkspace;
    const uint32_t buffer = context_.AddBuffer(tensor.name, Bytes(tensor), category);
    Instances(micro_batch)[storage] = buffer;
    return buffer;
  }

  // ---- Samples ----

  // What is given with each sample, in the order of the graph and of the host task's operands.
  struct SampleInput {
    TensorId tensor = kNone;
    std::set<int32_t> readers;  // blocks of this stage
  };

  void FindInputs() {
    for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors.size()); ++id) {
      const Tensor& tensor = graph_.tensors[id];
      if (tensor.role != TensorRole::kInput || tensor.alias_of != kNone) continue;
      inputs_.push_back({.tensor = id, .readers = {}});
    }
    for (const Node& node : graph_.nodes) {
      if (!context_.has_block(node.layer)) continue;
      for (const TensorId read : node.inputs) {
        for (SampleInput& input : inputs_) {
          if (Storage(graph_, read) == input.tensor) input.readers.insert(node.layer);
        }
      }
    }
  }

  bool Needs(const SampleInput& input, int32_t chunk) const {
    return std::any_of(input.readers.begin(), input.readers.end(),
                       [&](int32_t block) { return HasBlock(chunk, block); });
  }

  HostTask LoadOf(const Unit& unit) const {
    HostTask task;
    task.samples = graph_.batch;
    task.sequence = graph_.sequence;
    task.first_sample.base = unit.micro_batch * graph_.batch;
    task.first_sample.per_coordinate[static_cast<size_t>(Axis::kData)] =
        draft_.micro_batches * graph_.batch;
    const ModelTraits model = TraitsOf(draft_.plan.model);
    if (model.samples == SampleKind::kImages) {
      task.kind = HostTaskKind::kLoadImages;
      task.image = model.image;
    }
    return task;
  }

  // Reads the samples of one micro-batch and copies to the device what this stage's chunk needs.
  void LoadSamples(const Unit& unit) {
    const bool needs_any = std::any_of(inputs_.begin(), inputs_.end(), [&](const SampleInput& it) {
      return Needs(it, unit.chunk);
    });
    if (!needs_any) return;
    const HostTask task = LoadOf(unit);
    const bool tokens = task.kind == HostTaskKind::kLoadTokens;
    std::vector<Operand> loaded;
    for (const SampleInput& input : inputs_) {
      const Tensor& tensor = graph_.tensors[input.tensor];
      const uint32_t pinned = context_.AddBuffer(tensor.name, Bytes(tensor), Category::kInput,
                                                 false, Space::kPinnedHost);
      loaded.push_back(WriteOf(pinned, 0, Bytes(tensor)));
    }
    Instruction load = Plain(InstructionKind::kHostCompute, kHostLane,
                             tokens ? "load tokens" : "load images", unit);
    load.what = context_.builder->Intern(task);
    // At most two micro-batches of samples lie in host memory.
    const uint32_t load_waits[] = {sample_copies_[0]};
    writer_.Append(load, loaded, load_waits);
    sample_copies_[0] = sample_copies_[1];
    const std::string_view name = tokens ? "copy tokens" : "copy images";
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (Needs(inputs_[i], unit.chunk)) CopySamples(inputs_[i].tensor, loaded[i], name, unit);
    }
  }

  void CopySamples(TensorId input, const Operand& pinned, std::string_view name, const Unit& unit) {
    const Instruction copy = Plain(InstructionKind::kCopy, context_.host_to_device, name, unit);
    const Operand operands[] = {ReadOf(pinned.buffer, 0, pinned.bytes),
                                WriteOf(NewInstance(input, unit.micro_batch), 0, pinned.bytes)};
    const uint32_t waits[] = {EndOfUnitTwoBefore()};
    sample_copies_[1] = writer_.Append(copy, operands, waits);
  }

  // ---- Units ----

  bool HasBlock(int32_t chunk, int32_t block) const {
    const StageChunk& range = draft_.chunks[chunk];
    return block >= range.first_block && block < range.first_block + range.blocks;
  }

  void CountItems() {
    instances_.resize(draft_.micro_batches);
    items_left_.assign(draft_.micro_batches, 0);
    for (const ScheduleItem& item : items_) {
      ++items_left_[item.unit.micro_batch];
    }
  }

  // The last compute instruction of the unit two before the next one.
  uint32_t EndOfUnitTwoBefore() const {
    return unit_ends_.size() < 2 ? kNoId : unit_ends_[unit_ends_.size() - 2];
  }

  Instruction Plain(InstructionKind kind, uint16_t lane, std::string_view name,
                    const Unit& unit) const {
    Instruction instruction{
        .kind = kind, .phase = unit.backward ? Phase::kBackward : Phase::kForward, .lane = lane};
    instruction.name = context_.builder->Intern(name);
    instruction.micro_batch = unit.micro_batch;
    return instruction;
  }

  void RunUnit(const Unit& unit) {
    unit_waits_ = sends_before_;
    sends_before_ = last_sends_;
    if (!unit.backward) LoadSamples(unit);
    const StageChunk& chunk = draft_.chunks[unit.chunk];
    for (int64_t i = 0; i < chunk.blocks; ++i) {
      const int64_t block = chunk.first_block + (unit.backward ? chunk.blocks - 1 - i : i);
      gather_.BeginStep();
      if (!unit.backward) {
        for (const NodeId id : by_block_.forward[block]) RunNode(id, unit, Phase::kForward);
        continue;
      }
      for (const NodeId id : draft_.replay[block]) RunNode(id, unit, Phase::kRecompute);
      for (const NodeId id : by_block_.backward[block]) RunNode(id, unit, Phase::kBackward);
    }
    if (!unit.backward && HasBlock(unit.chunk, graph_.blocks - 1)) SumLoss(unit);
    unit_ends_.push_back(writer_.Last(kComputeLane));
  }

  void RunNode(NodeId id, const Unit& unit, Phase phase) {
    const CompiledNode& node = nodes_.nodes[id];
    std::vector<uint32_t>& instances = Instances(unit.micro_batch);
    operands_.clear();
    TensorId gradient = kNone;
    bool overwrites = false;
    const std::span<const CompiledOperand> compiled = nodes_.Operands(node);
    for (const CompiledOperand& operand : compiled) {
      if (operand.kind == CompiledOperand::Kind::kGradient) {
        gradient = operand.tensor;
        overwrites = gradients_->Overwrites(gradient, unit.micro_batch);
      }
    }
    if (phase == Phase::kRecompute) StartAnew(compiled, unit.micro_batch);
    for (const CompiledOperand& operand : compiled) {
      const Access access = overwrites && operand.kind == CompiledOperand::Kind::kGradient
                                ? Access::kWrite
                                : operand.access;
      if (operand.kind == CompiledOperand::Kind::kGradient) {
        operands_.push_back(gradients_->Target(operand.tensor, operand.bytes, access));
        continue;
      }
      Operand result{.offset = operand.offset, .bytes = operand.bytes, .access = access};
      if (operand.kind == CompiledOperand::Kind::kParameter) {
        result.buffer = gather_.Whole(context_.parameters.bucket_of[operand.tensor]);
      } else if (operand.kind == CompiledOperand::Kind::kState) {
        result.buffer = context_.state_of.at(operand.tensor);
      } else {
        result.buffer = instances[operand.tensor];
        if (result.buffer == kNoId) {
          TL_CHECK(access != Access::kRead, "a storage is written before it is read");
          result.buffer = NewInstance(operand.tensor, unit.micro_batch);
        }
      }
      operands_.push_back(result);
    }
    Instruction instruction = overwrites ? node.overwrite : node.accumulate;
    instruction.phase = phase;
    instruction.micro_batch = unit.micro_batch;
    if (instruction.lane == kComputeLane) {
      writer_.Append(instruction, operands_, unit_waits_);
      unit_waits_.clear();
    } else {
      writer_.Append(instruction, operands_);
    }
    if (gradient == kNone) return;
    for (const CompiledOperand& operand : compiled) {
      if (operand.kind != CompiledOperand::Kind::kGradient) continue;
      gradients_->Wrote(operand.tensor, unit.micro_batch);
    }
  }

  // What a replayed node writes is a new storage, unless this replay has begun it already (slices,
  // sums in place).
  void StartAnew(std::span<const CompiledOperand> operands, int32_t micro_batch) {
    std::vector<uint32_t>& instances = Instances(micro_batch);
    for (const CompiledOperand& operand : operands) {
      if (operand.kind != CompiledOperand::Kind::kInstance || operand.access != Access::kWrite) {
        continue;
      }
      if (operand.offset == 0) instances[operand.tensor] = kNoId;
    }
  }

  // ---- Transfers ----

  void Transfer(const ScheduleItem& item) {
    const bool sends = item.kind == ScheduleItem::Kind::kSend;
    const StageChunk& chunk = draft_.chunks[item.unit.chunk];
    const std::vector<TensorId>& storages =
        item.unit.backward ? boundaries_.gradients[chunk.first_block]
                           : boundaries_.activations[chunk.first_block + chunk.blocks];
    const Peer peer{Axis::kPipeline, PeerDelta(item, draft_.size(Axis::kPipeline))};
    const uint32_t peer_id = context_.builder->Intern(peer);
    const uint16_t lane = context_.builder->LaneOf(
        context_.role_id, {sends ? LaneKind::kSendTo : LaneKind::kReceiveFrom, peer_id});
    Instruction instruction = Plain(sends ? InstructionKind::kSend : InstructionKind::kReceive,
                                    lane, sends ? "send" : "receive", item.unit);
    instruction.what = peer_id;
    instruction.layer = static_cast<int32_t>(chunk.first_block);
    for (const TensorId storage : storages) {
      const int64_t bytes = Bytes(graph_.tensors[storage]);
      instruction.name =
          context_.builder->Intern((sends ? "send " : "receive ") + graph_.tensors[storage].name);
      if (sends) {
        const uint32_t buffer = Instances(item.unit.micro_batch)[storage];
        TL_CHECK(buffer != kNoId, "what is sent has been made");
        const Operand operands[] = {ReadOf(buffer, 0, bytes)};
        SetLastSend(lane, writer_.Append(instruction, operands));
      } else {
        const Operand operands[] = {WriteOf(NewInstance(storage, item.unit.micro_batch), 0, bytes)};
        const uint32_t waits[] = {EndOfUnitTwoBefore()};
        writer_.Append(instruction, operands, waits);
      }
    }
  }

  void SetLastSend(uint16_t lane, uint32_t index) {
    last_sends_by_lane_.resize(context_.role().lanes.size(), kNoId);
    last_sends_by_lane_[lane] = index;
    last_sends_.clear();
    for (const uint32_t send : last_sends_by_lane_) {
      if (send != kNoId) last_sends_.push_back(send);
    }
  }

  // ---- Loss ----

  void SumLoss(const Unit& unit) {
    Attributes attributes;
    attributes.accumulate = unit.micro_batch > 0;
    const Access access = attributes.accumulate ? Access::kReadWrite : Access::kWrite;
    const Tensor& loss = graph_.tensors[graph_.loss];
    Instruction sum = context_.Compute(
        "sum loss", Op::kSumLoss, attributes,
        {{loss.shape, DType::kF32, Access::kRead}, {{1}, DType::kF32, access}}, Phase::kForward);
    sum.layer = graph_.blocks - 1;
    sum.micro_batch = unit.micro_batch;
    const Operand operands[] = {
        ReadOf(Instances(unit.micro_batch)[Storage(graph_, graph_.loss)], 0, Bytes(loss)),
        {.buffer = loss_total_, .bytes = 4, .access = access}};
    writer_.Append(sum, operands);
  }

  // The mean loss of the global batch reaches the host.
  void ReportLoss() {
    if (loss_total_ == kNoId) return;
    const Operand total[] = {UpdateOf(loss_total_, 0, 4)};
    if (draft_.size(Axis::kData) > 1) {
      writer_.Append(context_.Communicate("sum loss over dp", CollectiveKind::kAllReduce,
                                          context_.data_lane, context_.data_group, DType::kF32, 1,
                                          1, Reduction::kSum, Phase::kUpdate),
                     total);
    }
    Attributes mean;
    mean.constant = 1.0f / static_cast<float>(draft_.plan.global_batch * draft_.plan.seq);
    writer_.Append(context_.Compute("mean loss", Op::kScale, mean,
                                    {{{1}, DType::kF32, Access::kReadWrite}}, Phase::kUpdate),
                   total);
    const uint32_t pinned =
        context_.AddBuffer("loss", 4, Category::kInput, false, Space::kPinnedHost);
    Instruction copy{
        .kind = InstructionKind::kCopy, .phase = Phase::kUpdate, .lane = context_.device_to_host};
    copy.name = context_.builder->Intern("copy loss");
    const Operand copied[] = {ReadOf(loss_total_, 0, 4), WriteOf(pinned, 0, 4)};
    writer_.Append(copy, copied);
    Instruction report{
        .kind = InstructionKind::kHostCompute, .phase = Phase::kUpdate, .lane = kHostLane};
    report.what = context_.builder->Intern(
        HostTask{.kind = HostTaskKind::kReadLoss, .first_sample = {}, .samples = 0, .sequence = 0});
    report.name = context_.builder->Intern("report loss");
    const Operand read[] = {ReadOf(pinned, 0, 4)};
    writer_.Append(report, read);
  }

  StageContext& context_;
  const Draft& draft_;
  const Graph& graph_;
  const std::vector<ScheduleItem> items_;
  SectionWriter writer_;
  CompiledNodes nodes_;
  BlockNodes by_block_;
  Boundaries boundaries_;
  ParameterGather gather_;
  std::optional<GradientSync> gradients_;  // of a training step

  std::vector<SampleInput> inputs_;
  uint32_t sample_copies_[2] = {kNoId, kNoId};  // of the micro-batches one and two before
  uint32_t loss_total_ = kNoId;

  std::vector<std::vector<uint32_t>> instances_;  // per micro-batch and storage
  std::vector<int32_t> items_left_;               // per micro-batch
  std::vector<uint32_t> unit_ends_;
  std::vector<uint32_t> last_sends_by_lane_;
  std::vector<uint32_t> last_sends_;    // now
  std::vector<uint32_t> sends_before_;  // when the unit now running began
  std::vector<uint32_t> unit_waits_;    // of the first instruction of the unit now running
  std::vector<Operand> operands_;
};

}  // namespace

void EmitBody(StageContext& context, BodyKind kind) { Body(context, kind).Run(); }

}  // namespace tideline

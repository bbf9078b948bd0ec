#include "exec/interpreter/rank_player.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "exec/ops/registry.h"

namespace tideline {
namespace {

const char* AxisText(Axis axis) {
  switch (axis) {
    case Axis::kData:
      return "dp";
    case Axis::kPipeline:
      return "pp";
    case Axis::kTensor:
      return "tp";
  }
  return "?";
}

bool HasPeerLane(const Program& program, int32_t rank, LaneKind kind, const Peer& peer) {
  const std::vector<Lane>& lanes = program.roles[program.ranks[rank].role].lanes;
  return std::any_of(lanes.begin(), lanes.end(), [&](const Lane& lane) {
    return lane.kind == kind && program.peers[lane.index] == peer;
  });
}

}  // namespace

void RankPlayer::TouchMeter::OnTouched(const TouchReport& report) {
  const Instruction& instruction = section->instructions[report.tag];
  const Op op = program->kernels[instruction.what].op;
  std::lock_guard lock(mutex);
  TouchedBytes& bytes = by_op[static_cast<size_t>(op)];
  bytes.declared += report.declared_bytes;
  bytes.touched += report.touched_bytes;
}

RankPlayer::RankPlayer(Setting setting)
    : setting_(std::move(setting)),
      program_(*setting_.program),
      role_(program_.roles[program_.ranks[setting_.rank].role]),
      coordinates_(program_.ranks[setting_.rank].coordinates),
      registers_(program_) {
  if (setting_.weights != nullptr) weights_.emplace(*setting_.weights);
  touches_.program = &program_;
}

RankPlayer::~RankPlayer() {
  DescribeTags(setting_.device, nullptr);
  if (setting_.eager) {
    for (void* base : bases_) {
      if (base != nullptr) Release(setting_.device, base);
    }
    return;
  }
  for (void* arena : arenas_) {
    if (arena != nullptr) Release(setting_.device, arena);
  }
}

// ---- Opening ----

Status RankPlayer::Open() {
  DescribeTags(setting_.device, [this](uint64_t tag) {
    const Instruction& instruction = touches_.section->instructions[tag];
    const bool lifetime =
        instruction.kind == InstructionKind::kAlloc || instruction.kind == InstructionKind::kFree;
    if (!lifetime) return std::string(NameOf(instruction));
    const uint32_t name = role_.buffers[instruction.what].name;
    return "of " + (name < program_.names.size() ? program_.names[name] : "unnamed");
  });
  TL_RETURN_IF_ERROR(OpenLanes());
  for (const Section* section : Sections(role_)) TL_RETURN_IF_ERROR(OpenSection(*section));
  TL_RETURN_IF_ERROR(OpenMemory());
  if (setting_.findings == nullptr) return absl::OkStatus();
  watch_.emplace(program_, setting_.device, setting_.rank, setting_.findings);
  return watch_->Open();
}

Status RankPlayer::OpenLanes() {
  group_links_.resize(program_.groups.size(), nullptr);
  peer_links_.resize(program_.peers.size());
  for (const Lane& lane : role_.lanes) {
    Stream stream = nullptr;
    if (lane.kind != LaneKind::kHost) {
      TL_ASSIGN_OR_RETURN(stream, CreateStream(setting_.device, LaneName(program_, lane)));
    }
    streams_.push_back(stream);
    if (lane.kind == LaneKind::kGroup && group_links_[lane.index] == nullptr) {
      const std::vector<int32_t> members =
          Members(program_, program_.groups[lane.index], setting_.rank);
      const bool member = std::find(members.begin(), members.end(), setting_.rank) != members.end();
      if (!member) continue;
      TL_ASSIGN_OR_RETURN(group_links_[lane.index],
                          JoinCommunicator(setting_.device,
                                           absl::StrCat(LaneName(program_, lane), " #", lane.index,
                                                        " of rank ", members[0]),
                                           members));
    }
    if (lane.kind == LaneKind::kSendTo || lane.kind == LaneKind::kReceiveFrom) {
      TL_RETURN_IF_ERROR(OpenPeer(program_.peers[lane.index], peer_links_[lane.index]));
    }
  }
  return absl::OkStatus();
}

// A link is named by its sender's delta where the other end has the lane of the opposite delta, so
// that the two lanes between a pair whose axis has two ranks (+1 and -1 are the same rank) stay
// apart; else by the delta modulo the axis, which is the same for both ends.
Status RankPlayer::OpenPeer(const Peer& peer, PeerLinks& links) {
  if (links.send != nullptr) return absl::OkStatus();
  const int32_t other = PeerRank(program_, peer, setting_.rank);
  const int32_t size = program_.mesh[static_cast<size_t>(peer.axis)];
  if (other == setting_.rank) {
    return InputError(absl::StrCat("rank ", setting_.rank, " sends to itself over axis ",
                                   AxisText(peer.axis), " of size ", size));
  }
  const int64_t back = -int64_t{peer.delta};
  const auto join = [&](int32_t from, int32_t to, LaneKind there, int64_t sender_delta) {
    // The smallest number has no opposite, so no lane can be its counterpart.
    const Peer opposite = {peer.axis, static_cast<int32_t>(std::min<int64_t>(back, INT32_MAX))};
    const bool exact = back <= INT32_MAX && HasPeerLane(program_, other, there, opposite);
    const int64_t wrapped = (sender_delta % size + size) % size;
    const int32_t pair[] = {from, to};
    return JoinCommunicator(
        setting_.device,
        absl::StrCat("link ", AxisText(peer.axis), exact ? " by " : " modulo ",
                     exact ? sender_delta : wrapped, " from rank ", from, " to ", to),
        pair);
  };
  TL_ASSIGN_OR_RETURN(links.send, join(setting_.rank, other, LaneKind::kReceiveFrom, peer.delta));
  TL_ASSIGN_OR_RETURN(links.receive, join(other, setting_.rank, LaneKind::kSendTo, back));
  links.send_to = 1;
  links.receive_from = 0;
  return absl::OkStatus();
}

Status RankPlayer::OpenSection(const Section& section) {
  auto plan = std::make_unique<SectionPlan>(program_, role_, section);
  std::vector<bool> touched(role_.buffers.size());
  for (const Operand& operand : section.operands) touched[operand.buffer] = true;
  for (uint32_t buffer = 0; buffer < touched.size(); ++buffer) {
    if (touched[buffer] && !role_.buffers[buffer].persistent) plan->buffers.push_back(buffer);
  }
  for (const uint32_t wait : section.waits) {
    if (plan->events[wait] != nullptr) continue;
    TL_ASSIGN_OR_RETURN(plan->events[wait],
                        CreateEvent(setting_.device, NameOf(section.instructions[wait])));
  }
  plans_.push_back(std::move(plan));
  return absl::OkStatus();
}

Status RankPlayer::OpenMemory() {
  bases_.resize(role_.buffers.size(), nullptr);
  live_.resize(role_.buffers.size(), false);
  if (setting_.eager) {
    for (uint32_t buffer = 0; buffer < role_.buffers.size(); ++buffer) {
      if (role_.buffers[buffer].persistent) TL_RETURN_IF_ERROR(ReserveBuffer(buffer));
    }
    return absl::OkStatus();
  }
  for (int space = 0; space < kSpaces; ++space) {
    if (role_.extent[space] == 0) continue;
    TL_ASSIGN_OR_RETURN(arenas_[space],
                        Reserve(setting_.device, static_cast<Space>(space), role_.extent[space],
                                absl::StrCat("arena of ", role_.name), Category::kRuntime));
    reserved_peak_[space] = ReservedBytes(setting_.device, static_cast<Space>(space));
  }
  for (uint32_t index = 0; index < role_.buffers.size(); ++index) {
    const Buffer& buffer = role_.buffers[index];
    if (buffer.address == kNoAddress) continue;
    bases_[index] = static_cast<char*>(arenas_[static_cast<size_t>(buffer.space)]) + buffer.address;
  }
  return absl::OkStatus();
}

Status RankPlayer::ReserveBuffer(uint32_t index) {
  const Buffer& buffer = role_.buffers[index];
  const std::string name(buffer.name < program_.names.size() ? program_.names[buffer.name]
                                                             : "unnamed");
  TL_ASSIGN_OR_RETURN(bases_[index],
                      Reserve(setting_.device, buffer.space, buffer.bytes, name, buffer.category));
  int64_t& peak = reserved_peak_[static_cast<size_t>(buffer.space)];
  peak = std::max(peak, ReservedBytes(setting_.device, buffer.space));
  return absl::OkStatus();
}

// ---- Playing ----

const char* RankPlayer::NameOf(const Instruction& instruction) const {
  return instruction.name < program_.names.size() ? program_.names[instruction.name].c_str()
                                                  : "unnamed";
}

void* RankPlayer::AddressOf(const Operand& operand) const {
  return static_cast<char*>(bases_[operand.buffer]) +
         OperandOffset(program_, operand, coordinates_);
}

Status RankPlayer::PlaySection(uint32_t section, int64_t step) {
  SectionPlan& plan = *plans_[section];
  if (setting_.eager) {
    for (const uint32_t buffer : plan.buffers) TL_RETURN_IF_ERROR(ReserveBuffer(buffer));
  }
  touches_.section = &plan.section;
  if (watch_) TL_RETURN_IF_ERROR(BeginWatch(plan, section, step));
  // Machine clock: events of all ranks are on one axis.
  plan.trace.Begin(NowNs(setting_.device));
  TL_RETURN_IF_ERROR(PlayInstructions(plan, section, step));
  TL_RETURN_IF_ERROR(CheckNothingIsLeft(plan));
  TL_RETURN_IF_ERROR(SynchronizeDevice(setting_.device));
  const std::vector<OperationTime> operations = TakeTimes(setting_.device);
  plan.trace.End(NowNs(setting_.device), operations);
  if (watch_) TL_RETURN_IF_ERROR(watch_->End(section, step, plan.trace));
  if (setting_.eager) {
    for (const uint32_t buffer : plan.buffers) {
      Release(setting_.device, bases_[buffer]);
      bases_[buffer] = nullptr;
    }
  }
  return absl::OkStatus();
}

Status RankPlayer::BeginWatch(const SectionPlan& plan, uint32_t section, int64_t step) {
  if (step >= 0 && !state_is_checked_) {
    state_is_checked_ = true;
    TL_RETURN_IF_ERROR(
        watch_->CheckState(plan.section, section, step, streams_[kComputeLane],
                           [this](const Operand& operand) { return AddressOf(operand); }));
  }
  return watch_->Begin();
}

Status RankPlayer::PlayInstructions(SectionPlan& plan, uint32_t section_index, int64_t step) {
  const std::vector<Instruction>& list = plan.section.instructions;
  for (uint32_t index = 0; index < list.size(); ++index) {
    if (setting_.positions != nullptr) {
      setting_.positions->Set(setting_.rank, {step, section_index, index});
    }
    const Status status = PlayOne(plan, index, step);
    if (status.ok()) continue;
    return Annotate(status, absl::StrCat("rank ", setting_.rank, ", instruction ", index, " '",
                                         NameOf(list[index]), "'"));
  }
  if (setting_.positions != nullptr) {
    setting_.positions->Set(setting_.rank,
                            {step, section_index, static_cast<uint32_t>(list.size())});
  }
  return absl::OkStatus();
}

Status RankPlayer::CheckLifetimes(const SectionPlan& plan, const Instruction& instruction) {
  const auto name = [&](uint32_t buffer) {
    const uint32_t id = role_.buffers[buffer].name;
    return absl::StrCat("buffer '", id < program_.names.size() ? program_.names[id] : "unnamed",
                        "'");
  };
  const bool alloc = instruction.kind == InstructionKind::kAlloc;
  if (alloc || instruction.kind == InstructionKind::kFree) {
    if (live_[instruction.what] == alloc) {
      return InternalError(absl::StrCat(name(instruction.what), " is ",
                                        alloc ? "allocated twice" : "freed without being live"));
    }
    live_[instruction.what] = alloc;
    return absl::OkStatus();
  }
  for (const Operand& operand : plan.section.Operands(instruction)) {
    if (live_[operand.buffer] || role_.buffers[operand.buffer].persistent) continue;
    return InternalError(absl::StrCat(name(operand.buffer), " is used while it is not live"));
  }
  return absl::OkStatus();
}

Status RankPlayer::CheckNothingIsLeft(const SectionPlan& plan) const {
  for (const uint32_t buffer : plan.buffers) {
    if (!live_[buffer]) continue;
    const uint32_t id = role_.buffers[buffer].name;
    return InternalError(absl::StrCat("rank ", setting_.rank, ": a section ends without freeing '",
                                      id < program_.names.size() ? program_.names[id] : "unnamed",
                                      "'; it must leave what it found"));
  }
  return absl::OkStatus();
}

Status RankPlayer::AllocOrFree(const Instruction& instruction, uint32_t index, Stream stream) {
  // A reservation of its own is new memory anyway, and its watcher must not learn of lifetimes.
  if (setting_.eager) return absl::OkStatus();
  const char* name = instruction.kind == InstructionKind::kAlloc ? "alloc" : "free";
  return ForgetContents(setting_.device, stream, name, index, bases_[instruction.what],
                        role_.buffers[instruction.what].bytes);
}

Status RankPlayer::PlayOne(SectionPlan& plan, uint32_t index, int64_t step) {
  const Instruction& instruction = plan.section.instructions[index];
  TL_RETURN_IF_ERROR(CheckLifetimes(plan, instruction));
  const Stream stream = streams_[instruction.lane];
  if (stream == nullptr) return PlayHost(plan, index, step);
  for (const uint32_t wait : plan.section.Waits(instruction)) {
    TL_RETURN_IF_ERROR(WaitEvent(stream, plan.events[wait]));
  }
  if (!Skips(instruction)) {
    TL_RETURN_IF_ERROR(GiveToDevice(plan, index, stream, step));
    if (watch_) {
      TL_RETURN_IF_ERROR(watch_->After(plan.section, index, stream, [this](const Operand& operand) {
        return AddressOf(operand);
      }));
    }
    plan.trace.OnLaunched(index, NowNs(setting_.device));
  }
  if (plan.events[index] != nullptr) return RecordEvent(plan.events[index], stream);
  return absl::OkStatus();
}

Status RankPlayer::GiveToDevice(const SectionPlan& plan, uint32_t index, Stream stream,
                                int64_t step) {
  const Instruction& instruction = plan.section.instructions[index];
  switch (instruction.kind) {
    case InstructionKind::kCompute:
      return PlayCompute(plan, index, stream, step);
    case InstructionKind::kCollective:
    case InstructionKind::kSend:
    case InstructionKind::kReceive:
    case InstructionKind::kCopy:
      return PlayTransfer(plan, index, stream);
    case InstructionKind::kAlloc:
    case InstructionKind::kFree:
      return AllocOrFree(instruction, index, stream);
    case InstructionKind::kHostCompute:
    case InstructionKind::kPolicy:
    case InstructionKind::kLoop:
      break;
  }
  return InternalError("this kind of instruction cannot run on a device lane");
}

Status RankPlayer::PlayHost(SectionPlan& plan, uint32_t index, int64_t step) {
  const Instruction& instruction = plan.section.instructions[index];
  for (const uint32_t wait : plan.section.Waits(instruction)) {
    TL_RETURN_IF_ERROR(SynchronizeEvent(plan.events[wait]));
  }
  switch (instruction.kind) {
    case InstructionKind::kHostCompute: {
      if (Skips(instruction)) break;
      const int64_t start = NowNs(setting_.device);
      TL_RETURN_IF_ERROR(RunHostTask(plan, index, step));
      plan.trace.OnHostTask(index, start, NowNs(setting_.device));
      break;
    }
    case InstructionKind::kAlloc:
    case InstructionKind::kFree:
      TL_RETURN_IF_ERROR(AllocOrFree(instruction, index, nullptr));
      break;
    default:
      return InternalError("only host tasks, allocs and frees run on the host lane");
  }
  if (plan.events[index] != nullptr) return RecordHostEvent(plan.events[index]);
  return absl::OkStatus();
}

Status RankPlayer::PlayCompute(const SectionPlan& plan, uint32_t index, Stream stream,
                               int64_t step) {
  const Instruction& instruction = plan.section.instructions[index];
  operand_addresses_.clear();
  for (const Operand& operand : plan.section.Operands(instruction)) {
    operand_addresses_.push_back(AddressOf(operand));
  }
  const Kernel& kernel = program_.kernels[instruction.what];
  if (weights_ && !kernel.attributes.init.empty()) {
    return LoadWeights(kernel, operand_addresses_[0]);
  }
  LaunchContext context;
  context.target.stream = stream;
  context.target.tag = index;
  context.target.check = CheckLevelOf(setting_.device);
  context.target.observer = &touches_;
  context.operands = operand_addresses_;
  context.coordinates = coordinates_;
  context.step = step;
  context.seed = program_.seed;
  scalars_.clear();
  for (const uint32_t id : kernel.scalars) scalars_.push_back(registers_.Get(id));
  context.scalars = scalars_;
  context.layer = instruction.layer;
  context.micro_batch = std::max(instruction.micro_batch, 0);
  return LaunchKernel(kernel, context);
}

// In the place of the kernel that would make random values there.
Status RankPlayer::LoadWeights(const Kernel& kernel, void* destination) {
  std::vector<float> values(static_cast<size_t>(Elements(kernel.operands[0].shape)));
  TL_RETURN_IF_ERROR(weights_->Fill(kernel.attributes, coordinates_, values));
  return WriteMemory(setting_.device, destination, values.data(),
                     static_cast<int64_t>(values.size() * sizeof(float)));
}

Status RankPlayer::PlayTransfer(const SectionPlan& plan, uint32_t index, Stream stream) {
  const Instruction& instruction = plan.section.instructions[index];
  const std::span<const Operand> operands = plan.section.Operands(instruction);
  const char* name = NameOf(instruction);
  void* first = AddressOf(operands.front());
  void* last = AddressOf(operands.back());
  switch (instruction.kind) {
    case InstructionKind::kCollective: {
      const Collective& collective = program_.collectives[instruction.what];
      return EnqueueCollective(group_links_[collective.group], stream, name, index, collective,
                               first, last);
    }
    case InstructionKind::kSend: {
      const PeerLinks& links = peer_links_[instruction.what];
      return Send(links.send, stream, name, index, links.send_to, first, operands[0].bytes);
    }
    case InstructionKind::kReceive: {
      const PeerLinks& links = peer_links_[instruction.what];
      return Receive(links.receive, stream, name, index, links.receive_from, first,
                     operands[0].bytes);
    }
    default:
      return CopyAsync(stream, name, index, last, first, operands[0].bytes);
  }
}

Status RankPlayer::RunHostTask(const SectionPlan& plan, uint32_t index, int64_t step) {
  const Instruction& instruction = plan.section.instructions[index];
  const HostTask& task = program_.host_tasks[instruction.what];
  const std::span<const Operand> operands = plan.section.Operands(instruction);
  absl::InlinedVector<Range, 6> ranges;
  for (const Operand& operand : operands) {
    ranges.push_back({AddressOf(operand), operand.bytes, operand.access});
  }
  TL_RETURN_IF_ERROR(HostAccess(setting_.device, NameOf(instruction), index, ranges));
  switch (task.kind) {
    case HostTaskKind::kLoadTokens:
    case HostTaskKind::kLoadImages: {
      std::vector<std::span<std::byte>> spans;
      for (const Operand& operand : operands) {
        spans.push_back(
            {static_cast<std::byte*>(AddressOf(operand)), static_cast<size_t>(operand.bytes)});
      }
      return setting_.samples->Load(task, step, task.first_sample.At(coordinates_),
                                    setting_.vocabulary, spans);
    }
    case HostTaskKind::kReadLoss: {
      float loss = 0;
      std::memcpy(&loss, AddressOf(operands[0]), sizeof loss);
      return setting_.on_loss(step, loss);
    }
    case HostTaskKind::kGateUpdate:
      return RunGate(task.gate, AddressOf(operands[0]), step);
  }
  return InternalError("unknown host task");
}

Status RankPlayer::RunGate(const UpdateGate& gate, const void* squares, int64_t step) {
  std::array<float, SquareSum::kValues> values;
  std::memcpy(values.data(), squares, sizeof values);
  TL_ASSIGN_OR_RETURN(const GateReading reading, PlayGate(gate, values, registers_));
  for (const uint32_t id :
       {gate.factor, gate.update, gate.loss_scale, gate.clean_steps, gate.skipped_steps}) {
    if (id == kNoId || !program_.registers[id].replicated) continue;
    TL_RETURN_IF_ERROR(setting_.on_register(id, registers_.Get(id)));
  }
  return setting_.on_gate(step, reading);
}

}  // namespace tideline

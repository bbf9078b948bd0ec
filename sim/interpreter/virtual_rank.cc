#include "sim/interpreter/virtual_rank.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tideline {
namespace {

bool IsTransferUnit(UnitKind kind) {
  return kind == UnitKind::kCollective || kind == UnitKind::kSend || kind == UnitKind::kReceive ||
         kind == UnitKind::kCopy;
}

}  // namespace

uint32_t SinkNames::IdOf(const Instruction& instruction) {
  if (instruction.name >= ids_.size()) return sink_->Intern(Name(instruction.kind));
  uint32_t& id = ids_[instruction.name];
  if (id == kNoId) id = sink_->Intern(NameText(program_, instruction.name));
  return id;
}

VirtualRank::VirtualRank(const Program& program, int32_t rank, bool shares_cores, RunSink* sink,
                         SinkNames* names)
    : role_(program.roles[program.ranks[rank].role]),
      rank_(rank),
      shares_cores_(shares_cores),
      sink_(sink),
      names_(names),
      tide_(role_, rank, sink),
      lanes_(role_.lanes.size()) {
  TL_CHECK(lanes_.size() <= 64, "a rank has at most 64 lanes");
  if (sink_ == nullptr) return;
  for (size_t lane = 0; lane < role_.lanes.size(); ++lane) {
    sink_->DeclareLane(rank, static_cast<uint16_t>(lane), LaneName(program, role_.lanes[lane]));
  }
}

void VirtualRank::BeginSection(const Section& section, const CompiledSection& compiled,
                               int32_t step, double time_s) {
  TL_CHECK(!under_way_, "sections of a rank follow each other");
  section_ = &section;
  compiled_ = &compiled;
  step_ = step;
  under_way_ = true;
  lanes_left_ = 0;
  ready_lanes_ = 0;
  times_.resize(compiled.units.size());
  launch_base_s_.assign(1, time_s);
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    const uint32_t begin = compiled.lane_begin[lane];
    lanes_[lane] = {.begin = begin, .count = compiled.lane_begin[lane + 1] - begin};
    lanes_[lane].free_s = time_s;
    if (lanes_[lane].count == 0) continue;
    ++lanes_left_;
    ready_lanes_ |= uint64_t{1} << lane;
  }
  busy_until_s_ = time_s;
  binding_ = {};
  split_ = {};
  section_bytes_ = {};
}

void VirtualRank::Complete(uint16_t lane, double own_arrival_s, double start_s, double end_s) {
  Lane& on_lane = lanes_[lane];
  const LaneUnit& unit = UnitAt(lane, on_lane.next);
  on_lane.in_transfer = false;
  UnitTimes& times = times_[on_lane.begin + on_lane.next];
  times.own_arrival_s = own_arrival_s;
  times.start_s = start_s;
  if (unit.kind == UnitKind::kCompute) EndCompute(unit, times, end_s);
  EndUnit(lane, unit, end_s);
  ready_lanes_ |= uint64_t{1} << lane;
}

void VirtualRank::Run(Transport& transport, double now_s) {
  while (ready_lanes_ != 0) {
    const int lane = std::countr_zero(ready_lanes_);
    ready_lanes_ &= ready_lanes_ - 1;
    PlayLane(static_cast<uint16_t>(lane), transport);
  }
  tide_.Advance(now_s);
  if (under_way_ && lanes_left_ == 0) EndSection(transport);
}

bool VirtualRank::WaitsOver(uint16_t lane, const LaneUnit& unit, double& ready_s, Cause& cause) {
  for (const UnitWait& wait : compiled_->Waits(unit)) {
    Lane& other = lanes_[wait.lane];
    if (other.next <= wait.unit) {
      other.waiters |= uint64_t{1} << lane;
      return false;
    }
    const double end_s = times_[other.begin + wait.unit].end_s;
    if (end_s < ready_s) continue;
    ready_s = end_s;
    cause = {wait.lane, wait.unit};
  }
  if (unit.kind != UnitKind::kMemory && unit.host_tasks_before >= launch_base_s_.size()) {
    lanes_[kHostLane].waiters |= uint64_t{1} << lane;
    return false;
  }
  return true;
}

void VirtualRank::PlayLane(uint16_t lane, Transport& transport) {
  Lane& on_lane = lanes_[lane];
  while (!on_lane.in_transfer && on_lane.next < on_lane.count) {
    const LaneUnit& unit = UnitAt(lane, on_lane.next);
    double ready_s = on_lane.free_s;
    Cause cause{lane, on_lane.next == 0 ? kNoId : on_lane.next - 1};
    if (!WaitsOver(lane, unit, ready_s, cause)) return;
    UnitTimes& times = times_[on_lane.begin + on_lane.next];
    times.cause = cause;
    if (lane == kComputeLane) {
      for (const UnitWait& wait : compiled_->Waits(unit)) {
        Bind(wait.lane, wait.unit, times_[lanes_[wait.lane].begin + wait.unit].end_s);
      }
    }
    const double launch_base_s =
        unit.kind == UnitKind::kMemory ? 0 : launch_base_s_[unit.host_tasks_before];
    switch (unit.kind) {
      case UnitKind::kMemory:
        if (unit.has_memory) PlayParts(lane, unit, ready_s, 0, ready_s);
        EndUnit(lane, unit, ready_s);
        break;
      case UnitKind::kCompute: {
        if (shares_cores_) {
          Enter(lane, unit, ready_s, launch_base_s, transport);
          break;
        }
        const double end_s = PlayCompute(unit, ready_s, launch_base_s);
        if (unit.has_memory || sink_ != nullptr)
          PlayParts(lane, unit, ready_s, launch_base_s, end_s);
        EndUnit(lane, unit, end_s);
        break;
      }
      case UnitKind::kHostTask: {
        const double start_s = std::max(ready_s, launch_base_s + unit.launch_s);
        launch_base_s_.push_back(start_s + unit.busy_s - unit.launch_s);
        times.start_s = start_s;
        EndUnit(lane, unit, start_s + unit.busy_s);
        break;
      }
      default:
        Enter(lane, unit, ready_s, launch_base_s, transport);
        break;
    }
  }
}

void VirtualRank::Enter(uint16_t lane, const LaneUnit& unit, double ready_s, double launch_base_s,
                        Transport& transport) {
  Lane& on_lane = lanes_[lane];
  UnitTimes& times = times_[on_lane.begin + on_lane.next];
  times.launched_s = launch_base_s + unit.launch_s;
  const double arrival_s = std::max(ready_s, times.launched_s);
  on_lane.in_transfer = true;
  if (transport.Arrive(*this, lane, unit, arrival_s)) {
    Complete(lane, arrival_s, arrival_s, arrival_s);
  }
}

double VirtualRank::PlayCompute(const LaneUnit& unit, double ready_s, double launch_base_s) {
  const double first_launch_s = launch_base_s + unit.launch_s;
  const double first_start_s = std::max(ready_s, first_launch_s);
  const double end_s = std::max(ready_s + unit.busy_s, launch_base_s + unit.host_end_s);
  ChargeIdleUntil(first_start_s, first_launch_s);
  split_.compute += unit.busy_s;
  // Between the kernels of a run only launches are waited for.
  split_.host += std::max(0.0, end_s - first_start_s - unit.busy_s);
  busy_until_s_ = end_s;
  binding_ = {};
  return end_s;
}

// A unit on shared cores took what it took; its kernels divide that as their durations do alone.
void VirtualRank::EndCompute(const LaneUnit& unit, const UnitTimes& times, double end_s) {
  ChargeIdleUntil(times.start_s, times.launched_s);
  split_.compute += end_s - times.start_s;
  busy_until_s_ = end_s;
  binding_ = {};
  if (!unit.has_memory && sink_ == nullptr) return;
  const double stretch = unit.busy_s > 0 ? (end_s - times.start_s) / unit.busy_s : 1;
  // Which launches it waited for between kernels is in what it took.
  constexpr double kLaunched = -std::numeric_limits<double>::infinity();
  PlayParts(kComputeLane, unit, times.start_s, kLaunched, end_s, stretch);
}

void VirtualRank::PlayParts(uint16_t lane, const LaneUnit& unit, double ready_s,
                            double launch_base_s, double end_s, double stretch) {
  // Dates are clipped to the end of the unit, which was summed in another order.
  double now_s = ready_s;
  for (const UnitPart& part : compiled_->Parts(unit)) {
    if (part.kind == InstructionKind::kCompute) {
      const double start_s = std::min(end_s, std::max(now_s, launch_base_s + part.launch_s));
      now_s = std::min(end_s, start_s + part.duration_s * stretch);
      if (sink_ != nullptr) Emit(part, start_s, now_s, 0);
    } else if (part.buffer != kNoId) {
      tide_.Change(lane, now_s, part.instruction, part.buffer,
                   part.kind == InstructionKind::kAlloc);
    }
  }
}

void VirtualRank::EndUnit(uint16_t lane, const LaneUnit& unit, double end_s) {
  Lane& on_lane = lanes_[lane];
  UnitTimes& times = times_[on_lane.begin + on_lane.next];
  times.end_s = end_s;
  if (IsTransferUnit(unit.kind) || unit.kind == UnitKind::kHostTask) {
    if (sink_ != nullptr) Emit(compiled_->Parts(unit)[0], times.start_s, end_s, unit.bytes);
    if (unit.has_memory) PlayParts(lane, unit, end_s, 0, end_s);
  }
  on_lane.free_s = end_s;
  ++on_lane.next;
  if (on_lane.next == on_lane.count) --lanes_left_;
  ready_lanes_ |= on_lane.waiters;
  on_lane.waiters = 0;
}

void VirtualRank::Bind(uint16_t lane, uint32_t unit, double end_s) {
  if (binding_.unit != kNoId &&
      end_s <= times_[lanes_[binding_.lane].begin + binding_.unit].end_s) {
    return;
  }
  binding_ = {lane, unit};
}

// Follows the causes of the compute lane's next start back to when it fell idle. Units of memory
// marks only pass on what they waited for.
void VirtualRank::ChargeIdleUntil(double start_s, double launched_s) {
  if (!(busy_until_s_ < start_s)) return;
  using Kind = BindingWait<double>::Kind;
  causes_.clear();
  for (Cause cause = binding_; cause.unit != kNoId;) {
    const UnitTimes& times = times_[lanes_[cause.lane].begin + cause.unit];
    if (times.end_s <= busy_until_s_) break;
    const UnitKind kind = UnitAt(cause.lane, cause.unit).kind;
    cause = times.cause;
    if (kind == UnitKind::kMemory) continue;
    causes_.push_back({.kind = IsTransferUnit(kind) ? Kind::kTransfer : Kind::kOther,
                       .own_arrival = times.own_arrival_s,
                       .all_arrived = times.start_s,
                       .end = times.end_s,
                       .launch_end = times.launched_s});
    if (!IsTransferUnit(kind)) break;
  }
  ChargeIdle<double>(busy_until_s_, start_s, launched_s, causes_, split_);
}

void VirtualRank::EndSection(Transport& transport) {
  double end_s = launch_base_s_.front();
  for (uint16_t lane = 0; lane < lanes_.size(); ++lane) {
    end_s = std::max(end_s, lanes_[lane].free_s);
  }
  // The barrier waits for whichever lane finished last.
  binding_ = {};
  for (uint16_t lane = 0; lane < lanes_.size(); ++lane) {
    if (lanes_[lane].count > 0) Bind(lane, lanes_[lane].count - 1, lanes_[lane].free_s);
  }
  ChargeIdleUntil(end_s, -std::numeric_limits<double>::infinity());
  tide_.EndSection();
  ended_split_ = split_;
  ended_bytes_ = section_bytes_;
  under_way_ = false;
  transport.SectionEnded(*this, end_s);
}

void VirtualRank::Emit(const UnitPart& part, double start_s, double end_s, int64_t bytes) {
  const Instruction& instruction = section_->instructions[part.instruction];
  sink_->Add(RunEvent{.rank = rank_,
                      .step = step_,
                      .instruction = part.instruction,
                      .lane = instruction.lane,
                      .kind = static_cast<uint8_t>(instruction.kind),
                      .phase = static_cast<uint8_t>(instruction.phase),
                      .name = names_->IdOf(instruction),
                      .layer = instruction.layer,
                      .micro_batch = instruction.micro_batch,
                      .start_ns = std::llround(start_s * 1e9),
                      .end_ns = std::llround(end_s * 1e9),
                      .bytes = bytes});
}

void VirtualRank::Mute() {
  sink_ = nullptr;
  tide_.Mute();
}

std::vector<BlockedLane> VirtualRank::Blocked() const {
  std::vector<BlockedLane> blocked;
  if (!under_way_) return blocked;
  for (uint16_t lane = 0; lane < lanes_.size(); ++lane) {
    const Lane& on_lane = lanes_[lane];
    if (on_lane.next >= on_lane.count) continue;
    const LaneUnit& unit = UnitAt(lane, on_lane.next);
    BlockedLane entry{.lane = lane,
                      .instruction = compiled_->Parts(unit)[0].instruction,
                      .in_transfer = on_lane.in_transfer};
    for (const UnitWait& wait : compiled_->Waits(unit)) {
      if (lanes_[wait.lane].next > wait.unit) continue;
      entry.waits_for = compiled_->Parts(UnitAt(wait.lane, wait.unit))[0].instruction;
    }
    blocked.push_back(entry);
  }
  return blocked;
}

}  // namespace tideline

#include "exec/interpreter/section_trace.h"

#include <algorithm>

namespace tideline {
void SectionTrace::Begin(int64_t now_ns) {
  begin_ns_ = now_ns;
  std::fill(times_.begin(), times_.end(), InstructionTime());
}

void SectionTrace::OnHostTask(uint32_t instruction, int64_t start_ns, int64_t end_ns) {
  times_[instruction] = {true, start_ns, start_ns, start_ns, end_ns};
}

void SectionTrace::End(int64_t now_ns, std::span<const OperationTime> operations) {
  end_ns_ = now_ns;
  for (const OperationTime& operation : operations) {
    InstructionTime& time = times_[operation.tag];
    if (!time.ran) {
      time.ran = true;
      time.ready_ns = operation.ready_ns;
      time.start_ns = operation.start_ns;
      time.end_ns = operation.end_ns;
      continue;
    }
    time.ready_ns = std::min(time.ready_ns, operation.ready_ns);
    time.start_ns = std::min(time.start_ns, operation.start_ns);
    time.end_ns = std::max(time.end_ns, operation.end_ns);
  }
}

std::vector<uint32_t> SectionTrace::BindingCauses() const {
  std::vector<uint32_t> cause_of(section_.instructions.size(), kNoId);
  std::vector<uint32_t> latest(role_.lanes.size(), kNoId);  // that its next instruction comes after
  for (uint32_t index = 0; index < section_.instructions.size(); ++index) {
    const Instruction& instruction = section_.instructions[index];
    uint32_t& last = latest[instruction.lane];
    for (const uint32_t wait : section_.Waits(instruction)) {
      // Allocs and frees do not run; they pass on what they waited for.
      const uint32_t cause = times_[wait].ran ? wait : cause_of[wait];
      if (cause == kNoId) continue;
      if (last == kNoId || times_[cause].end_ns > times_[last].end_ns) last = cause;
    }
    cause_of[index] = last;
    if (times_[index].ran) last = instruction.lane == kComputeLane ? kNoId : index;
  }
  return cause_of;
}

void SectionTrace::CollectCauses(uint32_t cause, std::span<const uint32_t> cause_of,
                                 int64_t idle_begin_ns,
                                 std::vector<BindingWait<int64_t>>& causes) const {
  using Kind = BindingWait<int64_t>::Kind;
  causes.clear();
  while (cause != kNoId && times_[cause].end_ns > idle_begin_ns) {
    const InstructionTime& time = times_[cause];
    const bool is_transfer = IsTransfer(section_.instructions[cause].kind);
    causes.push_back({.kind = is_transfer ? Kind::kTransfer : Kind::kOther,
                      .own_arrival = time.ready_ns,
                      .all_arrived = time.start_ns,
                      .end = time.end_ns,
                      .launch_end = time.launch_ns});
    if (!is_transfer) return;
    cause = cause_of[cause];
  }
}

void SectionTrace::ChargeTime(TimeSplit<int64_t>& split) const {
  const std::vector<uint32_t> cause_of = BindingCauses();
  std::vector<BindingWait<int64_t>> causes;
  int64_t idle_begin = begin_ns_;
  uint32_t last = kNoId;  // of all lanes: the section's end is a barrier and waits for it
  for (uint32_t index = 0; index < section_.instructions.size(); ++index) {
    const InstructionTime& time = times_[index];
    if (!time.ran) continue;
    if (last == kNoId || time.end_ns > times_[last].end_ns) last = index;
    if (section_.instructions[index].lane != kComputeLane) continue;
    CollectCauses(cause_of[index], cause_of, idle_begin, causes);
    ChargeIdle<int64_t>(idle_begin, time.start_ns, time.launch_ns, causes, split);
    split.compute += time.end_ns - time.start_ns;
    idle_begin = time.end_ns;
  }
  CollectCauses(last, cause_of, idle_begin, causes);
  ChargeIdle<int64_t>(idle_begin, end_ns_, begin_ns_, causes, split);
}

void SectionTrace::EmitEvents(int32_t rank, int32_t step, std::span<const uint32_t> interned_names,
                              RunSink& sink) const {
  for (uint32_t index = 0; index < section_.instructions.size(); ++index) {
    const InstructionTime& time = times_[index];
    if (!time.ran) continue;
    const Instruction& instruction = section_.instructions[index];
    RunEvent event;
    event.rank = rank;
    event.step = step;
    event.instruction = index;
    event.lane = instruction.lane;
    event.kind = static_cast<uint8_t>(instruction.kind);
    event.phase = static_cast<uint8_t>(instruction.phase);
    event.name = instruction.name < interned_names.size() ? interned_names[instruction.name] : 0;
    event.layer = instruction.layer;
    event.micro_batch = instruction.micro_batch;
    event.start_ns = time.start_ns;
    event.end_ns = time.end_ns;
    if (IsTransfer(instruction.kind)) {
      for (const Operand& operand : section_.Operands(instruction)) {
        event.bytes = std::max(event.bytes, operand.bytes);
      }
    }
    sink.Add(event);
  }
}

// ---- Memory ----

MemoryTide::MemoryTide(const Role& role, int32_t rank) : role_(role), rank_(rank) {
  for (const Buffer& buffer : role.buffers) {
    if (buffer.persistent) Apply(buffer, buffer.bytes);
  }
}

void MemoryTide::Apply(const Buffer& buffer, int64_t signed_bytes) {
  const size_t space = static_cast<size_t>(buffer.space);
  live_[space][static_cast<size_t>(buffer.category)] += signed_bytes;
  // The runtime's own memory is in no live figure (DEFINITIONS 2).
  if (buffer.category == Category::kRuntime) return;
  sum_[space] += signed_bytes;
  peak_[space] = std::max(peak_[space], sum_[space]);
}

void MemoryTide::Emit(Space space, Category category, int64_t time_ns, RunSink& sink) const {
  MemorySample sample;
  sample.rank = rank_;
  sample.space = static_cast<uint8_t>(space);
  sample.category = static_cast<uint8_t>(category);
  sample.time_ns = time_ns;
  sample.live_bytes = live_[static_cast<size_t>(space)][static_cast<size_t>(category)];
  sink.Add(sample);
}

std::vector<MemoryTide::Change> MemoryTide::Changes(const SectionTrace& trace) const {
  const std::vector<Instruction>& list = trace.section_.instructions;
  std::vector<Change> changes;
  // Frees look back along their lane, allocs forward.
  std::vector<int64_t> lane_end(role_.lanes.size(), trace.begin_ns_);
  for (uint32_t index = 0; index < list.size(); ++index) {
    const Instruction& instruction = list[index];
    const InstructionTime& time = trace.times_[index];
    if (time.ran) lane_end[instruction.lane] = time.end_ns;
    if (instruction.kind != InstructionKind::kFree) continue;
    int64_t when = lane_end[instruction.lane];
    for (const uint32_t wait : trace.section_.Waits(instruction)) {
      if (trace.times_[wait].ran) when = std::max(when, trace.times_[wait].end_ns);
    }
    changes.push_back({when, false, instruction.what});
  }
  std::vector<int64_t> lane_start(role_.lanes.size(), trace.end_ns_);
  for (uint32_t index = static_cast<uint32_t>(list.size()); index-- > 0;) {
    const Instruction& instruction = list[index];
    const InstructionTime& time = trace.times_[index];
    if (time.ran) lane_start[instruction.lane] = time.start_ns;
    if (instruction.kind == InstructionKind::kAlloc) {
      changes.push_back({lane_start[instruction.lane], true, instruction.what});
    }
  }
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.alloc < b.alloc;
  });
  return changes;
}

void MemoryTide::Play(const SectionTrace& trace, RunSink* sink) {
  if (!begun_ && sink != nullptr) {
    for (int space = 0; space < kSpaces; ++space) {
      for (int category = 0; category < kCategories; ++category) {
        if (live_[space][category] == 0) continue;
        Emit(static_cast<Space>(space), static_cast<Category>(category), trace.begin_ns(), *sink);
      }
    }
  }
  begun_ = true;
  for (const Change& change : Changes(trace)) {
    const Buffer& buffer = role_.buffers[change.buffer];
    Apply(buffer, change.alloc ? buffer.bytes : -buffer.bytes);
    if (sink != nullptr) Emit(buffer.space, buffer.category, change.time_ns, *sink);
  }
}

}  // namespace tideline

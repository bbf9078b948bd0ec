// SectionTrace: when the instructions of one played section ran on one rank, and what follows from
// it: run events, the memory tide, and where the time went.
#ifndef TIDELINE_EXEC_INTERPRETER_SECTION_TRACE_H_
#define TIDELINE_EXEC_INTERPRETER_SECTION_TRACE_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/device/device.h"
#include "planner/program/attribution.h"
#include "planner/program/program.h"
#include "traces/run/run_sink.h"

namespace tideline {

// Nanoseconds on the machine's clock.
struct InstructionTime {
  bool ran = false;       // kAlloc and kFree do not
  int64_t launch_ns = 0;  // the host was done giving it
  int64_t ready_ns = 0;   // its device could have started it
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

class SectionTrace {
 public:
  SectionTrace(const Program& program, const Role& role, const Section& section)
      : program_(program), role_(role), section_(section), times_(section.instructions.size()) {}

  // Starts over for another play of the section.
  void Begin(int64_t now_ns);
  void OnLaunched(uint32_t instruction, int64_t now_ns) { times_[instruction].launch_ns = now_ns; }
  void OnHostTask(uint32_t instruction, int64_t start_ns, int64_t end_ns);
  // Merges the operations of each instruction.
  void End(int64_t now_ns, std::span<const OperationTime> operations);

  const InstructionTime& At(uint32_t instruction) const { return times_[instruction]; }
  int64_t begin_ns() const { return begin_ns_; }
  int64_t end_ns() const { return end_ns_; }

  // Adds this section's parts (DEFINITIONS 19) to `split`.
  void ChargeTime(TimeSplit<int64_t>& split) const;

  void EmitEvents(int32_t rank, int32_t step, std::span<const uint32_t> interned_names,
                  RunSink& sink) const;

 private:
  friend class MemoryTide;

  // Per instruction, kAlloc and kFree too: the last to end of what ran before it on its lane and of
  // what it waited for; kNoId: none. On the compute lane only of what it waited for.
  std::vector<uint32_t> BindingCauses() const;
  // `cause`, what that transfer waited for, and so on, as far as they end after `idle_begin_ns`.
  void CollectCauses(uint32_t cause, std::span<const uint32_t> cause_of, int64_t idle_begin_ns,
                     std::vector<BindingWait<int64_t>>& causes) const;

  const Program& program_;
  const Role& role_;
  const Section& section_;
  int64_t begin_ns_ = 0;
  int64_t end_ns_ = 0;
  std::vector<InstructionTime> times_;
};

// Live bytes of one rank as allocs and frees take effect: an alloc when the next instruction on its
// lane starts, a free when the one before it and all that it waits for have ended.
class MemoryTide {
 public:
  // Persistent buffers are live from the start.
  MemoryTide(const Role& role, int32_t rank);

  // Applies a played section; `sink` may be null.
  void Play(const SectionTrace& trace, RunSink* sink);

  // The largest live sum so far.
  int64_t peak(Space space) const { return peak_[static_cast<size_t>(space)]; }

 private:
  struct Change {
    int64_t time_ns = 0;
    bool alloc = false;
    uint32_t buffer = kNoId;
  };
  std::vector<Change> Changes(const SectionTrace& trace) const;
  void Apply(const Buffer& buffer, int64_t signed_bytes);
  void Emit(Space space, Category category, int64_t time_ns, RunSink& sink) const;

  const Role& role_;
  const int32_t rank_;
  bool begun_ = false;
  std::array<std::array<int64_t, kCategories>, kSpaces> live_{};
  std::array<int64_t, kSpaces> sum_{};
  std::array<int64_t, kSpaces> peak_{};
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_INTERPRETER_SECTION_TRACE_H_

// Memory tide of one rank: live bytes per space as kAlloc and kFree come in virtual time.
//
// Lanes of a rank are played ahead of each other, so changes arrive out of order; they are held
// back and applied by (time, place in the list) once nothing earlier can come. Because the list
// extends all waits, that is an order the dependencies allow, and the peak never exceeds the live
// bound. Category runtime does not count (DEFINITIONS 2).
#ifndef TIDELINE_SIM_INTERPRETER_VIRTUAL_TIDE_H_
#define TIDELINE_SIM_INTERPRETER_VIRTUAL_TIDE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "planner/program/program.h"
#include "traces/run/run_sink.h"

namespace tideline {

class VirtualTide {
 public:
  // Persistent buffers are live from the start. `sink` may be null; both must outlive this.
  VirtualTide(const Role& role, int32_t rank, RunSink* sink);

  // `index` is the instruction's place in its section. Changes of one lane come in order; those of
  // the compute lane, nearly all of them, are kept apart so that they need no sorting.
  void Change(uint16_t lane, double time_s, uint32_t index, uint32_t buffer, bool alloc) {
    (lane == kComputeLane ? compute_ : others_).push_back({time_s, index, buffer, alloc});
  }

  // Nothing before `time_s` is to come: applies what is earlier, if much is pending.
  void Advance(double time_s) {
    if (compute_.size() + others_.size() >= next_batch_) Apply(time_s);
  }

  // The section is over: applies everything.
  void EndSection();

  // Later changes are not reported to the sink.
  void Mute() { sink_ = nullptr; }

  const std::array<int64_t, kSpaces>& peak() const { return peak_; }

 private:
  static constexpr size_t kBatch = 4096;
  struct Pending {
    double time_s;
    uint32_t index;
    uint32_t buffer;
    bool alloc;
    bool operator<(const Pending& other) const {
      return time_s != other.time_s ? time_s < other.time_s : index < other.index;
    }
  };

  void Apply(double before_s);
  void ApplyOne(const Pending& change);
  void Report(double time_s, int space, int category);

  const Role& role_;
  int32_t rank_;
  RunSink* sink_;
  std::array<int64_t, kSpaces> live_{}, peak_{};
  std::array<std::array<int64_t, kCategories>, kSpaces> by_category_{};
  std::vector<Pending> compute_, others_;
  size_t next_batch_ = kBatch;  // grows while little can be applied, so sorting stays amortised
};

}  // namespace tideline

#endif  // TIDELINE_SIM_INTERPRETER_VIRTUAL_TIDE_H_

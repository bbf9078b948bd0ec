// Where the time goes (DEFINITIONS 19): every moment of a rank's compute lane is either busy or
// charged to what its next instruction waits for.
//
//   its own launch                                             -> host
//   a transfer (copy, collective, message) that is moving      -> exposed_comm
//   a transfer that this rank is at and a peer is not          -> bubble
//   anything else                                              -> stall
//
// An instruction starts when the last of its causes is over. That cause, its *binding* one, is
// charged the whole idle interval: taking away an earlier one would not have started it earlier.
// Before this rank was at a transfer, the transfer had a binding cause of its own, and so on: what
// came before is charged to those, so that a kernel that waits for a collective which waits for a
// message is charged for the message's absent sender. The parts add up to the length of the
// interval, so compute + host + exposed_comm + bubble + stall is the time the lane was looked at,
// exactly for integer times and to rounding for floating ones.
//
// No clock in here: the simulator calls it in virtual time (seconds), the executor's report with
// measured times (ns). Time is any signed arithmetic type. The end of a section is charged in the
// same way: its barrier is a wait for the instruction of the rank that finished last.
//
//   TimeSplit<int64_t> split;
//   split.compute += end - start;
//   ChargeIdle(previous_end, start, launch_end, {&wait, 1}, split);
#ifndef TIDELINE_PLANNER_PROGRAM_ATTRIBUTION_H_
#define TIDELINE_PLANNER_PROGRAM_ATTRIBUTION_H_

#include <algorithm>
#include <span>

#include "planner/program/program.h"

namespace tideline {

template <typename Time>
struct TimeSplit {
  Time compute{};
  Time host{};
  Time exposed_comm{};
  Time bubble{};
  Time stall{};

  Time Total() const { return compute + host + exposed_comm + bubble + stall; }
  TimeSplit& operator+=(const TimeSplit& other) {
    compute += other.compute;
    host += other.host;
    exposed_comm += other.exposed_comm;
    bubble += other.bubble;
    stall += other.stall;
    return *this;
  }
  bool operator==(const TimeSplit&) const = default;
};

// The last to end of the instructions that the next one waits for, by its waits, by those of an
// alloc or free in between, or by a section's barrier.
template <typename Time>
struct BindingWait {
  enum class Kind { kNone, kTransfer, kOther };
  Kind kind = Kind::kNone;
  // kTransfer: when this rank's end was ready, and when every end was (the transfer started). A
  // copy has one end: both are its start.
  Time own_arrival{};
  Time all_arrived{};
  Time end{};
  // kTransfer: when its launch was over.
  Time launch_end{};
};

// Instructions that move bytes between devices or spaces.
inline bool IsTransfer(InstructionKind kind) {
  return kind == InstructionKind::kCollective || kind == InstructionKind::kSend ||
         kind == InstructionKind::kReceive || kind == InstructionKind::kCopy;
}

// Charges [idle_begin, start) to the parts of `split`. Does nothing when it is empty. Times out of
// order (an arrival after the start) are clipped to the interval. `causes`: the binding wait, then
// the binding wait of that transfer, and so on as far as they reach into the interval. O(causes).
template <typename Time>
void ChargeIdle(Time idle_begin, Time start, Time launch_end,
                std::span<const BindingWait<Time>> causes, TimeSplit<Time>& split) {
  if (!(idle_begin < start)) return;
  using Kind = typename BindingWait<Time>::Kind;
  Time now = idle_begin;
  const auto charge_until = [&](Time until, Time& part) {
    const Time stop = std::min(std::max(until, now), start);
    part += stop - now;
    now = stop;
  };
  // Whether a launch that was over at `launched` came after cause number `place`.
  const auto launch_binds = [&](Time launched, size_t place) {
    return place == causes.size() || causes[place].kind == Kind::kNone ||
           causes[place].end <= launched;
  };
  const auto launch_of = [&](size_t place) {
    return place == 0 ? launch_end : causes[place - 1].launch_end;
  };
  size_t earliest = 0;
  while (!launch_binds(launch_of(earliest), earliest) && causes[earliest].kind == Kind::kTransfer &&
         now < causes[earliest].own_arrival) {
    ++earliest;
  }
  // What the earliest cause of all is charged for; then each transfer after it, in order of time.
  if (launch_binds(launch_of(earliest), earliest)) {
    charge_until(launch_of(earliest), split.host);
  } else if (causes[earliest].kind == Kind::kTransfer) {
    ++earliest;  // this rank was at it before the lane fell idle
  }
  for (size_t place = earliest; place-- > 0;) {
    charge_until(causes[place].own_arrival, split.stall);
    charge_until(causes[place].all_arrived, split.bubble);
    charge_until(causes[place].end, split.exposed_comm);
  }
  charge_until(start, split.stall);
}

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_ATTRIBUTION_H_

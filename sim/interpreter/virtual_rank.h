// VirtualRank: the lanes of one rank in virtual time.
//
// What a rank does alone (kernels, host tasks, launches) has fixed durations, so its dates follow
// from its own lanes and are computed as soon as they can be, ahead of the clock. Only transfers
// need the network: the player says when its end of one is ready and goes on when told that it is
// over. Nothing is allocated per instruction.
//
// An idle compute lane is charged by planner/program/attribution.h; a section's parts add up to its
// length.
#ifndef TIDELINE_SIM_INTERPRETER_VIRTUAL_RANK_H_
#define TIDELINE_SIM_INTERPRETER_VIRTUAL_RANK_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/program/attribution.h"
#include "planner/program/program.h"
#include "sim/interpreter/compiled_section.h"
#include "sim/interpreter/virtual_tide.h"
#include "traces/run/run_sink.h"

namespace tideline {

class VirtualRank;

// What players need from outside.
class Transport {
 public:
  virtual ~Transport() = default;
  // The player's end of the transfer on `lane` is ready at `time_s`. True: it needs no network and
  // is over at once; false: Complete() will come.
  virtual bool Arrive(VirtualRank& player, uint16_t lane, const LaneUnit& unit, double time_s) = 0;
  // Every lane has finished the section; the last one at `time_s`.
  virtual void SectionEnded(VirtualRank& player, double time_s) = 0;
};

// Names of a Program in a sink, interned when first used.
class SinkNames {
 public:
  SinkNames(const Program& program, RunSink* sink)
      : program_(program), sink_(sink), ids_(program.names.size(), kNoId) {}
  uint32_t IdOf(const Instruction& instruction);

 private:
  const Program& program_;
  RunSink* sink_;
  std::vector<uint32_t> ids_;
};

// Where a lane of a rank that has stopped stands; for messages about deadlocks.
struct BlockedLane {
  uint16_t lane = 0;
  uint32_t instruction = 0;    // the next one of the lane
  bool in_transfer = false;    // it is at a transfer and the other ends are not
  uint32_t waits_for = kNoId;  // else the instruction that it waits for
};

class VirtualRank {
 public:
  // `shares_cores`: kernels go through the transport like transfers, since their time depends on
  // what else runs. `sink` and `names` may be null together. All must outlive the player.
  // Precondition: at most 64 lanes.
  VirtualRank(const Program& program, int32_t rank, bool shares_cores, RunSink* sink,
              SinkNames* names);

  // Starts every lane; call Run() after it. Precondition: no section is under way.
  void BeginSection(const Section& section, const CompiledSection& compiled, int32_t step,
                    double time_s);

  // The transfer (or work on shared cores) on `lane` is over: this end was ready at
  // `own_arrival_s`, all at `start_s`. Call Run() after it.
  void Complete(uint16_t lane, double own_arrival_s, double start_s, double end_s);

  // Plays whatever can be played. `now_s`: the clock.
  void Run(Transport& transport, double now_s);

  void CountBytes(size_t kind, int64_t bytes) { section_bytes_[kind] += bytes; }

  // No event is reported from now on.
  void Mute();

  int32_t rank() const { return rank_; }
  int32_t step() const { return step_; }
  const Role& role() const { return role_; }
  const VirtualTide& tide() const { return tide_; }
  const Section* section() const { return section_; }

  // Of the last section that ended.
  const TimeSplit<double>& split() const { return ended_split_; }
  const std::array<int64_t, 3>& bytes() const { return ended_bytes_; }

  // Lanes that have instructions left.
  std::vector<BlockedLane> Blocked() const;

 private:
  struct Lane {
    uint32_t begin = 0, count = 0;  // into the section's units
    uint32_t next = 0;              // unit in play or to be played
    bool in_transfer = false;
    double free_s = 0;     // end of the unit before
    uint64_t waiters = 0;  // lanes that wait for this one
  };
  // A unit that another one waited for.
  struct Cause {
    uint16_t lane = 0;
    uint32_t unit = kNoId;  // kNoId: none
  };
  struct UnitTimes {
    double own_arrival_s = 0, start_s = 0, end_s = 0;
    double launched_s = 0;
    Cause cause;  // of transfers and memory units: the last to end of what it waited for
  };

  void PlayLane(uint16_t lane, Transport& transport);
  // The date when the waits of the next unit on `lane` are over, and which was the last; false when
  // one is not over.
  bool WaitsOver(uint16_t lane, const LaneUnit& unit, double& ready_s, Cause& cause);
  // Hands the next unit of `lane` to the transport.
  void Enter(uint16_t lane, const LaneUnit& unit, double ready_s, double launch_base_s,
             Transport& transport);
  double PlayCompute(const LaneUnit& unit, double ready_s, double launch_base_s);
  void EndCompute(const LaneUnit& unit, const UnitTimes& times, double end_s);
  void EndUnit(uint16_t lane, const LaneUnit& unit, double end_s);
  void PlayParts(uint16_t lane, const LaneUnit& unit, double ready_s, double launch_base_s,
                 double end_s, double stretch = 1);
  void Bind(uint16_t lane, uint32_t unit, double end_s);
  void ChargeIdleUntil(double start_s, double launched_s);
  void EndSection(Transport& transport);
  void Emit(const UnitPart& part, double start_s, double end_s, int64_t bytes);
  const LaneUnit& UnitAt(uint16_t lane, uint32_t unit) const {
    return compiled_->units[lanes_[lane].begin + unit];
  }

  const Role& role_;
  int32_t rank_;
  bool shares_cores_;
  RunSink* sink_;
  SinkNames* names_;
  VirtualTide tide_;

  const Section* section_ = nullptr;
  const CompiledSection* compiled_ = nullptr;
  int32_t step_ = -1;
  bool under_way_ = false;
  uint32_t lanes_left_ = 0;
  uint64_t ready_lanes_ = 0;
  std::vector<Lane> lanes_;
  std::vector<UnitTimes> times_;       // per unit of the section
  std::vector<double> launch_base_s_;  // after so many host tasks: the date of host offset 0

  double busy_until_s_ = 0;                  // of the compute lane
  Cause binding_;                            // of the compute lane's next kernel, so far
  std::vector<BindingWait<double>> causes_;  // scratch
  TimeSplit<double> split_, ended_split_;
  std::array<int64_t, 3> section_bytes_{}, ended_bytes_{};
};

}  // namespace tideline

#endif  // TIDELINE_SIM_INTERPRETER_VIRTUAL_RANK_H_

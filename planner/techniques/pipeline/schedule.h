// Pipeline schedules: in which order each stage runs its units, and where transfers stand.
//
// p stages, v chunks per stage, m micro-batches; chunk c of the model is on stage c mod p.
//   gpipe        m forwards, then m backwards
//   1f1b         min(p - k - 1, m) forwards on stage k, then forward and backward in turn, then the
//                rest (PipeDream-Flush)
//   interleaved  min(2 (p - k - 1) + (v - 1) p, m v) chunk forwards first, then in turn
//   (Megatron-LM);
//                unit u is chunk (u mod pv) div p of its stage and micro-batch
//                (u div pv) p + u mod p, backward counts the chunks from the last; m mod p = 0
// Every chunk runs its micro-batches in ascending order both ways, so gradients are summed in one
// order whatever the schedule (DEFINITIONS 5).
#ifndef TIDELINE_PLANNER_TECHNIQUES_PIPELINE_SCHEDULE_H_
#define TIDELINE_PLANNER_TECHNIQUES_PIPELINE_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "planner/draft/draft.h"
#include "planner/plan/plan.h"

namespace tideline {

// The units of each stage, in order. Precondition for kInterleaved with chunks > 1:
// micro_batches mod stages = 0. O(units).
std::vector<std::vector<Unit>> UnitOrder(Schedule schedule, int32_t stages, int32_t chunks,
                                         int64_t micro_batches);

// How long units and transfers take, in any unit of time.
struct UnitTimes {
  std::vector<double> forward;   // per chunk of the model
  std::vector<double> backward;  // per chunk of the model
  double hop = 0;                // of a transfer; it occupies neither stage
};

struct TimedUnit {
  Unit unit;
  double start = 0;
  double end = 0;
};

// When every unit runs if each stage takes its units in order and a unit starts as soon as its
// stage is free and its input is there. Error (internal): the orders wait for each other. O(units *
// stages) at worst.
StatusOr<std::vector<std::vector<TimedUnit>>> PlayUnits(const std::vector<std::vector<Unit>>& order,
                                                        const UnitTimes& times);

// The lists with their transfers: each stands, on both ends, where the global order of PlayUnits
// puts its time. So playing all lists strictly in order never deadlocks.
std::vector<std::vector<ScheduleItem>> PlaceTransfers(
    const std::vector<std::vector<TimedUnit>>& played, int32_t model_chunks);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_PIPELINE_SCHEDULE_H_

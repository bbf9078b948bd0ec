// Pins: decisions fixed by the user, the rest to be searched ("tp=8,zero=1,recompute=full").
//
//   tp pp dp            sizes of the mesh axes
//   micro_batch         sequences per replica that run at a time
//   zero                0..3
//   reduce              once | each_micro_batch: when gradients are; the latter with zero 2 or 3
//   recompute           none | selective | full
//   attention           unfused | fused; not pinned: unfused
//   schedule            gpipe | 1f1b | interleaved
//   chunks              chunks per stage; above 1 only with interleaved
//   sequence_parallel   0 | 1
//   bucket              a size: "25MiB"
//   dtype, grad_dtype   fp32 | bf16 | fp16
//   offload             none
// PinsOf(plan) written as text and passed back gives the plan again (DEFINITIONS 14).
#ifndef TIDELINE_PLANNER_PLAN_PINS_H_
#define TIDELINE_PLANNER_PLAN_PINS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "planner/plan/plan.h"

namespace tideline {

// What is not pinned is searched.
struct Pins {
  std::optional<int32_t> tp, pp, dp;
  std::optional<int64_t> micro_batch;
  std::optional<int32_t> zero;
  std::optional<GradientReduction> reduce;
  std::optional<Recompute> recompute;
  std::optional<AttentionForm> attention;
  std::optional<Schedule> schedule;
  std::optional<int32_t> chunks;
  std::optional<bool> sequence_parallel;
  std::optional<int64_t> bucket_bytes;
  std::optional<DType> dtype, grad_dtype;
  bool operator==(const Pins&) const = default;
};

// Errors are usage errors (exit 2): unknown keys and values list the valid ones and the nearest.
StatusOr<Pins> ParsePins(std::string_view text);

// All decisions of a plan, in the order above, but for attention=unfused, which is the default.
Pins PinsOf(const Plan& plan);

// "tp=8,pp=8,...": only what is pinned, in the order above.
std::string FormatPins(const Pins& pins);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PLAN_PINS_H_

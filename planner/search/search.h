// Search: the plans that finish a step soonest within a memory limit, and why the others fell out.
//
// The rooms propose decisions in turn (planner/techniques/registry.h); every combination gets a
// closed-form estimate of time and memory (microseconds each; some 10^4 candidates for 64 GPUs).
// The best by estimate of several families, and of every family that promises more than was found,
// are handed to the evaluator, which lowers and plays them; then the next best of those families,
// their estimates corrected by what was seen. They are ranked by what the evaluator says. A plan
// counts as feasible only with its exact memory. With no feasible plan the leanest are lowered
// until no other can be leaner by its estimate, so that the shortfall is exact.
//
// Glossary: a *candidate* is a complete set of pins; a *family* is all candidates of one mesh
// (tp, pp, dp); a *finalist* is a candidate that is lowered.
#ifndef TIDELINE_PLANNER_SEARCH_SEARCH_H_
#define TIDELINE_PLANNER_SEARCH_SEARCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/plan/evaluation.h"
#include "planner/plan/pins.h"
#include "planner/plan/plan.h"
#include "planner/plan/workload.h"
#include "planner/search/evaluator.h"

namespace tideline {

// Latency of a training step and throughput are the same thing at a fixed global batch.
enum class Objective : uint8_t { kThroughput, kLatency, kMemory };

struct SearchOptions {
  Objective objective = Objective::kThroughput;
  // Device bytes per GPU, runtime reserve included; default the device's memory.
  std::optional<int64_t> memory_limit_bytes;
  // Candidates reported at most.
  int32_t top = 10;
  // Finalists handed to the evaluator at most.
  int32_t finalists = 10;
  // Families of which one finalist is evaluated at least, if so many fit.
  int32_t families = 5;
  // Estimated instructions of one finalist, and of all together, at most: what bounds the time of a
  // search (some 5 us each) and yet does not depend on the machine's speed. Larger plans are
  // finalists only when no smaller one fits.
  int64_t instructions_per_finalist = 1'250'000;
  int64_t instructions_together = 4'000'000;
};

struct RankedPlan {
  Plan plan;
  std::string pin;  // passed back, gives `plan`
  Evaluation evaluation;
  double estimated_step_time_s = 0;
};

// One family, and why none of its candidates is listed if none is.
struct FamilyOutcome {
  std::string pin;  // "tp=8,pp=2,dp=4"
  int64_t candidates = 0;
  int64_t over_memory = 0;  // by estimate or exactly
  // Leanest by estimate; exact where it was lowered.
  int64_t least_peak_bytes = 0;
  bool exact = false;
  double estimated_step_time_s = 0;  // best of those that fit; 0 when none does
  double step_time_s = 0;            // best as evaluated, of those that fit; 0 when none was
  bool listed = false;
  std::string reason;  // for people
};

// A way out when nothing fits.
struct Remedy {
  std::string what;  // for people: "4 of these GPUs"
  std::string pin;   // the plan's, on that cluster
  int32_t gpus = 0;  // that it needs
  int64_t peak_memory_bytes = 0;
  double step_time_s = 0;  // estimated
};

struct SearchResult {
  bool feasible = false;
  std::vector<RankedPlan> candidates;  // best first; feasible only
  std::vector<FamilyOutcome> families;
  int64_t considered = 0;
  // No plan on this cluster takes less: model FLOPs at peak on all GPUs.
  double bound_s = 0;
  int64_t memory_limit_bytes = 0;
  // Not feasible: the leanest plan's exact peak, how much it is beyond the limit, and what helps.
  int64_t least_peak_bytes = 0;
  int64_t shortfall_bytes = 0;
  std::string least_pin;
  std::vector<Remedy> remedies;
};

// `evaluator` may be null: then finalists are lowered here for their memory and ranked by estimate.
// Errors: pins that contradict the model or the cluster (exit 3), naming the numbers; what the
// evaluator fails with. No feasible plan is a result, not an error.
StatusOr<SearchResult> SearchPlans(const Workload& workload, const Pins& pinned,
                                   const SearchOptions& options, PlanEvaluator* evaluator);

// Device bytes of the fullest rank of a lowered plan: extent and runtime reserve (DEFINITIONS 20).
int64_t PeakMemoryBytes(const Program& program, const ClusterSpec& cluster);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_SEARCH_SEARCH_H_

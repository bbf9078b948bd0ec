#include "planner/search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "models/profile/profile.h"
#include "planner/lowering/lower.h"
#include "planner/search/candidates.h"

namespace tideline {
namespace {

// Estimates leave out layout gaps but also over-count what cannot overlap; candidates this close
// above the limit are lowered before they are given up, unless their family has shown otherwise.
constexpr double kEstimateSlack = 1.05;
// Plans evaluated at most to fill the list, whether they fit or not.
constexpr int kMostAttempts = 24;
// Plans of one family evaluated at most until one fits, before others have their turn.
constexpr int kFamilyAttempts = 3;
// Plans lowered at most to find the leanest one.
constexpr int kLeanestLowered = 12;
// Clusters tried at most as a remedy, each twice as large.
constexpr int kRemedyDoublings = 10;

class Search {
 public:
  Search(const Workload& workload, const SearchOptions& options, PlanEvaluator* evaluator)
      : workload_(workload), options_(options), evaluator_(evaluator) {
    result_.memory_limit_bytes =
        options.memory_limit_bytes.value_or(workload.cluster.device.memory_bytes);
  }

  StatusOr<SearchResult> Run(const Pins& pinned) {
    TL_ASSIGN_OR_RETURN(candidates_, EnumerateCandidates(workload_, pinned));
    result_.considered = static_cast<int64_t>(candidates_.size());
    TL_RETURN_IF_ERROR(ComputeBound());
    TL_RETURN_IF_ERROR(EvaluateFinalists());
    result_.feasible = !result_.candidates.empty();
    if (!result_.feasible) {
      TL_RETURN_IF_ERROR(FindLeanest());
      FindRemedies(pinned);
    }
    SummarizeFamilies();
    return std::move(result_);
  }

 private:
  // Model FLOPs of the global batch at peak.
  Status ComputeBound() {
    TL_ASSIGN_OR_RETURN(
        const Profile profile,
        ProfileModel(workload_.model,
                     {.batch = 1, .sequence = workload_.seq, .dtype = workload_.dtype}));
    const DeviceSpec& device = workload_.cluster.device;
    const double peak =
        workload_.dtype == DType::kF32 ? device.peak_fp32_flops : device.peak_16bit_flops;
    result_.bound_s = (profile.flops_forward + profile.flops_backward) *
                      static_cast<double>(workload_.global_batch) /
                      (peak * workload_.cluster.gpus());
    return absl::OkStatus();
  }

  bool MayFit(size_t index) const {
    return static_cast<double>(candidates_[index].estimate.memory_bytes) *
               family_of_[index]->memory_correction <=
           static_cast<double>(result_.memory_limit_bytes);
  }

  // What is to be small, then what breaks ties.
  auto Key(double step_time_s, int64_t memory_bytes) const {
    const double memory = static_cast<double>(memory_bytes);
    return options_.objective == Objective::kMemory ? std::pair(memory, step_time_s)
                                                    : std::pair(step_time_s, memory);
  }

  std::vector<size_t> OrderedByEstimate(bool by_memory) const {
    std::vector<size_t> order(candidates_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const Estimate& x = candidates_[a].estimate;
      const Estimate& y = candidates_[b].estimate;
      if (by_memory) {
        return std::pair(x.memory_bytes, x.step_time_s) < std::pair(y.memory_bytes, y.step_time_s);
      }
      return Key(x.step_time_s, x.memory_bytes) < Key(y.step_time_s, y.memory_bytes);
    });
    return order;
  }

  StatusOr<int64_t> ExactPeak(size_t index) {
    const auto known = exact_peak_.find(index);
    if (known != exact_peak_.end()) return known->second;
    LowerOptions options;
    options.verify = false;
    TL_ASSIGN_OR_RETURN(const Program program, Lower(candidates_[index].plan, options));
    return exact_peak_[index] = PeakMemoryBytes(program, workload_.cluster);
  }

  StatusOr<Evaluation> Evaluate(size_t index) {
    if (evaluator_ != nullptr) {
      TL_ASSIGN_OR_RETURN(const Evaluation evaluation,
                          evaluator_->Evaluate(candidates_[index].plan));
      exact_peak_[index] = evaluation.peak_memory_bytes;
      return evaluation;
    }
    Evaluation evaluation;
    TL_ASSIGN_OR_RETURN(evaluation.peak_memory_bytes, ExactPeak(index));
    evaluation.step_time_s = candidates_[index].estimate.step_time_s;
    return evaluation;
  }

  Status EvaluateFinalists() {
    for (const Candidate& candidate : candidates_) {
      family_of_.push_back(&families_[FamilyPin(candidate.plan)]);
    }
    TL_RETURN_IF_ERROR(EvaluateFamilies());
    TL_RETURN_IF_ERROR(EvaluateUnsettled());
    TL_RETURN_IF_ERROR(EvaluateMore());
    if (result_.candidates.empty()) TL_RETURN_IF_ERROR(EvaluateLong());
    if (result_.candidates.empty()) TL_RETURN_IF_ERROR(EvaluateLean());
    std::stable_sort(result_.candidates.begin(), result_.candidates.end(),
                     [&](const RankedPlan& a, const RankedPlan& b) {
                       return Key(a.evaluation.step_time_s, a.evaluation.peak_memory_bytes) <
                              Key(b.evaluation.step_time_s, b.evaluation.peak_memory_bytes);
                     });
    const size_t top = static_cast<size_t>(std::max(options_.top, 1));
    if (result_.candidates.size() > top) result_.candidates.resize(top);
    return absl::OkStatus();
  }

  bool IsFinalist(size_t index, int64_t most_together) const {
    const Estimate& estimate = candidates_[index].estimate;
    if (!MayFit(index) || exact_peak_.contains(index)) return false;
    return estimate.instructions <= options_.instructions_per_finalist &&
           (evaluated_ == 0 || instructions_ <= most_together - estimate.instructions);
  }

  // The best of each family by estimate: of as many families as asked for, and of all whose
  // estimate is better than what was found so far.
  Status EvaluateFamilies() {
    const int64_t most = options_.instructions_together / 6 * 5;
    int32_t fitting = 0;
    for (const size_t index : OrderedByEstimate(/*by_memory=*/false)) {
      Family& family = *family_of_[index];
      const Estimate& estimate = candidates_[index].estimate;
      const bool promising = Key(estimate.step_time_s, estimate.memory_bytes) < best_;
      if (fitting >= options_.families && !promising) break;
      if (family.fits || family.evaluated == kFamilyAttempts || !IsFinalist(index, most)) continue;
      TL_RETURN_IF_ERROR(AddFinalist(index));
      if (family.fits) ++fitting;
    }
    return absl::OkStatus();
  }

  // Families whose first attempts were all too big have more while nothing fits, or while they
  // promise more than what does.
  Status EvaluateUnsettled() {
    for (const size_t index : OrderedByEstimate(/*by_memory=*/false)) {
      const Estimate& estimate = candidates_[index].estimate;
      if (evaluated_ >= kMostAttempts) break;
      if (!(Key(estimate.step_time_s, estimate.memory_bytes) < best_)) break;
      if (family_of_[index]->fits || !IsFinalist(index, options_.instructions_together)) continue;
      TL_RETURN_IF_ERROR(AddFinalist(index));
    }
    return absl::OkStatus();
  }

  // The next best of the families that were found to fit, each family's estimates corrected by how
  // wrong its first was.
  Status EvaluateMore() {
    std::vector<std::pair<std::pair<double, double>, size_t>> order;
    for (size_t index = 0; index < candidates_.size(); ++index) {
      if (!family_of_[index]->fits) continue;
      const Estimate& estimate = candidates_[index].estimate;
      order.emplace_back(
          Key(estimate.step_time_s * family_of_[index]->correction, estimate.memory_bytes), index);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [key, index] : order) {
      if (static_cast<int32_t>(result_.candidates.size()) >= options_.finalists) break;
      if (evaluated_ >= kMostAttempts) break;
      if (!IsFinalist(index, options_.instructions_together)) continue;
      TL_RETURN_IF_ERROR(AddFinalist(index));
    }
    return absl::OkStatus();
  }

  // Nothing of bounded length fits: the best of those about as short as can be.
  Status EvaluateLong() {
    std::vector<size_t> order = OrderedByEstimate(/*by_memory=*/false);
    std::erase_if(order,
                  [&](size_t index) { return !MayFit(index) || exact_peak_.contains(index); });
    int64_t least = INT64_MAX;
    for (const size_t index : order) {
      least = std::min(least, candidates_[index].estimate.instructions);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto doublings = [&](size_t index) {
        return std::log2(static_cast<double>(candidates_[index].estimate.instructions) /
                         static_cast<double>(std::max<int64_t>(least, 1)));
      };
      return std::floor(doublings(a)) < std::floor(doublings(b));
    });
    for (size_t i = 0; i < order.size() && i < kMostAttempts; ++i) {
      if (!result_.candidates.empty()) break;
      TL_RETURN_IF_ERROR(AddFinalist(order[i]));
    }
    return absl::OkStatus();
  }

  // Nothing fits yet: the leanest, whatever their families have shown.
  Status EvaluateLean() {
    int tried = 0;
    for (const size_t index : OrderedByEstimate(/*by_memory=*/true)) {
      const double estimate = static_cast<double>(candidates_[index].estimate.memory_bytes);
      const bool beyond =
          estimate > kEstimateSlack * static_cast<double>(result_.memory_limit_bytes);
      if (beyond || tried == kLeanestLowered || !result_.candidates.empty()) break;
      if (exact_peak_.contains(index)) continue;
      TL_RETURN_IF_ERROR(AddFinalist(index));
      ++tried;
    }
    return absl::OkStatus();
  }

  // Evaluates a candidate, and keeps it if it fits.
  Status AddFinalist(size_t index) {
    const Candidate& candidate = candidates_[index];
    Family& family = *family_of_[index];
    ++evaluated_;
    ++family.evaluated;
    instructions_ += candidate.estimate.instructions;
    TL_ASSIGN_OR_RETURN(const Evaluation evaluation, Evaluate(index));
    if (evaluation.peak_memory_bytes > result_.memory_limit_bytes) {
      family.memory_correction = static_cast<double>(evaluation.peak_memory_bytes) /
                                 static_cast<double>(candidate.estimate.memory_bytes);
      return absl::OkStatus();
    }
    if (!family.fits) family.correction = evaluation.step_time_s / candidate.estimate.step_time_s;
    family.fits = true;
    if (family.step_time_s == 0 || evaluation.step_time_s < family.step_time_s) {
      family.step_time_s = evaluation.step_time_s;
    }
    best_ = std::min(best_, Key(evaluation.step_time_s, evaluation.peak_memory_bytes));
    result_.candidates.push_back({.plan = candidate.plan,
                                  .pin = FormatPins(PinsOf(candidate.plan)),
                                  .evaluation = evaluation,
                                  .estimated_step_time_s = candidate.estimate.step_time_s});
    return absl::OkStatus();
  }

  // Lowers in ascending order of estimated memory until the estimate of the next is beyond the
  // leanest exact peak.
  Status FindLeanest() {
    int lowered = 0;
    for (const size_t index : OrderedByEstimate(/*by_memory=*/true)) {
      const Candidate& candidate = candidates_[index];
      const bool enough =
          lowered > 0 && (candidate.estimate.memory_bytes > result_.least_peak_bytes ||
                          lowered == kLeanestLowered);
      if (enough) break;
      TL_ASSIGN_OR_RETURN(const int64_t peak, ExactPeak(index));
      if (lowered == 0 || peak < result_.least_peak_bytes) {
        result_.least_peak_bytes = peak;
        result_.least_pin = FormatPins(PinsOf(candidate.plan));
      }
      ++lowered;
    }
    result_.shortfall_bytes = result_.least_peak_bytes - result_.memory_limit_bytes;
    return absl::OkStatus();
  }

  // The same search without pins, and on larger clusters of the same GPUs.
  void FindRemedies(const Pins& pinned) {
    Pins types;
    types.dtype = pinned.dtype;
    types.grad_dtype = pinned.grad_dtype;
    if (!(pinned == types)) TryRemedy(workload_, types, "drop the other pins");
    if (!result_.remedies.empty()) return;
    Workload larger = workload_;
    for (int doubling = 0; doubling < kRemedyDoublings && result_.remedies.empty(); ++doubling) {
      if (larger.cluster.gpus() > (1 << 18)) return;
      // A cut-down node is filled up before nodes are added.
      if (larger.cluster.nodes == 1 && larger.cluster.node.gpus < 8) {
        larger.cluster.node.gpus *= 2;
        larger.cluster.node.links_between.clear();
        if (larger.cluster.node.interconnect == Interconnect::kMesh) {
          larger.cluster.node.interconnect = Interconnect::kSwitch;
        }
      } else {
        larger.cluster.nodes *= 2;
        larger.cluster.fabric.leaf_sizes.clear();
      }
      larger.global_batch = std::max<int64_t>(workload_.global_batch, larger.cluster.gpus());
      TryRemedy(larger, types, absl::StrCat(larger.cluster.gpus(), " of these GPUs"));
    }
  }

  void TryRemedy(const Workload& workload, const Pins& pins, const std::string& what) {
    const StatusOr<std::vector<Candidate>> found = EnumerateCandidates(workload, pins);
    if (!found.ok()) return;
    const Candidate* best = nullptr;
    for (const Candidate& candidate : *found) {
      if (candidate.estimate.memory_bytes > result_.memory_limit_bytes) continue;
      if (best == nullptr || candidate.estimate.step_time_s < best->estimate.step_time_s) {
        best = &candidate;
      }
    }
    if (best == nullptr) return;
    LowerOptions options;
    options.verify = false;
    const StatusOr<Program> program = Lower(best->plan, options);
    if (!program.ok()) return;
    const int64_t peak = PeakMemoryBytes(*program, workload.cluster);
    if (peak > result_.memory_limit_bytes) return;
    result_.remedies.push_back({.what = what,
                                .pin = FormatPins(PinsOf(best->plan)),
                                .gpus = workload.cluster.gpus(),
                                .peak_memory_bytes = peak,
                                .step_time_s = best->estimate.step_time_s});
  }

  void SummarizeFamilies() {
    std::map<std::string, size_t> place;
    for (size_t index = 0; index < candidates_.size(); ++index) {
      const Candidate& candidate = candidates_[index];
      const std::string pin = FamilyPin(candidate.plan);
      const auto [entry, fresh] = place.try_emplace(pin, result_.families.size());
      if (fresh) {
        FamilyOutcome& added = result_.families.emplace_back();
        added.pin = pin;
        added.least_peak_bytes = INT64_MAX;
      }
      FamilyOutcome& family = result_.families[entry->second];
      ++family.candidates;
      const auto known = exact_peak_.find(index);
      const bool exact = known != exact_peak_.end();
      const int64_t peak = exact ? known->second : candidate.estimate.memory_bytes;
      if (peak < family.least_peak_bytes) {
        family.least_peak_bytes = peak;
        family.exact = exact;
      }
      if (peak > result_.memory_limit_bytes) {
        ++family.over_memory;
      } else if (family.estimated_step_time_s == 0 ||
                 candidate.estimate.step_time_s < family.estimated_step_time_s) {
        family.estimated_step_time_s = candidate.estimate.step_time_s;
      }
    }
    for (const RankedPlan& ranked : result_.candidates) {
      result_.families[place[FamilyPin(ranked.plan)]].listed = true;
    }
    for (FamilyOutcome& family : result_.families) {
      family.step_time_s = families_[family.pin].step_time_s;
      Explain(&family);
    }
    std::stable_sort(result_.families.begin(), result_.families.end(),
                     [](const FamilyOutcome& a, const FamilyOutcome& b) {
                       const auto key = [](const FamilyOutcome& family) {
                         return std::tuple(family.estimated_step_time_s == 0,
                                           family.estimated_step_time_s, family.least_peak_bytes);
                       };
                       return key(a) < key(b);
                     });
  }

  void Explain(FamilyOutcome* family) const {
    if (family->over_memory == family->candidates) {
      family->reason = absl::StrCat(
          "needs ", family->exact ? "" : "about ",
          HumanBytes(static_cast<double>(family->least_peak_bytes)), " of ",
          HumanBytes(static_cast<double>(result_.memory_limit_bytes)), ": ",
          HumanBytes(static_cast<double>(family->least_peak_bytes - result_.memory_limit_bytes)),
          " short");
      return;
    }
    const bool by_memory = options_.objective == Objective::kMemory;
    const char* worse = by_memory ? "needs more: " : "slower: ";
    const auto figures = [&](double step_time_s) {
      return by_memory ? HumanBytes(static_cast<double>(family->least_peak_bytes))
                       : HumanSeconds(step_time_s);
    };
    if (family->listed) {
      family->reason = "among the best";
    } else if (family->step_time_s > 0) {
      family->reason = absl::StrCat(worse, "simulated ", figures(family->step_time_s));
    } else {
      const auto estimate = Key(family->estimated_step_time_s, family->least_peak_bytes);
      family->reason = absl::StrCat(
          result_.feasible && estimate < best_ ? "not simulated, too many instructions: " : worse,
          "estimated ", figures(family->estimated_step_time_s));
    }
  }

  // What is known of a family from the finalists of it.
  struct Family {
    int evaluated = 0;
    bool fits = false;      // some finalist does
    double correction = 1;  // of its estimates: what the first that fits took, to its estimate
    double memory_correction = 1 / kEstimateSlack;  // the same of bytes, by the last that did not
    double step_time_s = 0;                         // the least of those that fit; 0: none
  };

  const Workload& workload_;
  const SearchOptions& options_;
  PlanEvaluator* evaluator_;
  std::vector<Candidate> candidates_;
  std::map<size_t, int64_t> exact_peak_;  // by candidate, of those lowered
  std::map<std::string, Family> families_;
  std::vector<Family*> family_of_;  // per candidate
  int evaluated_ = 0;
  int64_t instructions_ = 0;  // of those evaluated, by estimate
  std::pair<double, double> best_{std::numeric_limits<double>::infinity(), 0};  // of what fits
  SearchResult result_;
};

}  // namespace

int64_t PeakMemoryBytes(const Program& program, const ClusterSpec& cluster) {
  int64_t most = 0;
  for (const Role& role : program.roles) {
    most = std::max(most, role.extent[static_cast<size_t>(Space::kDevice)]);
  }
  return most + cluster.device.runtime_reserve_bytes;
}

StatusOr<SearchResult> SearchPlans(const Workload& workload, const Pins& pinned,
                                   const SearchOptions& options, PlanEvaluator* evaluator) {
  return Search(workload, options, evaluator).Run(pinned);
}

}  // namespace tideline

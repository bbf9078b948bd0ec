#include "planner/search/candidates.h"

#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "planner/plan/plan.h"
#include "planner/search/block_profile.h"
#include "planner/techniques/data_parallel/options.h"
#include "planner/techniques/registry.h"

namespace tideline {
namespace {

// Decisions that no room proposes: as pinned.
Pins Start(const Pins& pinned) {
  Pins pins;
  pins.bucket_bytes = pinned.bucket_bytes;
  pins.dtype = pinned.dtype;
  pins.grad_dtype = pinned.grad_dtype;
  pins.attention = pinned.attention;
  return pins;
}

Status Contradiction(const std::string& what) {
  return InfeasibleError(absl::StrCat("no plan: ", what));
}

Status ExplainMesh(const Workload& workload, const Pins& pinned) {
  const int32_t gpus = workload.cluster.gpus();
  const std::pair<const char*, std::optional<int32_t>> sizes[] = {
      {"tp", pinned.tp}, {"pp", pinned.pp}, {"dp", pinned.dp}};
  int64_t product = 1;
  bool all = true;
  for (const auto& [name, size] : sizes) {
    all = all && size.has_value();
    if (!size.has_value()) continue;
    product *= *size;
    if (gpus % *size != 0) {
      return Contradiction(absl::StrCat(name, " = ", *size, " does not divide the ",
                                        Counted(gpus, "GPU"), " of the cluster"));
    }
  }
  if (gpus % product != 0 || (all && product != gpus)) {
    return Contradiction(absl::StrCat("the pinned sizes multiply to ", product,
                                      "; tp * pp * dp must be the ", Counted(gpus, "GPU"),
                                      " of the cluster"));
  }
  return absl::OkStatus();
}

// Interleaving goes through the micro-batches of a replica in groups of pp: whether some dp gives
// such a number of them.
bool SomeReplicaInterleaves(const Workload& workload, const Pins& pinned, int32_t pp) {
  const int32_t most = workload.cluster.gpus() / pp;
  for (int32_t dp = 1; dp <= most; ++dp) {
    const int64_t samples = dp * pinned.micro_batch.value_or(1);
    if (most % dp != 0 || pinned.dp.value_or(dp) != dp) continue;
    if (pinned.tp.has_value() && *pinned.tp * dp != most) continue;
    if (workload.global_batch % (samples * pp) == 0) return true;
  }
  return false;
}

Status ExplainInterleaving(const Workload& workload, const Pins& pinned) {
  const int32_t chunks = pinned.chunks.value_or(1);
  const ModelTraits model = TraitsOf(workload.model);
  const int64_t layers = model.layers;
  if (!CutsInto(model, chunks)) {
    return Contradiction(
        absl::StrCat("chunks = ", chunks, " does not divide the ", layers, " layers"));
  }
  if (chunks > 1 && pinned.schedule.value_or(Schedule::kInterleaved) != Schedule::kInterleaved) {
    return Contradiction(absl::StrCat("chunks = ", chunks,
                                      " needs schedule=interleaved, which is pinned to ",
                                      std::string(Name(*pinned.schedule))));
  }
  const bool interleaves = chunks > 1 || pinned.schedule == Schedule::kInterleaved;
  if (!interleaves || !pinned.pp.has_value()) return absl::OkStatus();
  if (*pinned.pp == 1 && !pinned.schedule.has_value()) {
    return Contradiction(
        absl::StrCat("chunks = ", chunks, " needs a pipeline, but pp is pinned to 1"));
  }
  if (SomeReplicaInterleaves(workload, pinned, *pinned.pp)) return absl::OkStatus();
  return Contradiction(absl::StrCat("schedule=interleaved needs pp = ", *pinned.pp,
                                    " to divide the micro-batches of a replica: global batch ",
                                    workload.global_batch, " / (dp * micro_batch ",
                                    pinned.micro_batch.value_or(1),
                                    "); use schedule=1f1b or a smaller micro_batch"));
}

// More micro-batches than are planned, even with the widest data parallelism and micro-batch left.
Status ExplainMicroBatches(const Workload& workload, const Pins& pinned) {
  const int64_t taken = int64_t{pinned.tp.value_or(1)} * pinned.pp.value_or(1);
  const int64_t dp = pinned.dp.value_or(static_cast<int32_t>(workload.cluster.gpus() / taken));
  const int64_t samples =
      dp * pinned.micro_batch.value_or(DataParallelOptions().largest_micro_batch);
  const int64_t blocks = TraitsOf(workload.model).blocks();
  const int64_t micro_batches = workload.global_batch / samples;
  if (micro_batches <= MostMicroBatches(blocks)) return absl::OkStatus();
  return UsageError(
      absl::StrCat("--global-batch ", workload.global_batch, " is ", micro_batches,
                   " micro-batches per replica or more; with the ", blocks,
                   " blocks of this model at most ", MostMicroBatches(blocks),
                   " are planned; give a smaller batch, more GPUs, or pin a larger micro_batch"));
}

Status ExplainRecomputation(const Pins& pinned) {
  if (pinned.attention != AttentionForm::kFused || pinned.recompute != Recompute::kSelective) {
    return absl::OkStatus();
  }
  return Contradiction(
      "recompute=selective drops the probabilities of attention, of which attention=fused keeps "
      "none; use recompute=none or full");
}

// Why the pins leave nothing: the first contradiction, with its numbers.
Status Explain(const Workload& workload, const Pins& pinned) {
  TL_RETURN_IF_ERROR(ExplainMesh(workload, pinned));
  TL_RETURN_IF_ERROR(ExplainRecomputation(pinned));
  const ModelTraits model = TraitsOf(workload.model);
  const auto indivisible = [](const char* pin, int64_t value, const std::string& what,
                              int64_t total) {
    return Contradiction(
        absl::StrCat(pin, " = ", value, " does not divide the ", total, " ", what));
  };
  if (pinned.tp.has_value()) {
    const int32_t tp = *pinned.tp;
    if (tp > 1 && !model.uncut.empty()) {
      return Contradiction(absl::StrCat("tp = ", tp, ", but of model '", model.name, "' ",
                                        model.uncut, "; pin tp=1"));
    }
    for (const TensorCut& cut : model.tensor_cuts) {
      if (cut.size % tp != 0) return indivisible("tp", tp, cut.what, cut.size);
    }
    if (pinned.sequence_parallel.value_or(false) && workload.seq % tp != 0) {
      return indivisible("tp", tp, "tokens of the sequence", workload.seq);
    }
  }
  if (pinned.pp.has_value()) {
    const int64_t parts = int64_t{*pinned.pp} * pinned.chunks.value_or(1);
    if (!CutsInto(model, parts)) {
      if (!model.equal_layers) {
        return Contradiction(
            absl::StrCat("pp * chunks = ", parts, " is more than the ", model.layers, " layers"));
      }
      return indivisible("pp * chunks", parts, "layers", model.layers);
    }
  }
  const int64_t samples = int64_t{pinned.dp.value_or(1)} * pinned.micro_batch.value_or(1);
  if (workload.global_batch % samples != 0) {
    return indivisible("dp * micro_batch", samples, "samples of the global batch",
                       workload.global_batch);
  }
  TL_RETURN_IF_ERROR(ExplainInterleaving(workload, pinned));
  TL_RETURN_IF_ERROR(ExplainMicroBatches(workload, pinned));
  if (pinned.reduce == GradientReduction::kEachMicroBatch && pinned.zero.value_or(2) < 2) {
    return Contradiction(
        absl::StrCat("reduce=each_micro_batch needs zero = 2 or 3, zero is "
                     "pinned to ",
                     *pinned.zero));
  }
  if (pinned.reduce == GradientReduction::kEachMicroBatch && pinned.chunks.value_or(1) > 1) {
    return Contradiction(
        absl::StrCat("reduce=each_micro_batch needs chunks = 1, chunks is "
                     "pinned to ",
                     *pinned.chunks));
  }
  const std::string pins = FormatPins(pinned);
  std::string cuts;
  for (const TensorCut& cut : model.tensor_cuts)
    absl::StrAppend(&cuts, cut.size, " ", cut.what, ", ");
  return Contradiction(
      absl::StrCat("no tp * pp * dp = ", workload.cluster.gpus(), " divides ", cuts, model.layers,
                   " layers and a global batch of ", workload.global_batch,
                   pins.empty() ? "; change the batch or the number of GPUs"
                                : absl::StrCat(" as pinned (", pins, "); change or drop a pin")));
}

}  // namespace

std::string FamilyPin(const Plan& plan) {
  return absl::StrCat("tp=", plan.tp, ",pp=", plan.pp, ",dp=", plan.dp);
}

StatusOr<std::vector<Candidate>> EnumerateCandidates(const Workload& workload, const Pins& pinned) {
  std::vector<Pins> pins = {Start(pinned)};
  const ProposeContext context{workload, pinned};
  for (const Proposer propose : Proposers()) {
    std::vector<Pins> extended;
    for (const Pins& partial : pins) {
      std::vector<Pins> ways = propose(context, partial);
      extended.insert(extended.end(), ways.begin(), ways.end());
    }
    pins = std::move(extended);
  }
  if (pins.empty()) return Explain(workload, pinned);

  std::map<std::tuple<int32_t, bool, int64_t>, ModelProfile> profiles;
  std::vector<Candidate> candidates;
  candidates.reserve(pins.size());
  for (const Pins& entry : pins) {
    Candidate candidate;
    TL_ASSIGN_OR_RETURN(candidate.plan, PlanOf(workload, entry));
    const Plan& plan = candidate.plan;
    const std::tuple key(plan.tp, plan.sequence_parallel, plan.micro_batch);
    auto found = profiles.find(key);
    if (found == profiles.end()) {
      TL_ASSIGN_OR_RETURN(const ModelProfile profile, ProfileBlocks(plan));
      found = profiles.emplace(key, profile).first;
    }
    candidate.estimate = EstimatePlan(plan, found->second);
    candidate.pins = entry;
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace tideline

#include "planner/plan/workload.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "models/zoo/model.h"
#include "planner/plan/validate.h"

namespace tideline {

StatusOr<std::string> ModelHash(const ModelConfig& model, int64_t seq, DType dtype) {
  TL_ASSIGN_OR_RETURN(
      const Graph graph,
      BuildModel(model, {.batch = 1, .sequence = seq, .dtype = dtype, .vocab_multiple = 1}));
  return GraphHash(graph);
}

StatusOr<Workload> MakeWorkload(const ModelConfig& model, const ClusterSpec& cluster,
                                const WorkloadRequest& request) {
  const ModelTraits traits = TraitsOf(model);
  Workload workload;
  workload.model = model;
  workload.cluster = cluster;
  workload.seq = request.seq.value_or(std::min<int64_t>(traits.longest_sequence, 2048));
  workload.global_batch = request.global_batch.value_or(int64_t{8} * cluster.gpus());
  workload.dtype = request.dtype.value_or(cluster.emulated ? DType::kF32 : DType::kBF16);
  workload.grad_dtype = request.grad_dtype.value_or(DType::kF32);
  if (workload.seq < 1 || workload.seq > traits.longest_sequence) {
    if (traits.samples == SampleKind::kImages) {
      return InfeasibleError(absl::StrCat("seq = ", workload.seq, ", but model '", traits.name,
                                          "' takes images, which have one label each; drop seq, "
                                          "or write seq = 1"));
    }
    return InfeasibleError(absl::StrCat("seq = ", workload.seq, ", but model '", traits.name,
                                        "' has ", traits.longest_sequence,
                                        " positions; choose a sequence from 1 to that"));
  }
  if (workload.global_batch < 1 || workload.global_batch > kMostGlobalBatch) {
    return InfeasibleError(absl::StrCat("global batch = ", workload.global_batch,
                                        "; it must be from 1 to ", kMostGlobalBatch));
  }
  TL_ASSIGN_OR_RETURN(workload.block_costs, BlockCosts(model));
  TL_ASSIGN_OR_RETURN(workload.graph_hash, ModelHash(model, workload.seq, workload.dtype));
  return workload;
}

StatusOr<Plan> PlanOf(const Workload& workload, const Pins& pins) {
  const ModelTraits model = TraitsOf(workload.model);
  Plan plan;
  plan.graph_hash = workload.graph_hash;
  plan.model = workload.model;
  plan.cluster = workload.cluster;
  plan.seq = workload.seq;
  plan.global_batch = workload.global_batch;
  plan.dtype = pins.dtype.value_or(workload.dtype);
  plan.grad_dtype = pins.grad_dtype.value_or(workload.grad_dtype);
  plan.optimizer = workload.optimizer;
  plan.gradients = {
      .clip_norm = workload.clip_norm,
      .initial_loss_scale = workload.loss_scale.value_or(DefaultLossScale(plan.dtype)),
      .growth_steps = workload.loss_scale_steps};
  plan.tp = pins.tp.value_or(1);
  plan.pp = pins.pp.value_or(1);
  plan.dp = pins.dp.value_or(1);
  plan.micro_batch = pins.micro_batch.value_or(1);
  plan.zero = pins.zero.value_or(0);
  plan.reduce = pins.reduce.value_or(GradientReduction::kOnce);
  plan.recompute = pins.recompute.value_or(Recompute::kNone);
  plan.attention = pins.attention.value_or(AttentionForm::kUnfused);
  plan.schedule = pins.schedule.value_or(Schedule::k1F1B);
  plan.chunks = pins.chunks.value_or(1);
  plan.sequence_parallel = pins.sequence_parallel.value_or(false);
  plan.bucket_bytes = pins.bucket_bytes.value_or(kDefaultBucketBytes);
  plan.padded_vocab = PaddedVocab(model.classes, plan.tp);
  StatusOr<std::vector<StageChunk>> stages =
      DefaultStages(model, workload.block_costs, plan.pp, plan.chunks);
  if (!stages.ok()) return InfeasibleError(std::string(stages.status().message()));
  plan.stages = *std::move(stages);
  const Status status = Validate(plan);
  if (!status.ok()) return InfeasibleError(std::string(status.message()));
  return plan;
}

}  // namespace tideline

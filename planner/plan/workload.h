// Workload: what a plan is to be made for, before any decision: model, machines, batch, types.
#ifndef TIDELINE_PLANNER_PLAN_WORKLOAD_H_
#define TIDELINE_PLANNER_PLAN_WORKLOAD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/plan/pins.h"
#include "planner/plan/plan.h"

namespace tideline {

struct Workload {
  ModelConfig model;
  ClusterSpec cluster;
  int64_t seq = 0;
  int64_t global_batch = 0;
  DType dtype = DType::kBF16;
  DType grad_dtype = DType::kF32;
  AdamSettings optimizer;
  double clip_norm = 0;              // 0: none
  std::optional<double> loss_scale;  // none: the type's default; 0: no loss scaling
  int64_t loss_scale_steps = 2000;
  std::string graph_hash;
  std::vector<double> block_costs;  // BlockCosts of the model
};

struct WorkloadRequest {
  std::optional<int64_t> seq;           // default min(max positions, 2048)
  std::optional<int64_t> global_batch;  // default 8 * GPUs
  std::optional<DType> dtype;           // default bf16, on emulated devices fp32
  std::optional<DType> grad_dtype;      // default fp32
};

// The hash that names a model at a sequence length and type: of its forward graph without
// vocabulary padding, at batch 1. Errors: those of BuildModel.
StatusOr<std::string> ModelHash(const ModelConfig& model, int64_t seq, DType dtype);

// Resolves defaults (DEFINITIONS 13) and hashes the graph. Errors: a sequence longer than the
// model's positions or a batch out of range contradict the model (exit 3) and name both numbers.
StatusOr<Workload> MakeWorkload(const ModelConfig& model, const ClusterSpec& cluster,
                                const WorkloadRequest& request);

// The plan in which every decision is that of `pins`; decisions left open get 1, 0, "none" and
// "1f1b". Errors: pins that contradict the workload (exit 3), in the words of Validate.
StatusOr<Plan> PlanOf(const Workload& workload, const Pins& pins);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PLAN_WORKLOAD_H_

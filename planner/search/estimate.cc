#include "planner/search/estimate.h"

#include <algorithm>
#include <vector>

#include "models/cluster/cost_model.h"

namespace tideline {
namespace {

// One stage, all its chunks.
struct Stage {
  double forward_s = 0;
  double backward_s = 0;
  int64_t parameters = 0;
  int64_t largest_block = 0;    // parameters
  int64_t kept_bytes = 0;       // of one micro-batch, all chunks
  int64_t last_chunk_peak = 0;  // highest level of one backward above what older units keep
  double gather_exposed_s = 0;  // ZeRO 3, one micro-batch
};

class Estimator {
 public:
  Estimator(const Plan& plan, const ModelProfile& profile)
      : plan_(plan),
        profile_(profile),
        recompute_(static_cast<size_t>(plan.recompute)),
        data_link_(LinkOf(plan.cluster, plan.dp, int64_t{plan.pp} * plan.tp)) {}

  Estimate Run() {
    std::vector<Stage> stages(plan_.pp);
    for (const StageChunk& chunk : plan_.stages) AddChunk(chunk, &stages[chunk.stage]);
    Estimate estimate;
    estimate.step_time_s = StepSeconds(stages);
    for (int32_t k = 0; k < plan_.pp; ++k) {
      estimate.memory_bytes = std::max(estimate.memory_bytes, MemoryOf(stages[k], k));
    }
    estimate.memory_bytes += plan_.cluster.device.runtime_reserve_bytes;
    for (size_t block = 0; block < profile_.blocks.size(); ++block) {
      const bool layer = block > 0 && block + 1 < profile_.blocks.size();
      const int64_t nodes = profile_.blocks[block].nodes;
      const int64_t replayed = layer && plan_.recompute == Recompute::kFull ? nodes / 4 : 0;
      estimate.instructions += (nodes + replayed) * plan_.micro_batches();
    }
    return estimate;
  }

 private:
  int32_t zero() const { return plan_.dp > 1 ? plan_.zero : 0; }

  void AddChunk(const StageChunk& chunk, Stage* stage) const {
    int64_t kept = 0;
    int64_t peak = 0;
    for (int64_t i = 0; i < chunk.blocks; ++i) {
      const BlockProfile& block = profile_.blocks[chunk.first_block + i];
      stage->forward_s += block.forward_s;
      stage->backward_s += block.backward_s[recompute_];
      stage->parameters += block.parameters;
      stage->largest_block = std::max(stage->largest_block, block.parameters);
      peak = std::max(peak, kept + block.forward_peak);
      kept += block.kept_bytes[recompute_];
      peak = std::max(peak, kept + block.backward_peak[recompute_]);
      if (zero() < 3) continue;
      const double gather = RingAllGatherSeconds(
          plan_.dp, static_cast<double>(block.parameters * SizeOf(plan_.dtype)),
          data_link_.bandwidth, data_link_.latency_s);
      stage->gather_exposed_s += std::max(0.0, gather - block.forward_s) +
                                 std::max(0.0, gather - block.backward_s[recompute_]);
    }
    stage->kept_bytes += kept;
    stage->last_chunk_peak = std::max(stage->last_chunk_peak, peak);
    // With both ends on one stage the table is held once.
    if (chunk.first_block == 0 && plan_.pp == 1) stage->parameters -= profile_.tied_parameters;
  }

  // Units in flight on stage k beyond the one whose backward runs, in parts of all its chunks.
  double OlderUnits(int32_t k) const {
    const double m = static_cast<double>(plan_.micro_batches());
    if (plan_.schedule == Schedule::kGPipe) return m - 1;
    if (plan_.schedule == Schedule::kInterleaved && plan_.chunks > 1) {
      const double units = 2.0 * (plan_.pp - k - 1) + (plan_.chunks - 1.0) * plan_.pp + 1;
      return (std::min(units, m * plan_.chunks) - 1) / plan_.chunks;
    }
    return std::min<double>(plan_.pp - k, m) - 1;
  }

  int64_t MemoryOf(const Stage& stage, int32_t k) const {
    const int64_t parameter_size = SizeOf(plan_.dtype);
    const int64_t gradient_size = SizeOf(plan_.grad_dtype);
    const int64_t optimizer_size = plan_.dtype == DType::kF32 ? 8 : 12;
    const int64_t n = stage.parameters;
    const int64_t shard = (n + plan_.dp - 1) / plan_.dp;
    int64_t bytes =
        (zero() == 3 ? shard : n) * parameter_size + (zero() >= 1 ? shard : n) * optimizer_size;
    bytes += (zero() >= 2 ? shard : n) * gradient_size;
    if (plan_.pp == 1) bytes += profile_.tied_parameters * gradient_size;  // of the second use
    if (zero() >= 2) {
      const bool keeps_whole =
          plan_.reduce == GradientReduction::kOnce && plan_.micro_batches() > 1;
      bytes += (keeps_whole ? n : std::min(n, 2 * stage.largest_block)) * gradient_size;
    }
    if (zero() == 3) bytes += std::min(n, 2 * stage.largest_block) * parameter_size;
    const double older = OlderUnits(k) * static_cast<double>(stage.kept_bytes);
    return bytes + static_cast<int64_t>(older) + stage.last_chunk_peak;
  }

  double StepSeconds(const std::vector<Stage>& stages) const {
    const double m = static_cast<double>(plan_.micro_batches());
    double sum = 0;
    double most = 0;
    double update = 0;
    double sync = 0;
    for (const Stage& stage : stages) {
      const double unit = stage.forward_s + stage.backward_s + stage.gather_exposed_s;
      sum += unit;
      most = std::max(most, unit);
      sync = std::max(sync, SyncSeconds(stage));
      update = std::max(update, UpdateSeconds(stage));
    }
    const double chunks = plan_.schedule == Schedule::kInterleaved ? plan_.chunks : 1;
    const RingLink hop_link = LinkOf(plan_.cluster, plan_.pp, plan_.tp);
    int64_t boundary_bytes = 0;
    for (const StageChunk& chunk : plan_.stages) {
      boundary_bytes = std::max(boundary_bytes, profile_.boundary_bytes[chunk.first_block]);
    }
    const double hop =
        hop_link.latency_s + static_cast<double>(boundary_bytes) / hop_link.bandwidth;
    const double transfers = 2 * hop * (plan_.pp - 1) * chunks;
    return m * most + (sum - most) / chunks + transfers + sync + update + plan_.cluster.host.step_s;
  }

  // What the backward of the last micro-batch does not hide, and the gather of parameters.
  double SyncSeconds(const Stage& stage) const {
    if (plan_.dp == 1) return 0;
    const double gradients = static_cast<double>(stage.parameters * SizeOf(plan_.grad_dtype));
    const double parameters = static_cast<double>(stage.parameters * SizeOf(plan_.dtype));
    const double one_way =
        RingAllGatherSeconds(plan_.dp, gradients, data_link_.bandwidth, data_link_.latency_s);
    double reduce = zero() == 0 ? 2 * one_way : one_way;
    if (plan_.reduce == GradientReduction::kEachMicroBatch) {
      reduce *= static_cast<double>(plan_.micro_batches());
    }
    const double gather =
        zero() == 1 || zero() == 2
            ? RingAllGatherSeconds(plan_.dp, parameters, data_link_.bandwidth, data_link_.latency_s)
            : 0;
    return std::max(0.0, reduce - stage.backward_s / plan_.chunks) + gather;
  }

  double UpdateSeconds(const Stage& stage) const {
    const double shard = static_cast<double>(stage.parameters) / (zero() >= 1 ? plan_.dp : 1);
    const double per_parameter =
        SizeOf(plan_.grad_dtype) + SizeOf(plan_.dtype) + (plan_.dtype == DType::kF32 ? 20 : 24);
    const DeviceSpec& device = plan_.cluster.device;
    return shard * per_parameter / (device.memory_bandwidth * device.bandwidth_efficiency);
  }

  const Plan& plan_;
  const ModelProfile& profile_;
  const size_t recompute_;
  const RingLink data_link_;
};

}  // namespace

Estimate EstimatePlan(const Plan& plan, const ModelProfile& profile) {
  return Estimator(plan, profile).Run();
}

}  // namespace tideline

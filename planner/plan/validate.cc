#include "planner/plan/validate.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/square_sum.h"
#include "models/cluster/validate.h"
#include "models/zoo/model.h"

namespace tideline {
namespace {

constexpr int64_t kMaxGpus = kMostGpus;
constexpr int64_t kMaxBytes = int64_t{1} << 60;

template <typename... Parts>
Status Invalid(const char* field, const Parts&... parts) {
  return InputError(absl::StrCat("field '", field, "' ", parts...));
}

Status CheckRange(const char* field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Invalid(field, "is ", value, "; it must be from ", least, " to ", most);
}

Status CheckReal(const char* field, double value, double above, bool or_equal) {
  if (std::isfinite(value) && (value > above || (or_equal && value == above))) {
    return absl::OkStatus();
  }
  return Invalid(field, "is ", value, "; it must be finite and ", or_equal ? "at least " : "above ",
                 above);
}

Status CheckWorkload(const Plan& plan, const ModelTraits& model) {
  TL_RETURN_IF_ERROR(CheckRange("seq", plan.seq, 1, model.longest_sequence));
  TL_RETURN_IF_ERROR(CheckRange("global_batch", plan.global_batch, 1, kMostGlobalBatch));
  if (plan.grad_dtype != DType::kF32 && plan.grad_dtype != plan.dtype) {
    return Invalid("grad_dtype", "is ", std::string(Name(plan.grad_dtype)), " with dtype ",
                   std::string(Name(plan.dtype)), "; write fp32 or ",
                   std::string(Name(plan.dtype)));
  }
  TL_RETURN_IF_ERROR(ValidateOptimizer(plan.optimizer));
  TL_RETURN_IF_ERROR(ValidateGradientControl(plan.gradients));
  if (plan.gradients.any() && plan.cluster.gpus() > SquareSum::kMostSummed) {
    return Invalid("optimizer.clip_norm", "and loss_scale need a norm over all GPUs; ",
                   plan.cluster.gpus(), " are more than ", SquareSum::kMostSummed,
                   ", as far as it is exact; write 0 for both");
  }
  return absl::OkStatus();
}

Status CheckSchedule(const AdamSettings& adam) {
  TL_RETURN_IF_ERROR(CheckRange("optimizer.warmup_steps", adam.warmup_steps, 0, kMostSteps));
  const char* decay = "optimizer.decay_steps";
  const char* least = "optimizer.least_learning_rate";
  if (adam.schedule == RateSchedule::kConstant) {
    constexpr const char* kWhy =
        " with schedule constant, which has no decay; write 0, or schedule ";
    if (adam.decay_steps != 0) {
      return Invalid(decay, "is ", adam.decay_steps, kWhy, "linear or cosine");
    }
    if (adam.least_learning_rate != 0) {
      return Invalid(least, "is ", adam.least_learning_rate, kWhy, "linear or cosine");
    }
    return absl::OkStatus();
  }
  if (adam.decay_steps <= adam.warmup_steps || adam.decay_steps > kMostSteps) {
    return Invalid(decay, "is ", adam.decay_steps, " with schedule ",
                   std::string(Name(adam.schedule)),
                   "; it counts from step 0, so it must be above ",
                   "warmup_steps = ", adam.warmup_steps, " and at most ", kMostSteps);
  }
  TL_RETURN_IF_ERROR(CheckReal(least, adam.least_learning_rate, 0, true));
  if (adam.least_learning_rate > adam.learning_rate) {
    return Invalid(least, "is ", adam.least_learning_rate,
                   "; it must be at most learning_rate = ", adam.learning_rate,
                   ", from which the rate falls");
  }
  return absl::OkStatus();
}

Status CheckMesh(const Plan& plan) {
  TL_RETURN_IF_ERROR(CheckRange("mesh.dp", plan.dp, 1, kMaxGpus));
  TL_RETURN_IF_ERROR(CheckRange("mesh.pp", plan.pp, 1, kMaxGpus));
  TL_RETURN_IF_ERROR(CheckRange("mesh.tp", plan.tp, 1, kMaxGpus));
  const int64_t ranks = int64_t{plan.dp} * plan.pp;
  if (ranks > kMaxGpus || ranks * plan.tp != plan.cluster.gpus()) {
    return Invalid("mesh", "has tp * pp * dp = ", plan.tp, " * ", plan.pp, " * ", plan.dp,
                   ", which must be the number of GPUs of the cluster, ", plan.cluster.gpus());
  }
  std::array<Axis, kAxes> sorted = plan.mesh_order;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != std::array<Axis, kAxes>{Axis::kData, Axis::kPipeline, Axis::kTensor}) {
    return Invalid("mesh.order", "must name each of dp, pp, tp once");
  }
  return absl::OkStatus();
}

Status CheckDivides(const char* field, const char* what, int64_t value, int32_t tp) {
  if (value % tp == 0) return absl::OkStatus();
  return Invalid(field, "is ", tp, ", which does not divide the ", value, " ", what,
                 "; choose tp among their divisors");
}

Status CheckSharding(const Plan& plan, const ModelTraits& model) {
  if (plan.tp > 1 && !model.uncut.empty()) {
    return Invalid("mesh.tp", "is ", plan.tp, ", but of model '", model.name, "' ", model.uncut,
                   "; write 1, and use dp or pp");
  }
  for (const TensorCut& cut : model.tensor_cuts) {
    TL_RETURN_IF_ERROR(CheckDivides("mesh.tp", cut.what.c_str(), cut.size, plan.tp));
  }
  if (plan.sequence_parallel) {
    TL_RETURN_IF_ERROR(CheckDivides("mesh.tp", "tokens of the sequence", plan.seq, plan.tp));
  }
  if (plan.padded_vocab < model.classes || plan.padded_vocab % plan.tp != 0 ||
      plan.padded_vocab > kMostRows) {
    return Invalid("sharding.padded_vocab", "is ", plan.padded_vocab,
                   "; it must be a multiple of tp = ", plan.tp, " that holds ", model.classes,
                   " tokens, up to ", kMostRows, ", for example ",
                   PaddedVocab(model.classes, plan.tp));
  }
  return absl::OkStatus();
}

Status CheckStages(const Plan& plan, int64_t blocks) {
  TL_RETURN_IF_ERROR(CheckRange("order.chunks", plan.chunks, 1, kMostLayers));
  if (plan.chunks > 1 && plan.schedule != Schedule::kInterleaved) {
    return Invalid("order.chunks", "is ", plan.chunks, " with schedule ",
                   std::string(Name(plan.schedule)),
                   "; several chunks per stage need schedule interleaved");
  }
  const int64_t count = int64_t{plan.pp} * plan.chunks;
  if (static_cast<int64_t>(plan.stages.size()) != count) {
    return Invalid("stages", "has ", plan.stages.size(), " entries; pp * chunks = ", plan.pp, " * ",
                   plan.chunks, " = ", count);
  }
  int64_t next = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StageChunk& chunk = plan.stages[i];
    const std::string field = absl::StrCat("stages[", i, "]");
    if (chunk.stage != static_cast<int32_t>(i % plan.pp)) {
      return Invalid(field.c_str(), "is on stage ", chunk.stage,
                     "; entry i is on stage i mod pp = ", i % plan.pp);
    }
    if (chunk.first_block != next || chunk.blocks < 1 || chunk.blocks > blocks - next) {
      return Invalid(field.c_str(), "holds ", chunk.blocks, " blocks from ", chunk.first_block,
                     "; the next block is ", next, " of ", blocks,
                     ", and every entry holds at least one");
    }
    next += chunk.blocks;
  }
  if (next != blocks) {
    return Invalid("stages", "hold ", next, " blocks; the model has ", blocks,
                   " (embedding, layers, head)");
  }
  return absl::OkStatus();
}

Status CheckBatches(const Plan& plan, int64_t blocks) {
  TL_RETURN_IF_ERROR(CheckRange("micro_batch", plan.micro_batch, 1, kMostGlobalBatch));
  if (plan.micro_batch * plan.seq > kMostTokens) {
    return Invalid("micro_batch", "is ", plan.micro_batch, ", times seq = ", plan.seq,
                   " more than ", kMostTokens, " tokens; write a smaller one");
  }
  const int64_t samples = int64_t{plan.dp} * plan.micro_batch;
  if (plan.global_batch % samples != 0) {
    return Invalid("global_batch", "is ", plan.global_batch,
                   ", which does not divide by dp * micro_batch = ", plan.dp, " * ",
                   plan.micro_batch, " = ", samples);
  }
  if (plan.micro_batches() > MostMicroBatches(blocks)) {
    return Invalid("global_batch", "is ", plan.global_batch, ", with dp * micro_batch = ", samples,
                   " that is ", plan.micro_batches(), " micro-batches per replica; with ", blocks,
                   " blocks at most ", MostMicroBatches(blocks),
                   " are planned; write a smaller global_batch or a larger micro_batch");
  }
  if (plan.schedule == Schedule::kInterleaved && plan.micro_batches() % plan.pp != 0) {
    return Invalid("order.schedule", "is interleaved with ", plan.micro_batches(),
                   " micro-batches per replica, which do not divide by pp = ", plan.pp,
                   "; change global_batch or micro_batch, or use 1f1b");
  }
  return absl::OkStatus();
}

}  // namespace

Status ValidateOptimizer(const AdamSettings& adam) {
  TL_RETURN_IF_ERROR(CheckReal("optimizer.learning_rate", adam.learning_rate, 0, true));
  TL_RETURN_IF_ERROR(CheckReal("optimizer.beta1", adam.beta1, 0, true));
  TL_RETURN_IF_ERROR(CheckReal("optimizer.beta2", adam.beta2, 0, true));
  if (adam.beta1 >= 1) return Invalid("optimizer.beta1", "must be below 1");
  if (adam.beta2 >= 1) return Invalid("optimizer.beta2", "must be below 1");
  TL_RETURN_IF_ERROR(CheckReal("optimizer.epsilon", adam.epsilon, 0, false));
  TL_RETURN_IF_ERROR(CheckReal("optimizer.decay", adam.decay, 0, true));
  return CheckSchedule(adam);
}

Status ValidateGradientControl(const GradientControl& gradients) {
  TL_RETURN_IF_ERROR(CheckReal("optimizer.clip_norm", gradients.clip_norm, 0, true));
  if (!gradients.scales_loss()) return absl::OkStatus();
  const double scale = gradients.initial_loss_scale;
  int exponent = 0;
  if (!(scale >= 1 && scale <= kLargestLossScale) || std::frexp(scale, &exponent) != 0.5) {
    return Invalid("optimizer.loss_scale", "is ", scale,
                   "; it must be a power of two from 1 to 2^140, such as 65536, or 0 for none");
  }
  return CheckRange("optimizer.loss_scale_steps", gradients.growth_steps, 1, kMostSteps);
}

Status Validate(const Plan& plan) {
  const ModelTraits model = TraitsOf(plan.model);
  if (model.name.empty()) return Invalid("model.name", "is empty");
  TL_RETURN_IF_ERROR(Annotate(ValidateModel(plan.model), "field 'model'"));
  TL_RETURN_IF_ERROR(Annotate(ValidateCluster(plan.cluster), "field 'cluster'"));
  TL_RETURN_IF_ERROR(CheckWorkload(plan, model));
  TL_RETURN_IF_ERROR(CheckMesh(plan));
  TL_RETURN_IF_ERROR(CheckSharding(plan, model));
  TL_RETURN_IF_ERROR(CheckStages(plan, model.blocks()));
  TL_RETURN_IF_ERROR(CheckBatches(plan, model.blocks()));
  TL_RETURN_IF_ERROR(CheckRange("buckets.bytes", plan.bucket_bytes, 1, kMaxBytes));
  TL_RETURN_IF_ERROR(CheckRange("zero", plan.zero, 0, 3));
  if (plan.reduce == GradientReduction::kEachMicroBatch && plan.zero < 2) {
    return Invalid("buckets.reduce", "is each_micro_batch with zero = ", plan.zero,
                   "; it needs zero = 2 or 3");
  }
  if (plan.reduce == GradientReduction::kEachMicroBatch && plan.chunks > 1) {
    // A bucket may span chunks, which take turns between micro-batches.
    return Invalid("buckets.reduce", "is each_micro_batch with chunks = ", plan.chunks,
                   "; it needs chunks = 1");
  }
  if (plan.attention == AttentionForm::kFused && DecoderOf(plan.model) == nullptr) {
    return Invalid("attention", "is fused, but ", model.name,
                   " has no attention; write unfused or leave it out");
  }
  if (plan.attention == AttentionForm::kFused && plan.recompute == Recompute::kSelective) {
    return Invalid("recompute",
                   "is selective with attention = fused, which keeps no probabilities that could "
                   "be dropped; write none or full, or attention = unfused");
  }
  const std::string& hash = plan.graph_hash;
  if (hash.size() != 64 || hash.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return Invalid("graph_hash", "must be 64 hexadecimal digits");
  }
  return absl::OkStatus();
}

}  // namespace tideline

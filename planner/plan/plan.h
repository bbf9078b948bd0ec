// Plan: every decision about one training job. The meaning, default and invariant of each field are
// stated in plan.proto; this is the same message as plain C++, resolved (no defaults left open).
//
// Reading fills defaults but checks only the form; call Validate() (planner/plan/validate.h) before
// using a plan that came from outside.
#ifndef TIDELINE_PLANNER_PLAN_PLAN_H_
#define TIDELINE_PLANNER_PLAN_PLAN_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/cluster/cluster_spec.h"
#include "models/ir/attributes.h"
#include "models/ir/dtype.h"
#include "models/zoo/model.h"
#include "planner/program/program.h"

namespace tideline {

enum class Schedule : uint8_t { kGPipe, k1F1B, kInterleaved };
enum class Recompute : uint8_t { kNone, kSelective, kFull };
enum class AttentionForm : uint8_t { kUnfused, kFused };
enum class GradientReduction : uint8_t { kOnce, kEachMicroBatch };

std::string_view Name(Schedule schedule);            // "gpipe", "1f1b", "interleaved"
std::string_view Name(Recompute recompute);          // "none", "selective", "full"
std::string_view Name(AttentionForm attention);      // "unfused", "fused"
std::string_view Name(GradientReduction reduction);  // "once", "each_micro_batch"
std::string_view Name(RateSchedule schedule);        // "constant", "linear", "cosine"

// A contiguous run of blocks on one stage.
struct StageChunk {
  int32_t stage = 0;
  int64_t first_block = 0;
  int64_t blocks = 0;
  bool operator==(const StageChunk&) const = default;
};

inline constexpr int64_t kDefaultBucketBytes = int64_t{25} << 20;

// What a plan may ask for. Instructions are listed one by one, about 15 KB for every pass of a
// micro-batch through a block, so these bound a lowered plan to about 8 GB.
inline constexpr int64_t kMostGlobalBatch = int64_t{1} << 20;
inline constexpr int64_t kMostMicroBatches = 16384;  // of a replica
inline constexpr int64_t kMostBlockPasses = int64_t{1}
                                            << 19;  // micro-batches of a replica * blocks

// Of a training run, and so of its learning rate's schedule.
inline constexpr int64_t kMostSteps = 1'000'000'000;

// The loss scale that a plan of this type has at first when it says none (DEFINITIONS 12a).
constexpr double DefaultLossScale(DType dtype) { return dtype == DType::kF16 ? 65536.0 : 0.0; }

struct Plan {
  std::string graph_hash;
  ModelConfig model;
  ClusterSpec cluster;
  int64_t seq = 0;
  int64_t global_batch = 0;
  DType dtype = DType::kBF16;
  DType grad_dtype = DType::kF32;
  AdamSettings optimizer;
  GradientControl gradients;  // clip_norm, loss_scale and loss_scale_steps of the optimizer

  int32_t dp = 1, pp = 1, tp = 1;
  std::array<Axis, kAxes> mesh_order{Axis::kData, Axis::kPipeline, Axis::kTensor};
  bool sequence_parallel = false;
  int64_t padded_vocab = 0;
  std::vector<StageChunk> stages;
  Schedule schedule = Schedule::k1F1B;
  int32_t chunks = 1;
  int64_t micro_batch = 1;
  int64_t bucket_bytes = kDefaultBucketBytes;
  GradientReduction reduce = GradientReduction::kOnce;
  Recompute recompute = Recompute::kNone;
  AttentionForm attention = AttentionForm::kUnfused;
  int32_t zero = 0;
  CollectiveAlgorithm collective_algorithm = CollectiveAlgorithm::kRing;
  ReductionOrder reduction_order = ReductionOrder::kRank;

  // Micro-batches of one replica in one step. Precondition: valid.
  int64_t micro_batches() const { return global_batch / (dp * micro_batch); }
  int64_t blocks() const { return TraitsOf(model).blocks(); }
};

// The most micro-batches of a replica that are planned for a model of so many blocks.
constexpr int64_t MostMicroBatches(int64_t blocks) {
  return std::max<int64_t>(1, std::min(kMostMicroBatches, kMostBlockPasses / blocks));
}

// Equal layers on every chunk, the embedding with the first, the head with the last. Errors (exit
// 5) name layers, pp and chunks when they do not divide.
StatusOr<std::vector<StageChunk>> DefaultStages(int64_t layers, int32_t pp, int32_t chunks);

// The same for any model. Where layers differ: the contiguous cut whose largest part costs least.
// `costs` are BlockCosts of the model.
StatusOr<std::vector<StageChunk>> DefaultStages(const ModelTraits& model,
                                                std::span<const double> costs, int32_t pp,
                                                int32_t chunks);
// Whether a model can be cut into so many parts by default.
bool CutsInto(const ModelTraits& model, int64_t parts);
// Forward FLOPs of each block at batch 1; empty where all layers are equal.
StatusOr<std::vector<double>> BlockCosts(const ModelConfig& model);

// The least multiple of tp that holds `vocab` rows.
int64_t PaddedVocab(int64_t vocab, int32_t tp);

// JSON (the form of files) and text (protobuf text format), both complete and deterministic.
std::string PlanToJson(const Plan& plan);
std::string PlanToText(const Plan& plan);

// Reads either form: JSON when the first character is "{". `where` names the source in messages.
// Errors are input errors (exit 5) that name the field: unknown or repeated fields, wrong types,
// numbers out of range, unknown words.
StatusOr<Plan> ParsePlan(std::string_view content, const std::string& where);

// ParsePlan of a file, and Validate.
StatusOr<Plan> ReadPlan(const std::string& path);

// Replaces `path` atomically with the JSON form.
Status WritePlan(const Plan& plan, const std::string& path);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PLAN_PLAN_H_

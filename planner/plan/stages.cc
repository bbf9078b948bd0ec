// How the blocks of a model are cut into stages when nobody says.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "models/ops/op_table.h"
#include "planner/plan/plan.h"

namespace tideline {
namespace {

// Longer sequences do not change which cut is even.
constexpr int64_t kLongestSequence = 2048;
constexpr int kHalvings = 100;

// How many runs of blocks, each of at most `limit`, take all of `costs`.
int64_t RunsWithin(std::span<const double> costs, double limit) {
  int64_t runs = 1;
  double run = 0;
  for (const double cost : costs) {
    if (run > 0 && run + cost > limit) {
      ++runs;
      run = 0;
    }
    run += cost;
  }
  return runs;
}

// The least limit with which `count` runs do, to the precision of a double.
double LeastLimit(std::span<const double> costs, int64_t count) {
  double low = *std::max_element(costs.begin(), costs.end());
  double high = std::accumulate(costs.begin(), costs.end(), 0.0);
  for (int halving = 0; halving < kHalvings && low < high; ++halving) {
    const double middle = low + (high - low) / 2;
    (RunsWithin(costs, middle) <= count ? high : low) = middle;
  }
  return high;
}

// Runs filled one after the other; each leaves a block for every later one.
std::vector<StageChunk> EvenStages(std::span<const double> costs, int32_t pp, int64_t count) {
  const double limit = LeastLimit(costs, count);
  const int64_t blocks = static_cast<int64_t>(costs.size());
  std::vector<StageChunk> stages;
  int64_t next = 0;
  for (int64_t i = 0; i < count; ++i) {
    StageChunk chunk{static_cast<int32_t>(i % pp), next, 0};
    const int64_t last = i + 1 == count ? blocks : blocks - (count - 1 - i);
    double run = 0;
    while (next < last && (chunk.blocks == 0 || i + 1 == count || run + costs[next] <= limit)) {
      run += costs[next++];
      ++chunk.blocks;
    }
    stages.push_back(chunk);
  }
  return stages;
}

}  // namespace

StatusOr<std::vector<StageChunk>> DefaultStages(int64_t layers, int32_t pp, int32_t chunks) {
  if (pp < 1 || chunks < 1 || layers < 1 || layers > kMostLayers) {
    return InputError(absl::StrCat("pp = ", pp, " and chunks = ", chunks,
                                   " must be at least 1, layers = ", layers, " from 1 to ",
                                   kMostLayers));
  }
  const int64_t count = int64_t{pp} * chunks;
  if (layers % count != 0) {
    return InputError(absl::StrCat("layers = ", layers, " do not divide by pp * chunks = ", pp,
                                   " * ", chunks, " = ", count,
                                   "; choose sizes that divide, or write `stages` by hand"));
  }
  std::vector<StageChunk> stages;
  const int64_t per_chunk = layers / count;
  for (int64_t i = 0; i < count; ++i) {
    StageChunk chunk{static_cast<int32_t>(i % pp), i * per_chunk + 1, per_chunk};
    if (i == 0) --chunk.first_block, ++chunk.blocks;
    if (i == count - 1) ++chunk.blocks;
    stages.push_back(chunk);
  }
  return stages;
}

StatusOr<std::vector<StageChunk>> DefaultStages(const ModelTraits& model,
                                                std::span<const double> costs, int32_t pp,
                                                int32_t chunks) {
  if (model.equal_layers) return DefaultStages(model.layers, pp, chunks);
  const int64_t count = int64_t{pp} * chunks;
  if (pp < 1 || chunks < 1 || !CutsInto(model, count)) {
    return InputError(absl::StrCat("pp * chunks = ", pp, " * ", chunks, " = ", count,
                                   " must be from 1 to the ", model.layers, " layers of model '",
                                   model.name, "'"));
  }
  return EvenStages(costs, pp, count);
}

bool CutsInto(const ModelTraits& model, int64_t parts) {
  return model.equal_layers ? model.layers % parts == 0 : parts <= model.layers;
}

StatusOr<std::vector<double>> BlockCosts(const ModelConfig& model) {
  const ModelTraits traits = TraitsOf(model);
  if (traits.equal_layers) return std::vector<double>();
  TL_ASSIGN_OR_RETURN(
      const Graph graph,
      BuildModel(model,
                 {.batch = 1, .sequence = std::min(traits.longest_sequence, kLongestSequence)}));
  std::vector<double> costs(graph.blocks, 0.0);
  for (const Node& node : graph.nodes) {
    std::vector<OperandSpec> operands;
    for (const std::vector<TensorId>* tensors : {&node.inputs, &node.outputs}) {
      for (const TensorId id : *tensors) {
        operands.push_back({graph.tensors[id].shape, graph.tensors[id].dtype});
      }
    }
    costs[node.layer] += WorkOf(node.op, node.attributes, operands).flops;
  }
  return costs;
}

}  // namespace tideline

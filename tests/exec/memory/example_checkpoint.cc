#include "tests/exec/memory/example_checkpoint.h"

#include <cstring>

namespace tideline {
namespace {

StatePiece Piece(uint32_t tensor, TensorRegion region, uint32_t buffer) {
  return {.tensor = tensor, .region = std::move(region), .buffer = buffer};
}

}  // namespace

ProgramState ExampleState() {
  ProgramState state;
  state.tensors = {{"w", StateKind::kParameter, {3, 5}}, {"w", StateKind::kMomentum, {3, 5}}};
  state.ranks.resize(3);
  state.ranks[0].pieces = {Piece(0, {{0, 0}, {3, 2}, 0, 6}, 0)};
  state.ranks[1].pieces = {Piece(0, {{0, 2}, {3, 3}, 0, 9}, 0),
                           Piece(1, {{0, 0}, {3, 5}, 0, 7}, 1)};
  state.ranks[2].pieces = {Piece(1, {{0, 0}, {3, 5}, 7, 15}, 0)};
  return state;
}

float ExampleValue(int64_t step, uint32_t tensor, int64_t element) {
  return static_cast<float>(step * 1000 + tensor * 100 + element) + 0.25f;
}

CheckpointManifest ExampleManifest(int64_t step) {
  CheckpointManifest manifest;
  manifest.step = step;
  manifest.graph_hash = "graph";
  manifest.plan_hash = "plan";
  manifest.global_batch = 16;
  manifest.seed = 3;
  manifest.data_origin = "text";
  manifest.data_hash = "0123456789abcdef";
  manifest.optimizer = AdamSettings{};
  for (int64_t i = 0; i < step; ++i) manifest.losses.push_back(1.0 / static_cast<double>(i + 1));
  manifest.registers = {{"loss scale", 65536}, {"clean steps", 7}};
  const ProgramState state = ExampleState();
  manifest.tensors = state.tensors;
  for (const RankState& rank : state.ranks) {
    ShardRecord& shard = manifest.shards.emplace_back();
    for (const StatePiece& piece : rank.pieces) {
      shard.pieces.push_back({piece.tensor, piece.region, piece.dtype});
    }
  }
  return manifest;
}

Status SaveExample(const CheckpointFolder& folder, const std::string& path, int64_t step,
                   const std::function<Status(int32_t rank, uint32_t buffer)>& before) {
  const ProgramState state = ExampleState();
  TL_RETURN_IF_ERROR(folder.Begin(step));
  for (int32_t rank = 0; rank < 3; ++rank) {
    const std::vector<StatePiece>& pieces = state.ranks[static_cast<size_t>(rank)].pieces;
    TL_RETURN_IF_ERROR(WriteShard(
        CheckpointFolder::ShardPath(path, step, rank), step, rank, pieces,
        [&](uint32_t buffer, int64_t offset, std::span<char> bytes) -> Status {
          if (before) TL_RETURN_IF_ERROR(before(rank, buffer));
          const StatePiece& piece = pieces[buffer];
          const std::vector<int64_t>& shape = state.tensors[piece.tensor].shape;
          std::string values(static_cast<size_t>(piece.bytes()), '\0');
          for (const CommonRun& run : CommonRuns(piece.region, WholeTensor(shape), shape)) {
            for (int64_t i = 0; i < run.count; ++i) {
              const float value = ExampleValue(step, piece.tensor, run.right + i);
              std::memcpy(values.data() + (run.left + i) * 4, &value, 4);
            }
          }
          std::memcpy(bytes.data(), values.data() + offset, bytes.size());
          return absl::OkStatus();
        }));
  }
  return folder.Commit(ExampleManifest(step));
}

}  // namespace tideline

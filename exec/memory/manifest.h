// Manifest: what a checkpoint says about itself. It lists the logical tensors of the training state
// and, for each shard file, which elements of them lie in it, so that any plan can find what it
// needs without knowing the plan that wrote it.
//
// File: magic, length, fields, SHA-256 of everything before. Little-endian. A manifest that was
// read is sound in itself: shapes and boxes fit, sizes add up, no number overflows, file names are
// the ones a checkpoint has (so none leads out of its folder). That every element is there exactly
// once costs time by the size of the files and is therefore checked after them (CheckComplete).
#ifndef TIDELINE_EXEC_MEMORY_MANIFEST_H_
#define TIDELINE_EXEC_MEMORY_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/ir/attributes.h"
#include "planner/program/program.h"
#include "planner/program/state_map.h"

namespace tideline {

// Elements of one tensor in a shard's payload.
struct StoredPiece {
  uint32_t tensor = 0;  // into CheckpointManifest::tensors
  TensorRegion region;
  DType dtype = DType::kF32;

  int64_t bytes() const { return region.count() * SizeOf(dtype); }
  bool operator==(const StoredPiece&) const = default;
};

struct ShardRecord {
  std::string file;    // ShardName of its index
  int64_t bytes = 0;   // of the whole file
  std::string sha256;  // of the file without its last 32 bytes, which are the digest; hexadecimal
  std::vector<StoredPiece> pieces;  // one after the other
  bool operator==(const ShardRecord&) const = default;
};

struct CheckpointManifest {
  int64_t step = 0;  // optimizer steps done
  std::string graph_hash;
  std::string plan_hash;
  int64_t global_batch = 0;
  uint64_t seed = 0;                      // of the initial values
  std::string data_origin;                // what --data named, for messages
  std::string data_hash;                  // SHA-256 of its tokens: data may move
  std::optional<AdamSettings> optimizer;  // none: the Program has no AdamW
  std::vector<double> losses;             // of the steps done
  std::vector<RegisterValue> registers;   // persistent ones, the same on every rank
  std::vector<StateTensor> tensors;
  std::vector<ShardRecord> shards;  // by the rank that wrote it
  bool operator==(const CheckpointManifest&) const = default;
};

// "rank-00003.shard".
std::string ShardName(int32_t rank);

// Bytes of a shard around its payload.
inline constexpr int64_t kShardHeaderBytes = 32;
inline constexpr int64_t kDigestBytes = 32;

std::string EncodeManifest(const CheckpointManifest& manifest);

// Encoded fields with what goes around them; for tests that change the fields.
std::string FrameManifest(std::string_view fields);

// Errors (exit 5) say what is wrong with which tensor or shard.
StatusOr<CheckpointManifest> DecodeManifest(std::string_view bytes);

// OK when the shards together hold every element of every tensor exactly once. O(pieces and lines),
// which are never more than bytes of the shards.
Status CheckComplete(const CheckpointManifest& manifest);

// The shards as the ranks of a state: offsets count bytes of the file.
ProgramState StateInShards(const CheckpointManifest& manifest);

}  // namespace tideline

#endif  // TIDELINE_EXEC_MEMORY_MANIFEST_H_

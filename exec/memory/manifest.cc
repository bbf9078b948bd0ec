#include "exec/memory/manifest.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/sha256.h"
#include "base/text.h"
#include "exec/wire/bytes.h"
#include "exec/wire/fields.h"

namespace tideline {
namespace {

constexpr std::string_view kMagic = "TLCKPT04";
constexpr size_t kMostDimensions = 16;
constexpr size_t kPrefixBytes = 16;  // magic and length

template <typename Wire, IsOrConst<AdamSettings> Settings>
void AdamFields(Wire& wire, Settings& adam) {
  wire(adam.learning_rate, adam.beta1, adam.beta2, adam.epsilon, adam.decay);
  wire.Choice(adam.schedule, RateSchedule::kCosine);
  wire(adam.warmup_steps, adam.decay_steps, adam.least_learning_rate);
}

template <typename Wire, IsOrConst<CheckpointManifest> Manifest>
void Fields(Wire& wire, Manifest& manifest) {
  wire(manifest.step, manifest.graph_hash, manifest.plan_hash, manifest.global_batch, manifest.seed,
       manifest.data_origin, manifest.data_hash);
  wire.Optional(manifest.optimizer, [](auto& each, auto& adam) { AdamFields(each, adam); });
  wire(manifest.losses);
  wire.List(manifest.registers, 16, [](auto& each, auto& value) { each(value.name, value.value); });
  wire.List(manifest.tensors, 17, [](auto& each, auto& tensor) {
    each(tensor.name);
    each.Choice(tensor.kind, kLastStateKind);
    each(tensor.shape);
  });
  wire.List(manifest.shards, 32, [](auto& shards, auto& shard) {
    shards(shard.file, shard.bytes, shard.sha256);
    shards.List(shard.pieces, 37, [](auto& each, auto& piece) {
      each(piece.tensor);
      each.Choice(piece.dtype, DType::kI32);
      each(piece.region.first, piece.region.extent, piece.region.begin, piece.region.end);
    });
  });
}

// The product of positive numbers; none when it, or its bytes in fp32, do not fit.
std::optional<int64_t> ProductOf(const std::vector<int64_t>& values) {
  int64_t product = 1;
  for (const int64_t value : values) {
    if (value < 1 || __builtin_mul_overflow(product, value, &product)) return std::nullopt;
  }
  if (product > INT64_MAX / 8) return std::nullopt;
  return product;
}

Status CheckTensors(const std::vector<StateTensor>& tensors) {
  std::set<std::pair<std::string, StateKind>> seen;
  for (const StateTensor& tensor : tensors) {
    if (!seen.insert({tensor.name, tensor.kind}).second) {
      return InputError(absl::StrCat(Describe(tensor), " is listed twice"));
    }
    if (tensor.shape.empty() || tensor.shape.size() > kMostDimensions || !ProductOf(tensor.shape)) {
      return InputError(absl::StrCat("the shape of ", Describe(tensor), " is impossible"));
    }
  }
  return absl::OkStatus();
}

// Empty, or what is wrong.
std::string TroubleOf(const StoredPiece& piece, const StateTensor& tensor) {
  if (piece.dtype != DType::kF32) {
    return absl::StrCat("its type is ", std::string(Name(piece.dtype)), ", not fp32");
  }
  const TensorRegion& region = piece.region;
  const size_t dimensions = tensor.shape.size();
  if (region.first.size() != dimensions || region.extent.size() != dimensions) {
    return "its box has another number of dimensions than the tensor";
  }
  for (size_t d = 0; d < dimensions; ++d) {
    // No sum, which could overflow.
    if (region.extent[d] < 1 || region.extent[d] > tensor.shape[d] || region.first[d] < 0 ||
        region.first[d] > tensor.shape[d] - region.extent[d]) {
      return absl::StrCat("its box leaves the tensor in dimension ", d);
    }
  }
  if (region.begin < 0 || region.begin >= region.end || region.end > *ProductOf(region.extent)) {
    return "its elements leave its box";
  }
  return "";
}

// Adds the elements of the shard's pieces to `elements`, by tensor.
Status CheckShard(const CheckpointManifest& manifest, size_t index,
                  std::vector<int64_t>& elements) {
  const ShardRecord& shard = manifest.shards[index];
  const std::string expected = ShardName(static_cast<int32_t>(index));
  if (shard.file != expected) {
    return InputError(absl::StrCat("shard ", index, " is called ", Quoted(shard.file),
                                   ", which must be ", Quoted(expected)));
  }
  int64_t bytes = kShardHeaderBytes + kDigestBytes;
  for (const StoredPiece& piece : shard.pieces) {
    if (piece.tensor >= manifest.tensors.size()) {
      return InputError(absl::StrCat(shard.file, ": a piece belongs to no tensor"));
    }
    const StateTensor& tensor = manifest.tensors[piece.tensor];
    if (const std::string trouble = TroubleOf(piece, tensor); !trouble.empty()) {
      return InputError(absl::StrCat(shard.file, ": ", Describe(tensor), ": ", trouble));
    }
    if (__builtin_add_overflow(bytes, piece.bytes(), &bytes)) {
      return InputError(absl::StrCat(shard.file, ": its pieces are larger than any file"));
    }
    if (__builtin_add_overflow(elements[piece.tensor], piece.region.count(),
                               &elements[piece.tensor])) {
      return InputError(absl::StrCat(shard.file, ": ", Describe(tensor), " is there twice"));
    }
  }
  if (shard.bytes != bytes) {
    return InputError(absl::StrCat(shard.file, ": it is said to have ", shard.bytes,
                                   " bytes, but its pieces make ", bytes));
  }
  return absl::OkStatus();
}

Status CheckSound(const CheckpointManifest& manifest) {
  if (manifest.step < 0 || std::ssize(manifest.losses) != manifest.step) {
    return InputError(absl::StrCat("its manifest has step ", manifest.step, " and ",
                                   manifest.losses.size(), " losses"));
  }
  TL_RETURN_IF_ERROR(CheckTensors(manifest.tensors));
  std::vector<int64_t> elements(manifest.tensors.size(), 0);
  for (size_t shard = 0; shard < manifest.shards.size(); ++shard) {
    TL_RETURN_IF_ERROR(CheckShard(manifest, shard, elements));
  }
  for (size_t i = 0; i < elements.size(); ++i) {
    const int64_t whole = *ProductOf(manifest.tensors[i].shape);
    if (elements[i] == whole) continue;
    return InputError(absl::StrCat("the shards hold ", elements[i], " elements of ",
                                   Describe(manifest.tensors[i]), ", which has ", whole));
  }
  return absl::OkStatus();
}

}  // namespace

std::string ShardName(int32_t rank) { return absl::StrFormat("rank-%05d.shard", rank); }

std::string EncodeManifest(const CheckpointManifest& manifest) {
  FieldWriter fields;
  Fields(fields, manifest);
  return FrameManifest(fields.Take());
}

std::string FrameManifest(std::string_view fields) {
  ByteWriter length;
  length.Put<uint64_t>(fields.size());
  std::string bytes = absl::StrCat(std::string(kMagic), length.bytes(), std::string(fields));
  Sha256 hash;
  hash.Update(bytes);
  const auto digest = hash.Digest();
  bytes.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  return bytes;
}

StatusOr<CheckpointManifest> DecodeManifest(std::string_view bytes) {
  if (bytes.size() < kPrefixBytes + kDigestBytes) return InputError("its manifest is too short");
  if (!bytes.starts_with(kMagic)) {
    return InputError("its manifest does not begin as those of this version do");
  }
  const std::string_view covered = bytes.substr(0, bytes.size() - kDigestBytes);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data() + kMagic.size(), sizeof length);
  if (length != covered.size() - kPrefixBytes) {
    return InputError("the length of its manifest is wrong");
  }
  Sha256 hash;
  hash.Update(covered);
  const auto digest = hash.Digest();
  if (std::memcmp(digest.data(), bytes.data() + covered.size(), digest.size()) != 0) {
    return InputError("the checksum of its manifest is wrong");
  }
  CheckpointManifest manifest;
  FieldReader reader(covered.substr(kPrefixBytes));
  Fields(reader, manifest);
  if (!reader.Finish()) return InputError("its manifest cannot be read");
  TL_RETURN_IF_ERROR(CheckSound(manifest));
  return manifest;
}

Status CheckComplete(const CheckpointManifest& manifest) {
  std::vector<std::vector<TensorRegion>> regions(manifest.tensors.size());
  for (const ShardRecord& shard : manifest.shards) {
    for (const StoredPiece& piece : shard.pieces) regions[piece.tensor].push_back(piece.region);
  }
  for (size_t i = 0; i < regions.size(); ++i) {
    const Status tiles = CheckTiles(manifest.tensors[i].shape, regions[i]);
    if (!tiles.ok()) return Annotate(tiles, Describe(manifest.tensors[i]));
  }
  return absl::OkStatus();
}

ProgramState StateInShards(const CheckpointManifest& manifest) {
  ProgramState state;
  state.tensors = manifest.tensors;
  for (const ShardRecord& shard : manifest.shards) {
    RankState& rank = state.ranks.emplace_back();
    int64_t offset = kShardHeaderBytes;
    for (const StoredPiece& piece : shard.pieces) {
      rank.pieces.push_back(
          {.tensor = piece.tensor, .region = piece.region, .dtype = piece.dtype, .offset = offset});
      offset += piece.bytes();
    }
  }
  return state;
}

}  // namespace tideline

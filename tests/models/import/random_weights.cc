#include "tests/models/import/random_weights.h"

#include <cstring>
#include <set>
#include <span>

#include "base/rng.h"
#include "models/import/safetensors.h"

namespace tideline {

Status WriteRandomWeights(const DecoderConfig& config, uint64_t seed, const std::string& path) {
  return WriteRandomWeights(HuggingFaceWeights(config), seed, path);
}

Status WriteRandomWeights(const WeightMap& map, uint64_t seed, const std::string& path) {
  TensorHeader header;
  std::set<std::string> seen;
  for (const ParameterWeights& parameter : map.parameters) {
    for (const WeightPart& part : parameter.parts) {
      if (!seen.insert(part.tensor).second) continue;
      header.entries.push_back({.name = part.tensor, .shape = part.tensor_shape});
    }
  }
  return WriteTensorFile(
      path, header, [&](const TensorHeader::Entry& entry, int64_t offset, std::span<char> bytes) {
        const StreamKey key = MakeStreamKey(seed, entry.name);
        for (size_t i = 0; i < bytes.size(); i += sizeof(float)) {
          const float value = 0.02f * NormalAt(key, (offset + static_cast<int64_t>(i)) / 4);
          std::memcpy(bytes.data() + i, &value, sizeof value);
        }
        return absl::OkStatus();
      });
}

}  // namespace tideline

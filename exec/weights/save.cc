#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "exec/comm/element.h"
#include "exec/weights/weights.h"
#include "models/ir/graph.h"

namespace tideline {
namespace {

// Puts tensors together from the ranks' parts, one at a time.
class Assembler {
 public:
  Assembler(const WeightMap& map, const Program& program, const ReadBuffer& read) : read_(read) {
    for (int32_t rank = 0; rank < static_cast<int32_t>(program.ranks.size()); ++rank) {
      for (StoredPart& part : ParameterParts(program, rank)) AddPart(rank, std::move(part));
    }
    std::set<std::string> seen;
    for (const ParameterWeights& parameter : map.parameters) {
      for (const WeightPart& part : parameter.parts) {
        uses_[part.tensor].push_back({&parameter, &part});
        if (!seen.insert(part.tensor).second) continue;
        header_.entries.push_back({.name = part.tensor, .shape = part.tensor_shape});
      }
    }
    header_.metadata["format"] = "pt";  // what the transformers library asks for
  }

  const TensorHeader& header() const { return header_; }

  Status Fill(const TensorHeader::Entry& entry, int64_t offset, std::span<char> bytes) {
    if (offset == 0) TL_RETURN_IF_ERROR(Assemble(entry));
    std::memcpy(bytes.data(), reinterpret_cast<const char*>(values_.data()) + offset, bytes.size());
    return absl::OkStatus();
  }

 private:
  struct Held {
    int32_t rank;
    StoredPart part;
  };
  struct Use {
    const ParameterWeights* parameter;
    const WeightPart* part;
  };

  // Replicas hold the same elements: the first counts.
  void AddPart(int32_t rank, StoredPart part) {
    const auto key = std::tuple(part.part.box->parameter, part.part.first, part.part.begin);
    if (!known_.insert(key).second) return;
    const std::string& parameter = part.part.box->parameter;
    held_[parameter].push_back({rank, std::move(part)});
  }

  Status Assemble(const TensorHeader::Entry& entry) {
    values_.assign(static_cast<size_t>(Elements(entry.shape)), 0.0f);
    int64_t filled = 0;
    for (const Use& use : uses_[entry.name]) {
      for (const Held& held : held_[use.parameter->parameter]) {
        TL_RETURN_IF_ERROR(Scatter(held, *use.part, filled));
      }
    }
    if (filled == static_cast<int64_t>(values_.size())) return absl::OkStatus();
    return InternalError(absl::StrCat("saving weights: the ranks hold ", filled, " of the ",
                                      values_.size(), " elements of ", Quoted(entry.name)));
  }

  Status Scatter(const Held& held, const WeightPart& target, int64_t& filled) {
    const BoxPart& part = held.part.part;
    const int64_t size = SizeOf(held.part.dtype);
    std::vector<char> bytes(static_cast<size_t>((part.end - part.begin) * size));
    TL_RETURN_IF_ERROR(read_(held.rank, held.part.buffer, part.to * size, bytes));
    const size_t last = part.box->extent.size() - 1;
    std::vector<int64_t> at;
    EachLine(part, [&](const LineRun& run) {
      LineCoordinates(part, run.line, at);
      at[last] += run.column;
      for (int64_t i = 0; i < run.count; ++i, ++at[last]) {
        // Padding lies behind the last part.
        if (!target.Holds(at[0])) continue;
        values_[static_cast<size_t>(target.ElementAt(at))] =
            LoadElement(bytes.data(), run.to - part.to + i, held.part.dtype);
        ++filled;
      }
    });
    return absl::OkStatus();
  }

  const ReadBuffer& read_;
  TensorHeader header_;
  std::map<std::string, std::vector<Use>> uses_;
  std::map<std::string, std::vector<Held>> held_;
  std::set<std::tuple<std::string, std::vector<int64_t>, int64_t>> known_;
  std::vector<float> values_;
};

}  // namespace

Status SaveWeights(const std::string& path, const WeightMap& map, const Program& program,
                   const ReadBuffer& read) {
  Assembler assembler(map, program, read);
  return WriteTensorFile(
      path, assembler.header(),
      [&](const TensorHeader::Entry& entry, int64_t offset, std::span<char> bytes) {
        return assembler.Fill(entry, offset, bytes);
      });
}

}  // namespace tideline

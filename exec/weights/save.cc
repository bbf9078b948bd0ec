#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "exec/comm/element.h"
#include "exec/weights/weights.h"
#include "models/ir/graph.h"
#include "planner/program/state_map.h"

namespace tideline {
namespace {

// Puts tensors together from the ranks' parts, one at a time.
class Assembler {
 public:
  Assembler(const WeightMap& map, ProgramState state, const ReadBuffer& read)
      : read_(read), state_(std::move(state)) {
    for (int32_t rank = 0; rank < static_cast<int32_t>(state_.ranks.size()); ++rank) {
      for (const StatePiece& piece : state_.ranks[static_cast<size_t>(rank)].pieces) {
        AddPiece(rank, piece);
      }
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
    const StatePiece* piece;
  };
  struct Use {
    const ParameterWeights* parameter;
    const WeightPart* part;
  };

  // Replicas hold the same elements: the first counts.
  void AddPiece(int32_t rank, const StatePiece& piece) {
    const StateTensor& tensor = state_.tensors[piece.tensor];
    if (tensor.kind != StateKind::kParameter || !piece.primary) return;
    if (known_.insert({piece.tensor, piece.region}).second) {
      held_[tensor.name].push_back({rank, &piece});
    }
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
    const StatePiece& piece = *held.piece;
    std::vector<char> bytes(static_cast<size_t>(piece.bytes()));
    TL_RETURN_IF_ERROR(read_(held.rank, piece.buffer, piece.offset, bytes));
    std::vector<int64_t> at;
    EachLine(piece.region, [&](const LineRun& run) {
      LineCoordinates(piece.region, run.line, at);
      at.back() += run.column;
      for (int64_t i = 0; i < run.count; ++i, ++at.back()) {
        if (!target.Holds(at[0])) continue;
        values_[static_cast<size_t>(target.ElementAt(at))] =
            LoadElement(bytes.data(), run.from + i, piece.dtype);
        ++filled;
      }
    });
    return absl::OkStatus();
  }

  const ReadBuffer& read_;
  const ProgramState state_;
  TensorHeader header_;
  std::map<std::string, std::vector<Use>> uses_;
  std::map<std::string, std::vector<Held>> held_;
  std::set<std::pair<uint32_t, TensorRegion>> known_;
  std::vector<float> values_;
};

}  // namespace

Status SaveWeights(const std::string& path, const WeightMap& map, const Program& program,
                   const ReadBuffer& read) {
  TL_ASSIGN_OR_RETURN(ProgramState state, MapState(program));
  Assembler assembler(map, std::move(state), read);
  return WriteTensorFile(
      path, assembler.header(),
      [&](const TensorHeader::Entry& entry, int64_t offset, std::span<char> bytes) {
        return assembler.Fill(entry, offset, bytes);
      });
}

}  // namespace tideline

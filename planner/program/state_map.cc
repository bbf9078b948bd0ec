#include "planner/program/state_map.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "models/ir/graph.h"
#include "planner/program/byte_set.h"
#include "planner/program/init_boxes.h"

namespace tideline {
namespace {

// The tensors of a state while they are being found.
class TensorTable {
 public:
  StatusOr<uint32_t> IdOf(const std::string& name, StateKind kind,
                          const std::vector<int64_t>& shape) {
    const auto [found, is_new] =
        ids_.try_emplace({name, kind}, static_cast<uint32_t>(tensors_.size()));
    if (is_new) tensors_.push_back({name, kind, shape});
    const StateTensor& tensor = tensors_[found->second];
    if (tensor.shape != shape) {
      return InternalError(absl::StrCat(Describe(tensor), " has two shapes in one Program"));
    }
    return found->second;
  }
  const StateTensor& tensor(uint32_t id) const { return tensors_[id]; }
  std::vector<StateTensor> Take() { return std::move(tensors_); }

 private:
  std::map<std::pair<std::string, StateKind>, uint32_t> ids_;
  std::vector<StateTensor> tensors_;
};

// Elements [to, to + count) of a buffer that the prologue makes: of a parameter, or zeros.
struct Made {
  uint32_t buffer = 0;
  DType dtype = DType::kF32;
  int64_t to = 0, count = 0;
  bool zero = true;
  uint32_t tensor = 0;
  TensorRegion region;
};

// Elements of a buffer that the prologue casts into another one.
struct Move {
  uint32_t from = 0, to = 0;
  int64_t from_begin = 0, to_begin = 0, count = 0;
  DType dtype = DType::kF32;
};

class RankMapper {
 public:
  RankMapper(const Program& program, int32_t rank, TensorTable& tensors)
      : program_(program),
        role_(program.roles[program.ranks[static_cast<size_t>(rank)].role]),
        coordinates_(program.ranks[static_cast<size_t>(rank)].coordinates),
        tensors_(tensors),
        zeros_(role_.buffers.size()),
        named_(role_.buffers.size()) {}

  StatusOr<RankState> Map() {
    TL_RETURN_IF_ERROR(ReadPrologue());
    for (const Made& made : made_) Place(made, WidestOf(made));
    for (const Section& body : role_.bodies) TL_RETURN_IF_ERROR(AddMoments(body));
    for (const StatePiece& piece : state_.pieces) {
      named_[piece.buffer].Add(piece.offset, piece.offset + piece.bytes());
    }
    TL_RETURN_IF_ERROR(FindPadding());
    return std::move(state_);
  }

  // What a body reads before it writes it must be in the state or padding.
  Status CheckCarried() const {
    for (const Section& body : role_.bodies) {
      std::vector<ByteSet> written(role_.buffers.size());
      for (const Instruction& instruction : body.instructions) {
        const std::span<const Operand> operands = body.Operands(instruction);
        for (const Operand& operand : operands) {
          if (operand.access == Access::kWrite || !IsKept(operand)) continue;
          TL_RETURN_IF_ERROR(CheckRead(instruction, operand, written[operand.buffer]));
        }
        for (const Operand& operand : operands) {
          if (operand.access == Access::kRead || !IsKept(operand)) continue;
          const int64_t begin = OperandOffset(program_, operand, coordinates_);
          written[operand.buffer].Add(begin, begin + operand.bytes);
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  bool IsKept(const Operand& operand) const { return role_.buffers[operand.buffer].persistent; }

  int64_t FirstElement(const Operand& operand, DType dtype) const {
    return OperandOffset(program_, operand, coordinates_) / SizeOf(dtype);
  }

  Status Unnamed(uint32_t buffer, std::string_view what) const {
    return InternalError(absl::StrCat(
        "role '", role_.name, "': buffer '",
        std::string(NameText(program_, role_.buffers[buffer].name)), "' ", std::string(what),
        ", but is no part of a parameter or its moments; a checkpoint would lack it"));
  }

  Status ReadPrologue() {
    for (const Instruction& instruction : role_.prologue.instructions) {
      const std::span<const Operand> operands = role_.prologue.Operands(instruction);
      const Kernel* kernel = instruction.kind == InstructionKind::kCompute
                                 ? &program_.kernels[instruction.what]
                                 : nullptr;
      if (kernel != nullptr && (kernel->op == Op::kInitNormal || kernel->op == Op::kFill)) {
        TL_RETURN_IF_ERROR(AddMade(*kernel, operands[0]));
      } else if (kernel != nullptr && kernel->op == Op::kCast) {
        const DType from = kernel->operands[0].dtype, to = kernel->operands[1].dtype;
        moves_.push_back({.from = operands[0].buffer,
                          .to = operands[1].buffer,
                          .from_begin = FirstElement(operands[0], from),
                          .to_begin = FirstElement(operands[1], to),
                          .count = Elements(kernel->operands[1].shape),
                          .dtype = to});
      } else {
        for (const Operand& operand : operands) {
          if (operand.access == Access::kRead || !IsKept(operand)) continue;
          return Unnamed(operand.buffer, "gets its first value from another kind of instruction");
        }
      }
    }
    return absl::OkStatus();
  }

  Status AddMade(const Kernel& kernel, const Operand& operand) {
    const DType dtype = kernel.operands[0].dtype;
    const int64_t base = FirstElement(operand, dtype);
    const int64_t count = Elements(kernel.operands[0].shape);
    int64_t covered = 0;
    for (const BoxPart& part : BoxParts(kernel.attributes, coordinates_, count)) {
      covered = part.to + part.region.count();
      TL_RETURN_IF_ERROR(AddBox(part, operand.buffer, dtype, base));
    }
    const bool zero = kernel.op == Op::kInitNormal || !kernel.attributes.init.empty() ||
                      kernel.attributes.constant == 0.0f;
    if (covered < count && !zero)
      return Unnamed(operand.buffer, "begins with a value that is not 0");
    AddZeros(operand.buffer, dtype, base + covered, count - covered);
    return absl::OkStatus();
  }

  // A box without its padding rows, which are the last of its row-major order.
  Status AddBox(const BoxPart& part, uint32_t buffer, DType dtype, int64_t base) {
    std::vector<int64_t> shape = part.box->full_shape;
    if (part.box->valid_rows > 0) shape[0] = part.box->valid_rows;
    Made made{buffer, dtype, base + part.to, 0, false, 0, part.region};
    TL_ASSIGN_OR_RETURN(made.tensor,
                        tensors_.IdOf(part.box->parameter, StateKind::kParameter, shape));
    TensorRegion& region = made.region;
    const int64_t row = Elements(region.extent) / region.extent[0];
    region.extent[0] = std::clamp<int64_t>(shape[0] - region.first[0], 0, region.extent[0]);
    region.end = std::max(region.begin, std::min(region.end, region.extent[0] * row));
    made.count = region.count();
    AddZeros(buffer, dtype, made.to + made.count, part.region.count() - made.count);
    if (made.count > 0) made_.push_back(std::move(made));
    return absl::OkStatus();
  }

  void AddZeros(uint32_t buffer, DType dtype, int64_t to, int64_t count) {
    if (count > 0) made_.push_back({buffer, dtype, to, count, true, 0, {}});
  }

  // Of the persistent places that what is made in a buffer gets to, the size of the widest type.
  int64_t WidestOf(const Made& made) const {
    int64_t widest = role_.buffers[made.buffer].persistent ? SizeOf(made.dtype) : 0;
    for (const Move& move : moves_) {
      if (move.from == made.buffer && role_.buffers[move.to].persistent) {
        widest = std::max(widest, SizeOf(move.dtype));
      }
    }
    return widest;
  }

  void Place(const Made& made, int64_t widest) {
    if (role_.buffers[made.buffer].persistent) PlaceIn(made, widest);
    for (const Move& move : moves_) {
      if (move.from != made.buffer || !role_.buffers[move.to].persistent) continue;
      const int64_t begin = std::max(made.to, move.from_begin);
      const int64_t end = std::min(made.to + made.count, move.from_begin + move.count);
      if (begin >= end) continue;
      Made moved = made;
      moved.buffer = move.to;
      moved.dtype = move.dtype;
      moved.to = move.to_begin + begin - move.from_begin;
      moved.count = end - begin;
      moved.region.begin = made.region.begin + begin - made.to;
      moved.region.end = moved.region.begin + moved.count;
      PlaceIn(moved, widest);
    }
  }

  void PlaceIn(const Made& made, int64_t widest) {
    const int64_t size = SizeOf(made.dtype);
    if (made.zero) {
      zeros_[made.buffer].Add(made.to * size, (made.to + made.count) * size);
      return;
    }
    state_.pieces.push_back({.tensor = made.tensor,
                             .region = made.region,
                             .dtype = made.dtype,
                             .buffer = made.buffer,
                             .offset = made.to * size,
                             .primary = size == widest});
  }

  // The moments lie in AdamW's last two operands as the primary elements in the one before them.
  Status AddMoments(const Section& body) {
    const size_t parameters = state_.pieces.size();
    for (const Instruction& instruction : body.instructions) {
      if (instruction.kind != InstructionKind::kCompute) continue;
      const Kernel& kernel = program_.kernels[instruction.what];
      if (kernel.op != Op::kAdamW) continue;
      const std::span<const Operand> operands = body.Operands(instruction);
      const size_t last = operands.size() - 1;
      for (size_t i = 0; i < parameters; ++i) {
        const StatePiece piece = state_.pieces[i];
        if (tensors_.tensor(piece.tensor).kind != StateKind::kParameter) continue;
        if (!piece.primary || piece.buffer != operands[last - 2].buffer) continue;
        TL_RETURN_IF_ERROR(
            AddMoment(piece, operands[last - 2], operands[last - 1], StateKind::kMomentum));
        TL_RETURN_IF_ERROR(
            AddMoment(piece, operands[last - 2], operands[last], StateKind::kVariance));
      }
    }
    return absl::OkStatus();
  }

  Status AddMoment(const StatePiece& of, const Operand& updated, const Operand& moment,
                   StateKind kind) {
    constexpr int64_t kSize = 4;  // master weights and moments are fp32
    const int64_t begin = OperandOffset(program_, updated, coordinates_);
    const int64_t from = std::max(begin, of.offset);
    const int64_t to = std::min(begin + updated.bytes, of.offset + of.bytes());
    if (from >= to) return absl::OkStatus();
    const StateTensor parameter = tensors_.tensor(of.tensor);
    StatePiece piece{.region = of.region, .buffer = moment.buffer};
    TL_ASSIGN_OR_RETURN(piece.tensor, tensors_.IdOf(parameter.name, kind, parameter.shape));
    piece.region.begin = of.region.begin + (from - of.offset) / kSize;
    piece.region.end = piece.region.begin + (to - from) / kSize;
    piece.offset = OperandOffset(program_, moment, coordinates_) + from - begin;
    // Several bodies update the same buckets.
    if (moments_.insert({piece.buffer, piece.offset}).second) {
      state_.pieces.push_back(std::move(piece));
    }
    return absl::OkStatus();
  }

  // All that the prologue writes besides the pieces must be zeros.
  Status FindPadding() {
    for (const Instruction& instruction : role_.prologue.instructions) {
      for (const Operand& operand : role_.prologue.Operands(instruction)) {
        if (operand.access == Access::kRead || !IsKept(operand)) continue;
        const int64_t first = OperandOffset(program_, operand, coordinates_);
        for (const auto& [begin, end] :
             named_[operand.buffer].Missing(first, first + operand.bytes)) {
          if (!zeros_[operand.buffer].Contains(begin, end)) {
            return Unnamed(operand.buffer, "is filled by the prologue");
          }
          padding_[operand.buffer].Add(begin, end);
        }
      }
    }
    for (const auto& [buffer, ranges] : padding_) {
      for (const auto& [begin, end] : ranges.intervals()) {
        state_.zeros.push_back({buffer, begin, end});
      }
    }
    return absl::OkStatus();
  }

  Status CheckRead(const Instruction& instruction, const Operand& operand,
                   const ByteSet& written) const {
    const int64_t first = OperandOffset(program_, operand, coordinates_);
    for (const auto& [begin, end] : written.Missing(first, first + operand.bytes)) {
      for (const auto& [from, to] : named_[operand.buffer].Missing(begin, end)) {
        // Padding stays 0 beside elements of a bucket and in its gradients; zeros anywhere else
        // may be where something begins to count.
        const bool padded = !named_[operand.buffer].empty() ||
                            role_.buffers[operand.buffer].category == Category::kGradient;
        const auto found = padding_.find(operand.buffer);
        if (padded && found != padding_.end() && found->second.Contains(from, to)) continue;
        return Unnamed(operand.buffer,
                       absl::StrCat("is kept from step to step (read by '",
                                    std::string(NameText(program_, instruction.name)), "')"));
      }
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const Role& role_;
  const Coordinates coordinates_;
  TensorTable& tensors_;
  std::vector<Made> made_;
  std::vector<Move> moves_;
  std::vector<ByteSet> zeros_;  // by buffer: what the prologue makes 0
  std::vector<ByteSet> named_;  // by buffer: pieces
  std::map<uint32_t, ByteSet> padding_;
  std::set<std::pair<uint32_t, int64_t>> moments_;
  RankState state_;
};

}  // namespace

std::string_view Name(StateKind kind) {
  switch (kind) {
    case StateKind::kParameter:
      return "parameter";
    case StateKind::kMomentum:
      return "momentum";
    case StateKind::kVariance:
      return "variance";
  }
  return "?";
}

std::string Describe(const StateTensor& tensor) {
  return absl::StrCat(std::string(Name(tensor.kind)),
                      tensor.kind == StateKind::kParameter ? " " : " of ", Quoted(tensor.name));
}

StatusOr<ProgramState> MapState(const Program& program) {
  TensorTable tensors;
  ProgramState state;
  std::set<uint32_t> checked;  // roles
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    RankMapper mapper(program, static_cast<int32_t>(rank), tensors);
    TL_ASSIGN_OR_RETURN(RankState of_rank, mapper.Map());
    state.ranks.push_back(std::move(of_rank));
    // What is carried is a matter of the instruction list, which ranks of a role share.
    if (checked.insert(program.ranks[rank].role).second) {
      TL_RETURN_IF_ERROR(mapper.CheckCarried());
    }
  }
  state.tensors = tensors.Take();
  return state;
}

StatusOr<std::vector<std::vector<StatePiece>>> EachElementOnce(const ProgramState& state) {
  struct Holder {
    size_t rank;
    const StatePiece* piece;
  };
  std::vector<std::map<TensorRegion, std::vector<Holder>>> holders(state.tensors.size());
  for (size_t rank = 0; rank < state.ranks.size(); ++rank) {
    for (const StatePiece& piece : state.ranks[rank].pieces) {
      if (!piece.primary) continue;
      if (piece.dtype != DType::kF32) {
        return InternalError(absl::StrCat(Describe(state.tensors[piece.tensor]), " is kept in ",
                                          std::string(Name(piece.dtype)),
                                          " only; a checkpoint holds fp32"));
      }
      holders[piece.tensor][piece.region].push_back({rank, &piece});
    }
  }
  std::vector<std::vector<StatePiece>> saved(state.ranks.size());
  std::vector<int64_t> bytes(state.ranks.size(), 0);
  for (size_t tensor = 0; tensor < holders.size(); ++tensor) {
    std::vector<TensorRegion> regions;
    for (const auto& [region, held_by] : holders[tensor]) {
      regions.push_back(region);
      const Holder& least = *std::min_element(
          held_by.begin(), held_by.end(),
          [&](const Holder& a, const Holder& b) { return bytes[a.rank] < bytes[b.rank]; });
      bytes[least.rank] += least.piece->bytes();
      saved[least.rank].push_back(*least.piece);
    }
    const Status tiles = CheckTiles(state.tensors[tensor].shape, regions);
    if (!tiles.ok()) {
      return InternalError(absl::StrCat("the ranks' parts of ", Describe(state.tensors[tensor]),
                                        " do not fit together: ", std::string(tiles.message())));
    }
  }
  return saved;
}

Status CheckTiles(const std::vector<int64_t>& shape, const std::vector<TensorRegion>& regions) {
  const TensorRegion whole = WholeTensor(shape);
  std::vector<std::pair<int64_t, int64_t>> runs;  // begin and end in the whole tensor
  for (const TensorRegion& region : regions) {
    for (const CommonRun& run : CommonRuns(region, whole, shape)) {
      runs.emplace_back(run.right, run.right + run.count);
    }
  }
  std::sort(runs.begin(), runs.end());
  int64_t done = 0;
  for (const auto& [begin, end] : runs) {
    if (begin < done) return InputError(absl::StrCat("element ", begin, " is there twice"));
    if (begin > done) break;
    done = end;
  }
  if (done == whole.end) return absl::OkStatus();
  return InputError(absl::StrCat("element ", done, " of ", whole.end, " is missing"));
}

}  // namespace tideline

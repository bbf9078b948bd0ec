#include "exec/weights/parameter_parts.h"

#include <algorithm>
#include <span>
#include <utility>

#include "models/ir/graph.h"

namespace tideline {
namespace {

// Elements of a buffer that the prologue casts into another one.
struct Move {
  uint32_t from = 0, to = 0;
  int64_t from_begin = 0, to_begin = 0, count = 0;
  DType dtype = DType::kF32;
};

class Finder {
 public:
  Finder(const Program& program, int32_t rank)
      : program_(program),
        role_(program.roles[program.ranks[static_cast<size_t>(rank)].role]),
        coordinates_(program.ranks[static_cast<size_t>(rank)].coordinates) {}

  std::vector<StoredPart> Find() {
    std::vector<StoredPart> made;
    std::vector<Move> moves;
    for (const Instruction& instruction : role_.prologue.instructions) {
      if (instruction.kind != InstructionKind::kCompute) continue;
      const Kernel& kernel = program_.kernels[instruction.what];
      const std::span<const Operand> operands = role_.prologue.Operands(instruction);
      if (kernel.op == Op::kInitNormal || kernel.op == Op::kFill) {
        AddMade(kernel, operands[0], made);
      } else if (kernel.op == Op::kCast) {
        moves.push_back({.from = operands[0].buffer,
                         .to = operands[1].buffer,
                         .from_begin = FirstElement(kernel, operands, 0),
                         .to_begin = FirstElement(kernel, operands, 1),
                         .count = Elements(kernel.operands[1].shape),
                         .dtype = kernel.operands[1].dtype});
      }
    }
    std::vector<StoredPart> stored;
    for (const StoredPart& part : made) {
      if (role_.buffers[part.buffer].persistent) {
        stored.push_back(part);
      } else {
        AddMoved(part, moves, stored);
      }
    }
    return stored;
  }

 private:
  int64_t FirstElement(const Kernel& kernel, std::span<const Operand> operands,
                       size_t operand) const {
    return OperandOffset(program_, operands[operand], coordinates_) /
           SizeOf(kernel.operands[operand].dtype);
  }

  void AddMade(const Kernel& kernel, const Operand& operand, std::vector<StoredPart>& made) const {
    const DType dtype = kernel.operands[0].dtype;
    const int64_t base = OperandOffset(program_, operand, coordinates_) / SizeOf(dtype);
    for (BoxPart& part :
         BoxParts(kernel.attributes, coordinates_, Elements(kernel.operands[0].shape))) {
      part.to += base;
      made.push_back({operand.buffer, dtype, std::move(part)});
    }
  }

  // What of `part` the moves put into persistent buffers. Where they put it into several, only the
  // widest type counts: beside a master that is cut over the ranks, a narrow copy may be whole.
  void AddMoved(const StoredPart& part, const std::vector<Move>& moves,
                std::vector<StoredPart>& stored) const {
    int64_t widest = 0;
    const auto counts = [&](const Move& move) {
      return move.from == part.buffer && role_.buffers[move.to].persistent;
    };
    for (const Move& move : moves) {
      if (counts(move)) widest = std::max(widest, SizeOf(move.dtype));
    }
    const int64_t part_end = part.part.to + part.part.end - part.part.begin;
    for (const Move& move : moves) {
      if (!counts(move) || SizeOf(move.dtype) < widest) continue;
      const int64_t begin = std::max(part.part.to, move.from_begin);
      const int64_t end = std::min(part_end, move.from_begin + move.count);
      if (begin >= end) continue;
      StoredPart moved = part;
      moved.buffer = move.to;
      moved.dtype = move.dtype;
      moved.part.begin = part.part.begin + begin - part.part.to;
      moved.part.end = moved.part.begin + end - begin;
      moved.part.to = move.to_begin + begin - move.from_begin;
      stored.push_back(std::move(moved));
    }
  }

  const Program& program_;
  const Role& role_;
  const Coordinates coordinates_;
};

}  // namespace

std::vector<StoredPart> ParameterParts(const Program& program, int32_t rank) {
  return Finder(program, rank).Find();
}

}  // namespace tideline

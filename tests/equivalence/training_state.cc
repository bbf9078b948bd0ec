#include "tests/equivalence/training_state.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "exec/comm/element.h"
#include "planner/lowering/lower.h"
#include "planner/lowering/parameter_layout.h"

namespace tideline::equivalence {
namespace {

// A whole tensor while it is being filled, padding included.
struct Filling {
  std::vector<int64_t> shape;
  int64_t valid_rows = 0;
  std::vector<std::optional<float>> values;
};

class Assembler {
 public:
  Assembler(const Program& program, const Draft& draft) : program_(program), draft_(draft) {}

  Status AddRank(int32_t rank, const std::map<uint32_t, std::string>& buffers) {
    const Coordinates& coordinates = program_.ranks[rank].coordinates;
    const Role& role = program_.roles[program_.ranks[rank].role];
    const StageParameters parameters =
        LayOutParameters(draft_, coordinates[static_cast<size_t>(Axis::kPipeline)]);
    size_t bucket_updates = 0;
    const Section& body = role.bodies.front();
    for (const Instruction& instruction : body.instructions) {
      if (instruction.kind != InstructionKind::kCompute) continue;
      const Kernel& kernel = program_.kernels[instruction.what];
      if (kernel.op != Op::kAdamW) continue;
      const std::string& name = program_.names[instruction.name];
      const size_t bucket = std::stoul(name.substr(name.rfind(' ') + 1));
      if (bucket >= parameters.buckets.size()) return InternalError("unknown update " + name);
      ++bucket_updates;
      const int64_t begin = kernel.attributes.element_offset.At(coordinates);
      const std::span<const Operand> operands = body.Operands(instruction);
      // Beside a 16-bit parameter stand its master weights.
      std::vector<Tensors*> kept = {&gradients_, &parameters_, &momentum_, &variance_};
      if (operands.size() == 5) kept.insert(kept.begin() + 1, &narrow_);
      for (size_t i = 0; i < kept.size(); ++i) {
        const auto found = buffers.find(operands[i].buffer);
        if (found == buffers.end()) return InternalError("an update reads what is not kept");
        const int64_t offset = OperandOffset(program_, operands[i], coordinates);
        const Shard shard{.begin = begin,
                          .dtype = kernel.operands[i].dtype,
                          .bytes = std::string_view(found->second)
                                       .substr(static_cast<size_t>(offset),
                                               static_cast<size_t>(operands[i].bytes))};
        TL_RETURN_IF_ERROR(AddShard(parameters.buckets[bucket], shard, coordinates, *kept[i]));
      }
    }
    if (bucket_updates != parameters.buckets.size()) {
      return InternalError(absl::StrCat("rank ", rank, " updates ", bucket_updates, " of ",
                                        parameters.buckets.size(), " buckets"));
    }
    return absl::OkStatus();
  }

  StatusOr<TrainingState> Take() {
    TrainingState state;
    TL_ASSIGN_OR_RETURN(state.parameters, Take(parameters_));
    TL_ASSIGN_OR_RETURN(state.narrow_parameters, Take(narrow_));
    TL_ASSIGN_OR_RETURN(state.gradients, Take(gradients_));
    TL_ASSIGN_OR_RETURN(state.momentum, Take(momentum_));
    TL_ASSIGN_OR_RETURN(state.variance, Take(variance_));
    return state;
  }

 private:
  using Tensors = std::map<std::string, Filling>;

  Filling& Start(const Tensor& tensor, Tensors& tensors) const {
    Filling& filling = tensors[tensor.name];
    if (!filling.values.empty()) return filling;
    filling.shape = tensor.shape;
    for (size_t d = 0; d < tensor.cut_by.size(); ++d) {
      if (tensor.cut_by[d] != kNone) filling.shape[d] *= program_.mesh[tensor.cut_by[d]];
    }
    filling.valid_rows = tensor.valid_rows;
    filling.values.resize(static_cast<size_t>(Elements(filling.shape)));
    return filling;
  }

  // Index in the whole tensor of element `local` of this rank's part.
  static int64_t WholeIndex(const Tensor& tensor, const Filling& whole, int64_t local,
                            const Coordinates& coordinates) {
    int64_t index = 0;
    int64_t stride = 1;
    for (size_t d = tensor.shape.size(); d-- > 0;) {
      int64_t at = local % tensor.shape[d];
      local /= tensor.shape[d];
      if (d < tensor.cut_by.size() && tensor.cut_by[d] != kNone) {
        at += coordinates[tensor.cut_by[d]] * tensor.shape[d];
      }
      index += at * stride;
      stride *= whole.shape[d];
    }
    return index;
  }

  // Elements of a bucket from `begin` on.
  struct Shard {
    int64_t begin = 0;
    DType dtype = DType::kF32;
    std::string_view bytes;
  };

  Status AddShard(const Bucket& bucket, const Shard& shard, const Coordinates& coordinates,
                  Tensors& tensors) const {
    const int64_t begin = shard.begin;
    const int64_t end = begin + static_cast<int64_t>(shard.bytes.size()) / SizeOf(shard.dtype);
    for (const ParameterSlot& slot : bucket.slots) {
      const Tensor& tensor = draft_.graph.tensors[slot.parameter];
      Filling& whole = Start(tensor, tensors);
      for (int64_t i = std::max(begin, slot.offset); i < std::min(end, slot.offset + slot.elements);
           ++i) {
        const float value = LoadElement(shard.bytes.data(), i - begin, shard.dtype);
        const int64_t index = WholeIndex(tensor, whole, i - slot.offset, coordinates);
        std::optional<float>& place = whole.values[static_cast<size_t>(index)];
        if (place.has_value() &&
            std::bit_cast<uint32_t>(*place) != std::bit_cast<uint32_t>(value)) {
          return InternalError(absl::StrCat("ranks disagree about ", tensor.name, " element ",
                                            index, ": ", *place, " and ", value));
        }
        place = value;
      }
    }
    return absl::OkStatus();
  }

  static StatusOr<std::map<std::string, WholeTensor>> Take(const Tensors& tensors) {
    std::map<std::string, WholeTensor> result;
    for (const auto& [name, filling] : tensors) {
      WholeTensor& whole = result[name];
      whole.shape = filling.shape;
      size_t keep = filling.values.size();
      if (filling.valid_rows > 0) {
        keep = keep / static_cast<size_t>(whole.shape[0]) * static_cast<size_t>(filling.valid_rows);
        whole.shape[0] = filling.valid_rows;
      }
      for (size_t i = 0; i < filling.values.size(); ++i) {
        if (!filling.values[i].has_value()) {
          return InternalError(absl::StrCat("no rank holds ", name, " element ", i));
        }
        if (i < keep) {
          whole.values.push_back(*filling.values[i]);
        } else if (*filling.values[i] != 0.0f) {
          return InternalError(
              absl::StrCat(name, ": padding element ", i, " is ", *filling.values[i], ", not 0"));
        }
      }
    }
    return result;
  }

  const Program& program_;
  const Draft& draft_;
  Tensors parameters_;
  Tensors gradients_;
  Tensors narrow_;
  Tensors momentum_;
  Tensors variance_;
};

}  // namespace

StatusOr<TrainingState> ReadTrainingState(const Plan& plan, const Program& program,
                                          const RankBuffers& ranks) {
  TL_ASSIGN_OR_RETURN(const Draft draft, DraftOf(plan));
  Assembler assembler(program, draft);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    TL_RETURN_IF_ERROR(assembler.AddRank(static_cast<int32_t>(rank), ranks[rank]));
  }
  TL_ASSIGN_OR_RETURN(TrainingState state, assembler.Take());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Role& role = program.roles[program.ranks[rank].role];
    for (const auto& [buffer, bytes] : ranks[rank]) {
      const std::string& name = program.names[role.buffers[buffer].name];
      if (name.find(".running_") == std::string::npos) continue;
      std::vector<float> values(bytes.size() / sizeof(float));
      std::memcpy(values.data(), bytes.data(), bytes.size());
      const auto [entry, fresh] = state.state.emplace(name, values);
      if (!fresh && entry->second != values) {
        return InternalError(absl::StrCat("ranks disagree about ", name));
      }
    }
  }
  return state;
}

}  // namespace tideline::equivalence

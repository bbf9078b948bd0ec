#include <algorithm>
#include <limits>

#include "planner/program/message.h"
#include "planner/program/verify_registers.h"
#include "planner/program/verify_structure.h"

namespace tideline {
namespace {

// The product of non-negative factors, or nullopt above kMaximumBytes.
std::optional<int64_t> Product(std::span<const int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (factor < 0 || __builtin_mul_overflow(product, factor, &product)) return std::nullopt;
    if (product > kMaximumBytes) return std::nullopt;
  }
  return product;
}

Status CheckMesh(const Program& program) {
  int64_t ranks = 1;
  for (const int32_t extent : program.mesh) {
    if (extent < 1 || __builtin_mul_overflow(ranks, int64_t{extent}, &ranks) ||
        ranks > std::numeric_limits<int32_t>::max()) {
      return InternalError(Message("mesh: extent ", extent,
                                   " makes no mesh; extents are at least 1 and their product below "
                                   "2^31"));
    }
  }
  std::array<bool, kAxes> seen{};
  for (const Axis axis : program.mesh_order) {
    const size_t index = static_cast<size_t>(axis);
    if (index >= kAxes || seen[index]) {
      return InternalError("mesh_order: must name every axis once");
    }
    seen[index] = true;
  }
  if (static_cast<int64_t>(program.ranks.size()) != ranks) {
    return InternalError(
        Message("ranks: there are ", program.ranks.size(), " but the mesh has ", ranks));
  }
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const Rank& entry = program.ranks[rank];
    if (entry.role >= program.roles.size()) {
      return InternalError(Message("ranks[", rank, "].role: ", entry.role,
                                   " is no role, there are ", program.roles.size()));
    }
    for (int axis = 0; axis < kAxes; ++axis) {
      if (entry.coordinates[axis] < 0 || entry.coordinates[axis] >= program.mesh[axis]) {
        return InternalError(Message("ranks[", rank, "].coordinates: ", entry.coordinates[axis],
                                     " is outside its mesh axis of ", program.mesh[axis]));
      }
    }
    if (RankAt(program, entry.coordinates) != static_cast<int32_t>(rank)) {
      return InternalError(Message("ranks[", rank, "].coordinates: belong to rank ",
                                   RankAt(program, entry.coordinates), " under mesh_order"));
    }
  }
  return absl::OkStatus();
}

Status CheckGroup(const Program& program, const Group& group) {
  std::array<bool, kAxes> seen{};
  for (const Axis axis : group.axes) {
    const size_t index = static_cast<size_t>(axis);
    if (index >= kAxes || seen[index]) return InternalError("axes: unknown or twice");
    seen[index] = true;
  }
  if (group.subset.empty()) return absl::OkStatus();
  if (group.axes.size() != 1) return InternalError("subset: needs exactly one axis");
  const int32_t extent = program.mesh[static_cast<size_t>(group.axes[0])];
  int32_t previous = -1;
  for (const int32_t coordinate : group.subset) {
    if (coordinate <= previous || coordinate >= extent) {
      return InternalError(
          Message("subset: ", coordinate, " is out of order or outside the axis of ", extent));
    }
    previous = coordinate;
  }
  return absl::OkStatus();
}

Status CheckCollective(const Program& program, const Collective& collective) {
  if (collective.group >= program.groups.size()) return InternalError("group: no such group");
  const int64_t size = GroupSize(program, program.groups[collective.group]);
  const int64_t factors[] = {collective.outer, collective.block, SizeOf(collective.dtype), size};
  if (collective.outer < 1 || collective.block < 0 || !Product(factors).has_value()) {
    return InternalError(Message("outer and block: ", collective.outer, " x ", collective.block,
                                 " is no element count"));
  }
  if (collective.ring_start < 0 || collective.ring_start >= size) {
    return InternalError(
        Message("ring_start: ", collective.ring_start, " is no member of a group of ", size));
  }
  return absl::OkStatus();
}

// |value| anywhere on the mesh is at most kMaximumBytes.
bool IsBounded(const Program& program, const Affine& affine) {
  const auto magnitude = [](int64_t value) {
    return value == std::numeric_limits<int64_t>::min() ? std::numeric_limits<int64_t>::max()
                                                        : std::abs(value);
  };
  int64_t total = magnitude(affine.base);
  for (int axis = 0; axis < kAxes; ++axis) {
    int64_t term = 0;
    if (__builtin_mul_overflow(magnitude(affine.per_coordinate[axis]),
                               int64_t{program.mesh[axis]} - 1, &term) ||
        __builtin_add_overflow(total, term, &total)) {
      return false;
    }
  }
  return total <= kMaximumBytes;
}

Status CheckTables(const Program& program) {
  for (size_t index = 0; index < program.groups.size(); ++index) {
    TL_RETURN_IF_ERROR(
        Annotate(CheckGroup(program, program.groups[index]), Message("groups[", index, "]")));
  }
  for (size_t index = 0; index < program.peers.size(); ++index) {
    if (static_cast<size_t>(program.peers[index].axis) >= kAxes) {
      return InternalError(Message("peers[", index, "].axis: no such axis"));
    }
  }
  for (size_t index = 0; index < program.collectives.size(); ++index) {
    TL_RETURN_IF_ERROR(Annotate(CheckCollective(program, program.collectives[index]),
                                Message("collectives[", index, "]")));
  }
  for (size_t index = 0; index < program.affines.size(); ++index) {
    if (!IsBounded(program, program.affines[index])) {
      return InternalError(Message("affines[", index, "]: exceeds 2^60 somewhere on the mesh"));
    }
  }
  for (size_t index = 0; index < program.kernels.size(); ++index) {
    for (size_t operand = 0; operand < program.kernels[index].operands.size(); ++operand) {
      if (!BytesOf(program.kernels[index].operands[operand]).has_value()) {
        return InternalError(Message("kernels[", index, "].operands[", operand,
                                     "].shape: negative extent or more than 2^60 bytes"));
      }
    }
  }
  for (size_t index = 0; index < program.host_tasks.size(); ++index) {
    const HostTask& task = program.host_tasks[index];
    const int64_t labels[] = {task.samples, task.sequence, 4};
    const int64_t images[] = {task.samples, task.image[0], task.image[1], task.image[2], 4};
    if (!Product(labels).has_value() || !Product(images).has_value() ||
        !IsBounded(program, task.first_sample)) {
      return InternalError(Message("host_tasks[", index,
                                   "]: samples x sequence, the size of an image or first_sample "
                                   "is negative or too large"));
    }
  }
  size_t bodies = program.roles.empty() ? 0 : SIZE_MAX;
  for (const Role& role : program.roles) bodies = std::min(bodies, role.bodies.size());
  for (size_t index = 0; index < program.schedule.size(); ++index) {
    const BodyRun& run = program.schedule[index];
    if (run.body >= bodies || run.times < 0) {
      return InternalError(Message("schedule[", index, "]: body ", run.body, " x ", run.times,
                                   " is not in every role; all have ", bodies, " bodies"));
    }
    if (run.body == program.evaluation) {
      return InternalError(Message("schedule[", index, "]: body ", run.body,
                                   " is the evaluation, which no step is"));
    }
  }
  if (program.evaluation != kNoId && program.evaluation >= bodies) {
    return InternalError(Message("evaluation: body ", program.evaluation,
                                 " is not in every role; all have ", bodies, " bodies"));
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<int64_t> BytesOf(const OperandSpec& spec) {
  const std::optional<int64_t> elements = Product(spec.shape);
  if (!elements.has_value()) return std::nullopt;
  const int64_t factors[] = {*elements, SizeOf(spec.dtype)};
  return Product(factors);
}

// The number of members of a group: the same for every rank.
int64_t GroupSize(const Program& program, const Group& group) {
  if (!group.subset.empty()) return static_cast<int64_t>(group.subset.size());
  int64_t size = 1;
  for (const Axis axis : group.axes) size *= program.mesh[static_cast<size_t>(axis)];
  return size;
}

Status VerifyTables(const Program& program) {
  TL_RETURN_IF_ERROR(CheckMesh(program));
  TL_RETURN_IF_ERROR(VerifyRegisterTables(program));
  return CheckTables(program);
}

}  // namespace tideline

#include "planner/program/program.h"

#include <algorithm>

#include "base/check.h"

namespace tideline {
namespace {

std::string_view AxisName(Axis axis) {
  switch (axis) {
    case Axis::kData:
      return "dp";
    case Axis::kPipeline:
      return "pp";
    case Axis::kTensor:
      return "tp";
  }
  return "?";
}

template <size_t size>
std::string_view Pick(const std::array<std::string_view, size>& names, size_t index) {
  return index < size ? names[index] : "?";
}

std::string GroupName(const Group& group) {
  std::string name;
  for (const Axis axis : group.axes) {
    if (!name.empty()) name += ',';
    name += AxisName(axis);
  }
  for (size_t i = 0; i < group.subset.size(); ++i) {
    name += i == 0 ? '{' : ',';
    name += std::to_string(group.subset[i]);
  }
  if (!group.subset.empty()) name += '}';
  return name;
}

std::string PeerName(const Peer& peer) {
  std::string name(AxisName(peer.axis));
  if (peer.delta >= 0) name += '+';
  return name + std::to_string(peer.delta);
}

}  // namespace

std::string_view Name(Space space) {
  static constexpr std::array<std::string_view, kSpaces> kNames = {"device", "pinned_host"};
  return Pick(kNames, static_cast<size_t>(space));
}

std::string_view Name(Category category) {
  static constexpr std::array<std::string_view, kCategories> kNames = {
      "parameter", "gradient",      "optimizer", "activation", "chunk",
      "workspace", "communication", "key_value", "input",      "runtime"};
  return Pick(kNames, static_cast<size_t>(category));
}

std::string_view Name(InstructionKind kind) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "compute", "collective", "send",         "receive", "copy",
      "alloc",   "free",       "host_compute", "policy",  "loop"};
  return Pick(kNames, static_cast<size_t>(kind));
}

std::string_view Name(CollectiveKind kind) {
  static constexpr std::array<std::string_view, 4> kNames = {"all_reduce", "all_gather",
                                                             "reduce_scatter", "broadcast"};
  return Pick(kNames, static_cast<size_t>(kind));
}

int64_t MeshSize(const Program& program) {
  int64_t size = 1;
  for (const int32_t extent : program.mesh) size *= extent;
  return size;
}

int32_t RankAt(const Program& program, const Coordinates& coordinates) {
  int64_t rank = 0;
  for (const Axis axis : program.mesh_order) {
    const size_t index = static_cast<size_t>(axis);
    rank = rank * program.mesh[index] + coordinates[index];
  }
  return static_cast<int32_t>(rank);
}

std::vector<int32_t> Members(const Program& program, const Group& group, int32_t rank) {
  TL_CHECK(rank >= 0 && static_cast<size_t>(rank) < program.ranks.size(), "rank is in the mesh");
  std::array<bool, kAxes> free{};
  for (const Axis axis : group.axes) free[static_cast<size_t>(axis)] = true;
  // Walking the mesh axes from the slowest to the fastest extends every partial coordinate list in
  // order, so the members come out ascending.
  std::vector<Coordinates> members = {program.ranks[rank].coordinates};
  for (const Axis axis : program.mesh_order) {
    const size_t index = static_cast<size_t>(axis);
    if (!free[index]) continue;
    std::vector<Coordinates> longer;
    for (const Coordinates& partial : members) {
      for (int32_t value = 0; value < program.mesh[index]; ++value) {
        if (!group.subset.empty() &&
            std::find(group.subset.begin(), group.subset.end(), value) == group.subset.end()) {
          continue;
        }
        longer.push_back(partial);
        longer.back()[index] = value;
      }
    }
    members = std::move(longer);
  }
  std::vector<int32_t> ranks;
  ranks.reserve(members.size());
  for (const Coordinates& member : members) ranks.push_back(RankAt(program, member));
  return ranks;
}

int32_t PeerRank(const Program& program, const Peer& peer, int32_t rank) {
  TL_CHECK(rank >= 0 && static_cast<size_t>(rank) < program.ranks.size(), "rank is in the mesh");
  const size_t index = static_cast<size_t>(peer.axis);
  Coordinates coordinates = program.ranks[rank].coordinates;
  const int64_t extent = program.mesh[index];
  const int64_t moved = (int64_t{coordinates[index]} + peer.delta) % extent;
  coordinates[index] = static_cast<int32_t>(moved < 0 ? moved + extent : moved);
  return RankAt(program, coordinates);
}

int64_t OperandOffset(const Program& program, const Operand& operand,
                      const Coordinates& coordinates) {
  if (operand.affine == kNoId) return operand.offset;
  return operand.offset + program.affines[operand.affine].At(coordinates);
}

std::vector<uint32_t> RegistersRead(const HostTask& task) {
  if (task.kind != HostTaskKind::kGateUpdate) return {};
  std::vector<uint32_t> registers;
  for (const uint32_t id : {task.gate.loss_scale, task.gate.clean_steps, task.gate.skipped_steps}) {
    if (id != kNoId) registers.push_back(id);
  }
  return registers;
}

std::vector<uint32_t> RegistersWritten(const HostTask& task) {
  std::vector<uint32_t> registers = RegistersRead(task);
  if (task.kind != HostTaskKind::kGateUpdate) return registers;
  for (const uint32_t id : {task.gate.factor, task.gate.update}) {
    if (id != kNoId) registers.push_back(id);
  }
  return registers;
}

bool LoadsSamples(const HostTask& task) {
  return task.kind == HostTaskKind::kLoadTokens || task.kind == HostTaskKind::kLoadImages;
}

std::array<int64_t, 2> LoadedBytes(const HostTask& task) {
  const int64_t labels = task.samples * task.sequence * 4;
  if (task.kind == HostTaskKind::kLoadTokens) return {labels, labels};
  return {task.samples * task.image[0] * task.image[1] * task.image[2] * 4, labels};
}

std::vector<const Section*> Sections(const Role& role) {
  std::vector<const Section*> sections = {&role.prologue};
  for (const Section& body : role.bodies) sections.push_back(&body);
  sections.push_back(&role.epilogue);
  return sections;
}

std::vector<Section*> Sections(Role& role) {
  std::vector<Section*> sections = {&role.prologue};
  for (Section& body : role.bodies) sections.push_back(&body);
  sections.push_back(&role.epilogue);
  return sections;
}

const Section* SteadyBody(const Program& program, const Role& role) {
  if (program.schedule.empty()) return nullptr;
  const uint32_t body = program.schedule.back().body;
  return body < role.bodies.size() ? &role.bodies[body] : nullptr;
}

std::string SectionName(const Role& role, size_t section) {
  if (section == 0) return "prologue";
  if (section == role.bodies.size() + 1) return "epilogue";
  return "body " + std::to_string(section - 1);
}

std::string LaneName(const Program& program, const Lane& lane) {
  switch (lane.kind) {
    case LaneKind::kHost:
      return "host";
    case LaneKind::kCompute:
      return "compute";
    case LaneKind::kHostToDevice:
      return "h2d";
    case LaneKind::kDeviceToHost:
      return "d2h";
    case LaneKind::kGroup:
      return lane.index < program.groups.size() ? "group " + GroupName(program.groups[lane.index])
                                                : "group ?";
    case LaneKind::kSendTo:
    case LaneKind::kReceiveFrom: {
      const std::string verb = lane.kind == LaneKind::kSendTo ? "send " : "receive ";
      return verb + (lane.index < program.peers.size() ? PeerName(program.peers[lane.index]) : "?");
    }
  }
  return "?";
}

std::string_view NameText(const Program& program, uint32_t name) {
  return name < program.names.size() ? std::string_view(program.names[name]) : "";
}

}  // namespace tideline

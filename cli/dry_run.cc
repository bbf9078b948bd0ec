#include "cli/dry_run.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/simulate.h"
#include "cli/table.h"
#include "traces/tide/tide_panels.h"

namespace tideline {
namespace {

constexpr int kCollectiveKinds = static_cast<int>(CollectiveKind::kBroadcast) + 1;

// Instructions of one kind in a step, and the bytes of their largest operands.
struct Traffic {
  int64_t count = 0;
  int64_t bytes = 0;
};

// What a rank of a role does; a step is one in the steady state.
struct RoleWork {
  int64_t prologue = 0;
  int64_t step = 0;
  int64_t epilogue = 0;
  std::array<Traffic, kCollectiveKinds> collectives{};
  Traffic sent;
  Traffic copied;  // to and from the host
};

void AddTo(const Section& section, const Instruction& instruction, Traffic* traffic) {
  int64_t bytes = 0;
  for (const Operand& operand : section.Operands(instruction)) {
    bytes = std::max(bytes, operand.bytes);
  }
  ++traffic->count;
  traffic->bytes += bytes;
}

RoleWork WorkOf(const Program& program, const Role& role) {
  RoleWork work;
  work.prologue = static_cast<int64_t>(role.prologue.instructions.size());
  work.epilogue = static_cast<int64_t>(role.epilogue.instructions.size());
  const Section* steady = SteadyBody(program, role);
  if (steady == nullptr) return work;
  const Section& body = *steady;
  work.step = static_cast<int64_t>(body.instructions.size());
  for (const Instruction& instruction : body.instructions) {
    if (instruction.kind == InstructionKind::kCollective) {
      const CollectiveKind kind = program.collectives[instruction.what].kind;
      AddTo(body, instruction, &work.collectives[static_cast<size_t>(kind)]);
    } else if (instruction.kind == InstructionKind::kSend) {
      AddTo(body, instruction, &work.sent);
    } else if (instruction.kind == InstructionKind::kCopy) {
      AddTo(body, instruction, &work.copied);
    }
  }
  return work;
}

std::vector<RoleWork> WorkOfRoles(const Program& program) {
  std::vector<RoleWork> work;
  for (const Role& role : program.roles) work.push_back(WorkOf(program, role));
  return work;
}

int64_t PinnedBytes(const Role& role) { return role.extent[static_cast<int>(Space::kPinnedHost)]; }

std::string RanksOf(const Program& program, uint32_t role) {
  std::vector<int32_t> ranks;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    if (program.ranks[rank].role == role) ranks.push_back(static_cast<int32_t>(rank));
  }
  return FormatRanks(ranks);
}

std::string Bytes(int64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

// A row for each role: its ranks do the same, and the slowest of them stands for its step.
std::string RoleTable(const Program& program, const StepReport& report,
                      const SimulationResult& simulated, const std::vector<RoleWork>& work) {
  std::vector<std::vector<std::string>> rows;
  for (uint32_t role = 0; role < program.roles.size(); ++role) {
    const RankFigures* figures = nullptr;
    double step_s = 0;
    for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
      if (program.ranks[rank].role != role) continue;
      figures = &report.ranks[rank];
      step_s = std::max(step_s, simulated.ranks[rank].step_s);
    }
    if (figures == nullptr) continue;
    rows.push_back({RanksOf(program, role), absl::StrCat(work[role].step),
                    Bytes(figures->peak_memory_bytes), Bytes(figures->live_bound_bytes),
                    Bytes(figures->serial_peak_bytes), Bytes(PinnedBytes(program.roles[role])),
                    HumanSeconds(step_s)});
  }
  return FormatTable(
      {"ranks", "instructions", "extent", "live bound", "serial peak", "pinned host", "step"},
      rows);
}

std::string TrafficTable(const Program& program, const std::vector<RoleWork>& work) {
  std::vector<std::vector<std::string>> rows;
  for (uint32_t role = 0; role < program.roles.size(); ++role) {
    const auto add = [&](std::string_view name, const Traffic& traffic) {
      if (traffic.count == 0) return;
      rows.push_back({RanksOf(program, role), std::string(name), absl::StrCat(traffic.count),
                      Bytes(traffic.bytes)});
    };
    for (int kind = 0; kind < kCollectiveKinds; ++kind) {
      add(Name(static_cast<CollectiveKind>(kind)), work[role].collectives[kind]);
    }
    add("send", work[role].sent);
    add("copy from or to the host", work[role].copied);
  }
  if (rows.empty()) return "";
  return absl::StrCat("\n", FormatTable({"ranks", "moves bytes", "a step", "bytes"}, rows));
}

std::string StepsText(const RunReport& checked, int64_t steps) {
  const int64_t first = std::max<int64_t>(0, checked.resumed_from_step);
  if (first >= steps) return absl::StrCat("nothing is left to run of ", steps, " steps\n");
  return absl::StrCat("steps ", first, " to ", steps - 1, " would run",
                      checked.resumed_from_step >= 0 ? ", after a resume" : "", "\n");
}

void WriteTraffic(const char* name, const Traffic& traffic, JsonWriter* json) {
  json->Key(name).BeginObject().Field("count", traffic.count);
  json->Field("bytes", traffic.bytes).EndObject();
}

void WriteWork(const Program& program, const SimulationResult& simulated,
               const std::vector<RoleWork>& work, JsonWriter* json) {
  json->Key("work").BeginArray();
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const uint32_t role = program.ranks[rank].role;
    json->BeginObject().Field("rank", static_cast<int64_t>(rank));
    json->Field("role", program.roles[role].name);
    json->Field("prologue_instructions", work[role].prologue);
    json->Field("step_instructions", work[role].step);
    json->Field("epilogue_instructions", work[role].epilogue);
    json->Field("pinned_host_bytes", PinnedBytes(program.roles[role]));
    json->Field("step_time_s", simulated.ranks[rank].step_s);
    json->Key("collectives").BeginObject();
    for (int kind = 0; kind < kCollectiveKinds; ++kind) {
      const std::string name(Name(static_cast<CollectiveKind>(kind)));
      WriteTraffic(name.c_str(), work[role].collectives[kind], json);
    }
    json->EndObject();
    WriteTraffic("sends", work[role].sent, json);
    WriteTraffic("copies", work[role].copied, json);
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace

StatusOr<std::string> DryRunResult(const Plan& plan, const std::string& device,
                                   const Program& program, const RunReport& checked, int64_t steps,
                                   bool json) {
  SimulationResult simulated;
  TL_ASSIGN_OR_RETURN(const StepReport report,
                      SimulatedReport(plan, program, {}, nullptr, &simulated));
  const std::vector<RoleWork> work = WorkOfRoles(program);
  if (!json) {
    return absl::StrCat(TraitsOf(plan.model).name, " on ", plan.cluster.name, " (",
                        Counted(plan.cluster.gpus(), device + " GPU"),
                        "): a dry run, nothing is run or written\n", StepsText(checked, steps),
                        SimulatedSpeedNote(plan.cluster), "\n",
                        RoleTable(program, report, simulated, work), TrafficTable(program, work),
                        "\npredicted step time ", HumanSeconds(simulated.step_time_s), "; ",
                        Bytes(report.capacity_bytes), " of memory on each GPU\n");
  }
  JsonWriter writer;
  writer.BeginObject().Field("schema_version", 1).Field("dry_run", true);
  writer.Field("model", TraitsOf(plan.model).name).Field("cluster", plan.cluster.name);
  writer.Field("device", device).Field("gpus", plan.cluster.gpus());
  writer.Field("calibrated", plan.cluster.device.calibrated).Field("steps", steps);
  if (checked.resumed_from_step >= 0) {
    writer.Field("resumed_from_step", checked.resumed_from_step);
  } else {
    writer.NullField("resumed_from_step");
  }
  WriteStepReport(report, &writer);
  WriteWork(program, simulated, work, &writer);
  writer.EndObject();
  return writer.Take();
}

}  // namespace tideline

#include "tests/planner/program/brute_force.h"

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include "tests/planner/program/brute_force_play.h"
#include "tests/planner/program/lane_positions.h"

namespace tideline {
namespace {

struct Memory {
  std::vector<bool> born, alive;
  std::vector<std::vector<bool>> written;
};

// One rank running one section.
class RankRun {
 public:
  RankRun(const Program& program, const Role& role, const Section& section,
          const Coordinates& coordinates)
      : program_(program),
        role_(role),
        section_(section),
        coordinates_(coordinates),
        lanes_(section, role.lanes.size()) {}

  // Explores everything from `start`; the memory at the end (any way leads to the same one).
  std::string Run(const Memory& start, Memory* end) {
    end_ = end;
    Explore(Positions(role_.lanes.size(), 0), start);
    return wrong_;
  }

 private:
  struct Touch {
    uint32_t buffer;
    int64_t begin, end;
    bool write;
  };

  std::vector<Touch> TouchesOf(uint32_t index) const {
    std::vector<Touch> touches;
    for (const Operand& operand : section_.Operands(section_.instructions[index])) {
      int64_t begin = operand.offset;
      if (operand.affine != kNoId) {
        const Affine& affine = program_.affines[operand.affine];
        begin += affine.base;
        for (int axis = 0; axis < kAxes; ++axis) {
          begin += affine.per_coordinate[axis] * coordinates_[axis];
        }
      }
      if (operand.access != Access::kWrite) {
        touches.push_back({operand.buffer, begin, begin + operand.bytes, false});
      }
      if (operand.access != Access::kRead) {
        touches.push_back({operand.buffer, begin, begin + operand.bytes, true});
      }
    }
    return touches;
  }

  bool Collide(uint32_t first, uint32_t second) const {
    for (const Touch& a : TouchesOf(first)) {
      for (const Touch& b : TouchesOf(second)) {
        const bool share_a_byte = std::max(a.begin, b.begin) < std::min(a.end, b.end);
        if (a.buffer == b.buffer && (a.write || b.write) && share_a_byte) return true;
      }
    }
    return false;
  }

  std::string Execute(uint32_t index, Memory& memory) const {
    const Instruction& instruction = section_.instructions[index];
    const std::string who = "#" + std::to_string(index);
    if (instruction.kind == InstructionKind::kAlloc) {
      return Bear(instruction.what, memory, who);
    }
    if (instruction.kind == InstructionKind::kFree) {
      if (!memory.alive[instruction.what]) return who + " frees a dead buffer";
      memory.alive[instruction.what] = false;
      return "";
    }
    const std::vector<Touch> touches = TouchesOf(index);
    for (const Touch& touch : touches) {
      if (!memory.alive[touch.buffer]) return who + " touches a dead buffer";
      for (int64_t byte = touch.begin; byte < touch.end && !touch.write; ++byte) {
        if (!memory.written[touch.buffer][byte]) return who + " reads an unwritten byte";
      }
    }
    for (const Touch& touch : touches) {
      for (int64_t byte = touch.begin; byte < touch.end && touch.write; ++byte) {
        memory.written[touch.buffer][byte] = true;
      }
    }
    return "";
  }

  std::string Bear(uint32_t buffer, Memory& memory, const std::string& who) const {
    if (memory.born[buffer]) return who + " bears a buffer twice";
    const Buffer& mine = role_.buffers[buffer];
    for (uint32_t other = 0; other < role_.buffers.size(); ++other) {
      const Buffer& theirs = role_.buffers[other];
      if (!memory.alive[other] || mine.space != theirs.space) continue;
      if (mine.address == kNoAddress || theirs.address == kNoAddress) continue;
      const int64_t begin = std::max(mine.address, theirs.address);
      if (begin < std::min(mine.address + mine.bytes, theirs.address + theirs.bytes)) {
        return who + " bears a buffer over a living one";
      }
    }
    memory.born[buffer] = memory.alive[buffer] = true;
    memory.written[buffer].assign(mine.bytes, false);
    return "";
  }

  void Explore(const Positions& positions, const Memory& memory) {
    if (!wrong_.empty() || !seen_.insert(positions).second) return;
    const std::vector<uint32_t> enabled = lanes_.Enabled(section_, positions);
    if (enabled.empty()) {
      for (size_t buffer = 0; buffer < role_.buffers.size(); ++buffer) {
        if (!role_.buffers[buffer].persistent && memory.alive[buffer]) {
          wrong_ = "buffer " + std::to_string(buffer) + " is never freed";
        }
      }
      *end_ = memory;
      return;
    }
    for (const uint32_t first : enabled) {
      for (const uint32_t second : enabled) {
        if (first < second && Collide(first, second)) {
          wrong_ = "#" + std::to_string(first) + " and #" + std::to_string(second) + " race";
          return;
        }
      }
    }
    for (const uint32_t index : enabled) {
      Memory next = memory;
      const std::string wrong = Execute(index, next);
      if (wrong_.empty()) wrong_ = wrong;
      if (!wrong_.empty()) return;
      Positions later = positions;
      ++later[section_.instructions[index].lane];
      Explore(later, next);
    }
  }

  const Program& program_;
  const Role& role_;
  const Section& section_;
  const Coordinates coordinates_;
  const Lanes lanes_;
  std::set<Positions> seen_;
  std::string wrong_;
  Memory* end_ = nullptr;
};

// Persistent buffers live from the start; bytes as in `written` (unwritten when nullptr).
Memory StartOf(const Role& role, const Memory* written) {
  Memory memory;
  for (size_t index = 0; index < role.buffers.size(); ++index) {
    const Buffer& buffer = role.buffers[index];
    memory.born.push_back(buffer.persistent);
    memory.alive.push_back(buffer.persistent);
    memory.written.emplace_back(buffer.bytes, false);
    if (written != nullptr && buffer.persistent) memory.written.back() = written->written[index];
  }
  return memory;
}

std::string RunRank(const Program& program, const Rank& rank) {
  const Role& role = program.roles[rank.role];
  for (size_t a = 0; a < role.buffers.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const Buffer &first = role.buffers[a], &second = role.buffers[b];
      if (!first.persistent || !second.persistent || first.space != second.space) continue;
      if (first.address == kNoAddress || second.address == kNoAddress) continue;
      if (std::max(first.address, second.address) <
          std::min(first.address + first.bytes, second.address + second.bytes)) {
        return "persistent buffers overlap";
      }
    }
  }
  Memory after_prologue;
  std::string wrong = RankRun(program, role, role.prologue, rank.coordinates)
                          .Run(StartOf(role, nullptr), &after_prologue);
  if (!wrong.empty()) return "prologue: " + wrong;
  const auto run = [&](const Section& section, const std::string& name) {
    Memory end;
    const std::string problem =
        RankRun(program, role, section, rank.coordinates).Run(StartOf(role, &after_prologue), &end);
    return problem.empty() ? "" : name + problem;
  };
  for (const Section& body : role.bodies) {
    if (wrong = run(body, "body: "); !wrong.empty()) return wrong;
  }
  return run(role.epilogue, "epilogue: ");
}

// One section of every rank; nullptr where a role has no such body.
SectionOfRanks SectionAt(const Program& program, size_t index, size_t bodies) {
  SectionOfRanks sections;
  for (const Rank& rank : program.ranks) {
    const Role& role = program.roles[rank.role];
    if (index == 0) sections.push_back(&role.prologue);
    if (index == bodies + 1) sections.push_back(&role.epilogue);
    if (index > 0 && index <= bodies) {
      sections.push_back(index <= role.bodies.size() ? &role.bodies[index - 1] : nullptr);
    }
  }
  return sections;
}

size_t BodyCount(const Program& program) {
  size_t bodies = 0;
  for (const Role& role : program.roles) bodies = std::max(bodies, role.bodies.size());
  return bodies;
}

}  // namespace

std::string BruteForce(const Program& program, const std::array<int64_t, kSpaces>& capacity) {
  for (const Rank& rank : program.ranks) {
    const std::string wrong = RunRank(program, rank);
    if (!wrong.empty()) return wrong;
  }
  const size_t bodies = BodyCount(program);
  for (size_t index = 0; index < bodies + 2; ++index) {
    const std::string wrong = PlayLists(program, SectionAt(program, index, bodies));
    if (!wrong.empty()) return wrong;
  }
  for (const Role& role : program.roles) {
    for (int space = 0; space < kSpaces; ++space) {
      if (role.extent[space] > capacity[space]) return "the arena is larger than the memory";
    }
  }
  return "";
}

std::string BruteForceConcurrently(const Program& program) {
  const size_t bodies = BodyCount(program);
  for (size_t index = 0; index < bodies + 2; ++index) {
    const std::string wrong = PlayLanes(program, SectionAt(program, index, bodies));
    if (!wrong.empty()) return wrong;
  }
  return "";
}

int64_t EnumerateLiveBound(const Role& role, Space space) {
  int64_t best = 0, persistent = 0;
  for (const Buffer& buffer : role.buffers) {
    const bool counts = buffer.space == space && buffer.category != Category::kRuntime;
    if (counts && buffer.persistent) persistent += buffer.bytes;
  }
  for (const Section* section : Sections(role)) {
    const Lanes lanes(*section, role.lanes.size());
    std::set<Positions> seen;
    std::function<void(const Positions&, int64_t)> explore = [&](const Positions& at,
                                                                 int64_t live) {
      if (!seen.insert(at).second) return;
      best = std::max(best, live);
      for (const uint32_t index : lanes.Enabled(*section, at)) {
        const Instruction& next = section->instructions[index];
        int64_t change = 0;
        const bool mark =
            next.kind == InstructionKind::kAlloc || next.kind == InstructionKind::kFree;
        if (mark) {
          const Buffer& buffer = role.buffers[next.what];
          const bool counts = buffer.space == space && buffer.category != Category::kRuntime;
          if (counts) change = next.kind == InstructionKind::kAlloc ? buffer.bytes : -buffer.bytes;
        }
        Positions later = at;
        ++later[next.lane];
        explore(later, live + change);
      }
    };
    explore(Positions(role.lanes.size(), 0), 0);
  }
  return persistent + best;
}

}  // namespace tideline

#include "tests/planner/program/brute_force.h"

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

namespace tideline {
namespace {

using Positions = std::vector<uint8_t>;

// A section as lists per lane.
struct Lanes {
  explicit Lanes(const Section& section, size_t lanes) : lists(lanes) {
    for (uint32_t index = 0; index < section.instructions.size(); ++index) {
      std::vector<uint32_t>& list = lists[section.instructions[index].lane];
      place.push_back(static_cast<uint8_t>(list.size()));
      list.push_back(index);
    }
  }

  // Instructions that can run next: the head of each lane whose waits are all done.
  std::vector<uint32_t> Enabled(const Section& section, const Positions& positions) const {
    std::vector<uint32_t> enabled;
    for (size_t lane = 0; lane < lists.size(); ++lane) {
      if (positions[lane] == lists[lane].size()) continue;
      const uint32_t index = lists[lane][positions[lane]];
      bool ready = true;
      for (const uint32_t wait : section.Waits(section.instructions[index])) {
        ready &= place[wait] < positions[section.instructions[wait].lane];
      }
      if (ready) enabled.push_back(index);
    }
    return enabled;
  }

  std::vector<std::vector<uint32_t>> lists;
  std::vector<uint8_t> place;  // of each instruction on its lane
};

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

// ---- Communication ----

bool Communicates(const Instruction& instruction) {
  return instruction.kind == InstructionKind::kSend ||
         instruction.kind == InstructionKind::kReceive ||
         instruction.kind == InstructionKind::kCollective;
}

// What one rank has ready to communicate.
struct Offer {
  int32_t rank = 0;
  const Section* section = nullptr;
  const Instruction* instruction = nullptr;
};

int32_t Neighbour(const Program& program, int32_t rank, const Peer& peer) {
  Coordinates there = program.ranks[rank].coordinates;
  const size_t axis = static_cast<size_t>(peer.axis);
  const int32_t size = program.mesh[axis];
  there[axis] = (((there[axis] + peer.delta) % size) + size) % size;
  for (size_t other = 0; other < program.ranks.size(); ++other) {
    if (program.ranks[other].coordinates == there) return static_cast<int32_t>(other);
  }
  return -1;
}

// All ranks that differ from `rank` at most on the group's axes (and lie in its subset).
std::vector<int32_t> Companions(const Program& program, int32_t rank, const Group& group) {
  std::vector<int32_t> companions;
  for (size_t other = 0; other < program.ranks.size(); ++other) {
    bool member = true;
    for (int axis = 0; axis < kAxes; ++axis) {
      const bool on_axis = std::count(group.axes.begin(), group.axes.end(), Axis(axis)) > 0;
      const int32_t there = program.ranks[other].coordinates[axis];
      if (!on_axis) member &= there == program.ranks[rank].coordinates[axis];
      if (on_axis && !group.subset.empty()) {
        member &= std::count(group.subset.begin(), group.subset.end(), there) > 0;
      }
    }
    if (member) companions.push_back(static_cast<int32_t>(other));
  }
  return companions;
}

// The offers that go together with `mine` (itself included), or none yet. Sets `wrong` when those
// that meet disagree.
std::vector<Offer> Meet(const Program& program, const Offer& mine, const std::vector<Offer>& offers,
                        std::string& wrong) {
  const auto bytes_of = [](const Offer& offer) {
    return offer.section->Operands(*offer.instruction)[0].bytes;
  };
  if (mine.instruction->kind == InstructionKind::kCollective) {
    const Collective& collective = program.collectives[mine.instruction->what];
    const Group& group = program.groups[collective.group];
    std::vector<Offer> meeting;
    for (const int32_t companion : Companions(program, mine.rank, group)) {
      for (const Offer& offer : offers) {
        if (offer.rank != companion) continue;
        if (offer.instruction->kind != InstructionKind::kCollective) continue;
        const Collective& theirs = program.collectives[offer.instruction->what];
        if (!(program.groups[theirs.group] == group)) continue;
        Collective same = theirs;
        same.group = collective.group;
        if (!(same == collective)) wrong = "collectives disagree";
        meeting.push_back(offer);
      }
    }
    const size_t size = Companions(program, mine.rank, group).size();
    return meeting.size() == size ? meeting : std::vector<Offer>();
  }
  if (mine.instruction->kind != InstructionKind::kSend) return {};
  const Peer& to = program.peers[mine.instruction->what];
  for (const Offer& offer : offers) {
    if (offer.instruction->kind != InstructionKind::kReceive) continue;
    const Peer& from = program.peers[offer.instruction->what];
    if (Neighbour(program, mine.rank, to) != offer.rank) continue;
    if (Neighbour(program, offer.rank, from) != mine.rank) continue;
    if (from.axis != to.axis) continue;
    // Exact opposites are partners; others only when neither has its exact opposite.
    const auto has = [&](int32_t rank, LaneKind kind, int32_t delta) {
      for (const Lane& lane : program.roles[program.ranks[rank].role].lanes) {
        if (lane.kind == kind && program.peers[lane.index] == Peer{to.axis, delta}) return true;
      }
      return false;
    };
    if (from.delta != -to.delta && (has(offer.rank, LaneKind::kReceiveFrom, -to.delta) ||
                                    has(mine.rank, LaneKind::kSendTo, -from.delta))) {
      continue;
    }
    if (bytes_of(mine) != bytes_of(offer)) wrong = "message sizes disagree";
    return {mine, offer};
  }
  return {};
}

// One section of every rank; nullptr where a role has no such body.
std::vector<const Section*> SectionOfRanks(const Program& program, size_t index, size_t bodies) {
  std::vector<const Section*> sections;
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

// Each rank strictly in list order, ranks in every order.
std::string PlayLists(const Program& program, const std::vector<const Section*>& sections) {
  std::set<std::vector<uint32_t>> seen;
  std::string wrong;
  std::function<void(const std::vector<uint32_t>&)> explore = [&](const std::vector<uint32_t>& at) {
    if (!wrong.empty() || !seen.insert(at).second) return;
    std::vector<Offer> offers;
    bool done = true, moved = false;
    for (size_t rank = 0; rank < at.size(); ++rank) {
      if (sections[rank] == nullptr || at[rank] == sections[rank]->instructions.size()) continue;
      done = false;
      const Instruction& next = sections[rank]->instructions[at[rank]];
      if (Communicates(next)) {
        offers.push_back({static_cast<int32_t>(rank), sections[rank], &next});
        continue;
      }
      std::vector<uint32_t> later = at;
      ++later[rank];
      moved = true;
      explore(later);
    }
    for (const Offer& offer : offers) {
      const std::vector<Offer> meeting = Meet(program, offer, offers, wrong);
      if (!wrong.empty()) return;
      if (meeting.empty()) continue;
      std::vector<uint32_t> later = at;
      for (const Offer& met : meeting) ++later[met.rank];
      moved = true;
      explore(later);
    }
    if (!done && !moved) wrong = "playing in list order gets stuck";
  };
  explore(std::vector<uint32_t>(sections.size(), 0));
  return wrong;
}

// All lanes of all ranks at once.
std::string PlayLanes(const Program& program, const std::vector<const Section*>& sections) {
  std::vector<Lanes> lanes;
  for (size_t rank = 0; rank < sections.size(); ++rank) {
    const Section empty;
    lanes.emplace_back(sections[rank] == nullptr ? empty : *sections[rank],
                       program.roles[program.ranks[rank].role].lanes.size());
  }
  std::set<std::vector<Positions>> seen;
  std::string wrong;
  std::function<void(const std::vector<Positions>&)> explore =
      [&](const std::vector<Positions>& at) {
        if (!wrong.empty() || !seen.insert(at).second) return;
        std::vector<Offer> offers;
        bool done = true, moved = false;
        for (size_t rank = 0; rank < at.size(); ++rank) {
          if (sections[rank] == nullptr) continue;
          for (size_t lane = 0; lane < at[rank].size(); ++lane) {
            done &= at[rank][lane] == lanes[rank].lists[lane].size();
          }
          for (const uint32_t index : lanes[rank].Enabled(*sections[rank], at[rank])) {
            const Instruction& next = sections[rank]->instructions[index];
            if (Communicates(next)) {
              offers.push_back({static_cast<int32_t>(rank), sections[rank], &next});
              continue;
            }
            std::vector<Positions> later = at;
            ++later[rank][next.lane];
            moved = true;
            explore(later);
          }
        }
        for (const Offer& offer : offers) {
          const std::vector<Offer> meeting = Meet(program, offer, offers, wrong);
          if (!wrong.empty()) return;
          if (meeting.empty()) continue;
          std::vector<Positions> later = at;
          for (const Offer& met : meeting) ++later[met.rank][met.instruction->lane];
          moved = true;
          explore(later);
        }
        if (!done && !moved) wrong = "some interleaving gets stuck";
      };
  std::vector<Positions> start;
  for (size_t rank = 0; rank < sections.size(); ++rank) {
    start.emplace_back(program.roles[program.ranks[rank].role].lanes.size(), 0);
  }
  explore(start);
  return wrong;
}

}  // namespace

std::string BruteForce(const Program& program, const std::array<int64_t, kSpaces>& capacity) {
  for (const Rank& rank : program.ranks) {
    const std::string wrong = RunRank(program, rank);
    if (!wrong.empty()) return wrong;
  }
  const size_t bodies = BodyCount(program);
  for (size_t index = 0; index < bodies + 2; ++index) {
    const std::string wrong = PlayLists(program, SectionOfRanks(program, index, bodies));
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
    const std::string wrong = PlayLanes(program, SectionOfRanks(program, index, bodies));
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

#include "tests/planner/program/brute_force_play.h"

#include <algorithm>
#include <functional>
#include <set>

#include "tests/planner/program/lane_positions.h"

namespace tideline {
namespace {

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

}  // namespace

std::string PlayLists(const Program& program, const SectionOfRanks& sections) {
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

std::string PlayLanes(const Program& program, const SectionOfRanks& sections) {
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

}  // namespace tideline

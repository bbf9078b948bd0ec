#include "planner/program/verify_communication.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "planner/program/message.h"
#include "planner/program/verify_structure.h"

namespace tideline {
namespace {

// An actor is who plays a list: a rank, or a role on behalf of its ranks.
using Actor = uint32_t;

// Who is at the other end, for the peers and groups that the roles' lanes name.
struct World {
  std::vector<uint32_t> role;                                        // per actor
  std::map<std::pair<Actor, uint32_t>, Actor> peer;                  // (actor, peer id)
  std::map<std::pair<Actor, uint32_t>, std::vector<Actor>> members;  // (actor, group id), ascending
};

// The member ranks of each instance of a group, and the instance of each rank (kNoId: in none).
struct Instances {
  std::vector<std::vector<Actor>> members;
  std::vector<uint32_t> of_rank;
};

Instances FindInstances(const Program& program, const Group& group) {
  Instances instances;
  instances.of_rank.assign(program.ranks.size(), kNoId);
  std::vector<uint32_t> of_first(program.ranks.size(), kNoId);
  for (uint32_t rank = 0; rank < program.ranks.size(); ++rank) {
    Coordinates first = program.ranks[rank].coordinates;
    bool member = true;
    for (const Axis axis : group.axes) {
      const size_t index = static_cast<size_t>(axis);
      member &= group.subset.empty() ||
                std::binary_search(group.subset.begin(), group.subset.end(), first[index]);
      first[index] = 0;
    }
    if (!member) continue;
    uint32_t& instance = of_first[RankAt(program, first)];
    if (instance == kNoId) {
      instance = static_cast<uint32_t>(instances.members.size());
      instances.members.emplace_back();
    }
    instances.members[instance].push_back(rank);
    instances.of_rank[rank] = instance;
  }
  return instances;
}

World WorldOfRanks(const Program& program) {
  World world;
  std::map<uint32_t, Instances> instances;
  for (uint32_t rank = 0; rank < program.ranks.size(); ++rank) {
    const uint32_t role = program.ranks[rank].role;
    world.role.push_back(role);
    for (const Lane& lane : program.roles[role].lanes) {
      if (lane.kind == LaneKind::kSendTo || lane.kind == LaneKind::kReceiveFrom) {
        world.peer[{rank, lane.index}] = static_cast<Actor>(
            PeerRank(program, program.peers[lane.index], static_cast<int32_t>(rank)));
      } else if (lane.kind == LaneKind::kGroup) {
        const auto [entry, is_new] = instances.try_emplace(lane.index);
        if (is_new) entry->second = FindInstances(program, program.groups[lane.index]);
        const uint32_t instance = entry->second.of_rank[rank];
        if (instance == kNoId) continue;
        world.members[{rank, lane.index}] = entry->second.members[instance];
      }
    }
  }
  return world;
}

// The same with roles for actors; nullopt when ranks of one role see different roles.
std::optional<World> WorldOfRoles(const Program& program) {
  World world;
  for (uint32_t role = 0; role < program.roles.size(); ++role) world.role.push_back(role);
  std::map<uint32_t, Instances> instances;
  std::map<uint32_t, std::vector<std::vector<Actor>>> roles_of_instance;
  for (uint32_t rank = 0; rank < program.ranks.size(); ++rank) {
    const uint32_t role = program.ranks[rank].role;
    for (const Lane& lane : program.roles[role].lanes) {
      if (lane.kind == LaneKind::kSendTo || lane.kind == LaneKind::kReceiveFrom) {
        const int32_t there =
            PeerRank(program, program.peers[lane.index], static_cast<int32_t>(rank));
        const uint32_t there_role = program.ranks[there].role;
        const auto [entry, is_new] = world.peer.try_emplace({role, lane.index}, there_role);
        if (!is_new && entry->second != there_role) return std::nullopt;
      } else if (lane.kind == LaneKind::kGroup) {
        const auto [found, is_new_group] = instances.try_emplace(lane.index);
        std::vector<std::vector<Actor>>& roles = roles_of_instance[lane.index];
        if (is_new_group) {
          found->second = FindInstances(program, program.groups[lane.index]);
          for (const std::vector<Actor>& members : found->second.members) {
            std::vector<Actor>& present = roles.emplace_back();
            for (const Actor member : members) present.push_back(program.ranks[member].role);
            std::sort(present.begin(), present.end());
            present.erase(std::unique(present.begin(), present.end()), present.end());
          }
        }
        const uint32_t instance = found->second.of_rank[rank];
        if (instance == kNoId) return std::nullopt;
        const auto [entry, is_new] = world.members.try_emplace({role, lane.index}, roles[instance]);
        if (!is_new && entry->second != roles[instance]) return std::nullopt;
      }
    }
  }
  return world;
}

bool Communicates(const Instruction& instruction) {
  return instruction.kind == InstructionKind::kSend ||
         instruction.kind == InstructionKind::kReceive ||
         instruction.kind == InstructionKind::kCollective;
}

// Plays one section: 0 is the prologue, then the bodies.
class Play {
 public:
  static constexpr size_t kEpilogue = SIZE_MAX;

  Play(const Program& program, const World& world, size_t section, bool roles)
      : program_(program), world_(world), index_(section), actors_are_roles_(roles) {
    for (const Role& role : program.roles) {
      sections_.push_back(SectionOf(role));
      std::vector<uint32_t>& events = events_.emplace_back();
      if (sections_.back() == nullptr) continue;
      for (uint32_t i = 0; i < sections_.back()->instructions.size(); ++i) {
        if (Communicates(sections_.back()->instructions[i])) events.push_back(i);
      }
    }
    position_.assign(world.role.size(), 0);
  }

  Status Run() {
    std::vector<Actor> ready;
    for (Actor actor = 0; actor < world_.role.size(); ++actor) ready.push_back(actor);
    while (!ready.empty()) {
      const Actor actor = ready.back();
      ready.pop_back();
      while (!AtEnd(actor)) {
        moved_.clear();
        TL_RETURN_IF_ERROR(Step(actor));
        if (moved_.empty()) break;
        for (const Actor other : moved_) {
          ++position_[other];
          if (other != actor) ready.push_back(other);
        }
      }
    }
    for (Actor actor = 0; actor < world_.role.size(); ++actor) {
      if (!AtEnd(actor)) return Stuck(actor);
    }
    return absl::OkStatus();
  }

 private:
  // Bodies are numbered alike in all roles; a role with fewer has nothing to play in the others.
  const Section* SectionOf(const Role& role) const {
    if (index_ == 0) return &role.prologue;
    if (index_ == kEpilogue) return &role.epilogue;
    return index_ <= role.bodies.size() ? &role.bodies[index_ - 1] : nullptr;
  }

  bool AtEnd(Actor actor) const { return position_[actor] == events_[world_.role[actor]].size(); }
  uint32_t IndexAt(Actor actor) const { return events_[world_.role[actor]][position_[actor]]; }
  const Section& SectionOfActor(Actor actor) const { return *sections_[world_.role[actor]]; }
  const Instruction& At(Actor actor) const {
    return SectionOfActor(actor).instructions[IndexAt(actor)];
  }

  std::string WhereIs(Actor actor) const {
    const Role& role = program_.roles[world_.role[actor]];
    const std::string who = actors_are_roles_ ? "" : Message("rank ", actor, ", ");
    const size_t section = index_ == kEpilogue ? role.bodies.size() + 1 : index_;
    return who + Where(program_, role, section, IndexAt(actor));
  }
  std::string StateOf(Actor actor) const {
    if (!AtEnd(actor)) return Message("is at ", WhereIs(actor));
    const Role& role = program_.roles[world_.role[actor]];
    return Message(actors_are_roles_ ? std::string() : Message("rank ", actor, ", "), "role `",
                   role.name, "` has nothing left to play");
  }

  // Fills moved_ with the actors that can go on when `actor`'s instruction can be played.
  Status Step(Actor actor) {
    return At(actor).kind == InstructionKind::kCollective ? StepCollective(actor)
                                                          : StepMessage(actor);
  }

  bool HasLane(Actor actor, LaneKind kind, const Peer& peer) const {
    const std::vector<Lane>& lanes = program_.roles[world_.role[actor]].lanes;
    return std::any_of(lanes.begin(), lanes.end(), [&](const Lane& lane) {
      return lane.kind == kind && program_.peers[lane.index] == peer;
    });
  }

  // Opposite peers are one channel; peers that are opposite only around the axis are one when
  // neither has its opposite at the other end.
  bool SameChannel(Actor sender, const Instruction& send, Actor receiver,
                   const Instruction& receive) const {
    const Peer& to = program_.peers[send.what];
    const Peer& from = program_.peers[receive.what];
    if (to.axis != from.axis) return false;
    if (to.delta == -int64_t{from.delta}) return true;
    const int32_t size = program_.mesh[static_cast<size_t>(to.axis)];
    return (int64_t{to.delta} + from.delta) % size == 0 &&
           !HasLane(receiver, LaneKind::kReceiveFrom, {to.axis, Opposite(to)}) &&
           !HasLane(sender, LaneKind::kSendTo, {from.axis, Opposite(from)});
  }
  // INT32_MIN has no opposite and stands for itself: no lane can be the exact counterpart then.
  static int32_t Opposite(const Peer& peer) {
    return peer.delta == INT32_MIN ? INT32_MIN : -peer.delta;
  }

  Status StepMessage(Actor actor) {
    const Actor other = world_.peer.at({actor, At(actor).what});
    if (AtEnd(other)) return absl::OkStatus();
    const Instruction& here = At(actor);
    const Instruction& there = At(other);
    const bool opposite =
        (here.kind == InstructionKind::kSend && there.kind == InstructionKind::kReceive) ||
        (here.kind == InstructionKind::kReceive && there.kind == InstructionKind::kSend);
    if (!opposite || world_.peer.at({other, there.what}) != actor) return absl::OkStatus();
    const bool sends = here.kind == InstructionKind::kSend;
    if (!SameChannel(sends ? actor : other, sends ? here : there, sends ? other : actor,
                     sends ? there : here)) {
      return absl::OkStatus();
    }
    const int64_t bytes = SectionOfActor(actor).Operands(here)[0].bytes;
    const int64_t other_bytes = SectionOfActor(other).Operands(there)[0].bytes;
    if (bytes != other_bytes) {
      return InternalError(Message(WhereIs(actor), " moves ", bytes, " bytes, but ", WhereIs(other),
                                   " at the other end moves ", other_bytes));
    }
    TL_RETURN_IF_ERROR(CheckSameGuard(actor, other));
    moved_ = {actor, other};
    return absl::OkStatus();
  }

  // Else one of the two could wait for one that skips.
  Status CheckSameGuard(Actor actor, Actor other) const {
    if (At(actor).guard == At(other).guard) return absl::OkStatus();
    return InternalError(Message(WhereIs(actor), " has another guard than ", WhereIs(other),
                                 ", which it meets; guard both by the same register"));
  }

  Status StepCollective(Actor actor) {
    const Collective& mine = program_.collectives[At(actor).what];
    const std::vector<Actor>& members = world_.members.at({actor, mine.group});
    for (const Actor member : members) {
      if (AtEnd(member) || At(member).kind != InstructionKind::kCollective) return absl::OkStatus();
      const Collective& theirs = program_.collectives[At(member).what];
      if (!(program_.groups[theirs.group] == program_.groups[mine.group])) return absl::OkStatus();
      Collective same_group = theirs;
      same_group.group = mine.group;
      if (!(same_group == mine)) {
        return InternalError(Message(WhereIs(actor), " is a ", Name(mine.kind), " of ", mine.outer,
                                     " x ", mine.block, " that meets another ", Name(theirs.kind),
                                     " of ", theirs.outer, " x ", theirs.block, ": ",
                                     WhereIs(member)));
      }
      TL_RETURN_IF_ERROR(CheckSameGuard(actor, member));
    }
    moved_ = members;
    return absl::OkStatus();
  }

  Status Stuck(Actor actor) const {
    const Instruction& here = At(actor);
    Actor other = actor;
    if (here.kind == InstructionKind::kCollective) {
      const uint32_t group = program_.collectives[here.what].group;
      for (const Actor member : world_.members.at({actor, group})) {
        const bool there =
            !AtEnd(member) && At(member).kind == InstructionKind::kCollective &&
            program_.groups[program_.collectives[At(member).what].group] == program_.groups[group];
        if (!there) other = member;
      }
    } else {
      other = world_.peer.at({actor, here.what});
    }
    return InternalError(Message(
        WhereIs(actor), " waits forever when every rank plays in list order: the other end ",
        other == actor ? std::string("is itself") : StateOf(other)));
  }

  const Program& program_;
  const World& world_;
  const size_t index_;
  const bool actors_are_roles_;
  std::vector<const Section*> sections_;       // per role
  std::vector<std::vector<uint32_t>> events_;  // per role, its communication in list order
  std::vector<size_t> position_;               // per actor, into its role's events
  std::vector<Actor> moved_;
};

}  // namespace

Status VerifyCommunication(const Program& program) {
  std::optional<World> world = WorldOfRoles(program);
  const bool roles = world.has_value();
  if (!roles) world = WorldOfRanks(program);
  size_t bodies = 0;
  for (const Role& role : program.roles) bodies = std::max(bodies, role.bodies.size());
  for (size_t section = 0; section <= bodies; ++section) {
    TL_RETURN_IF_ERROR(Play(program, *world, section, roles).Run());
  }
  return Play(program, *world, Play::kEpilogue, roles).Run();
}

}  // namespace tideline

#include "sim/fold/fold.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/communication/collective_steps.h"
#include "sim/platform/platform.h"

namespace tideline {
namespace {

// What a role communicates: the distinct (group, pattern) of its collectives and its peers, over
// all its bodies.
struct Relations {
  std::set<std::pair<uint32_t, TransferPattern>> collectives;
  std::set<uint32_t> sends, receives;
};

Relations RelationsOf(const Program& program, const Role& role) {
  Relations relations;
  for (const Section& body : role.bodies) {
    for (const Instruction& instruction : body.instructions) {
      if (instruction.kind == InstructionKind::kCollective) {
        const Collective& collective = program.collectives[instruction.what];
        relations.collectives.emplace(collective.group, PatternOf(collective));
      } else if (instruction.kind == InstructionKind::kSend) {
        relations.sends.insert(instruction.what);
      } else if (instruction.kind == InstructionKind::kReceive) {
        relations.receives.insert(instruction.what);
      }
    }
  }
  return relations;
}

// One transfer of one rank as its node sees it.
struct Edge {
  int64_t mark = 0;   // relation, step, direction
  int64_t bytes = 0;  // of a sample: tells transfers of one step apart
  int32_t other = 0;  // the rank at the other end
  RouteKind route = RouteKind::kSwitch;
};

Collective Sample(TransferPattern pattern) {
  Collective collective;
  collective.block = 1 << 20;  // large enough that no share of it rounds to nothing
  if (pattern == TransferPattern::kLine) collective.kind = CollectiveKind::kBroadcast;
  if (pattern == TransferPattern::kTree) collective.algorithm = CollectiveAlgorithm::kTree;
  if (pattern == TransferPattern::kHalvingDoubling) {
    collective.algorithm = CollectiveAlgorithm::kHalvingDoubling;
  }
  return collective;
}

class Folder {
 public:
  Folder(const Program& program, const Communicators& communicators, const ClusterSpec& cluster,
         std::span<const double> slowdown)
      : program_(program),
        communicators_(communicators),
        cluster_(cluster),
        ranks_(static_cast<int32_t>(program.ranks.size())) {
    AssignUnits();
    for (const Role& role : program.roles) relations_.push_back(RelationsOf(program, role));
    edges_.resize(ranks_);
    for (int32_t rank = 0; rank < ranks_; ++rank) AddEdges(rank);
    Colour(slowdown);
  }

  Folding Run() {
    while (Refine()) {
    }
    return Quotient();
  }

 private:
  void AssignUnits() {
    const int32_t gpus = cluster_.node.gpus;
    const bool by_leaf = cluster_.fabric.leaf_sizes.size() > 1;
    std::vector<int32_t> next_local;
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      const int32_t node = rank / gpus;
      const int32_t unit = by_leaf ? LeafOf(cluster_, node) : node;
      if (static_cast<size_t>(unit) >= next_local.size()) next_local.resize(unit + 1, 0);
      unit_.push_back(unit);
      local_.push_back(next_local[unit]++);
    }
    members_.resize(next_local.size());
    for (int32_t rank = 0; rank < ranks_; ++rank) members_[unit_[rank]].push_back(rank);
  }

  void AddEdge(int32_t rank, int64_t mark, int64_t bytes, int32_t other) {
    if (rank == other) return;
    edges_[rank].push_back({mark, bytes, other, RouteBetween(cluster_, rank, other)});
  }

  void AddEdges(int32_t rank) {
    const Relations& relations = relations_[program_.ranks[rank].role];
    int64_t relation = 0;
    for (const auto& [group, pattern] : relations.collectives) {
      AddCollectiveEdges(rank, group, pattern, relation++ << 32);
    }
    for (const uint32_t peer : relations.sends) {
      AddEdge(rank, relation++ << 32, 0, PeerRank(program_, program_.peers[peer], rank));
    }
    for (const uint32_t peer : relations.receives) {
      AddEdge(rank, relation++ << 32, 0, PeerRank(program_, program_.peers[peer], rank));
    }
  }

  void AddCollectiveEdges(int32_t rank, uint32_t group, TransferPattern pattern, int64_t relation) {
    const std::vector<int32_t>& members = communicators_.MembersOf(group, rank);
    const int32_t position = communicators_.PositionOf(group, rank);
    const int32_t count = static_cast<int32_t>(members.size());
    if (count < 2) return;
    // Once per communicator: all its members share the list.
    const auto [width, fresh] = ring_width_.try_emplace(members.data(), 0);
    if (fresh) width->second = RingWidth(members, cluster_.node.gpus);
    for (const MemberEdge& edge : EdgesOfMembers(pattern, count, width->second)[position]) {
      AddEdge(rank, relation + edge.mark, edge.bytes, members[edge.other]);
    }
  }

  // What each member of a pattern sends and receives.
  struct MemberEdge {
    int64_t mark = 0, bytes = 0;
    int32_t other = 0;  // position
  };
  using MemberEdges = std::vector<std::vector<MemberEdge>>;

  const MemberEdges& EdgesOfMembers(TransferPattern pattern, int32_t count, int32_t width) {
    auto [found, fresh] = member_edges_.try_emplace({pattern, count, width});
    if (!fresh) return found->second;
    found->second.resize(count);
    int64_t mark = 0;
    for (const CollectiveStep& step : StepsOf(Sample(pattern), count, width, false)) {
      for (const Transfer& transfer : step.transfers) {
        found->second[transfer.from].push_back({mark, transfer.bytes, transfer.to});
        found->second[transfer.to].push_back({mark + 1, transfer.bytes, transfer.from});
      }
      mark += 2;
    }
    return found->second;
  }

  using Signature = std::vector<int64_t>;

  // Gives units numbers by signature, the first unit of each in ascending order.
  bool Number(const std::vector<Signature>& signatures) {
    std::map<Signature, int32_t> numbers;
    std::vector<int32_t> colours;
    for (const Signature& signature : signatures) {
      colours.push_back(
          numbers.try_emplace(signature, static_cast<int32_t>(numbers.size())).first->second);
    }
    colour_ = std::move(colours);
    const bool finer = static_cast<int32_t>(numbers.size()) > count_;
    count_ = static_cast<int32_t>(numbers.size());
    return finer;
  }

  void Colour(std::span<const double> slowdown) {
    std::vector<Signature> signatures;
    for (const std::vector<int32_t>& members : members_) {
      Signature signature;
      for (const int32_t rank : members) {
        signature.push_back(program_.ranks[rank].role);
        signature.push_back(std::bit_cast<int64_t>(slowdown[rank]));
        // The bytes on an edge depend on how many share the collective.
        for (const auto& [group, pattern] : relations_[program_.ranks[rank].role].collectives) {
          signature.push_back(static_cast<int64_t>(communicators_.MembersOf(group, rank).size()));
        }
      }
      signatures.push_back(std::move(signature));
    }
    Number(signatures);
  }

  bool Refine() {
    std::vector<Signature> signatures;
    std::vector<std::array<int64_t, 5>> ends;
    for (size_t unit = 0; unit < members_.size(); ++unit) {
      Signature signature = {colour_[unit]};
      for (const int32_t rank : members_[unit]) {
        signature.push_back(-1);
        // In which order a member finds its transfers depends on where in the group it stands.
        ends.clear();
        for (const Edge& edge : edges_[rank]) {
          // Inside the unit the local number says it all; outside, colour and local number.
          const int32_t its_unit = unit_[edge.other];
          const int32_t colour = its_unit == static_cast<int32_t>(unit) ? -1 : colour_[its_unit];
          ends.push_back({edge.mark, edge.bytes, static_cast<int64_t>(edge.route), colour,
                          local_[edge.other]});
        }
        std::sort(ends.begin(), ends.end());
        for (const auto& end : ends) signature.insert(signature.end(), end.begin(), end.end());
      }
      signatures.push_back(std::move(signature));
    }
    return Number(signatures);
  }

  Folding Quotient() const {
    std::vector<int32_t> representative(count_, -1);
    for (size_t unit = 0; unit < members_.size(); ++unit) {
      int32_t& chosen = representative[colour_[unit]];
      if (chosen < 0) chosen = static_cast<int32_t>(unit);
    }
    Folding folding;
    std::set<int32_t> nodes;
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      const int32_t unit = representative[colour_[unit_[rank]]];
      const int32_t stands_for = members_[unit][local_[rank]];
      folding.stands_for.push_back(stands_for);
      if (stands_for != rank) continue;
      folding.ranks.push_back(rank);
      nodes.insert(rank / cluster_.node.gpus);
    }
    folding.nodes.assign(nodes.begin(), nodes.end());
    return folding;
  }

  const Program& program_;
  const Communicators& communicators_;
  const ClusterSpec& cluster_;
  const int32_t ranks_;
  std::vector<Relations> relations_;                        // per role
  std::vector<int32_t> unit_, local_;                       // per rank
  std::vector<std::vector<int32_t>> members_;               // per unit, ascending
  std::vector<std::vector<Edge>> edges_;                    // per rank
  std::unordered_map<const int32_t*, int32_t> ring_width_;  // by list of members
  // By pattern, members and members per node.
  std::map<std::tuple<TransferPattern, int32_t, int32_t>, MemberEdges> member_edges_;
  std::vector<int32_t> colour_;  // per unit
  int32_t count_ = 0;
};

}  // namespace

Folding Fold(const Program& program, const Communicators& communicators, const ClusterSpec& cluster,
             std::span<const double> slowdown) {
  return Folder(program, communicators, cluster, slowdown).Run();
}

Folding NoFold(const Program& program, const ClusterSpec& cluster) {
  Folding folding;
  for (int32_t rank = 0; rank < static_cast<int32_t>(program.ranks.size()); ++rank) {
    folding.stands_for.push_back(rank);
    folding.ranks.push_back(rank);
    const int32_t node = rank / cluster.node.gpus;
    if (folding.nodes.empty() || folding.nodes.back() != node) folding.nodes.push_back(node);
  }
  return folding;
}

}  // namespace tideline

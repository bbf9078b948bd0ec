#include "sim/interpreter/meetings.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "sim/communication/collective_steps.h"

namespace tideline {
namespace {

std::vector<bool> UsedLanes(const Role& role) {
  std::vector<bool> used(role.lanes.size(), false);
  for (const Section& body : role.bodies) {
    for (const Instruction& instruction : body.instructions) used[instruction.lane] = true;
  }
  return used;
}

// Work of one core that moves `bytes`.
int64_t CoreNs(double bytes, double bytes_per_s) {
  return std::llround(bytes / bytes_per_s * kCoreRate);
}

}  // namespace

StatusOr<std::unique_ptr<Meetings>> Meetings::Build(const Program& program,
                                                    const ClusterSpec& cluster,
                                                    const Folding& folding,
                                                    const Communicators& communicators,
                                                    const Platform& platform, bool explicit_steps) {
  std::unique_ptr<Meetings> meetings(
      new Meetings(program, cluster, folding, communicators, platform, explicit_steps));
  meetings->IndexPlayers();
  std::vector<std::vector<bool>> used;
  for (const Role& role : program.roles) used.push_back(UsedLanes(role));
  for (uint32_t player = 0; player < folding.ranks.size(); ++player) {
    const uint32_t role_id = program.ranks[folding.ranks[player]].role;
    const Role& role = program.roles[role_id];
    const uint16_t lanes = static_cast<uint16_t>(role.lanes.size());
    for (uint16_t lane = 0; lane < lanes; ++lane) {
      if (!used[role_id][lane]) continue;
      switch (role.lanes[lane].kind) {
        case LaneKind::kHost:
          break;
        case LaneKind::kCompute:
          if (SharesCores(cluster)) meetings->AddKernels(player, lane);
          break;
        case LaneKind::kGroup:
          TL_RETURN_IF_ERROR(meetings->AddGroup(player, lane));
          break;
        case LaneKind::kSendTo:
        case LaneKind::kReceiveFrom:
          TL_RETURN_IF_ERROR(meetings->AddChannelEnd(player, lane));
          break;
        case LaneKind::kHostToDevice:
        case LaneKind::kDeviceToHost:
          meetings->AddCopies(player, lane);
          break;
      }
    }
  }
  meetings->PairChannels();
  return meetings;
}

void Meetings::IndexPlayers() {
  player_of_.assign(program_.ranks.size(), UINT32_MAX);
  for (uint32_t player = 0; player < folding_.ranks.size(); ++player) {
    const int32_t rank = folding_.ranks[player];
    player_of_[rank] = player;
    places_.emplace_back(program_.roles[program_.ranks[rank].role].lanes.size());
  }
}

uint32_t Meetings::AddMeeting(Meeting meeting) {
  const uint32_t id = static_cast<uint32_t>(meetings_.size());
  meeting.arrival_s.assign(meeting.parties.size(), -1);
  for (uint32_t party = 0; party < meeting.parties.size(); ++party) {
    places_[meeting.parties[party].player][meeting.parties[party].lane] = {id, party};
  }
  meetings_.push_back(std::move(meeting));
  return id;
}

Status Meetings::AddGroup(uint32_t player, uint16_t lane) {
  const int32_t rank = folding_.ranks[player];
  const Role& role = program_.roles[program_.ranks[rank].role];
  const uint32_t group = role.lanes[lane].index;
  const std::vector<int32_t>& members = communicators_.MembersOf(group, rank);
  if (members.empty()) {
    return RunError(absl::StrCat("rank ", rank, " (role '", role.name, "') has the lane '",
                                 LaneName(program_, role.lanes[lane]),
                                 "', but is no member of that group; give such ranks a role of "
                                 "their own"));
  }
  if (members.size() == 1) return absl::OkStatus();
  std::vector<int32_t> key = {static_cast<int32_t>(group)};
  for (const int32_t member : members) key.push_back(folding_.stands_for[member]);
  std::sort(key.begin() + 1, key.end());
  key.erase(std::unique(key.begin() + 1, key.end()), key.end());
  if (groups_.contains(key)) return absl::OkStatus();

  Meeting meeting{.kind = Meeting::Kind::kGroup, .group = group};
  for (size_t i = 1; i < key.size(); ++i) {
    const Role& its_role = program_.roles[program_.ranks[key[i]].role];
    const auto its_lane =
        std::find(its_role.lanes.begin(), its_role.lanes.end(), Lane{LaneKind::kGroup, group});
    if (its_lane == its_role.lanes.end()) {
      return RunError(absl::StrCat("rank ", rank, " issues collectives on '",
                                   LaneName(program_, role.lanes[lane]), "' with rank ", key[i],
                                   ", which never does; every member must issue them"));
    }
    meeting.parties.push_back(
        {player_of_[key[i]], static_cast<uint16_t>(its_lane - its_role.lanes.begin())});
  }
  groups_.emplace(std::move(key), AddMeeting(std::move(meeting)));
  return absl::OkStatus();
}

Status Meetings::AddChannelEnd(uint32_t player, uint16_t lane) {
  const int32_t rank = folding_.ranks[player];
  const Lane& which = program_.roles[program_.ranks[rank].role].lanes[lane];
  const Peer& peer = program_.peers[which.index];
  const int32_t other = PeerRank(program_, peer, rank);
  if (other == rank) {
    return RunError(absl::StrCat("rank ", rank, " has the lane '", LaneName(program_, which),
                                 "', but that peer is the rank itself"));
  }
  const bool sends = which.kind == LaneKind::kSendTo;
  const int32_t size = program_.mesh[static_cast<size_t>(peer.axis)];
  ChannelEnd end{.from = sends ? rank : folding_.stands_for[other],
                 .to = sends ? folding_.stands_for[other] : rank,
                 .axis = peer.axis,
                 .delta = sends ? peer.delta : -peer.delta,
                 .party = {player, lane}};
  end.wrapped = ((end.delta % size) + size) % size;
  if (sends) {
    // The kind of route is that of the true ends.
    Meeting meeting{.kind = Meeting::Kind::kChannel, .parties = {end.party}};
    meeting.flow = FlowBetween(rank, other);
    meeting.latency_s = RouteLatency(cluster_, RouteBetween(cluster_, rank, other));
    end.meeting = AddMeeting(std::move(meeting));
    sends_.push_back(end);
  } else {
    receives_.push_back(end);
  }
  return absl::OkStatus();
}

void Meetings::Pair(ChannelEnd& send, ChannelEnd& receive) {
  receive.meeting = send.meeting;
  Meeting& meeting = meetings_[send.meeting];
  meeting.parties.push_back(receive.party);
  meeting.arrival_s.push_back(-1);
  places_[receive.party.player][receive.party.lane] = {send.meeting, 1};
}

// A send to peer +1 belongs to the receive from peer -1 at the other end. On an axis of two both
// spellings mean the same rank, so what is left over is paired by the wrapped distance.
void Meetings::PairChannels() {
  using Key = std::array<int32_t, 4>;
  std::map<Key, std::vector<ChannelEnd*>> by_delta, by_wrapped;
  const auto key = [](const ChannelEnd& end, int32_t delta) {
    return Key{end.from, end.to, static_cast<int32_t>(end.axis), delta};
  };
  for (ChannelEnd& send : sends_) {
    by_delta[key(send, send.delta)].push_back(&send);
    by_wrapped[key(send, send.wrapped)].push_back(&send);
  }
  const auto pair_with_first_free = [&](std::map<Key, std::vector<ChannelEnd*>>& sends,
                                        const Key& wanted, ChannelEnd& receive) {
    const auto found = sends.find(wanted);
    if (found == sends.end()) return;
    for (ChannelEnd* send : found->second) {
      if (meetings_[send->meeting].parties.size() == 1) return Pair(*send, receive);
    }
  };
  for (ChannelEnd& receive : receives_) {
    pair_with_first_free(by_delta, key(receive, receive.delta), receive);
  }
  for (ChannelEnd& receive : receives_) {
    if (receive.meeting != kAlone) continue;
    pair_with_first_free(by_wrapped, key(receive, receive.wrapped), receive);
    if (receive.meeting != kAlone) continue;
    // Nobody ever sends: the lane blocks, and the deadlock message names it.
    Meeting meeting{.kind = Meeting::Kind::kChannel, .parties = {receive.party}};
    receive.meeting = AddMeeting(std::move(meeting));
  }
}

void Meetings::AddCopies(uint32_t player, uint16_t lane) {
  const int32_t rank = folding_.ranks[player];
  const Lane& which = program_.roles[program_.ranks[rank].role].lanes[lane];
  Meeting meeting{.kind = Meeting::Kind::kCopies, .parties = {{player, lane}}};
  meeting.flow.route =
      which.kind == LaneKind::kHostToDevice ? platform_.ToDevice(rank) : platform_.ToHost(rank);
  meeting.flow.sender = player;
  meeting.flow.medium = Medium::kHost;
  meeting.latency_s = cluster_.node.pcie_latency_s;
  AddMeeting(std::move(meeting));
}

void Meetings::AddKernels(uint32_t player, uint16_t lane) {
  Meeting meeting{.kind = Meeting::Kind::kKernels, .parties = {{player, lane}}};
  meeting.flow.route = platform_.Cores(folding_.ranks[player]);
  meeting.flow.sender = player;
  AddMeeting(std::move(meeting));
}

Flow Meetings::FlowOf(const Meeting& meeting) const {
  Flow flow = meeting.flow;
  flow.bytes = meeting.bytes;
  if (!SharesCores(cluster_)) return flow;
  flow.route = platform_.Cores(folding_.ranks[meeting.parties.front().player]);
  if (meeting.kind == Meeting::Kind::kKernels) {
    flow.bytes = 0;
    flow.core_ns = meeting.bytes;
    return flow;
  }
  const double rate = meeting.kind == Meeting::Kind::kCopies ? cluster_.node.pcie_bandwidth
                                                             : cluster_.node.nvlink_bandwidth;
  flow.core_ns = CoreNs(static_cast<double>(meeting.bytes), rate);
  return flow;
}

Flow Meetings::FlowBetween(int32_t from, int32_t to) const {
  const RouteKind kind = RouteBetween(cluster_, from, to);
  const bool network = kind == RouteKind::kNetwork || kind == RouteKind::kAcrossLeafs;
  return {.route = platform_.Between(kind, from, folding_.stands_for[to]),
          .sender = player_of_[from],
          .medium = network ? Medium::kNetwork : Medium::kInsideNode};
}

const Traffic& Meetings::CollectiveTraffic(uint32_t meeting, uint32_t what) {
  const uint64_t key = (uint64_t{meeting} << 32) | what;
  const auto [found, fresh] = traffic_.try_emplace(key);
  if (fresh) found->second = MakeTraffic(meetings_[meeting], program_.collectives[what]);
  return found->second;
}

Traffic Meetings::MakeTraffic(const Meeting& meeting, const Collective& collective) const {
  const int32_t first = folding_.ranks[meeting.parties.front().player];
  const std::vector<int32_t>& members = communicators_.MembersOf(meeting.group, first);
  const std::vector<CollectiveStep> steps =
      StepsOf(collective, static_cast<int32_t>(members.size()),
              RingWidth(members, cluster_.node.gpus), explicit_steps_);
  const bool closed = PatternOf(collective) == TransferPattern::kRing;
  Traffic traffic;
  for (const CollectiveStep& step : steps) {
    TrafficStep& made = traffic.emplace_back();
    if (step.latency_hops > 1) {
      made.latency_s = HopsLatency(members, step.latency_hops, closed);
    } else {
      for (const Transfer& transfer : step.transfers) {
        const RouteKind kind = RouteBetween(cluster_, members[transfer.from], members[transfer.to]);
        made.latency_s = std::max(made.latency_s, RouteLatency(cluster_, kind));
      }
    }
    std::vector<std::vector<Transfer>> sent(members.size());
    for (const Transfer& transfer : step.transfers) sent[transfer.from].push_back(transfer);
    for (const Party& party : meeting.parties) {
      const int32_t rank = folding_.ranks[party.player];
      const std::vector<int32_t>& its_members = communicators_.MembersOf(meeting.group, rank);
      for (const Transfer& transfer : sent[communicators_.PositionOf(meeting.group, rank)]) {
        if (transfer.bytes == 0) continue;
        Flow flow = FlowBetween(rank, its_members[transfer.to]);
        flow.bytes = transfer.bytes;
        made.flows.push_back(flow);
      }
    }
  }
  return SharesCores(cluster_) ? OnCores(std::move(traffic), meeting, collective) : traffic;
}

// One core does the whole collective; the flows only say who sent how much.
Traffic Meetings::OnCores(Traffic traffic, const Meeting& meeting,
                          const Collective& collective) const {
  TrafficStep whole{.latency_s = cluster_.node.nvlink_latency_s, .flows = {}};
  for (const TrafficStep& step : traffic) {
    whole.flows.insert(whole.flows.end(), step.flows.begin(), step.flows.end());
  }
  const uint32_t first = meeting.parties.front().player;
  const double members =
      static_cast<double>(communicators_.MembersOf(meeting.group, folding_.ranks[first]).size());
  if (whole.flows.empty()) whole.flows.push_back({.route = {}, .sender = first});
  for (Flow& flow : whole.flows) flow.core_ns = 0;
  whole.flows.front().route = platform_.Cores(folding_.ranks[first]);
  whole.flows.front().core_ns =
      CoreNs(MovedBytes(collective, members), cluster_.node.nvlink_bandwidth);
  return {std::move(whole)};
}

double Meetings::HopsLatency(const std::vector<int32_t>& members, int64_t hops, bool closed) const {
  const int64_t count = static_cast<int64_t>(members.size());
  std::vector<double> edge_s;
  for (int64_t i = 0; i < (closed ? count : count - 1); ++i) {
    const RouteKind kind = RouteBetween(cluster_, members[i], members[(i + 1) % count]);
    edge_s.push_back(RouteLatency(cluster_, kind));
  }
  const int64_t edges = static_cast<int64_t>(edge_s.size());
  if (!closed || std::count(edge_s.begin(), edge_s.end(), edge_s.front()) == edges) {
    double sum_s = 0;
    for (const double edge : edge_s) sum_s += edge;
    return closed ? edge_s.front() * static_cast<double>(hops) : sum_s;
  }
  // Each chunk runs `hops` edges in a row; the one that meets the dearest edges sets the time.
  const int64_t rounds = hops / edges;
  const int64_t rest = hops % edges;
  double window_s = 0, around_s = 0;
  for (int64_t i = 0; i < edges; ++i) {
    around_s += edge_s[i];
    if (i < rest) window_s += edge_s[i];
  }
  double dearest_s = window_s;
  for (int64_t from = 0; from < edges; ++from) {
    window_s += edge_s[(from + rest) % edges] - edge_s[from];
    dearest_s = std::max(dearest_s, window_s);
  }
  return around_s * static_cast<double>(rounds) + dearest_s;
}

}  // namespace tideline

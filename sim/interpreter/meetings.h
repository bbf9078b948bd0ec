// Meetings: where transfers come together.
//
// A meeting is one group (a communicator), one directed channel between two peers, or the copies of
// one rank in one direction; where devices share cores also the kernels of one rank. On every rank
// the transfers of a meeting share a lane, so at most one is under way and its state can be reused:
// nothing is allocated per transfer.
//
// With folding, a group's parties are the simulated ranks that stand for its members, each once,
// and each sends what it itself sends (sim/fold/fold.h).
#ifndef TIDELINE_SIM_INTERPRETER_MEETINGS_H_
#define TIDELINE_SIM_INTERPRETER_MEETINGS_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "models/cluster/cluster_spec.h"
#include "planner/program/program.h"
#include "sim/communication/communicators.h"
#include "sim/fold/fold.h"
#include "sim/platform/platform.h"

namespace tideline {

// What a flow's bytes are counted as.
enum class Medium : uint8_t { kInsideNode, kNetwork, kHost };
inline constexpr int kMedia = 3;

struct Flow {
  Route route;
  int64_t bytes = 0;
  // Where devices share cores the route leads over them, and this is the work.
  std::optional<int64_t> core_ns = {};
  uint32_t sender = 0;  // player
  Medium medium = Medium::kInsideNode;
};

struct TrafficStep {
  double latency_s = 0;  // before the flows start
  std::vector<Flow> flows;
};
using Traffic = std::vector<TrafficStep>;

// An end of a meeting: a player (index into Folding::ranks) and its lane.
struct Party {
  uint32_t player = 0;
  uint16_t lane = 0;
};

struct Meeting {
  enum class Kind : uint8_t { kGroup, kChannel, kCopies, kKernels };
  Kind kind = Kind::kGroup;
  uint32_t group = kNoId;
  std::vector<Party> parties = {};  // kChannel: sender, receiver
  Flow flow = {};                   // all but kGroup: without its bytes
  double latency_s = 0;             // all but kGroup

  // Of the transfer under way.
  std::vector<double> arrival_s = {};  // per party; < 0: not yet
  uint32_t arrived = 0;
  double start_s = 0;  // latest arrival so far
  uint32_t what = kNoId;
  int64_t bytes = 0;
  const Traffic* traffic = nullptr;
  uint32_t step = 0;
  uint32_t flowing = 0;
};

class Meetings {
 public:
  // Errors (exit 1): a rank uses a group it is not in, or sends to itself. All arguments must
  // outlive this.
  static StatusOr<std::unique_ptr<Meetings>> Build(const Program& program,
                                                   const ClusterSpec& cluster,
                                                   const Folding& folding,
                                                   const Communicators& communicators,
                                                   const Platform& platform, bool explicit_steps);

  // Where a player's lane meets others, and as which party.
  static constexpr uint32_t kAlone = UINT32_MAX;  // a group of one
  struct Place {
    uint32_t meeting = kAlone;
    uint32_t party = 0;
  };
  Place PlaceOf(uint32_t player, uint16_t lane) const { return places_[player][lane]; }

  Meeting& At(uint32_t meeting) { return meetings_[meeting]; }
  size_t size() const { return meetings_.size(); }

  // The flow of the transfer under way in a meeting that is no group's.
  Flow FlowOf(const Meeting& meeting) const;

  // The flows of collective `what` in a group meeting; made once each.
  const Traffic& CollectiveTraffic(uint32_t meeting, uint32_t what);

 private:
  Meetings(const Program& program, const ClusterSpec& cluster, const Folding& folding,
           const Communicators& communicators, const Platform& platform, bool explicit_steps)
      : program_(program),
        cluster_(cluster),
        folding_(folding),
        communicators_(communicators),
        platform_(platform),
        explicit_steps_(explicit_steps) {}

  struct ChannelEnd {
    int32_t from = 0, to = 0;  // simulated ranks
    Axis axis = Axis::kPipeline;
    int32_t delta = 0;    // from the sender's view, as written
    int32_t wrapped = 0;  // the same in [0, size of the axis)
    Party party;
    uint32_t meeting = kAlone;
  };

  void IndexPlayers();
  Status AddGroup(uint32_t player, uint16_t lane);
  Status AddChannelEnd(uint32_t player, uint16_t lane);
  void AddCopies(uint32_t player, uint16_t lane);
  void PairChannels();
  void Pair(ChannelEnd& send, ChannelEnd& receive);
  uint32_t AddMeeting(Meeting meeting);
  void AddKernels(uint32_t player, uint16_t lane);
  Traffic MakeTraffic(const Meeting& meeting, const Collective& collective) const;
  Traffic OnCores(Traffic traffic, const Meeting& meeting, const Collective& collective) const;
  double HopsLatency(const std::vector<int32_t>& members, int64_t hops, bool closed) const;
  Flow FlowBetween(int32_t from, int32_t to) const;

  const Program& program_;
  const ClusterSpec& cluster_;
  const Folding& folding_;
  const Communicators& communicators_;
  const Platform& platform_;
  const bool explicit_steps_;
  std::vector<uint32_t> player_of_;  // per rank that is simulated
  std::vector<Meeting> meetings_;
  std::vector<std::vector<Place>> places_;           // [player][lane]
  std::map<std::vector<int32_t>, uint32_t> groups_;  // group id, then the parties' ranks
  std::vector<ChannelEnd> sends_, receives_;
  std::unordered_map<uint64_t, Traffic> traffic_;  // meeting and collective
};

}  // namespace tideline

#endif  // TIDELINE_SIM_INTERPRETER_MEETINGS_H_

#include "sim/interpreter/interpreter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "sim/interpreter/compiled_section.h"
#include "sim/interpreter/virtual_rank.h"
#include "sim/platform/platform.h"

namespace tideline {
namespace {

// Two spacings are the same step time up to rounding.
constexpr double kSteadyTolerance = 1e-9;
// Only these bodies go to the sink: they are always played to their end.
constexpr int32_t kReportedBodies = 2;
// Ranks that a deadlock message describes; more would bury the first.
constexpr size_t kDescribedRanks = 16;

bool Same(double a, double b) {
  return std::abs(a - b) <= kSteadyTolerance * std::max(std::abs(a), std::abs(b));
}

// The body that each step plays, following the schedule.
class BodySequence {
 public:
  explicit BodySequence(const Program& program) : schedule_(program.schedule) {}

  // kNoId: the schedule has ended.
  uint32_t BodyOf(int32_t step) const { return Find(step).first; }
  // Part of a run without end.
  bool Repeats(int32_t step) const { return Find(step).second; }

 private:
  std::pair<uint32_t, bool> Find(int64_t step) const {
    for (const BodyRun& run : schedule_) {
      if (run.times <= 0) return {run.body, true};
      if (step < run.times) return {run.body, false};
      step -= run.times;
    }
    return {kNoId, false};
  }
  const std::vector<BodyRun>& schedule_;
};

class Interpreter final : public Engine::Listener, public Transport {
 public:
  Interpreter(const PlayInput& input, Engine& engine)
      : input_(input),
        program_(input.program),
        engine_(engine),
        bodies_(input.program),
        names_(input.program, input.sink) {}

  StatusOr<PlayResult> Run() {
    if (bodies_.BodyOf(0) == kNoId) {
      return InternalError("the Program's schedule has no body to play");
    }
    TL_ASSIGN_OR_RETURN(platform_, Platform::Build(input_.cluster, input_.folding.nodes, engine_));
    TL_ASSIGN_OR_RETURN(
        meetings_, Meetings::Build(program_, input_.cluster, input_.folding, input_.communicators,
                                   platform_, input_.explicit_steps));
    TL_RETURN_IF_ERROR(MakePlayers());
    for (uint32_t player = 0; player < players_.size(); ++player) {
      engine_.SetTimer(0, SectionTimer(player));
    }
    TL_RETURN_IF_ERROR(engine_.Run(*this));
    TL_RETURN_IF_ERROR(status_);
    if (!done_) return Deadlock();
    return std::move(result_);
  }

  // ---- Engine::Listener ----

  void OnTimer(uint32_t id) override {
    if (id >= meetings_->size()) {
      BeginSection(id - static_cast<uint32_t>(meetings_->size()));
    } else {
      StartFlows(id);
    }
  }

  void OnFlow(uint32_t id) override {
    Meeting& meeting = meetings_->At(id);
    if (--meeting.flowing == 0) EndStep(id);
  }

  // ---- Transport ----

  bool Arrive(VirtualRank& player, uint16_t lane, const LaneUnit& unit, double time_s) override {
    const Meetings::Place place = meetings_->PlaceOf(IndexOf(player), lane);
    if (place.meeting == Meetings::kAlone) return true;
    Meeting& meeting = meetings_->At(place.meeting);
    meeting.arrival_s[place.party] = time_s;
    if (meeting.arrived == 0) {
      meeting.what = unit.what;
      meeting.bytes = unit.bytes;
      meeting.start_s = time_s;
    } else {
      const bool match = meeting.kind == Meeting::Kind::kGroup ? meeting.what == unit.what
                                                               : meeting.bytes == unit.bytes;
      if (!match) {
        Fail(Mismatch(meeting, player, unit));
        return false;
      }
      meeting.start_s = std::max(meeting.start_s, time_s);
    }
    const size_t ends = meeting.kind == Meeting::Kind::kChannel ? 2 : meeting.parties.size();
    if (++meeting.arrived == ends) Start(place.meeting);
    return false;
  }

  void SectionEnded(VirtualRank& player, double time_s) override {
    const uint32_t index = IndexOf(player);
    const int32_t step = player.step();
    if (static_cast<size_t>(step) >= ends_.size()) {
      ends_.emplace_back(players_.size(), 0.0);
      ended_.push_back(0);
    }
    ends_[step][index] = time_s;
    Record(index, step, time_s);
    if (bodies_.BodyOf(step + 1) != kNoId) engine_.SetTimer(time_s, SectionTimer(index));
    if (++ended_[step] == players_.size()) Decide(step);
  }

 private:
  struct CompiledRole {
    std::vector<CompiledSection> bodies;
  };

  uint32_t SectionTimer(uint32_t player) const {
    return static_cast<uint32_t>(meetings_->size()) + player;
  }
  uint32_t IndexOf(const VirtualRank& player) const {
    return static_cast<uint32_t>(&player - players_.data());
  }

  // Roles are compiled once for each slowdown that one of their ranks has.
  Status MakePlayers() {
    players_.reserve(input_.folding.ranks.size());
    next_step_.assign(input_.folding.ranks.size(), 0);
    result_.ranks.resize(input_.folding.ranks.size());
    for (const int32_t rank : input_.folding.ranks) {
      const uint32_t role_id = program_.ranks[rank].role;
      const Role& role = program_.roles[role_id];
      if (role.lanes.size() > 64) {
        return InternalError(absl::StrCat("role '", role.name, "' has ", role.lanes.size(),
                                          " lanes; the simulator plays at most 64"));
      }
      auto [found, fresh] = compiled_.try_emplace({role_id, input_.slowdown[rank]});
      if (fresh) {
        const CompileInput compile{.program = &program_,
                                   .host = &input_.cluster.host,
                                   .kernel_seconds = input_.kernel_seconds,
                                   .slowdown = input_.slowdown[rank]};
        for (const Section& body : role.bodies) {
          TL_ASSIGN_OR_RETURN(CompiledSection section,
                              CompileSection(compile, role, body, input_.cluster.host.step_s));
          found->second.bodies.push_back(std::move(section));
        }
      }
      players_.emplace_back(program_, rank, SharesCores(input_.cluster), input_.sink, &names_);
      roles_.push_back(&found->second);
    }
    return absl::OkStatus();
  }

  void BeginSection(uint32_t index) {
    VirtualRank& player = players_[index];
    const int32_t step = next_step_[index]++;
    const uint32_t body = bodies_.BodyOf(step);
    if (step == kReportedBodies) player.Mute();
    const double time_s = step == 0 ? 0 : ends_[step - 1][index];
    if (body >= player.role().bodies.size()) {
      Fail(InternalError(absl::StrCat("the schedule plays body ", body, ", but role '",
                                      player.role().name, "' has ", player.role().bodies.size())));
      return;
    }
    player.BeginSection(player.role().bodies[body], roles_[index]->bodies[body], step, time_s);
    player.Run(*this, engine_.Now());
  }

  void Start(uint32_t id) {
    Meeting& meeting = meetings_->At(id);
    meeting.step = 0;
    double latency_s = meeting.latency_s;
    if (meeting.kind == Meeting::Kind::kGroup) {
      meeting.traffic = &meetings_->CollectiveTraffic(id, meeting.what);
      latency_s = meeting.traffic->front().latency_s;
    }
    engine_.SetTimer(meeting.start_s + latency_s, id);
  }

  void StartFlow(Meeting& meeting, uint32_t id, const Flow& flow) {
    players_[flow.sender].CountBytes(static_cast<size_t>(flow.medium), flow.bytes);
    if (flow.core_ns == 0) return;  // done along with another one's work
    ++meeting.flowing;
    engine_.StartFlow(flow.route.source, flow.route.sink, flow.core_ns.value_or(flow.bytes), id);
  }

  void StartFlows(uint32_t id) {
    Meeting& meeting = meetings_->At(id);
    meeting.flowing = 0;
    if (meeting.kind != Meeting::Kind::kGroup) {
      StartFlow(meeting, id, meetings_->FlowOf(meeting));
    } else {
      for (const Flow& flow : (*meeting.traffic)[meeting.step].flows) StartFlow(meeting, id, flow);
    }
    if (meeting.flowing == 0) EndStep(id);
  }

  void EndStep(uint32_t id) {
    Meeting& meeting = meetings_->At(id);
    if (meeting.kind == Meeting::Kind::kGroup && ++meeting.step < meeting.traffic->size()) {
      engine_.SetTimer(engine_.Now() + (*meeting.traffic)[meeting.step].latency_s, id);
      return;
    }
    const double end_s = engine_.Now();
    meeting.arrived = 0;
    for (size_t party = 0; party < meeting.parties.size(); ++party) {
      const Party& its = meeting.parties[party];
      players_[its.player].Complete(its.lane, meeting.arrival_s[party], meeting.start_s, end_s);
      meeting.arrival_s[party] = -1;
    }
    for (const Party& party : meeting.parties) players_[party.player].Run(*this, end_s);
  }

  void Record(uint32_t index, int32_t step, double time_s) {
    RankPlay& play = result_.ranks[index];
    const VirtualRank& player = players_[index];
    if (static_cast<size_t>(step) >= plays_.size()) plays_.resize(step + 1, result_.ranks);
    play.step_s = time_s - (step == 0 ? 0 : ends_[step - 1][index]);
    play.split = player.split();
    play.live_peak = player.tide().peak();
    play.bytes_sent = player.bytes();
    plays_[step][index] = play;
  }

  // Every rank has finished `step`: is the spacing steady?
  void Decide(int32_t step) {
    const bool last = bodies_.BodyOf(step + 1) == kNoId;
    const bool steady = step > 0 && bodies_.Repeats(step) &&
                        bodies_.BodyOf(step) == bodies_.BodyOf(step - 1) && Steady(step);
    if (!steady && !last && step + 1 < input_.max_bodies) return;
    result_.steady = steady || last;
    result_.bodies = step + 1;
    result_.ranks = plays_[step];
    for (const RankPlay& play : result_.ranks) {
      result_.step_time_s = std::max(result_.step_time_s, play.step_s);
    }
    done_ = true;
    engine_.Stop();
  }

  bool Steady(int32_t step) const {
    bool as_before = step > 1, all_equal = true;
    for (size_t index = 0; index < players_.size(); ++index) {
      const double spacing_s = plays_[step][index].step_s;
      all_equal &= Same(spacing_s, plays_[step][0].step_s);
      as_before &= Same(spacing_s, plays_[step - 1][index].step_s);
    }
    return all_equal || as_before;
  }

  // ---- What went wrong ----

  void Fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
    engine_.Stop();
  }

  std::string Describe(const VirtualRank& player, uint32_t instruction) const {
    const Instruction& it = player.section()->instructions[instruction];
    return absl::StrCat(std::string(Name(it.kind)), " '", std::string(NameText(program_, it.name)),
                        "' (instruction ", instruction, " of body ", bodies_.BodyOf(player.step()),
                        ", lane '", LaneName(program_, player.role().lanes[it.lane]), "')");
  }

  Status Mismatch(const Meeting& meeting, const VirtualRank& player, const LaneUnit& unit) const {
    std::string others;
    for (size_t party = 0; party < meeting.parties.size(); ++party) {
      const VirtualRank& other = players_[meeting.parties[party].player];
      if (meeting.arrival_s[party] < 0 || &other == &player) continue;
      for (const BlockedLane& blocked : other.Blocked()) {
        if (blocked.lane != meeting.parties[party].lane) continue;
        absl::StrAppend(&others, "rank ", other.rank(), " is at ",
                        Describe(other, blocked.instruction), " with ", meeting.bytes, " bytes; ");
      }
      break;
    }
    const std::vector<BlockedLane> own = player.Blocked();
    std::string mine;
    for (const BlockedLane& blocked : own) {
      if (blocked.in_transfer && meetings_->PlaceOf(IndexOf(player), blocked.lane).meeting ==
                                     static_cast<uint32_t>(&meeting - &meetings_->At(0))) {
        mine = Describe(player, blocked.instruction);
      }
    }
    return RunError(absl::StrCat("the ends of a transfer do not match: ", others, "rank ",
                                 player.rank(), " is at ", mine, " with ", unit.bytes, " bytes"));
  }

  std::string MissingEnds(uint32_t index, uint16_t lane) const {
    const Meetings::Place place = meetings_->PlaceOf(index, lane);
    const Meeting& meeting = meetings_->At(place.meeting);
    std::string missing;
    for (size_t party = 0; party < meeting.parties.size(); ++party) {
      if (meeting.arrival_s[party] >= 0) continue;
      absl::StrAppend(&missing, missing.empty() ? "" : ", ",
                      players_[meeting.parties[party].player].rank());
    }
    return missing.empty() ? "a rank that has no such lane" : absl::StrCat("rank ", missing);
  }

  Status Deadlock() const {
    std::string text;
    size_t described = 0;
    for (uint32_t index = 0; index < players_.size(); ++index) {
      const VirtualRank& player = players_[index];
      const std::vector<BlockedLane> blocked = player.Blocked();
      if (blocked.empty()) continue;
      if (++described > kDescribedRanks) continue;
      absl::StrAppend(&text, "\n  rank ", player.rank(), ": ");
      for (size_t i = 0; i < blocked.size(); ++i) {
        absl::StrAppend(&text, i == 0 ? "" : "; ", Describe(player, blocked[i].instruction),
                        " waits for ");
        if (blocked[i].in_transfer) {
          absl::StrAppend(&text, MissingEnds(index, blocked[i].lane));
        } else if (blocked[i].waits_for != kNoId) {
          absl::StrAppend(&text, Describe(player, blocked[i].waits_for));
        } else {
          absl::StrAppend(&text, "its launch");
        }
      }
    }
    if (described > kDescribedRanks) {
      absl::StrAppend(&text, "\n  and ", described - kDescribedRanks, " more ranks");
    }
    return RunError(absl::StrCat("deadlock at ", engine_.Now(),
                                 " s of simulated time: nothing moves and these ranks have not "
                                 "finished; order sends, receives and collectives alike on all "
                                 "ranks",
                                 text));
  }

  const PlayInput& input_;
  const Program& program_;
  Engine& engine_;
  BodySequence bodies_;
  SinkNames names_;
  Platform platform_;
  std::unique_ptr<Meetings> meetings_;
  std::map<std::pair<uint32_t, double>, CompiledRole> compiled_;
  std::vector<VirtualRank> players_;
  std::vector<const CompiledRole*> roles_;    // per player
  std::vector<int32_t> next_step_;            // per player
  std::vector<std::vector<double>> ends_;     // [step][player]
  std::vector<std::vector<RankPlay>> plays_;  // [step][player]
  std::vector<size_t> ended_;                 // per step: players that have finished it
  bool done_ = false;
  Status status_;
  PlayResult result_;
};

}  // namespace

StatusOr<PlayResult> Play(const PlayInput& input, Engine& engine) {
  return Interpreter(input, engine).Run();
}

}  // namespace tideline

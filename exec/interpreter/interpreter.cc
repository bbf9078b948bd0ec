#include "exec/interpreter/interpreter.h"

#include <algorithm>
#include <memory>
#include <new>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "exec/interpreter/finite_watch.h"
#include "exec/interpreter/rank_player.h"
#include "exec/interpreter/run_state.h"
#include "exec/interpreter/start.h"
#include "exec/memory/shard.h"

namespace tideline {
namespace {

class Run {
 public:
  Run(const Program& program, Machine& machine, const SampleSource& samples,
      const ExecuteOptions& options, const ExecuteHooks& hooks, Start start,
      std::vector<uint32_t> bodies)
      : program_(program),
        machine_(machine),
        samples_(samples),
        vocabulary_(VocabularyOf(program)),
        options_(options),
        hooks_(hooks),
        start_(std::move(start)),
        bodies_(std::move(bodies)),
        first_step_(start_.found ? start_.found->manifest.step : 0),
        state_(program, hooks, start_.found ? start_.found->manifest.losses : std::vector<double>(),
               options.steps),
        players_(program.ranks.size()),
        statuses_(program.ranks.size()) {}

  StatusOr<RunReport> Go() {
    for (const std::string& note : start_.notes) state_.OnNote(note);
    if (options_.find_non_finite) state_.KeepGoing();
    const int ranks = static_cast<int>(program_.ranks.size());
    if (first_step_ < options_.steps || ReadsState()) {
      BeginHosts(machine_, ranks);
      std::vector<std::thread> threads;
      for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([this, rank] {
          statuses_[rank] = PlayWithinMemory(rank);
          if (!statuses_[rank].ok()) Fail(GetDevice(machine_, rank), statuses_[rank]);
          EndHost(machine_);
        });
      }
      for (std::thread& thread : threads) thread.join();
      const Status end = Finding();
      if (!end.ok() && state_.divergence().empty()) return end;
    }
    return Report();
  }

 private:
  // The error that ended the run: the machine's, since the first one stops everything.
  Status Finding() {
    Status machine = RunStatus(GetDevice(machine_, 0));
    if (!machine.ok()) return machine;
    for (const Status& status : statuses_) TL_RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

  // The host's own memory may end too, which no status tells.
  Status PlayWithinMemory(int32_t rank) {
    try {
      return PlayRank(rank);
    } catch (const std::bad_alloc&) {
      return RunError(absl::StrCat("rank ", rank,
                                   ": this machine has no memory left; use a smaller plan or a "
                                   "machine with more"));
    }
  }

  Status PlayRank(int32_t rank) {
    RankPlayer::Setting setting;
    setting.program = &program_;
    setting.device = GetDevice(machine_, rank);
    setting.rank = rank;
    setting.eager = options_.eager;
    setting.samples = &samples_;
    setting.vocabulary = vocabulary_;
    setting.positions = hooks_.positions;
    setting.weights = start_.weights ? &*start_.weights : nullptr;
    setting.findings = options_.find_non_finite ? &findings_ : nullptr;
    setting.on_loss = [this, rank](int64_t step, float loss) {
      return state_.OnLoss(rank, step, loss);
    };
    setting.on_gate = [this, rank](int64_t step, const GateReading& reading) {
      return state_.OnGate(rank, step, reading);
    };
    setting.on_register = [this, rank](uint32_t id, double value) {
      return state_.OnRegister(rank, id, value);
    };
    players_[rank] = std::make_unique<RankPlayer>(std::move(setting));
    RankPlayer& player = *players_[rank];
    TL_RETURN_IF_ERROR(player.Open());
    MemoryTide tide(player.role(), rank);
    const Status status = PlaySections(player, tide);
    Collect(player, tide);
    return status;
  }

  Status PlaySections(RankPlayer& player, MemoryTide& tide) {
    if (start_.restorer) {
      TL_RETURN_IF_ERROR(Restore(player));
      TL_RETURN_IF_ERROR(player.registers().Restore(start_.found->manifest.registers));
    } else {
      TL_RETURN_IF_ERROR(PlaySection(player, tide, 0, -1));
    }
    for (int64_t step = first_step_; step < options_.steps; ++step) {
      TL_RETURN_IF_ERROR(PlaySection(player, tide, bodies_[step] + 1, step));
      TL_RETURN_IF_ERROR(MaybeSave(player, step + 1));
    }
    const uint32_t epilogue = static_cast<uint32_t>(player.role().bodies.size()) + 1;
    TL_RETURN_IF_ERROR(PlaySection(player, tide, epilogue, -1));
    return MaybeReadState(player);
  }

  Status PlaySection(RankPlayer& player, MemoryTide& tide, uint32_t section, int64_t step) {
    TL_RETURN_IF_ERROR(player.PlaySection(section, step));
    state_.OnSection(player.rank(), step, player.Trace(section), tide);
    return absl::OkStatus();
  }

  void Collect(const RankPlayer& player, const MemoryTide& tide) {
    RankReport& report = state_.rank(player.rank());
    for (int index = 0; index < kSpaces; ++index) {
      const Space space = static_cast<Space>(index);
      report.reserved_peak[index] = player.reserved_peak(space);
      report.live_peak[index] = tide.peak(space);
      report.observed[index] = Observed(player.device(), space);
    }
  }

  // ---- Checkpoints ----

  bool SavesAfter(int64_t steps_done) const {
    return start_.folder && !options_.find_non_finite &&
           (steps_done % options_.checkpoint_every == 0 || steps_done == options_.steps);
  }

  // All ranks write at once what each of them saves; those that wait see to it that it is the state
  // of one moment, and that the manifest comes last.
  Status MaybeSave(RankPlayer& player, int64_t steps_done) {
    if (!SavesAfter(steps_done)) return absl::OkStatus();
    const int32_t rank = player.rank();
    TL_RETURN_IF_ERROR(HostBarrier(player.device(), "checkpoint"));
    if (rank == 0) TL_RETURN_IF_ERROR(start_.folder->Begin(steps_done));
    TL_RETURN_IF_ERROR(HostBarrier(player.device(), "begin of shards"));
    TL_RETURN_IF_ERROR(
        WriteShard(CheckpointFolder::ShardPath(options_.checkpoint_folder, steps_done, rank),
                   steps_done, rank, start_.saved[static_cast<size_t>(rank)],
                   [this, rank](uint32_t buffer, int64_t offset, std::span<char> bytes) {
                     return ReadState(rank, buffer, offset, bytes);
                   }));
    TL_RETURN_IF_ERROR(HostBarrier(player.device(), "end of shards"));
    if (rank == 0) TL_RETURN_IF_ERROR(Commit(steps_done));
    return HostBarrier(player.device(), "end of checkpoint");
  }

  Status Commit(int64_t steps_done) {
    CheckpointManifest manifest = start_.manifest;
    manifest.step = steps_done;
    manifest.losses = state_.LossesOf(steps_done);
    manifest.registers = players_[0]->registers().Save();
    return start_.folder->Commit(std::move(manifest));
  }

  Status Restore(RankPlayer& player) {
    return start_.restorer->Restore(
        player.rank(), [&](uint32_t buffer, int64_t offset, std::string_view bytes) {
          return WriteMemory(player.device(), static_cast<char*>(player.AddressOf(buffer)) + offset,
                             bytes.data(), static_cast<int64_t>(bytes.size()));
        });
  }

  Status ReadState(int32_t rank, uint32_t buffer, int64_t offset, std::span<char> bytes) const {
    const RankPlayer& holder = *players_[static_cast<size_t>(rank)];
    return ReadMemory(holder.device(), bytes.data(),
                      static_cast<const char*>(holder.AddressOf(buffer)) + offset,
                      static_cast<int64_t>(bytes.size()));
  }

  bool ReadsState() const {
    return !options_.find_non_finite && (!options_.save_weights_path.empty() || hooks_.inspect);
  }

  // Every rank waits while rank 0 reads what the last step left.
  Status MaybeReadState(RankPlayer& player) {
    if (!ReadsState()) return absl::OkStatus();
    TL_RETURN_IF_ERROR(HostBarrier(player.device(), "weights"));
    if (player.rank() == 0) {
      const ReadBuffer read = [this](int32_t rank, uint32_t buffer, int64_t offset,
                                     std::span<char> bytes) {
        return ReadState(rank, buffer, offset, bytes);
      };
      if (hooks_.inspect) TL_RETURN_IF_ERROR(hooks_.inspect(read));
      if (!options_.save_weights_path.empty()) {
        TL_RETURN_IF_ERROR(
            SaveWeights(options_.save_weights_path, options_.save_weights, program_, read));
      }
    }
    return HostBarrier(player.device(), "end of weights");
  }

  // ---- Result ----

  // Overflow of gradients in a step that was skipped did no harm.
  std::string FirstNonFinite() {
    const std::vector<StepGradients> gradients = state_.GradientsOf(options_.steps);
    const auto counts = [&](const NonFinite& found) {
      if (found.step < 0 || found.step == state_.diverged_step() || gradients.empty()) return true;
      const Role& role = program_.roles[program_.ranks[static_cast<size_t>(found.rank)].role];
      const Phase phase = Sections(role)[found.section]->instructions[found.instruction].phase;
      return phase == Phase::kForward || !gradients[static_cast<size_t>(found.step)].skipped;
    };
    const std::optional<NonFinite> first = findings_.First(counts);
    if (!first.has_value()) return "";
    return Describe(program_, *first) +
           (first->found_in_state ? ", whose state was none already when the run began" : "");
  }

  StatusOr<RunReport> Report() {
    RunReport report;
    report.finding = state_.divergence();
    const bool diverged = !report.finding.empty();
    const int64_t steps = diverged ? state_.diverged_step() + 1 : options_.steps;
    report.losses = state_.LossesOf(std::max(first_step_, steps));
    if (options_.find_non_finite) report.finding = FirstNonFinite();
    report.gradients = state_.GradientsOf(static_cast<int64_t>(report.losses.size()));
    if (start_.found) report.resumed_from_step = first_step_;
    // Ranks that were stopped have played different numbers of steps: no mean over them.
    const int64_t played = diverged ? 0 : std::max<int64_t>(0, options_.steps - first_step_);
    report.counted_steps = played > 1 ? played - 1 : played;
    std::array<TouchedBytes, static_cast<size_t>(Op::kCount)> touched{};
    for (const std::unique_ptr<RankPlayer>& player : players_) {
      if (player == nullptr) continue;
      for (size_t op = 0; op < touched.size(); ++op) {
        touched[op].declared += player->touched()[op].declared;
        touched[op].touched += player->touched()[op].touched;
      }
    }
    for (size_t op = 0; op < touched.size(); ++op) {
      if (touched[op].declared == 0) continue;
      report.touched.push_back({static_cast<Op>(op), touched[op].declared, touched[op].touched});
    }
    report.ranks = state_.TakeRanks();
    for (size_t rank = 0; rank < report.ranks.size(); ++rank) {
      report.ranks[rank].extent = program_.roles[program_.ranks[rank].role].extent;
    }
    return report;
  }

  const Program& program_;
  Machine& machine_;
  const SampleSource& samples_;
  const int64_t vocabulary_;
  const ExecuteOptions& options_;
  const ExecuteHooks& hooks_;
  const Start start_;
  const std::vector<uint32_t> bodies_;
  const int64_t first_step_;
  RunState state_;
  NonFiniteFindings findings_;
  std::vector<std::unique_ptr<RankPlayer>> players_;
  std::vector<Status> statuses_;
};

// What a run would begin with.
RunReport DryReport(const Start& start, const ExecuteHooks& hooks) {
  if (hooks.observer != nullptr) {
    for (const std::string& note : start.notes) hooks.observer->OnNote(note);
  }
  RunReport report;
  if (!start.found) return report;
  report.resumed_from_step = start.found->manifest.step;
  report.losses = start.found->manifest.losses;
  return report;
}

}  // namespace

StatusOr<RunReport> Execute(const Program& program, Machine& machine, const SampleSource& samples,
                            const ExecuteOptions& options, const ExecuteHooks& hooks) {
  TL_CHECK(DeviceCount(machine) >= static_cast<int>(program.ranks.size()), "a device per rank");
  if (options.steps < 1) {
    return UsageError(
        absl::StrCat("--steps ", options.steps, " is not a number of steps; give 1 or more"));
  }
  TL_RETURN_IF_ERROR(samples.CheckVocabulary(VocabularyOf(program)));
  TL_ASSIGN_OR_RETURN(std::vector<uint32_t> bodies, BodySequence(program, options.steps));
  TL_ASSIGN_OR_RETURN(Start start, FindStart(program, samples, options));
  if (options.dry_run) return DryReport(start, hooks);
  Run run(program, machine, samples, options, hooks, std::move(start), std::move(bodies));
  return run.Go();
}

}  // namespace tideline

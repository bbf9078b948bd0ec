#include "exec/interpreter/run_state.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace tideline {

RunState::RunState(const Program& program, const ExecuteHooks& hooks, std::vector<double> losses,
                   int64_t steps)
    : program_(program),
      hooks_(hooks),
      first_step_(static_cast<int64_t>(losses.size())),
      steps_(steps),
      losses_(std::move(losses)),
      ranks_(program.ranks.size()) {
  const size_t all = static_cast<size_t>(std::max(steps, first_step_));
  loss_reader_.assign(all, -1);
  losses_.resize(all, std::numeric_limits<double>::quiet_NaN());
  if (hooks_.sink == nullptr) return;
  for (const std::string& name : program.names) names_.push_back(hooks_.sink->Intern(name));
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const std::vector<Lane>& lanes = program.roles[program.ranks[rank].role].lanes;
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      hooks_.sink->DeclareLane(static_cast<int32_t>(rank), static_cast<uint16_t>(lane),
                               LaneName(program, lanes[lane]));
    }
  }
}

Status RunState::OnLoss(int32_t rank, int64_t step, float loss) {
  std::lock_guard lock(mutex_);
  if (step < 0 || step >= steps_) return InternalError("a loss is read inside a step");
  if (!std::isfinite(loss)) return Diverge(rank, step, loss);
  int32_t& reader = loss_reader_[static_cast<size_t>(step)];
  double& stored = losses_[static_cast<size_t>(step)];
  if (reader < 0) {
    reader = rank;
    stored = loss;
    return absl::OkStatus();
  }
  if (std::bit_cast<uint32_t>(static_cast<float>(stored)) == std::bit_cast<uint32_t>(loss)) {
    return absl::OkStatus();
  }
  return InternalError(absl::StrCat("rank ", rank, " reads the loss ", loss, " of step ", step,
                                    ", rank ", reader, " reads ", stored,
                                    "; the plan must reduce it before it is read"));
}

Status RunState::Diverge(int32_t rank, int64_t step, float loss) {
  if (divergence_.empty()) {
    losses_[static_cast<size_t>(step)] = loss;
    diverged_step_ = step;
    divergence_ = absl::StrCat(
        "step ", step, ": the loss is ", loss, ", read by rank ", rank,
        "; training has diverged and was stopped. Lower optimizer.learning_rate in the plan and "
        "run it again");
  }
  return ComparisonError(divergence_);
}

void RunState::OnSection(int32_t rank, int64_t step, const SectionTrace& trace, MemoryTide& tide) {
  std::lock_guard lock(mutex_);
  RankReport& report = ranks_[rank];
  if (hooks_.sink != nullptr) {
    trace.EmitEvents(rank, static_cast<int32_t>(step), names_, *hooks_.sink);
  }
  tide.Play(trace, hooks_.sink);
  if (step < 0) return;
  const int64_t duration = trace.end_ns() - trace.begin_ns();
  report.step_time_ns.push_back(duration);
  if (step > first_step_ || steps_ == first_step_ + 1) trace.ChargeTime(report.time_ns);
  Progress& progress = progress_[step];
  progress.longest_ns = std::max(progress.longest_ns, duration);
  if (++progress.ranks == ranks_.size()) Report(step);
}

void RunState::Report(int64_t step) {
  const auto done = progress_.find(step);
  if (hooks_.observer != nullptr) {
    hooks_.observer->OnStep(step, losses_[static_cast<size_t>(step)],
                            static_cast<double>(done->second.longest_ns) * 1e-9);
  }
  progress_.erase(done);
}

void RunState::OnNote(std::string_view text) {
  std::lock_guard lock(mutex_);
  if (hooks_.observer != nullptr) hooks_.observer->OnNote(text);
}

std::vector<double> RunState::LossesOf(int64_t steps) {
  std::lock_guard lock(mutex_);
  return {losses_.begin(), losses_.begin() + steps};
}

}  // namespace tideline

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
  gradients_.resize(all);
  writes_.assign(program.ranks.size(), std::vector<int64_t>(program.registers.size()));
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
  if (!std::isfinite(loss)) {
    losses_[static_cast<size_t>(step)] = loss;
    return Diverge(step, absl::StrCat("the loss is ", loss, ", read by rank ", rank));
  }
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

Status RunState::Diverge(int64_t step, const std::string& what) {
  if (divergence_.empty()) {
    diverged_step_ = step;
    divergence_ =
        absl::StrCat("step ", step, ": ", what,
                     "; training has diverged and was stopped. Lower optimizer.learning_rate in "
                     "the plan and run it again");
  }
  return keeps_going_ ? absl::OkStatus() : ComparisonError(divergence_);
}

Status RunState::OnGate(int32_t rank, int64_t step, const GateReading& reading) {
  std::lock_guard lock(mutex_);
  if (step < 0 || step >= steps_) return InternalError("an update is gated inside a step");
  gated_ = true;
  StepGradients& stored = gradients_[static_cast<size_t>(step)];
  if (!std::isfinite(reading.norm) && (reading.updates || reading.loss_scale <= 1)) {
    stored = {reading.norm, reading.loss_scale, true};
    return Diverge(step, absl::StrCat("gradients are no finite numbers",
                                      reading.updates ? "" : " at the least loss scale",
                                      ", read by rank ", rank));
  }
  const StepGradients read{reading.norm, reading.loss_scale, !reading.updates};
  if (!stored.norm.has_value()) stored = read;
  if (stored == read) return absl::OkStatus();
  return InternalError(absl::StrCat("rank ", rank, " reads the gradient norm ", reading.norm,
                                    " of step ", step, ", another rank ", *stored.norm,
                                    "; the plan must reduce it before it is read"));
}

Status RunState::OnRegister(int32_t rank, uint32_t id, double value) {
  std::lock_guard lock(mutex_);
  const auto entry = written_
                         .try_emplace({id, writes_[static_cast<size_t>(rank)][id]++},
                                      Written{.rank = rank, .value = value, .ranks = 0})
                         .first;
  const Written first = entry->second;
  if (std::bit_cast<uint64_t>(first.value) != std::bit_cast<uint64_t>(value)) {
    return InternalError(absl::StrCat("rank ", rank, " writes ", value, " into register '",
                                      program_.registers[id].name, "', rank ", first.rank, " ",
                                      first.value,
                                      "; it is replicated, so all must write the same"));
  }
  if (++entry->second.ranks == ranks_.size()) written_.erase(entry);
  return absl::OkStatus();
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
    StepResult result{.step = step, .loss = losses_[static_cast<size_t>(step)]};
    result.seconds = static_cast<double>(done->second.longest_ns) * 1e-9;
    if (gated_) result.gradients = gradients_[static_cast<size_t>(step)];
    hooks_.observer->OnStep(result);
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

std::vector<StepGradients> RunState::GradientsOf(int64_t steps) {
  std::lock_guard lock(mutex_);
  if (!gated_) return {};
  return {gradients_.begin(), gradients_.begin() + steps};
}

}  // namespace tideline

#include "traces/run/run_recorder.h"

namespace tideline {

uint32_t RunRecorder::Intern(std::string_view name) {
  const auto [found, added] =
      ids_.try_emplace(std::string(name), static_cast<uint32_t>(names_.size()));
  if (added) names_.emplace_back(name);
  return found->second;
}

void RunRecorder::DeclareLane(int32_t rank, uint16_t lane, std::string_view name) {
  lanes_.push_back({rank, lane, Intern(name)});
}

Status RunRecorder::VisitEvents(
    const std::function<Status(std::span<const RunEvent>)>& visitor) const {
  return events_.empty() ? absl::OkStatus() : visitor(events_);
}

Status RunRecorder::VisitSamples(
    const std::function<Status(std::span<const MemorySample>)>& visitor) const {
  return samples_.empty() ? absl::OkStatus() : visitor(samples_);
}

}  // namespace tideline

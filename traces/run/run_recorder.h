// RunRecorder: a Run in memory, sink and source in one. For tests and short runs; a long run goes
// to a file (traces/run/run_file_writer.h), at 56 bytes per event here against about 20 there.
// Not for concurrent calls.
#ifndef TIDELINE_TRACES_RUN_RUN_RECORDER_H_
#define TIDELINE_TRACES_RUN_RUN_RECORDER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "traces/run/run_source.h"

namespace tideline {

class RunRecorder : public RunSink, public RunSource {
 public:
  uint32_t Intern(std::string_view name) override;
  void DeclareLane(int32_t rank, uint16_t lane, std::string_view name) override;
  void Add(const RunEvent& event) override { events_.push_back(event); }
  void Add(const MemorySample& sample) override { samples_.push_back(sample); }
  void SetMetadata(RunMetadata metadata) { metadata_ = std::move(metadata); }

  const std::vector<RunEvent>& events() const { return events_; }
  const std::vector<MemorySample>& samples() const { return samples_; }

  const RunMetadata& metadata() const override { return metadata_; }
  const std::vector<std::string>& names() const override { return names_; }
  const std::vector<RunLane>& lanes() const override { return lanes_; }
  uint64_t event_count() const override { return events_.size(); }
  uint64_t sample_count() const override { return samples_.size(); }
  Status VisitEvents(
      const std::function<Status(std::span<const RunEvent>)>& visitor) const override;
  Status VisitSamples(
      const std::function<Status(std::span<const MemorySample>)>& visitor) const override;

 private:
  RunMetadata metadata_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<RunLane> lanes_;
  std::vector<RunEvent> events_;
  std::vector<MemorySample> samples_;
};

}  // namespace tideline

#endif  // TIDELINE_TRACES_RUN_RUN_RECORDER_H_

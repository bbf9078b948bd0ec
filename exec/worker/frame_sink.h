// FrameSink: sends events, memory samples and steps to the parent as frames, in blocks.
#ifndef TIDELINE_EXEC_WORKER_FRAME_SINK_H_
#define TIDELINE_EXEC_WORKER_FRAME_SINK_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "exec/interpreter/run_report.h"
#include "exec/worker/protocol.h"
#include "traces/run/run_sink.h"

namespace tideline {

// Both interfaces are called by one thread at a time, never by two at once (RunState's mutex).
class FrameSink : public RunSink, public RunObserver {
 public:
  explicit FrameSink(int descriptor) : descriptor_(descriptor) {}

  uint32_t Intern(std::string_view name) override;
  void DeclareLane(int32_t rank, uint16_t lane, std::string_view name) override;
  void Add(const RunEvent& event) override;
  void Add(const MemorySample& sample) override;
  void OnStep(const StepResult& result) override;
  void OnNote(std::string_view text) override;

  // Sends what is still held back; the first error of any write.
  Status Flush();

 private:
  void Write(FrameType type, std::string_view payload);

  const int descriptor_;
  uint32_t names_ = 0;
  std::vector<RunEvent> events_;
  std::vector<MemorySample> samples_;
  Status status_;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_WORKER_FRAME_SINK_H_

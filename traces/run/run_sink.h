// RunSink: where interpreters put what happened. One schema for simulated, emulated, CUDA and
// imported runs.
#ifndef TIDELINE_TRACES_RUN_RUN_SINK_H_
#define TIDELINE_TRACES_RUN_RUN_SINK_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace tideline {

// One instruction of one rank, finished. Times are ns since the start of the run.
struct RunEvent {
  int32_t rank = 0;
  int32_t step = 0;          // -1: prologue; steps count from 0
  uint32_t instruction = 0;  // index in its section's list
  uint16_t lane = 0;         // index into the rank's lanes (see RunSink::DeclareLane)
  uint8_t kind = 0;          // InstructionKind of the Program
  uint8_t phase = 0;         // Phase of the Program
  uint32_t name = 0;         // from RunSink::Intern
  int32_t layer = -1;
  int32_t micro_batch = -1;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t bytes = 0;  // moved by copies, collectives and messages; 0 for kernels
};

// Live bytes of one category in one space of one rank, from `time_ns` on.
struct MemorySample {
  int32_t rank = 0;
  uint8_t space = 0;
  uint8_t category = 0;
  int64_t time_ns = 0;
  int64_t live_bytes = 0;
};

// Implementations say whether they may be called from several threads; the ones of traces/run may
// not.
class RunSink {
 public:
  virtual ~RunSink() = default;
  virtual uint32_t Intern(std::string_view name) = 0;
  virtual void DeclareLane(int32_t rank, uint16_t lane, std::string_view name) = 0;
  virtual void Add(const RunEvent& event) = 0;
  virtual void Add(const MemorySample& sample) = 0;
};

}  // namespace tideline

#endif  // TIDELINE_TRACES_RUN_RUN_SINK_H_

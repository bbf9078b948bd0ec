// Protocol: what a worker process and its parent say to each other over two pipes.
//
// A frame is a magic number, a type, a length and a payload (exec/wire/bytes.h). The parent sends
// one kRequest; the worker answers kHello, then any number of kNote, kStep, kName, kLane, kEvents
// and kSamples, and at the end one kReport or one kFailure. Both sides check version, type, length
// and every value: a frame that does not fit is an error (exit 70 from our own worker would mean
// two versions were mixed), never trusted. Usable without linking the executor.
#ifndef TIDELINE_EXEC_WORKER_PROTOCOL_H_
#define TIDELINE_EXEC_WORKER_PROTOCOL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "exec/device/modes.h"
#include "exec/interpreter/run_report.h"
#include "models/import/hf_weights.h"
#include "traces/run/run_sink.h"

namespace tideline {

inline constexpr uint32_t kWorkerProtocolVersion = 6;

enum class FrameType : uint8_t {
  kRequest,
  kHello,
  kNote,
  kStep,
  kName,
  kLane,
  kEvents,
  kSamples,
  kReport,
  kFailure,
};

struct Frame {
  FrameType type = FrameType::kNote;
  std::string payload;
};

// What to run, and on which devices.
struct WorkerRequest {
  std::string program;    // file form (planner/program/file.h)
  std::string data_path;  // empty: the built-in text
  int64_t steps = 10;
  std::string checkpoint_folder;
  int64_t checkpoint_every = 10;
  bool resume = false;
  bool dry_run = false;  // check everything, run nothing
  std::string plan_hash;
  bool eager = false;  // --allocator eager
  Numerics numerics = Numerics::kExact;
  CollectiveMethod collectives = CollectiveMethod::kNative;
  CheckLevel check = CheckLevel::kOrder;
  SchedulePolicy schedule = SchedulePolicy::kConcurrent;
  uint64_t schedule_seed = 0;
  int32_t devices_per_node = 8;
  int64_t device_memory_bytes = 0;
  int64_t pinned_memory_bytes = 0;  // per node
  bool record = false;              // send events and memory samples
  std::string weights_path;         // empty: random initial values
  WeightMap weights;
  std::string save_weights_path;  // empty: not saved
  WeightMap save_weights;
};

struct LaneMessage {
  int32_t rank = 0;
  uint16_t lane = 0;
  std::string name;
};

std::string EncodeRequest(const WorkerRequest& request);
std::string EncodeHello();
std::string EncodeStep(const StepResult& step);
std::string EncodeLane(const LaneMessage& lane);
std::string EncodeEvents(const std::vector<RunEvent>& events);
std::string EncodeSamples(const std::vector<MemorySample>& samples);
std::string EncodeReport(const RunReport& report);
std::string EncodeFailure(const Status& status);

// Errors (exit 5) say which message and that it is malformed, or which version the other side has.
StatusOr<WorkerRequest> DecodeRequest(std::string_view payload);
Status CheckHello(std::string_view payload);
StatusOr<StepResult> DecodeStep(std::string_view payload);
StatusOr<LaneMessage> DecodeLane(std::string_view payload);
StatusOr<std::vector<RunEvent>> DecodeEvents(std::string_view payload);
StatusOr<std::vector<MemorySample>> DecodeSamples(std::string_view payload);
StatusOr<RunReport> DecodeReport(std::string_view payload);
// The status that the worker failed with; an error of its own when the payload is malformed.
Status DecodeFailure(std::string_view payload);

// Blocking; EINTR is handled. Errors: exit 1 naming the system's reason.
Status WriteFrame(int descriptor, FrameType type, std::string_view payload);

// The next frame; `ended` is set instead when the other side closed between two frames. Errors:
// exit 5 for a frame cut off, of an unknown type or longer than `limit_bytes`.
inline constexpr uint64_t kLargestFrameBytes = uint64_t{1} << 30;
StatusOr<Frame> ReadFrame(int descriptor, bool* ended, uint64_t limit_bytes = kLargestFrameBytes);

}  // namespace tideline

#endif  // TIDELINE_EXEC_WORKER_PROTOCOL_H_

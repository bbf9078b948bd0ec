#include "exec/worker/worker.h"

#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "exec/data/open_source.h"
#include "exec/interpreter/interpreter.h"
#include "exec/memory/capacity.h"
#include "exec/worker/backend.h"
#include "exec/worker/frame_sink.h"
#include "planner/program/file.h"
#include "planner/program/verifier.h"

namespace tideline {
namespace {

ExecuteOptions OptionsOf(const WorkerRequest& request) {
  ExecuteOptions options;
  options.steps = request.steps;
  options.eager = request.eager;
  options.checkpoint_folder = request.checkpoint_folder;
  options.checkpoint_every = request.checkpoint_every;
  options.resume = request.resume;
  options.dry_run = request.dry_run;
  options.plan_hash = request.plan_hash;
  options.weights_path = request.weights_path;
  options.weights = request.weights;
  options.save_weights_path = request.save_weights_path;
  options.save_weights = request.save_weights;
  return options;
}

// Everything that can be wrong with a Program before it runs.
Status CheckProgram(const Program& program, const WorkerRequest& request) {
  if (program.ranks.empty()) return InputError("program: it has no ranks");
  if (request.devices_per_node < 1) {
    return UsageError(
        absl::StrCat(request.devices_per_node, " devices per node; there is at least 1"));
  }
  const Status safe = Verify(program);
  if (!safe.ok()) return InputError(absl::StrCat("program: ", safe.message()));
  TL_RETURN_IF_ERROR(CheckCapacity(program, request.devices_per_node, request.device_memory_bytes,
                                   request.pinned_memory_bytes));
  return CheckExecutable(program);
}

// A run that diverged is played again from its newest checkpoint, or from its beginning, to say
// which instruction made the first value that is no finite number. One operation after the other,
// so that the answer is always the same.
std::string FirstNonFinite(const WorkerRequest& request, const Program& program,
                           const SampleSource& samples, int64_t steps) {
  ExecuteOptions options = OptionsOf(request);
  options.steps = steps;
  options.resume = !options.checkpoint_folder.empty();
  options.find_non_finite = true;
  WorkerRequest serial = request;
  serial.schedule = SchedulePolicy::kSerial;
  StatusOr<MachinePtr> machine = OpenMachine(serial, static_cast<int>(program.ranks.size()));
  if (!machine.ok())
    return absl::StrCat("it could not be played again: ", machine.status().message());
  const StatusOr<RunReport> again = Execute(program, **machine, samples, options, {});
  if (!again.ok()) {
    return absl::StrCat("it could not be played again: ", again.status().message());
  }
  if (again->finding.empty()) return "played again, no instruction made such a value";
  return absl::StrCat("the first such value came from ", again->finding);
}

StatusOr<RunReport> Serve(
    const WorkerRequest& request, int board_descriptor,
    const std::function<void(const Program*, const PositionBoard*)>& on_program, FrameSink& sink,
    Program& program, std::optional<PositionBoard>& board) {
  TL_ASSIGN_OR_RETURN(program, Parse(request.program));
  TL_RETURN_IF_ERROR(CheckProgram(program, request));
  TL_ASSIGN_OR_RETURN(const std::unique_ptr<const SampleSource> samples,
                      OpenSamples(program, request.data_path, VocabularyOf(program)));
  if (board_descriptor >= 0) {
    TL_ASSIGN_OR_RETURN(
        board, PositionBoard::Attach(board_descriptor, static_cast<int>(program.ranks.size())));
  }
  if (on_program) on_program(&program, board ? &*board : nullptr);
  TL_ASSIGN_OR_RETURN(MachinePtr machine,
                      OpenMachine(request, static_cast<int>(program.ranks.size())));
  ExecuteHooks hooks;
  hooks.sink = request.record ? &sink : nullptr;
  hooks.observer = &sink;
  hooks.positions = board ? &*board : nullptr;
  StatusOr<RunReport> report = Execute(program, *machine, *samples, OptionsOf(request), hooks);
  if (!report.ok() || report->finding.empty()) return report;
  machine.reset();
  sink.OnNote("the run has diverged and is played again to find where");
  absl::StrAppend(
      &report->finding, "; ",
      FirstNonFinite(request, program, *samples, static_cast<int64_t>(report->losses.size())));
  return report;
}

}  // namespace

Status ServeRequest(const WorkerPipes& pipes, int board_descriptor,
                    const std::function<void(const Program*, const PositionBoard*)>& on_program) {
  bool ended = false;
  TL_ASSIGN_OR_RETURN(const Frame frame, ReadFrame(pipes.request, &ended));
  if (ended || frame.type != FrameType::kRequest) {
    return UsageError("the worker reads one request from its input; it is started by tideline");
  }
  TL_RETURN_IF_ERROR(WriteFrame(pipes.answer, FrameType::kHello, EncodeHello()));
  FrameSink sink(pipes.answer);
  Program program;
  std::optional<PositionBoard> board;
  StatusOr<WorkerRequest> request = DecodeRequest(frame.payload);
  StatusOr<RunReport> report =
      request.ok() ? Serve(*request, board_descriptor, on_program, sink, program, board)
                   : StatusOr<RunReport>(request.status());
  if (on_program) on_program(nullptr, nullptr);
  TL_RETURN_IF_ERROR(sink.Flush());
  if (report.ok()) return WriteFrame(pipes.answer, FrameType::kReport, EncodeReport(*report));
  TL_RETURN_IF_ERROR(WriteFrame(pipes.answer, FrameType::kFailure, EncodeFailure(report.status())));
  return report.status();
}

}  // namespace tideline

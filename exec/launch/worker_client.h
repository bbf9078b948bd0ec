// Worker client: runs a worker process and takes in what it reports.
//
// The worker plays a Program in a process of its own, so that whatever happens to it (a crash, the
// out-of-memory killer, kill -9) ends in a Status here and one report with the last position of
// every rank. The worker dies with the thread that started it (PR_SET_PDEATHSIG), so start it on a
// thread that lives as long as the run. Links nothing of the executor.
//
//   TL_ASSIGN_OR_RETURN(const std::string path, FindWorker("tideline-worker-emulated"));
//   TL_ASSIGN_OR_RETURN(RunReport report, RunWorker(path, request, program, {.sink = &recorder}));
#ifndef TIDELINE_EXEC_LAUNCH_WORKER_CLIENT_H_
#define TIDELINE_EXEC_LAUNCH_WORKER_CLIENT_H_

#include <sys/types.h>

#include <string>

#include "base/status.h"
#include "exec/interpreter/position_board.h"
#include "exec/interpreter/run_report.h"
#include "exec/worker/protocol.h"
#include "planner/program/program.h"
#include "traces/run/run_sink.h"

namespace tideline {

// Both may be null; called on the waiting thread. The sink gets events when request.record is set.
struct WorkerHooks {
  RunSink* sink = nullptr;
  RunObserver* observer = nullptr;
};

// The worker `name` beside this program, or where Bazel builds it. Error (exit 6): it is not there.
StatusOr<std::string> FindWorker(const std::string& name);

class WorkerClient {
 public:
  // Starts the process and sends the request. `program` is the one in the request and must outlive
  // the client; it turns positions into lines. Errors: exit 6 when the worker cannot be started.
  static StatusOr<WorkerClient> Start(const std::string& path, const WorkerRequest& request,
                                      const Program& program);
  WorkerClient(WorkerClient&& other) noexcept;
  WorkerClient& operator=(WorkerClient&&) = delete;
  // Kills a worker that is still there.
  ~WorkerClient();

  // Takes in frames until the end. The worker's own failure comes as the Status it failed with; a
  // worker that died otherwise is a RunError with how, and every rank's last position.
  StatusOr<RunReport> Wait(const WorkerHooks& hooks);

  void Kill();
  pid_t pid() const { return pid_; }

 private:
  WorkerClient(const Program& program, PositionBoard board);
  Status Spawn(const std::string& path);
  Status Send(const WorkerRequest& request);
  std::string Positions() const;
  // Waits for the process; how it ended, in words, empty when it exited with 0.
  std::string Reap();
  Status Death(const std::string& what);

  const Program* program_;
  PositionBoard board_;
  pid_t pid_ = -1;
  int to_worker_ = -1;
  int from_worker_ = -1;
  Status sent_;
};

// Start and Wait in one.
StatusOr<RunReport> RunWorker(const std::string& path, const WorkerRequest& request,
                              const Program& program, const WorkerHooks& hooks);

}  // namespace tideline

#endif  // TIDELINE_EXEC_LAUNCH_WORKER_CLIENT_H_

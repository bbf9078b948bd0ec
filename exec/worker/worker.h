// Worker: the executor as a process. Reads a request from one descriptor, plays the Program on the
// devices of its backend, and writes what happens to the other (protocol.h).
#ifndef TIDELINE_EXEC_WORKER_WORKER_H_
#define TIDELINE_EXEC_WORKER_WORKER_H_

#include <functional>

#include "base/status.h"
#include "exec/interpreter/position_board.h"
#include "exec/worker/protocol.h"
#include "planner/program/program.h"

namespace tideline {

struct WorkerPipes {
  int request = 0;
  int answer = 1;
};

// Serves one request. A `board_descriptor` below 0 means that there is no board; `on_program` is
// called once, with a Program that lives until the function returns, before anything runs (null:
// not called). The returned status is also what the other side was told, unless telling failed.
Status ServeRequest(const WorkerPipes& pipes, int board_descriptor,
                    const std::function<void(const Program*, const PositionBoard*)>& on_program);

}  // namespace tideline

#endif  // TIDELINE_EXEC_WORKER_WORKER_H_

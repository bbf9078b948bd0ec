// Interpreter: plays a Program on the devices of a machine; the executor's counterpart of
// sim/interpreter.
//
// One host thread per rank gives its instructions in list order (rank_player.h). This part owns
// what the ranks share: the schedule of bodies, losses, checkpoints, and what goes to the
// observers.
//
//   TL_ASSIGN_OR_RETURN(MachinePtr machine, MakeEmulator({.devices = ranks, ...}));
//   TL_ASSIGN_OR_RETURN(RunReport report, Execute(program, *machine, samples, options, {}));
#ifndef TIDELINE_EXEC_INTERPRETER_INTERPRETER_H_
#define TIDELINE_EXEC_INTERPRETER_INTERPRETER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "exec/data/sample_source.h"
#include "exec/device/device.h"
#include "exec/interpreter/position_board.h"
#include "exec/interpreter/run_report.h"
#include "exec/weights/weights.h"
#include "planner/program/program.h"
#include "traces/run/run_sink.h"

namespace tideline {

struct ExecuteOptions {
  int64_t steps = 10;  // in total, those before a resume included
  bool eager = false;  // every buffer is a reservation of its own; the machine must watch touches
  std::string checkpoint_folder = {};  // empty: no checkpoints
  int64_t checkpoint_every = 10;       // steps
  bool resume = false;
  bool dry_run = false;  // checks everything that a run checks before its first step, and ends
  // Look for the first instruction that makes a value which is no finite number, and name it in the
  // report's `finding` (empty: none does). Nothing is saved, and a divergence does not stop the
  // run.
  bool find_non_finite = false;
  std::string plan_hash = {};
  std::string weights_path = {};       // empty: random initial values
  WeightMap weights = {};              // of that file
  std::string save_weights_path = {};  // empty: the trained weights are not saved
  WeightMap save_weights = {};         // what the file will hold
};

// All may be null. The sink is called by one thread at a time.
struct ExecuteHooks {
  RunSink* sink = nullptr;
  RunObserver* observer = nullptr;
  PositionBoard* positions = nullptr;
  // Called once after the last step, with what reads the ranks' persistent buffers as it left them.
  std::function<Status(const ReadBuffer& read)> inspect = {};
};

// Whether this interpreter can play `program`: every kernel has an implementation, host tasks and
// lanes fit. The Program's safety is the verifier's matter. Errors: exit 5 or 6.
Status CheckExecutable(const Program& program);

// The tokens that the model knows, or its classes, are 0 up to this; 0 where no kernel says (any).
int64_t VocabularyOf(const Program& program);

// The bodies of `steps` steps: those with a count as often as it says, the open one (count 0) for
// the rest. Error (exit 5): the schedule names no body, or cannot have that many steps.
StatusOr<std::vector<uint32_t>> BodySequence(const Program& program, int64_t steps);

// Precondition: Verify(program) and CheckExecutable(program) hold, the machine has a device per
// rank. A loss that is no finite number stops the run; the report then says so in `finding` and has
// what was measured until then. Errors: exit 1 when the run fails (every rank's finding is the same
// one), exit 2 for options that do not go together, exit 5 for a checkpoint that cannot be used and
// for tokens outside the vocabulary.
StatusOr<RunReport> Execute(const Program& program, Machine& machine, const SampleSource& samples,
                            const ExecuteOptions& options, const ExecuteHooks& hooks);

}  // namespace tideline

#endif  // TIDELINE_EXEC_INTERPRETER_INTERPRETER_H_

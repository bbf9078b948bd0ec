// ProcessEvaluator: runs a function in a child process per request, so that what it does to the
// process (SimGrid's statics, memory, an abort) ends with the request.
//
// Start() forks a helper while the process is still single-threaded; the helper stays so and forks
// a child for each request, because forking a threaded process is not safe. Request and answer are
// bytes over pipes; what they mean is the caller's. About 1 ms per request besides the function.
//
//   // first thing in main():
//   TL_ASSIGN_OR_RETURN(auto evaluator, ProcessEvaluator::Start([](std::string_view plan) {
//     return SimulateAndSerialize(plan);   // StatusOr<std::string>, in the child
//   }));
//   StatusOr<std::string> answer = evaluator->Evaluate(plan_bytes);   // any time later
//
// A child that dies gives an InternalError naming the signal or exit code, and the next request
// works. Evaluate() may be called from several threads: requests wait for each other. The helper
// ends when the evaluator, or the process, is gone.
#ifndef TIDELINE_SIM_EVALUATOR_H_
#define TIDELINE_SIM_EVALUATOR_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tideline {

class ProcessEvaluator {
 public:
  // Runs in the child. What it returns, status included, is what Evaluate() returns.
  using Function = std::function<StatusOr<std::string>(std::string_view request)>;

  // Precondition: this process has one thread. Errors: no process or pipe could be made.
  static StatusOr<std::unique_ptr<ProcessEvaluator>> Start(const Function& function);

  virtual ~ProcessEvaluator() = default;

  virtual StatusOr<std::string> Evaluate(std::string_view request) = 0;
};

}  // namespace tideline

#endif  // TIDELINE_SIM_EVALUATOR_H_

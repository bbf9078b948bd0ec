// RegisterFile: the registers of one rank while it plays (planner/program/program.h), and the host
// task that decides about an update.
#ifndef TIDELINE_EXEC_INTERPRETER_REGISTER_FILE_H_
#define TIDELINE_EXEC_INTERPRETER_REGISTER_FILE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/square_sum.h"
#include "base/status.h"
#include "planner/program/program.h"

namespace tideline {

// One rank's; one thread.
class RegisterFile {
 public:
  // Persistent registers have their first values. `program` must outlive it.
  explicit RegisterFile(const Program& program);

  // What a register holds. Precondition: the verifier has seen that it is written.
  double Get(uint32_t id) const { return values_[id]; }

  // Errors (exit 1): the value is outside the register's bounds, or no whole number where it must
  // be; names the register.
  Status Set(uint32_t id, double value);

  // The persistent ones, in the order of the table.
  std::vector<RegisterValue> Save() const;
  // Those of them that `saved` names; others keep their first value, and names that this Program
  // does not have are passed over (another plan wrote them). Errors (exit 5): a value that the
  // register cannot have.
  Status Restore(std::span<const RegisterValue> saved);

 private:
  const Program& program_;
  std::vector<double> values_;
};

// What a kGateUpdate found.
struct GateReading {
  double norm = 0;        // of the unscaled gradients; infinite: some are no finite numbers
  double loss_scale = 0;  // that they were scaled by; 0: none
  bool updates = true;    // false: the step is skipped
};

// Plays a kGateUpdate on `squares` (base/square_sum.h).
StatusOr<GateReading> PlayGate(const UpdateGate& gate,
                               std::span<const float, SquareSum::kValues> squares,
                               RegisterFile& registers);

}  // namespace tideline

#endif  // TIDELINE_EXEC_INTERPRETER_REGISTER_FILE_H_

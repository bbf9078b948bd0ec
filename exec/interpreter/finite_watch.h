// FiniteWatch: finds the first instruction that made a value which is no finite number.
//
// For a run that is played again because it diverged: behind every kernel and collective of a rank
// goes a kernel that looks at what it wrote and raises the instruction's flag; the flags are read
// when the section has ended. What an instruction reads was looked at when it was written, by its
// own rank or by the one that sent it, so of all flags of a section the one whose instruction ended
// first is a cause and not a consequence. Costs a read of everything that is written.
#ifndef TIDELINE_EXEC_INTERPRETER_FINITE_WATCH_H_
#define TIDELINE_EXEC_INTERPRETER_FINITE_WATCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/status.h"
#include "exec/device/device.h"
#include "exec/interpreter/section_trace.h"
#include "planner/program/program.h"

namespace tideline {

// Where such a value was made first.
struct NonFinite {
  int32_t rank = 0;
  int64_t step = 0;
  uint32_t section = 0;  // into Sections(role)
  uint32_t instruction = 0;
  bool found_in_state = false;  // it was there already when the run began, in what it updates
  int64_t end_ns = 0;
};

// What the ranks found. Any thread.
class NonFiniteFindings {
 public:
  // Keeps the first of each step: one that was there already, then by the time it ended, then by
  // rank.
  void Add(const NonFinite& found);

  // The first of all that `counts` (overflow in a step that was skipped does not).
  std::optional<NonFinite> First(const std::function<bool(const NonFinite&)>& counts) const;

 private:
  mutable std::mutex mutex_;
  std::map<int64_t, std::vector<NonFinite>> by_step_;
};

// "rank 1: step 3, body 0, instruction 451 'layers.3.mlp.up' (layer 4, micro-batch 1), op einsum".
std::string Describe(const Program& program, const NonFinite& found);

// One rank's; its thread only.
class FiniteWatch {
 public:
  // All must outlive it.
  FiniteWatch(const Program& program, Device device, int32_t rank, NonFiniteFindings* findings);
  ~FiniteWatch();
  FiniteWatch(const FiniteWatch&) = delete;
  FiniteWatch& operator=(const FiniteWatch&) = delete;

  // Address of an operand on this rank.
  using AddressOf = std::function<void*(const Operand& operand)>;

  // Reserves the flags. Errors: the device has no memory for them.
  Status Open();

  // Looks at the state that `section` updates, before it is played for the first time.
  Status CheckState(const Section& section, uint32_t section_index, int64_t step, Stream stream,
                    const AddressOf& address_of);

  // Before a section is played.
  Status Begin();
  // The instruction was just given to `stream`.
  Status After(const Section& section, uint32_t instruction, Stream stream,
               const AddressOf& address_of);
  // The section has ended and the device is synchronized.
  Status End(uint32_t section_index, int64_t step, const SectionTrace& trace);

 private:
  Status Look(const Operand& operand, DType dtype, bool lowest_is_fine, uint32_t instruction,
              Stream stream, const AddressOf& address_of);
  StatusOr<std::vector<int32_t>> Flags() const;

  const Program& program_;
  const Role& role_;
  const Device device_;
  const int32_t rank_;
  NonFiniteFindings* findings_;
  int64_t count_ = 0;
  void* flags_ = nullptr;  // one int32 per instruction of the longest section
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_INTERPRETER_FINITE_WATCH_H_

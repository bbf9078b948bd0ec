// SectionWriter: appends instructions to one section of one role and works out what each waits for.
//
// Waits follow from the operands: a read waits for the last write of its buffer, a write also for
// the reads since then, each only when it is on another lane and not already implied (vector clocks
// per lane). Buffers are taken as wholes, so waits may be stronger than bytes ask for, never
// weaker. O(lanes + operands) per instruction.
#ifndef TIDELINE_PLANNER_LOWERING_SECTION_WRITER_H_
#define TIDELINE_PLANNER_LOWERING_SECTION_WRITER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "planner/program/builder.h"
#include "planner/program/program.h"

namespace tideline {

class SectionWriter {
 public:
  // All three must outlive the writer; the role's lanes must be complete before the first Append.
  SectionWriter(const Role* role, Section* section);

  // Appends with the waits its operands ask for, and `more_waits` (kNoId entries are ignored).
  // Returns the index.
  uint32_t Append(const Instruction& instruction, std::span<const Operand> operands,
                  std::span<const uint32_t> more_waits = {});

  // The last instruction on a lane; kNoId before the first.
  uint32_t Last(uint16_t lane) const { return last_on_lane_[lane]; }
  uint32_t size() const { return builder_.size(); }

 private:
  void WaitFor(uint32_t instruction, uint16_t lane);
  void GrowTo(uint32_t buffer);

  const Role* role_;
  SectionBuilder builder_;
  Section* section_;
  size_t lanes_;
  std::vector<uint32_t> last_on_lane_;
  std::vector<uint32_t> clocks_;       // per instruction and lane: 1 + latest that is before it
  std::vector<uint32_t> lane_clocks_;  // the same at the end of each lane
  std::vector<uint32_t> writer_;       // per buffer
  std::vector<uint32_t> readers_;      // per buffer and lane: latest read since the last write
  std::vector<uint32_t> waits_;        // of the instruction being appended
};

}  // namespace tideline

#endif  // TIDELINE_PLANNER_LOWERING_SECTION_WRITER_H_

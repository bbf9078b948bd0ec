// GradientSync: where the gradients of one role's parameters go while its body is written: their
// buffers, their reduction over tp, over tied stages and over dp, and the update.
//
// A bucket is reduced as soon as its last gradient of the last micro-batch is there, so that the
// rest of backward hides it; buckets of tied parameters wait for the end of all units, where every
// stage can take part. Sums are made in one order whatever the ZeRO stage: micro-batches, uses, tp,
// then dp (DEFINITIONS 5, 6, 8).
#ifndef TIDELINE_PLANNER_LOWERING_GRADIENT_SYNC_H_
#define TIDELINE_PLANNER_LOWERING_GRADIENT_SYNC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/lowering/section_writer.h"
#include "planner/lowering/stage_context.h"

namespace tideline {

class GradientSync {
 public:
  // Both must outlive this.
  GradientSync(StageContext* context, SectionWriter* writer);

  // Where a node writes `gradient` now.
  Operand Target(TensorId gradient, int64_t bytes, Access access);
  // True when nothing is to be added to for `micro_batch`.
  bool Overwrites(TensorId gradient, int32_t micro_batch) const;
  // Says that the node that writes `gradient` for `micro_batch` has been appended.
  void Wrote(TensorId gradient, int32_t micro_batch);

  // After the last unit: reduces what has waited, updates every bucket and gathers its parameters.
  void Finish();

 private:
  struct State {
    uint32_t whole = kNoId;  // the buffer of whole gradients now
    size_t missing = 0;      // gradients still to be written before the reduction
    size_t gradients = 0;    // per micro-batch
    bool tied = false;
  };

  bool reduces_each(const State& state) const;
  void StartWhole(size_t bucket);
  void Reduce(size_t bucket, int32_t micro_batch);
  void AddLaterUses(size_t bucket);
  void ReduceOverData(size_t bucket, int32_t micro_batch);
  void Update(size_t bucket);
  void GatherParameters(size_t bucket);
  void AllReduceInPlace(const std::string& name, uint32_t buffer, int64_t elements, uint16_t lane,
                        uint32_t group);
  std::string Label(std::string_view what, size_t bucket) const;

  StageContext& context_;
  SectionWriter& writer_;
  const DType dtype_;
  const int64_t element_bytes_;
  std::vector<State> states_;    // per bucket
  std::vector<size_t> reduced_;  // buckets in the order in which they were reduced
};

}  // namespace tideline

#endif  // TIDELINE_PLANNER_LOWERING_GRADIENT_SYNC_H_

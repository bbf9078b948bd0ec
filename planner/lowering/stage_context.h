// StageContext: one role while it is being written: its lanes, its persistent buffers, and helpers
// that make kernels and instructions. Shared by the writers of the prologue and of the body.
#ifndef TIDELINE_PLANNER_LOWERING_STAGE_CONTEXT_H_
#define TIDELINE_PLANNER_LOWERING_STAGE_CONTEXT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/draft/draft.h"
#include "planner/lowering/parameter_layout.h"
#include "planner/program/builder.h"
#include "planner/program/program.h"

namespace tideline {

// The persistent buffers of one bucket; kNoId where the plan has none.
struct BucketBuffers {
  uint32_t parameter = kNoId;       // whole; with ZeRO 3 this rank's shard
  uint32_t gradient = kNoId;        // whole; none with ZeRO 2 and 3
  uint32_t gradient_shard = kNoId;  // ZeRO 2 and 3
  uint32_t master = kNoId;          // 16-bit plans
  uint32_t momentum = kNoId;
  uint32_t variance = kNoId;
  // Accumulators of the second and later uses: per slot and use - 1.
  std::vector<std::vector<uint32_t>> more_uses;
};

struct StageContext {
  const Draft* draft = nullptr;
  int32_t stage = 0;
  StageParameters parameters;
  int32_t zero = 0;  // in effect

  Program* program = nullptr;
  ProgramBuilder* builder = nullptr;
  uint32_t role_id = 0;
  UpdateGate gate;  // with registers when the plan's gradients are clipped or its loss is scaled

  // Lanes and groups; kNoLane and kNoId where unused.
  static constexpr uint16_t kNoLane = UINT16_MAX;
  uint16_t host_to_device = kNoLane;
  uint16_t device_to_host = kNoLane;
  uint16_t tensor_lane = kNoLane;
  uint16_t data_lane = kNoLane;
  uint16_t tied_lane = kNoLane;
  uint32_t tensor_group = kNoId;
  uint32_t data_group = kNoId;
  uint32_t tied_group = kNoId;
  uint16_t world_lane = kNoLane;  // of all ranks; with a gate
  uint32_t world_group = kNoId;

  std::vector<BucketBuffers> buffers;     // per bucket
  std::map<TensorId, uint32_t> state_of;  // the persistent buffers of the stage's state
  uint32_t loss_total = kNoId;            // where the head is

  Role& role() { return program->roles[role_id]; }
  const Graph& graph() const { return draft->graph; }
  bool has_block(int32_t block) const;

  // A buffer of this role, which lives as long as its accesses unless persistent.
  uint32_t AddBuffer(std::string_view name, int64_t bytes, Category category,
                     bool persistent = false, Space space = Space::kDevice);

  // An instruction of a kernel on the compute lane, without operands.
  Instruction Compute(std::string_view name, Op op, const Attributes& attributes,
                      const std::vector<OperandSpec>& operands, Phase phase,
                      const std::vector<uint32_t>& scalars = {});
  // A collective of the plan's order, and of its algorithm unless another is given.
  Instruction Communicate(std::string_view name, CollectiveKind kind, uint16_t lane, uint32_t group,
                          DType dtype, int64_t outer, int64_t block, Reduction reduction,
                          Phase phase, std::optional<CollectiveAlgorithm> algorithm = {});

  // The element where this rank's shard of a bucket begins.
  Affine ShardBegin(const Bucket& bucket) const;
};

// Lanes, groups and persistent buffers of `stage`; the role must exist, and the registers of
// `gate`.
StageContext MakeStageContext(const Draft& draft, int32_t stage, Program* program,
                              ProgramBuilder* builder, uint32_t role_id, const UpdateGate& gate);

// The coordinate difference, along the pipeline axis of `pp` stages, to the other end of a
// transfer: activations go to the next stage, gradients to the one before (around the ends when
// chunks are interleaved). Of two stages each is the other's next: one channel each way.
int32_t PeerDelta(const ScheduleItem& transfer, int32_t pp);

// Whole or part of a buffer, in bytes.
Operand ReadOf(uint32_t buffer, int64_t offset, int64_t bytes);
Operand WriteOf(uint32_t buffer, int64_t offset, int64_t bytes);
Operand UpdateOf(uint32_t buffer, int64_t offset, int64_t bytes);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_LOWERING_STAGE_CONTEXT_H_

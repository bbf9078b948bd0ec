// Programs written by hand for tests of the simulator: small ones piece by piece, and a training
// step with tensor, pipeline and data parallelism shaped like a lowered one.
//
// On TestCluster() durations are what one writes: a kernel of n seconds takes n seconds, launches
// cost nothing, and every link has a round bandwidth and no latency.
#ifndef TIDELINE_TESTS_SIM_SYNTHETIC_PROGRAM_H_
#define TIDELINE_TESTS_SIM_SYNTHETIC_PROGRAM_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/cluster/cluster_spec.h"
#include "planner/program/builder.h"
#include "planner/program/program.h"

namespace tideline {

// `nodes` nodes of `gpus` GPUs on a switch: NVLink ports 100e9 B/s, PCIe 50e9, one NIC of 10e9 per
// GPU, DRAM 400e9; no latencies, no host costs.
ClusterSpec TestCluster(int32_t nodes, int32_t gpus);

// A kernel that takes `seconds` on a TestCluster (to the ns).
uint32_t TimedKernel(ProgramBuilder& build, double seconds);

// Mesh dp x pp x tp with mesh order (dp, pp, tp), one role per pipeline stage or one role in all.
void SetMesh(Program& program, int32_t dp, int32_t pp, int32_t tp, bool role_per_stage);

// Writes one section instruction by instruction.
class Hand {
 public:
  Hand(Program* program, ProgramBuilder* build, uint32_t role);

  using Waits = std::vector<uint32_t>;
  uint32_t Compute(double seconds, const Waits& waits = {});
  uint32_t Collective(const tideline::Collective& collective, const Waits& waits = {});
  // All-reduce of fp32 elements over `axis`.
  uint32_t AllReduce(Axis axis, int64_t bytes, const Waits& waits = {});
  uint32_t Send(Axis axis, int32_t delta, int64_t bytes, const Waits& waits = {});
  uint32_t Receive(Axis axis, int32_t delta, int64_t bytes, const Waits& waits = {});
  uint32_t CopyToDevice(int64_t bytes, const Waits& waits = {});
  uint32_t CopyToHost(int64_t bytes, const Waits& waits = {});
  uint32_t HostTask(const Waits& waits = {});
  uint32_t Buffer(std::string_view name, int64_t bytes, Category category = Category::kActivation,
                  bool persistent = false);
  uint32_t Alloc(uint16_t lane, uint32_t buffer, const Waits& waits = {});
  uint32_t Free(uint16_t lane, uint32_t buffer, const Waits& waits = {});
  uint16_t LaneOf(Lane lane) { return build_->LaneOf(role_, lane); }

 private:
  uint32_t Add(InstructionKind kind, uint16_t lane, uint32_t what, const Operand* operand,
               const Waits& waits, std::string_view name);
  uint32_t AddMessage(InstructionKind kind, LaneKind lane, Axis axis, int32_t delta, int64_t bytes,
                      const Waits& waits);
  Operand BytesOf(int64_t bytes, Space space = Space::kDevice);

  Program* program_;
  ProgramBuilder* build_;
  uint32_t role_;
  SectionBuilder section_;
};

// A decoder-like training step: per layer and micro-batch `kernels` forward and 2 x `kernels`
// backward kernels, two all-reduces over tp in each direction, messages between stages in 1F1B
// order, one gradient all-reduce per layer over dp overlapped with backward, then updates.
struct TrainingShape {
  int32_t tp = 1, pp = 1, dp = 1;
  std::array<Axis, kAxes> mesh_order{Axis::kData, Axis::kPipeline, Axis::kTensor};
  int32_t layers_per_stage = 1;
  int32_t micro_batches = 1;
  int32_t kernels = 2;
  double kernel_s = 1e-4;
  bool recompute = false;             // forward once more before backward
  bool offload = false;               // each activation is copied to the host and back
  bool memory = true;                 // kAlloc and kFree of activations
  int64_t tensor_bytes = 4 << 20;     // all-reduced over tp
  int64_t message_bytes = 4 << 20;    // between stages
  int64_t gradient_bytes = 16 << 20;  // per layer, all-reduced over dp
  CollectiveAlgorithm gradient_algorithm = CollectiveAlgorithm::kRing;
};
Program SyntheticTraining(const TrainingShape& shape);

}  // namespace tideline

#endif  // TIDELINE_TESTS_SIM_SYNTHETIC_PROGRAM_H_

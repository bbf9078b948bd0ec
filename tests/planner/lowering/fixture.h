// Plans for tests: small models on small clusters, complete and valid.
#ifndef TIDELINE_TESTS_PLANNER_LOWERING_FIXTURE_H_
#define TIDELINE_TESTS_PLANNER_LOWERING_FIXTURE_H_

#include "planner/plan/plan.h"
#include "planner/plan/workload.h"

namespace tideline {

// GPT-like: learned positions, LayerNorm, GELU, biases, tied head, fused projection. 4 layers,
// hidden 32, 4 heads, vocabulary 61 (odd: tp pads it), 16 positions.
DecoderConfig TinyGpt();

// LLaMA-like: rotary, RMSNorm, SwiGLU, grouped queries, untied head. 4 layers, hidden 32, 4 heads
// over 2 key heads.
DecoderConfig TinyLlama();

// OPT-like: ReLU, separate projections with biases, position offset 2.
DecoderConfig TinyOpt();

// One node of `gpus` emulated devices of 1 GiB.
ClusterSpec TestCluster(int32_t gpus);

// A model to be planned on TestCluster(gpus): fp32, sequence 8.
Workload TestWorkload(const DecoderConfig& model, int32_t gpus, int64_t global_batch);

struct TestMesh {
  int32_t dp = 1, pp = 1, tp = 1;
};

// fp32, sequence 8, micro-batch 2, 2 * pp micro-batches per replica, default stages, 1f1b; the
// graph hash is filled in. Decisions may be changed afterwards.
Plan TestPlan(const DecoderConfig& model, TestMesh mesh = {});

// The plan with one chunk list for its schedule; interleaved with `chunks`.
Plan Interleaved(Plan plan, int32_t chunks);

}  // namespace tideline

#endif  // TIDELINE_TESTS_PLANNER_LOWERING_FIXTURE_H_

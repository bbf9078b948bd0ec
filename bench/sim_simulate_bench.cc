// One training step of the two models that the simulator's bars name, lowered and simulated.
//
// Bars, on 2 cores: gpt3-175b on 128x dgx-a100-80g (tp 8, pp 8, dp 16, 96 micro-batches per
// replica, 1F1B, full recomputation) folded in at most 10 s and 2 GiB, in at most 8 node classes;
// llama2-70b (tp 8, pp 8, 32 micro-batches, 64 GPUs) unfolded in at most 5 s. Gpt3Unfolded shows
// that folding changes no digit of step_s; it takes minutes.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <string>

#include "base/check.h"
#include "models/cluster/cluster_text.h"
#include "models/zoo/zoo.h"
#include "planner/lowering/lower.h"
#include "planner/plan/plan.h"
#include "planner/plan/workload.h"
#include "sim/simulate.h"

namespace tideline {
namespace {

Plan PlanOf(const std::string& model, const std::string& cluster, int64_t seq, int32_t dp,
            int64_t micro_batches) {
  Plan plan;
  plan.model = *ResolveDecoder(model, seq);
  plan.cluster = *ParseCluster(cluster);
  plan.seq = seq;
  plan.dp = dp;
  plan.pp = plan.tp = 8;
  plan.global_batch = dp * micro_batches;
  plan.recompute = Recompute::kFull;
  plan.padded_vocab = PaddedVocab(TraitsOf(plan.model).classes, plan.tp);
  plan.stages = *DefaultStages(TraitsOf(plan.model).layers, plan.pp, 1);
  plan.graph_hash = *ModelHash(plan.model, plan.seq, plan.dtype);
  return plan;
}

double PeakGiB() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

void Run(benchmark::State& state, const Plan& plan, bool fold) {
  const StatusOr<Program> program = Lower(plan, {.verify = false});
  TL_CHECK(program.ok(), "the plan lowers");
  SimulationOptions options;
  options.fold = fold;
  for (auto _ : state) {
    const StatusOr<SimulationResult> result = Simulate(*program, plan.cluster, options, nullptr);
    TL_CHECK(result.ok() && result->steady, "the step is simulated");
    state.counters["activities"] = static_cast<double>(result->activities);
    state.counters["node_classes"] = result->node_classes;
    state.counters["bodies"] = result->bodies_played;
    state.counters["step_s"] = result->step_time_s;
  }
  double instructions = 0;
  for (const Role& role : program->roles) {
    instructions += static_cast<double>(role.bodies[0].instructions.size());
  }
  state.counters["instructions_per_role"] =
      instructions / static_cast<double>(program->roles.size());
  state.counters["peak_GiB"] = PeakGiB();
}

Plan Gpt3() { return PlanOf("gpt3-175b", "128x dgx-a100-80g", 2048, 16, 96); }

void LowerGpt3(benchmark::State& state) {
  const Plan plan = Gpt3();
  for (auto _ : state) TL_CHECK(Lower(plan, {.verify = false}).ok(), "the plan lowers");
}
BENCHMARK(LowerGpt3)->Unit(benchmark::kSecond)->Iterations(1);

void Gpt3Folded(benchmark::State& state) { Run(state, Gpt3(), true); }
BENCHMARK(Gpt3Folded)->Unit(benchmark::kSecond)->Iterations(1);

void Gpt3Unfolded(benchmark::State& state) { Run(state, Gpt3(), false); }
BENCHMARK(Gpt3Unfolded)->Unit(benchmark::kSecond)->Iterations(1);

void Llama70Unfolded(benchmark::State& state) {
  Run(state, PlanOf("llama2-70b", "8x dgx-a100-80g", 4096, 1, 32), false);
}
BENCHMARK(Llama70Unfolded)->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
}  // namespace tideline

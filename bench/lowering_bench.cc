// Lowering and search at full size. Bars: gpt3-175b on 1024 GPUs (tp 8, pp 8, dp 16, 96
// micro-batches, 1F1B) lowers in seconds; the search for llama2-70b on 64 GPUs, without the
// simulator, in seconds.
#include <benchmark/benchmark.h>

#include <string>

#include "base/check.h"
#include "models/cluster/cluster_text.h"
#include "models/zoo/zoo.h"
#include "planner/lowering/lower.h"
#include "planner/search/search.h"

namespace tideline {
namespace {

Workload WorkloadOf(const char* model, const char* cluster, WorkloadRequest request = {}) {
  const auto config = ResolveDecoder(model);
  const auto machines = ParseCluster(cluster);
  TL_CHECK(config.ok() && machines.ok(), "names of the zoo and the catalogue");
  const auto workload = MakeWorkload(*config, *machines, request);
  TL_CHECK(workload.ok(), "defaults fit");
  return *workload;
}

void LowerGpt3(benchmark::State& state) {
  WorkloadRequest request;
  request.global_batch = 1536;
  const Workload workload = WorkloadOf("gpt3-175b", "128x dgx-a100-80g", request);
  const auto plan = PlanOf(
      workload, *ParsePins("tp=8,pp=8,dp=16,micro_batch=1,zero=1,recompute=full,schedule=1f1b"));
  TL_CHECK(plan.ok(), "the pins fit");
  std::vector<PassTiming> timings;
  int64_t instructions = 0;
  for (auto _ : state) {
    timings.clear();
    const auto program = Lower(*plan, {.verify = state.range(0) == 1, .timings = &timings});
    TL_CHECK(program.ok(), "the plan is safe");
    instructions = 0;
    for (const Role& role : program->roles) {
      instructions += static_cast<int64_t>(role.bodies[0].instructions.size());
    }
  }
  state.counters["instructions"] = static_cast<double>(instructions);
  for (const PassTiming& timing : timings) {
    state.counters[std::string(timing.pass) + "_s"] = timing.seconds;
  }
}
BENCHMARK(LowerGpt3)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond)->Iterations(1);

void SearchLlama(benchmark::State& state) {
  const Workload workload = WorkloadOf("llama2-70b", "8x dgx-a100-80g");
  for (auto _ : state) {
    const auto result = SearchPlans(workload, {}, {}, nullptr);
    TL_CHECK(result.ok() && result->feasible, "64 GPUs hold it");
    state.counters["considered"] = static_cast<double>(result->considered);
    state.SetLabel(result->candidates[0].pin);
  }
}
BENCHMARK(SearchLlama)->Unit(benchmark::kMillisecond)->Iterations(1);

void SearchOptShortfall(benchmark::State& state) {
  const Workload workload = WorkloadOf("opt-30b", "dgx-a100-40g{gpus=1}");
  for (auto _ : state) {
    const auto result = SearchPlans(workload, {}, {}, nullptr);
    TL_CHECK(result.ok() && !result->feasible, "one GPU does not hold it");
    state.counters["least_peak_bytes"] = static_cast<double>(result->least_peak_bytes);
  }
}
BENCHMARK(SearchOptShortfall)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace tideline

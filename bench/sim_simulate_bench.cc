// One training step of the two models that the simulator's bars name, as hand-written Programs of
// their shape (tests/sim/synthetic_program.h): tensor parallelism in the node, a pipeline over
// nodes, 1F1B, full recomputation.
//
// Bars, on 2 cores: gpt3-175b (tp 8, pp 8, dp 16, 96 micro-batches, 1,024 GPUs) folded in at most
// 10 s and 2 GiB; llama2-70b (tp 8, pp 8, 32 micro-batches, 64 GPUs) unfolded in at most 5 s.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "base/check.h"
#include "sim/simulate.h"
#include "tests/sim/synthetic_program.h"

namespace tideline {
namespace {

double PeakGiB() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

void Run(benchmark::State& state, const TrainingShape& shape, bool fold) {
  const Program program = SyntheticTraining(shape);
  ClusterSpec cluster = TestCluster(shape.dp * shape.pp, 8);
  cluster.node.nvlink_bandwidth = 300e9;
  cluster.node.nvlink_latency_s = 3e-6;
  cluster.node.nic_bandwidth = 25e9;
  cluster.node.nic_latency_s = 6e-6;
  cluster.host.kernel_launch_s = 4e-6;
  cluster.host.collective_launch_s = 8e-6;
  SimulationOptions options;
  options.fold = fold;
  for (auto _ : state) {
    const StatusOr<SimulationResult> result = Simulate(program, cluster, options, nullptr);
    TL_CHECK(result.ok() && result->steady, "the step is simulated");
    state.counters["activities"] = static_cast<double>(result->activities);
    state.counters["node_classes"] = result->node_classes;
    state.counters["bodies"] = result->bodies_played;
    state.counters["step_s"] = result->step_time_s;
  }
  double instructions = 0;
  for (const Role& role : program.roles) {
    instructions += static_cast<double>(role.bodies[0].instructions.size());
  }
  state.counters["instructions_per_role"] = instructions / static_cast<double>(shape.pp);
  state.counters["peak_GiB"] = PeakGiB();
}

TrainingShape Gpt3() {
  return {.tp = 8,
          .pp = 8,
          .dp = 16,
          .layers_per_stage = 12,
          .micro_batches = 96,
          .kernels = 7,
          .kernel_s = 1e-3,
          .recompute = true,
          .tensor_bytes = 48 << 20,
          .message_bytes = 48 << 20,
          .gradient_bytes = 900 << 20};
}

void Gpt3Folded(benchmark::State& state) { Run(state, Gpt3(), true); }
BENCHMARK(Gpt3Folded)->Unit(benchmark::kSecond)->Iterations(1);

void Gpt3Unfolded(benchmark::State& state) { Run(state, Gpt3(), false); }
BENCHMARK(Gpt3Unfolded)->Unit(benchmark::kSecond)->Iterations(1);

void Llama70Unfolded(benchmark::State& state) {
  TrainingShape shape = Gpt3();
  shape.dp = 1;
  shape.layers_per_stage = 10;
  shape.micro_batches = 32;
  Run(state, shape, false);
}
BENCHMARK(Llama70Unfolded)->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
}  // namespace tideline

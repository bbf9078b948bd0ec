// What each memory pass costs on one stage of a pipeline, and how tight its layout is. Arguments:
// stages, layers per stage, micro-batches. gpt3-175b at pp 8 is 8, 12, 96.
#include <benchmark/benchmark.h>

#include <vector>

#include "planner/program/live_bound.h"
#include "planner/program/memory.h"
#include "planner/program/order.h"
#include "planner/program/verifier.h"
#include "tests/planner/program/pipeline_program.h"

namespace tideline {
namespace {

PipelineShape OptionsOf(const benchmark::State& state) {
  PipelineShape options;
  options.data = 2;
  options.stages = static_cast<int32_t>(state.range(0));
  options.layers = static_cast<int32_t>(state.range(1));
  options.micro_batches = static_cast<int32_t>(state.range(2));
  options.tensor = 8;
  options.hidden_bytes = int64_t{2048} * 12288 * 2;
  options.attention_bytes = int64_t{96} * 2048 * 2048 * 2 / 8;
  options.with_memory = false;
  return options;
}

// The first stage, which holds the most activations.
Program FirstStage(const benchmark::State& state) {
  Program program = MakePipelineProgram(OptionsOf(state));
  program.roles.resize(1);
  return program;
}

void BM_Build(benchmark::State& state) {
  int64_t instructions = 0;
  for (auto _ : state) {
    const Program program = MakePipelineProgram(OptionsOf(state));
    for (const Role& role : program.roles) instructions += role.bodies[0].instructions.size();
  }
  state.SetItemsProcessed(instructions);
}

void BM_InsertLifetimes(benchmark::State& state) {
  const Program program = FirstStage(state);
  for (auto _ : state) {
    Role role = program.roles[0];
    InsertLifetimes(role);
    benchmark::DoNotOptimize(role);
    state.counters["instructions"] = static_cast<double>(role.bodies[0].instructions.size());
  }
}

void BM_AssignAddresses(benchmark::State& state) {
  Program program = FirstStage(state);
  InsertLifetimes(program.roles[0]);
  for (auto _ : state) AssignAddresses(program);
  const MemoryFigures figures = MeasureMemory(program, program.roles[0], Space::kDevice);
  state.counters["buffers"] = static_cast<double>(program.roles[0].buffers.size());
  state.counters["extent_to_bound"] = static_cast<double>(figures.extent) / figures.live_bound;
  state.counters["bound_to_serial"] = static_cast<double>(figures.live_bound) / figures.serial_peak;
  state.counters["bound_GiB"] = static_cast<double>(figures.live_bound) / (1 << 30);
}

void BM_MeasureMemory(benchmark::State& state) {
  Program program = FirstStage(state);
  InsertLifetimes(program.roles[0]);
  for (auto _ : state) {
    benchmark::DoNotOptimize(MeasureMemory(program, program.roles[0], Space::kDevice));
  }
}

// All stages at once.
void BM_Verify(benchmark::State& state) {
  PipelineShape options = OptionsOf(state);
  options.with_memory = true;
  const Program program = MakePipelineProgram(options);
  for (auto _ : state) {
    if (!Verify(program).ok()) state.SkipWithError("rejected");
  }
}

void BM_LiveBound(benchmark::State& state) {
  Program program = FirstStage(state);
  Role& role = program.roles[0];
  InsertLifetimes(role);
  std::vector<int64_t> bytes;
  for (const Buffer& buffer : role.buffers) bytes.push_back(buffer.persistent ? 0 : buffer.bytes);
  for (auto _ : state) {
    const HappensBefore order(role.bodies[0], role.lanes.size());
    benchmark::DoNotOptimize(LiveBound(role.bodies[0], order, role.lanes.size(), bytes));
  }
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->Args({8, 12, 96})->Args({4, 8, 32})->Args({1, 12, 8})->Unit(benchmark::kMillisecond);
}

BENCHMARK(BM_Build)->Apply(Shapes);
BENCHMARK(BM_InsertLifetimes)->Apply(Shapes);
BENCHMARK(BM_AssignAddresses)->Apply(Shapes);
BENCHMARK(BM_MeasureMemory)->Apply(Shapes);
BENCHMARK(BM_Verify)->Apply(Shapes);
BENCHMARK(BM_LiveBound)->Apply(Shapes);

}  // namespace
}  // namespace tideline

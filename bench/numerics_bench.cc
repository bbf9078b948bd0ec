// What --numerics costs: a training step of GPT-2 small (one sequence of 512 tokens, fp32, one
// emulated device, nothing checked) with exact products and with OpenBLAS's, beside OpenBLAS alone
// on the products of that step. All of them in one run, so that the clock meets them alike:
//   bazel run //bench:numerics_bench
// Counters: seconds of a step, exact_s and fast_s (the least of the steps after the first), and of
// the products alone, blas_s; fast_over_blas (bar 1.4) and exact_over_fast (bar 1.5).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/check.h"
#include "exec/data/token_source.h"
#include "exec/device/host_blas.h"
#include "exec/emulator/emulator.h"
#include "exec/interpreter/interpreter.h"
#include "exec/ops/einsum_plan.h"
#include "models/cluster/cluster_text.h"
#include "models/zoo/zoo.h"
#include "planner/lowering/lower.h"
#include "planner/plan/workload.h"

namespace tideline {
namespace {

constexpr int kSteps = 4;

Program TrainingStep() {
  const auto config = ResolveDecoder("gpt2");
  const auto cluster = ParseCluster("emulated:1x16GiB");
  TL_CHECK(config.ok() && cluster.ok(), "names of the zoo and the catalogue");
  WorkloadRequest request;
  request.seq = 512;
  request.global_batch = 1;
  const auto workload = MakeWorkload(*config, *cluster, request);
  TL_CHECK(workload.ok(), "the sequence fits the model");
  const auto plan = PlanOf(*workload, *ParsePins("dtype=fp32,micro_batch=1"));
  TL_CHECK(plan.ok(), "the pins fit");
  auto program = Lower(*plan);
  TL_CHECK(program.ok(), "the plan is safe");
  return *std::move(program);
}

double StepSeconds(const Program& program, bool fast) {
  const auto tokens = TokenSource::Open("", program.sequence, program.global_batch);
  const auto machine = MakeEmulator({.devices = 1,
                                     .device_memory_bytes = int64_t{16} << 30,
                                     .check = CheckLevel::kNone,
                                     .fast_products = fast});
  TL_CHECK(tokens.ok() && machine.ok(), "OpenBLAS is installed");
  ExecuteOptions options;
  options.steps = kSteps;
  const auto report = Execute(program, **machine, *tokens, options, {});
  TL_CHECK(report.ok(), "the step fits the device");
  const std::vector<int64_t>& times = report->ranks[0].step_time_ns;
  return 1e-9 * static_cast<double>(*std::min_element(times.begin() + 1, times.end()));
}

// One einsum of the step, all its products by the library.
class Products {
 public:
  explicit Products(const Kernel& kernel) : accumulate_(kernel.attributes.accumulate) {
    std::vector<std::vector<int64_t>> shapes;
    for (const OperandSpec& operand : kernel.operands) shapes.push_back(operand.shape);
    auto plan = ops::PlanEinsum(kernel.attributes.equation, shapes);
    TL_CHECK(plan.ok(), "the program's equations fit their operands");
    plan_ = *std::move(plan);
    a_.assign(static_cast<size_t>(Elements(shapes[0])), 0.5f);
    b_.assign(static_cast<size_t>(Elements(shapes[1])), 0.25f);
    c_.assign(static_cast<size_t>(Elements(shapes.back())), 0.0f);
  }

  void Run(const HostBlas& blas) {
    std::vector<ops::EinsumLoop> loops = plan_.batch;
    loops.insert(loops.end(), plan_.summed.begin(), plan_.summed.end());
    Loop(blas, loops, 0, {});
  }

 private:
  void Loop(const HostBlas& blas, const std::vector<ops::EinsumLoop>& loops, size_t level,
            const ops::EinsumLoop& at) {
    if (level < loops.size()) {
      for (int64_t i = 0; i < loops[level].extent; ++i) {
        ops::EinsumLoop next = at;
        next.a += i * loops[level].a;
        next.b += i * loops[level].b;
        next.c += i * loops[level].c;
        Loop(blas, loops, level + 1, next);
      }
      return;
    }
    GemmShape shape = plan_.gemm;
    const float* left = a_.data() + at.a;
    const float* right = b_.data() + at.b;
    if (shape.c_n != 1) {
      shape = Transposed(shape);
      std::swap(left, right);
    }
    const BlasProduct product{.m = shape.m,
                              .n = shape.n,
                              .k = shape.k,
                              .a_m = shape.a_m,
                              .a_k = shape.a_k,
                              .b_k = shape.b_k,
                              .b_n = shape.b_n,
                              .c_m = shape.c_m};
    TL_CHECK(HostBlas::Fits(product), "a GPT's products are all BLAS's");
    blas.Multiply(product, left, right, c_.data() + at.c, accumulate_);
  }

  ops::EinsumPlan plan_;
  bool accumulate_;
  std::vector<float> a_, b_, c_;
};

double ProductSeconds(const Program& program, const HostBlas& blas) {
  double total = 0;
  for (const Instruction& instruction : program.roles[0].bodies[0].instructions) {
    if (instruction.kind != InstructionKind::kCompute) continue;
    const Kernel& kernel = program.kernels[instruction.what];
    if (kernel.op != Op::kEinsum) continue;
    Products products(kernel);
    products.Run(blas);  // touches its memory
    const auto begin = std::chrono::steady_clock::now();
    products.Run(blas);
    total += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  return total;
}

void TrainGpt2(benchmark::State& state) {
  const Program program = TrainingStep();
  const auto blas = HostBlas::Load();
  TL_CHECK(blas.ok(), "OpenBLAS is installed");
  for (auto _ : state) {
    const double alone = ProductSeconds(program, **blas);
    const double fast = StepSeconds(program, true);
    const double exact = StepSeconds(program, false);
    state.counters["blas_s"] = alone;
    state.counters["fast_s"] = fast;
    state.counters["exact_s"] = exact;
    state.counters["fast_over_blas"] = fast / alone;
    state.counters["exact_over_fast"] = exact / fast;
  }
  state.SetLabel((*blas)->core());
}
BENCHMARK(TrainGpt2)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace tideline

// The exact matrix product against OpenBLAS, single-threaded, both in one run:
//   OPENBLAS_CORETYPE=SkylakeX bazel run //bench:gemm_bench
// OpenBLAS does not recognise every virtual machine's processor and then falls back to SSE kernels
// (label "Prescott"), which says nothing: name the core that fits (SkylakeX with AVX-512, else
// Haswell); the label shows which kernels it took.
// The counter `ratio` is our speed over OpenBLAS's on the same operands, alternating between the
// two so that a change of clock meets both.
#include <benchmark/benchmark.h>
#include <cblas.h>

#include <ctime>
#include <vector>

#include "base/rng.h"
#include "exec/ops/gemm.h"

namespace tideline {
namespace {

std::vector<float> Random(Rng& rng, int64_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.Uniform() * 2 - 1);
  return values;
}

// Processor time of this thread: other work on the machine does not count.
double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename Function>
double SecondsOf(Function function) {
  const double begin = ThreadSeconds();
  function();
  return ThreadSeconds() - begin;
}

// C[m,n] = A[m,k] * B, B stored [k,n] or, transposed, [n,k].
void BM_Gemm(benchmark::State& state) {
  openblas_set_num_threads(1);
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const bool transposed = state.range(3) != 0;
  Rng rng(1);
  const std::vector<float> a = Random(rng, m * k), b = Random(rng, k * n);
  std::vector<float> c(m * n), c_blas(m * n);
  const GemmShape shape{.m = m,
                        .n = n,
                        .k = k,
                        .a_m = k,
                        .a_k = 1,
                        .b_k = transposed ? 1 : n,
                        .b_n = transposed ? k : 1,
                        .c_m = n,
                        .c_n = 1};
  double ours = 0, theirs = 0;
  for (auto _ : state) {
    theirs += SecondsOf([&] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, transposed ? CblasTrans : CblasNoTrans,
                  static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), 1.0f, a.data(),
                  static_cast<int>(k), b.data(), static_cast<int>(transposed ? k : n), 0.0f,
                  c_blas.data(), static_cast<int>(n));
    });
    const double seconds = SecondsOf([&] { Gemm(shape, a.data(), b.data(), c.data(), false); });
    ours += seconds;
    state.SetIterationTime(seconds);
    benchmark::DoNotOptimize(c.data());
  }
  const double flops =
      2.0 * static_cast<double>(m * n * k) * static_cast<double>(state.iterations());
  state.SetLabel(openblas_get_corename());
  state.counters["ratio"] = theirs / ours;
  state.counters["gflops"] = flops / ours * 1e-9;
  state.counters["openblas_gflops"] = flops / theirs * 1e-9;
}
BENCHMARK(BM_Gemm)
    ->UseManualTime()
    ->MinTime(0.2)
    ->ArgNames({"m", "n", "k", "bt"})
    ->Args({512, 512, 512, 0})
    ->Args({512, 512, 512, 1})
    ->Args({256, 768, 192, 0})
    ->Args({128, 128, 64, 1})
    ->Args({64, 64, 32, 1})
    ->Args({64, 32, 64, 0})
    ->Args({16, 16, 16, 0})
    ->Args({1, 512, 512, 0})
    ->Args({1024, 1024, 1024, 0});

}  // namespace
}  // namespace tideline

#include "models/cluster/cost_model.h"

#include <gtest/gtest.h>

#include <limits>

#include "models/cluster/catalogue.h"

namespace tideline {
namespace {

// n = 4, S = 128 MiB = 134217728 B, alpha = 5 us, 1/beta = 100 GB/s:
// all-gather = 3 * 5 us + 3/4 * 134217728 / 1e11 s = 15 us + 1006.63296 us = 1.02163296 ms;
// all-reduce = 6 * 5 us + 6/4 * 134217728 / 1e11 s = 2.04326592 ms.
TEST(CostModelTest, RingsOfFour) {
  EXPECT_NEAR(RingAllGatherSeconds(4, 134217728, 1e11, 5e-6), 1.02163296e-3, 1e-12);
  EXPECT_NEAR(RingAllReduceSeconds(4, 134217728, 1e11, 5e-6), 2.04326592e-3, 1e-12);
}

TEST(CostModelTest, RingOfOneCostsNothing) {
  EXPECT_EQ(RingAllGatherSeconds(1, 1e9, 1e11, 5e-6), 0);
  EXPECT_EQ(RingAllReduceSeconds(1, 1e9, 1e11, 5e-6), 0);
}

TEST(CostModelTest, RingsGrowWithRanksAndBytes) {
  for (int n = 2; n < 130; ++n) {
    EXPECT_GT(RingAllGatherSeconds(n + 1, 1e6, 1e11, 5e-6),
              RingAllGatherSeconds(n, 1e6, 1e11, 5e-6));
    EXPECT_GT(RingAllGatherSeconds(n, 2e6, 1e11, 5e-6), RingAllGatherSeconds(n, 1e6, 1e11, 5e-6));
  }
}

DeviceSpec RoundDevice() {
  DeviceSpec device;
  device.peak_fp32_flops = 1e12;
  device.peak_16bit_flops = 4e12;
  device.memory_bandwidth = 1e11;
  device.bandwidth_efficiency = 0.5;
  device.kernel_overhead_s = 1e-6;
  device.gemm_efficiency = 0.5;
  device.half_m = 100;
  device.half_n = 200;
  device.half_k = 300;
  return device;
}

Work Product(int64_t m, int64_t n, int64_t k, int64_t bytes) {
  Work work;
  work.work_class = WorkClass::kGemm;
  work.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  work.bytes_read = bytes / 2;
  work.bytes_written = bytes - bytes / 2;
  work.m = m;
  work.n = n;
  work.k = k;
  return work;
}

// m, n, k at their half sizes: efficiency 0.5 / 8 = 1/16. 2 * 100 * 200 * 300 = 12e6 FLOP at
// 1e12/16 per second = 192 us, a quarter of it at 16 bit; 1 us overhead.
TEST(CostModelTest, MatrixEfficiencyByShape) {
  const Work work = Product(100, 200, 300, 1000);
  EXPECT_NEAR(KernelSeconds(RoundDevice(), Op::kEinsum, work, DType::kF32), 193e-6, 1e-15);
  EXPECT_NEAR(KernelSeconds(RoundDevice(), Op::kEinsum, work, DType::kBF16), 49e-6, 1e-15);
  EXPECT_NEAR(KernelSeconds(RoundDevice(), Op::kEinsum, work, DType::kF16), 49e-6, 1e-15);
}

// 50 MB at 1e11 * 0.5 bytes/s = 1 ms hides the 192 us of arithmetic.
TEST(CostModelTest, MemoryBoundWhenBytesTakeLonger) {
  const Work work = Product(100, 200, 300, 50'000'000);
  EXPECT_NEAR(KernelSeconds(RoundDevice(), Op::kEinsum, work, DType::kF32), 1.001e-3, 1e-12);
  Work copy;
  copy.work_class = WorkClass::kMemoryBound;
  copy.bytes_read = 25'000'000;
  copy.bytes_written = 25'000'000;
  EXPECT_NEAR(KernelSeconds(RoundDevice(), Op::kEinsum, copy, DType::kF32), 1.001e-3, 1e-12);
}

TEST(CostModelTest, ByteCountsNearTheEndOfTheRangeDoNotOverflow) {
  Work work;
  work.bytes_read = std::numeric_limits<int64_t>::max();
  work.bytes_written = std::numeric_limits<int64_t>::max();
  EXPECT_NEAR(KernelSeconds(RoundDevice(), Op::kEinsum, work, DType::kF32),
              2 * 9.223372036854775807e18 / 5e10, 1);
}

TEST(CostModelTest, NoWorkCostsNothingAndAnEmptyKernelItsOverhead) {
  Work work;
  work.work_class = WorkClass::kNone;
  EXPECT_EQ(KernelSeconds(RoundDevice(), Op::kEinsum, work, DType::kF32), 0);
  work.work_class = WorkClass::kMemoryBound;
  EXPECT_EQ(KernelSeconds(RoundDevice(), Op::kEinsum, work, DType::kF32), 1e-6);
}

// Median times of linear layers on an A100 in fp16, from microsoft/vidur data/profiling (m x k
// times k x n); the fitted device stays within 15 % of each large one and, at m = 128, where a
// product just fills its tiles, within 35 %.
TEST(CostModelTest, A100AgreesWithMeasuredLinearLayers) {
  struct Row {
    int64_t m, n, k;
    double measured_s;
  };
  const Row rows[] = {{128, 12288, 4096, 74.5e-6},  {512, 12288, 4096, 234e-6},
                      {512, 22016, 4096, 402e-6},   {512, 4096, 11008, 229e-6},
                      {4096, 12288, 4096, 1911e-6}, {4096, 22016, 4096, 3365.5e-6},
                      {4096, 4096, 11008, 1604e-6}};
  for (const CatalogueEntry& entry : Catalogue()) {
    if (entry.name != "dgx-a100-80g") continue;
    for (const Row& row : rows) {
      const int64_t bytes = 2 * (row.m * row.n + row.n * row.k + row.m * row.k);
      const double predicted_s = KernelSeconds(entry.device, Op::kEinsum,
                                               Product(row.m, row.n, row.k, bytes), DType::kF16);
      EXPECT_NEAR(predicted_s / row.measured_s, 1, row.m < 512 ? 0.35 : 0.15)
          << row.m << " " << row.n << " " << row.k;
    }
  }
}

}  // namespace
}  // namespace tideline

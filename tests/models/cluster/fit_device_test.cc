#include "models/cluster/fit_device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "models/cluster/cost_model.h"

namespace tideline {
namespace {

DeviceSpec Truth() {
  DeviceSpec device;
  device.peak_fp32_flops = device.peak_16bit_flops = 50e9;
  device.memory_bandwidth = 10e9;
  device.kernel_overhead_s = 3e-6;
  device.gemm_efficiency = 0.9;
  device.half_m = 6;
  device.half_n = 10;
  device.half_k = 20;
  device.op_efficiency = {{"add", 1.0}, {"gelu", 0.1}, {"causal_softmax", 0.25}};
  return device;
}

Work Stream(int64_t bytes) {
  Work work;
  work.bytes_read = bytes / 2;
  work.bytes_written = bytes - bytes / 2;
  return work;
}

Work Product(int64_t m, int64_t n, int64_t k) {
  Work work = Stream(4 * (m * k + k * n + m * n));
  work.work_class = WorkClass::kGemm;
  work.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  work.m = m;
  work.n = n;
  work.k = k;
  work.batch = 1;
  return work;
}

// Samples of the true device, each off by up to `noise` either way.
std::vector<KernelSample> Samples(double noise) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> off(1 - noise, 1 + noise);
  std::vector<KernelSample> samples;
  const auto add = [&](Op op, const Work& work) {
    samples.push_back({op, work, DType::kF32, 0});
    samples.back().seconds = KernelSeconds(Truth(), op, work, DType::kF32) * off(random);
  };
  for (const Op op : {Op::kAdd, Op::kGelu, Op::kCausalSoftmax}) {
    for (int64_t bytes = 64; bytes < (64 << 20); bytes *= 3) add(op, Stream(bytes));
  }
  for (const int64_t m : {1, 7, 64, 200, 512}) {
    for (const int64_t n : {3, 32, 128, 700}) {
      for (const int64_t k : {5, 64, 333}) add(Op::kEinsum, Product(m, n, k));
    }
  }
  return samples;
}

TEST(FitDeviceTest, FindsTheDeviceBehindTheSamples) {
  for (const double noise : {0.0, 0.1}) {
    const StatusOr<DeviceFit> fit = FitDevice(DeviceSpec{}, Samples(noise));
    ASSERT_TRUE(fit.ok()) << fit.status();
    EXPECT_TRUE(fit->device.calibrated);
    EXPECT_NEAR(fit->device.kernel_overhead_s, 3e-6, (0.05 + noise) * 3e-6);
    EXPECT_NEAR(fit->device.op_efficiency.at("gelu") / fit->device.op_efficiency.at("add"), 0.1,
                0.02);
    // Shapes and sizes between those that were timed.
    for (const Work& work : {Product(100, 50, 100), Product(300, 300, 300), Product(20, 600, 40)}) {
      const double predicted = KernelSeconds(fit->device, Op::kEinsum, work, DType::kF32);
      EXPECT_NEAR(predicted / KernelSeconds(Truth(), Op::kEinsum, work, DType::kF32), 1, 0.1);
    }
    for (const Op op : {Op::kAdd, Op::kGelu, Op::kCausalSoftmax}) {
      const double predicted = KernelSeconds(fit->device, op, Stream(5 << 20), DType::kF32);
      EXPECT_NEAR(predicted / KernelSeconds(Truth(), op, Stream(5 << 20), DType::kF32), 1,
                  0.02 + noise);
    }
  }
}

TEST(FitDeviceTest, ReportsEveryOpMostTimeFirst) {
  const StatusOr<DeviceFit> fit = FitDevice(DeviceSpec{}, Samples(0));
  ASSERT_TRUE(fit.ok());
  ASSERT_EQ(fit->ops.size(), 4u);
  int64_t samples = 0;
  for (size_t i = 0; i < fit->ops.size(); ++i) {
    EXPECT_LE(fit->ops[i].seconds, fit->ops[i == 0 ? 0 : i - 1].seconds);
    EXPECT_LT(fit->ops[i].median_error, 0.05) << Name(fit->ops[i].op);
    samples += fit->ops[i].samples;
  }
  EXPECT_EQ(samples, static_cast<int64_t>(Samples(0).size()));
}

TEST(FitDeviceTest, NeedsBothKindsOfKernels) {
  const KernelSample product{Op::kEinsum, Product(4, 4, 4), DType::kF32, 1e-6};
  const KernelSample stream{Op::kAdd, Stream(1000), DType::kF32, 1e-6};
  EXPECT_EQ(ExitCode(FitDevice({}, std::vector{product}).status()), 5);
  EXPECT_EQ(ExitCode(FitDevice({}, std::vector{stream}).status()), 5);
  EXPECT_EQ(ExitCode(FitDevice({}, {}).status()), 5);
}

TEST(FitLinkTest, FindsLatencyAndBandwidthAmongOutliers) {
  std::vector<LinkSample> samples;
  for (double bytes = 100; bytes < 1e8; bytes *= 1.3) {
    samples.push_back({bytes, 5e-6 + bytes / 2e9});
    if (samples.size() % 5 == 0) samples.back().seconds *= 3;
  }
  const StatusOr<LinkFit> fit = FitLink(samples);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->latency_s, 5e-6, 5e-8);
  EXPECT_NEAR(fit->bytes_per_s, 2e9, 2e7);
  EXPECT_EQ(ExitCode(FitLink(std::vector<LinkSample>{{100, 1e-6}}).status()), 5);
  EXPECT_EQ(ExitCode(FitLink({}).status()), 5);
}

TEST(MedianTest, IsTheMiddle) {
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({9, 1, 5}), 5);
  EXPECT_EQ(Median({4, 1, 3, 2}), 3);
}

}  // namespace
}  // namespace tideline

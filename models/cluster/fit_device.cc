#include "models/cluster/fit_device.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "models/cluster/cost_model.h"

namespace tideline {
namespace {

constexpr int64_t kSmallBytes = 64 << 10;  // kernels of so little are all overhead
constexpr double kLeastShare = 1e-4;
constexpr size_t kMostLinkSamples = 200;  // lines through pairs are quadratic in them

double BytesOf(const Work& work) {
  return static_cast<double>(work.bytes_read) + static_cast<double>(work.bytes_written);
}

double SmallestSeconds(std::span<const KernelSample> samples) {
  std::vector<double> small;
  for (const KernelSample& sample : samples) {
    if (sample.work.flops == 0 && BytesOf(sample.work) < kSmallBytes) {
      small.push_back(sample.seconds);
    }
  }
  if (small.empty()) return 0;
  std::sort(small.begin(), small.end());
  return small[small.size() / 10];
}

// Bytes per second of each op that does no matrix products, without the smallest time.
std::map<Op, double> BandwidthByOp(std::span<const KernelSample> samples, double overhead_s) {
  std::map<Op, std::vector<const KernelSample*>> by_op;
  for (const KernelSample& sample : samples) {
    if (sample.work.flops == 0 && BytesOf(sample.work) > 0) by_op[sample.op].push_back(&sample);
  }
  std::map<Op, double> rates;
  for (auto& [op, its] : by_op) {
    // The larger half: there the rate shows, not the overhead.
    std::sort(its.begin(), its.end(), [](const KernelSample* a, const KernelSample* b) {
      return BytesOf(a->work) > BytesOf(b->work);
    });
    its.resize((its.size() + 1) / 2);
    std::vector<double> rate;
    for (const KernelSample* sample : its) {
      rate.push_back(BytesOf(sample->work) /
                     std::max(sample->seconds - overhead_s, sample->seconds / 10));
    }
    rates[op] = Median(std::move(rate));
  }
  return rates;
}

class MatrixFit {
 public:
  MatrixFit(DeviceSpec device, std::span<const KernelSample> samples) : device_(std::move(device)) {
    for (const KernelSample& sample : samples) {
      if (sample.work.flops > 0) samples_.push_back(&sample);
    }
  }

  bool has_samples() const { return !samples_.empty(); }

  DeviceSpec Run() {
    double fastest = 0;
    for (const KernelSample* sample : samples_) {
      fastest = std::max(fastest, sample->work.flops / sample->seconds);
    }
    // Above what any shape reached: how much above is the efficiency's to say.
    device_.peak_fp32_flops = device_.peak_16bit_flops = 1.25 * fastest;
    best_ = Cost(values_);
    for (double step = 4; step > 1.01; step = std::sqrt(step)) {
      while (Improve(step)) {
      }
    }
    return With(values_);
  }

 private:
  using Values = std::array<double, 4>;  // efficiency, half_m, half_n, half_k

  DeviceSpec With(const Values& values) const {
    DeviceSpec device = device_;
    device.gemm_efficiency = values[0];
    device.half_m = values[1];
    device.half_n = values[2];
    device.half_k = values[3];
    return device;
  }

  double Cost(const Values& values) const {
    const DeviceSpec device = With(values);
    double cost = 0;
    for (const KernelSample* sample : samples_) {
      const double predicted = KernelSeconds(device, sample->op, sample->work, sample->dtype);
      cost += std::sqrt(sample->seconds) * std::fabs(std::log(predicted / sample->seconds));
    }
    return cost;
  }

  // Tries each value a factor larger and smaller.
  bool Improve(double factor) {
    bool improved = false;
    for (size_t i = 0; i < values_.size(); ++i) {
      for (const double by : {factor, 1 / factor}) {
        Values tried = values_;
        tried[i] =
            i == 0 ? std::clamp(tried[i] * by, 0.01, 1.0) : std::clamp(tried[i] * by, 0.01, 4096.0);
        const double cost = Cost(tried);
        if (cost >= best_ * (1 - 1e-6)) continue;
        best_ = cost;
        values_ = tried;
        improved = true;
      }
    }
    return improved;
  }

  DeviceSpec device_;
  std::vector<const KernelSample*> samples_;
  Values values_{0.8, 4, 4, 4};
  double best_ = 0;
};

std::vector<OpFit> ErrorsOf(const DeviceSpec& device, std::span<const KernelSample> samples) {
  std::map<Op, std::vector<const KernelSample*>> by_op;
  for (const KernelSample& sample : samples) by_op[sample.op].push_back(&sample);
  std::vector<OpFit> fits;
  for (const auto& [op, its] : by_op) {
    OpFit fit{.op = op, .samples = static_cast<int64_t>(its.size())};
    std::vector<double> errors, rates;
    for (const KernelSample* sample : its) {
      const double predicted = KernelSeconds(device, op, sample->work, sample->dtype);
      fit.seconds += sample->seconds;
      errors.push_back(std::fabs(predicted - sample->seconds) / sample->seconds);
      rates.push_back((sample->work.flops > 0 ? sample->work.flops : BytesOf(sample->work)) /
                      sample->seconds);
    }
    fit.median_error = Median(std::move(errors));
    fit.rate = Median(std::move(rates));
    fits.push_back(fit);
  }
  std::sort(fits.begin(), fits.end(),
            [](const OpFit& a, const OpFit& b) { return a.seconds > b.seconds; });
  return fits;
}

}  // namespace

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

StatusOr<DeviceFit> FitDevice(const DeviceSpec& start, std::span<const KernelSample> samples) {
  DeviceSpec device = start;
  device.kernel_overhead_s = SmallestSeconds(samples);
  const std::map<Op, double> rates = BandwidthByOp(samples, device.kernel_overhead_s);
  if (rates.empty()) return InputError("no kernel was timed that is bound by memory");
  device.memory_bandwidth = 0;
  for (const auto& [op, rate] : rates) {
    device.memory_bandwidth = std::max(device.memory_bandwidth, rate);
  }
  device.bandwidth_efficiency = 1;
  device.op_efficiency.clear();
  for (const auto& [op, rate] : rates) {
    device.op_efficiency[std::string(Name(op))] =
        std::max(kLeastShare, rate / device.memory_bandwidth);
  }
  MatrixFit matrix(device, samples);
  if (!matrix.has_samples()) return InputError("no matrix product was timed");
  device = matrix.Run();
  device.calibrated = true;
  return DeviceFit{.device = device, .ops = ErrorsOf(device, samples)};
}

StatusOr<LinkFit> FitLink(std::span<const LinkSample> samples) {
  std::vector<LinkSample> points;
  const size_t stride = samples.size() / kMostLinkSamples + 1;
  for (size_t i = 0; i < samples.size(); i += stride) points.push_back(samples[i]);
  LinkFit best;
  double least = std::numeric_limits<double>::infinity();
  for (const LinkSample& a : points) {
    for (const LinkSample& b : points) {
      if (b.bytes <= a.bytes || b.seconds <= a.seconds) continue;
      const double rate = (b.bytes - a.bytes) / (b.seconds - a.seconds);
      const double latency_s = std::max(0.0, a.seconds - a.bytes / rate);
      double cost = 0;
      for (const LinkSample& point : points) {
        cost += std::fabs(std::log((latency_s + point.bytes / rate) / point.seconds));
      }
      if (cost >= least) continue;
      least = cost;
      best = {latency_s, rate};
    }
  }
  if (best.bytes_per_s == 0) {
    return InputError("transfers of two sizes, of which the larger take longer, are needed");
  }
  return best;
}

}  // namespace tideline

#include "models/cluster/cost_model.h"

#include <algorithm>
#include <string>

namespace tideline {
namespace {

// size / (size + half): the share of peak that a matrix of `size` rows, columns or depth reaches.
double Saturation(int64_t size, double half) {
  const auto extent = static_cast<double>(size);
  return extent / (extent + half);
}

double PeakFlops(const DeviceSpec& device, DType dtype) {
  return SizeOf(dtype) == 2 ? device.peak_16bit_flops : device.peak_fp32_flops;
}

double BandwidthShare(const DeviceSpec& device, Op op) {
  if (device.op_efficiency.empty()) return device.bandwidth_efficiency;
  const auto own = device.op_efficiency.find(std::string(Name(op)));
  return own == device.op_efficiency.end() ? device.bandwidth_efficiency : own->second;
}

}  // namespace

double KernelSeconds(const DeviceSpec& device, Op op, const Work& work, DType dtype) {
  if (work.work_class == WorkClass::kNone) return 0;
  double compute_s = 0;
  if (work.flops > 0) {
    const double efficiency = device.gemm_efficiency * Saturation(work.m, device.half_m) *
                              Saturation(work.n, device.half_n) * Saturation(work.k, device.half_k);
    compute_s = work.flops / (PeakFlops(device, dtype) * efficiency);
  }
  const auto bytes = static_cast<double>(work.bytes_read) + static_cast<double>(work.bytes_written);
  const double memory_s = bytes / (device.memory_bandwidth * BandwidthShare(device, op));
  return std::max(compute_s, memory_s) + device.kernel_overhead_s;
}

double RingAllReduceSeconds(int n, double bytes, double bandwidth, double latency_s) {
  return 2 * RingAllGatherSeconds(n, bytes, bandwidth, latency_s);
}

double RingAllGatherSeconds(int n, double bytes, double bandwidth, double latency_s) {
  if (n <= 1) return 0;
  const double steps = n - 1;
  return steps * latency_s + steps / n * bytes / bandwidth;
}

}  // namespace tideline

// Fitting a device's constants to kernels that were timed on it.
//
// The model is KernelSeconds (cost_model.h): a smallest time, matrix products at a share of peak
// that saturates with each extent, everything else at a bandwidth of its op's own. The smallest
// time comes from the shortest kernels, bandwidths are medians, and the shape of the matrix part
// (four numbers) minimises the absolute logarithm of predicted over measured time by coordinate
// descent; every sample weighs as the square root of its time, so that what makes up a step is met
// best and small kernels are not lost.
#ifndef TIDELINE_MODELS_CLUSTER_FIT_DEVICE_H_
#define TIDELINE_MODELS_CLUSTER_FIT_DEVICE_H_

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/cluster/cluster_spec.h"
#include "models/ir/attributes.h"
#include "models/ir/dtype.h"
#include "models/ops/op_table.h"

namespace tideline {

struct KernelSample {
  Op op = Op::kAdd;
  Work work;
  DType dtype = DType::kF32;
  double seconds = 0;  // above 0
};

// How well the fitted device predicts the samples of one op.
struct OpFit {
  Op op = Op::kAdd;
  int64_t samples = 0;
  double seconds = 0;       // of all samples
  double median_error = 0;  // |predicted - measured| / measured
  double rate = 0;          // median of FLOP/s (matrix products) or bytes/s
};

struct DeviceFit {
  DeviceSpec device;
  std::vector<OpFit> ops;  // the most time first
};

// `start` gives name and memory. Errors (exit 5): no matrix product or no other kernel among the
// samples.
StatusOr<DeviceFit> FitDevice(const DeviceSpec& start, std::span<const KernelSample> samples);

// seconds = latency + bytes / bandwidth through (bytes, seconds) points: the line whose absolute
// residuals are least among lines through two of the points. Neither is below 0.
struct LinkFit {
  double latency_s = 0;
  double bytes_per_s = 0;
};
struct LinkSample {
  double bytes = 0;
  double seconds = 0;
};
StatusOr<LinkFit> FitLink(std::span<const LinkSample> samples);

// The middle of the values in order; precondition: there is one.
double Median(std::vector<double> values);

}  // namespace tideline

#endif  // TIDELINE_MODELS_CLUSTER_FIT_DEVICE_H_

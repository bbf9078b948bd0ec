// Cost model: seconds of one kernel on one device, without contention.
#ifndef TIDELINE_MODELS_CLUSTER_COST_MODEL_H_
#define TIDELINE_MODELS_CLUSTER_COST_MODEL_H_

#include "models/cluster/cluster_spec.h"
#include "models/ir/dtype.h"
#include "models/ops/op_table.h"

namespace tideline {

// max(FLOPs / (peak * efficiency by shape), bytes / bandwidth) + overhead; the launch on the host
// lane is apart. The bandwidth is the op's own where the device has one.
double KernelSeconds(const DeviceSpec& device, Op op, const Work& work, DType dtype);

// Closed forms for rings of n ranks over links of `bandwidth` bytes/s and `latency_s` (alpha), used
// by estimates only; the simulator moves flows instead. `bytes` is the full (gathered) size. n = 1
// costs 0.
double RingAllReduceSeconds(int n, double bytes, double bandwidth, double latency_s);
double RingAllGatherSeconds(int n, double bytes, double bandwidth,
                            double latency_s);  // = reduce-scatter

}  // namespace tideline

#endif  // TIDELINE_MODELS_CLUSTER_COST_MODEL_H_

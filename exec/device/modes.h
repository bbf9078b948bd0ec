// How a run computes, is checked and ordered: the values of --numerics, --comm, --check,
// --schedule.
#ifndef TIDELINE_EXEC_DEVICE_MODES_H_
#define TIDELINE_EXEC_DEVICE_MODES_H_

#include <cstdint>

namespace tideline {

// How much the emulator checks; a GPU checks nothing of this.
//   kNone:    nothing (timing runs);
//   kOrder:   races and reads of bytes never written, from the ranges that operations declare;
//   kKernels: that, and every element access inside kernels (exec/device/views.h).
enum class CheckLevel : uint8_t { kNone, kOrder, kKernels };

// Which of the ready operations run (exec/emulator/scheduler.h).
//   kConcurrent: any, as many at a time as there are cores;
//   kSeeded:     one at a time, drawn by a seeded generator, reproducibly;
//   kSerial:     each rank's operations strictly in list order.
enum class SchedulePolicy : uint8_t { kConcurrent, kSeeded, kSerial };

// What matrix products may do, the values of --numerics.
//   kExact: one fma chain per element (exec/ops/gemm.h): the same bits everywhere;
//   kFast:  the device's own library (cuBLAS on a GPU), fp32 sums;
//   kTf32:  that, and fp32 operands may be rounded to tf32. GPUs only.
enum class Numerics : uint8_t { kExact, kFast, kTf32 };

// How collectives are carried out, the values of --comm.
//   kNative: NCCL's, or the emulator's literal ones;
//   kCopy:   by kernels of ours, within one process (exec/comm/copy_collective.h).
enum class CollectiveMethod : uint8_t { kNative, kCopy };

}  // namespace tideline

#endif  // TIDELINE_EXEC_DEVICE_MODES_H_

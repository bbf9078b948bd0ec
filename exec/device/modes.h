// How an emulated run is checked and ordered: the values of --check and --schedule.
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

}  // namespace tideline

#endif  // TIDELINE_EXEC_DEVICE_MODES_H_

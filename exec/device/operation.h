// Operation: one piece of work on a stream of an emulated device, and the one call that gives it.
//
// This header exists in the emulated build only: Launch<Kernel>() (exec/device/launch.h) makes
// operations of kernel calls here, and <<<>>> launches in a CUDA build.
#ifndef TIDELINE_EXEC_DEVICE_OPERATION_H_
#define TIDELINE_EXEC_DEVICE_OPERATION_H_

#include <cstdint>
#include <functional>

#include "absl/container/inlined_vector.h"
#include "base/status.h"
#include "models/ops/op_table.h"

namespace tideline {

struct StreamObject;
using Stream = StreamObject*;

// Bytes that an operation reads or writes.
struct Range {
  const void* begin = nullptr;
  int64_t bytes = 0;
  Access access = Access::kRead;
};

struct Operation {
  const char* name = "";  // for messages; must live as long as the machine
  uint64_t tag = 0;       // the instruction it belongs to
  absl::InlinedVector<Range, 6> ranges;
  std::function<void()> run;  // on a worker thread; reports what it finds wrong by Fail()
};

// Appends an operation to a stream. With checks on, an access that no order holds apart from an
// earlier one to the same bytes (one of them writing), and a read of bytes that were never written,
// are errors here, whatever the interleaving would have been.
Status Enqueue(Stream stream, Operation operation);

}  // namespace tideline

#endif  // TIDELINE_EXEC_DEVICE_OPERATION_H_

// Element formats of kernels that read or write more than fp32: how an element lies in memory and
// how it becomes fp32 and back (rounded to nearest, ties to even).
#ifndef TIDELINE_EXEC_OPS_FORMATS_H_
#define TIDELINE_EXEC_OPS_FORMATS_H_

#include <cstdint>

#include "base/host_device.h"
#include "exec/comm/element.h"
#include "models/ir/dtype.h"

namespace tideline::ops {

struct FormatF32 {
  using Storage = float;
  TIDELINE_HOST_DEVICE static float Load(float value) { return value; }
  TIDELINE_HOST_DEVICE static float Store(float value) { return value; }
};

struct FormatBF16 {
  using Storage = uint16_t;
  TIDELINE_HOST_DEVICE static float Load(uint16_t bits) { return BF16ToFloat(bits); }
  TIDELINE_HOST_DEVICE static uint16_t Store(float value) { return FloatToBF16(value); }
};

struct FormatF16 {
  using Storage = uint16_t;
  TIDELINE_HOST_DEVICE static float Load(uint16_t bits) { return F16ToFloat(bits); }
  TIDELINE_HOST_DEVICE static uint16_t Store(float value) { return FloatToF16(value); }
};

// function(Format{}) with the format of `dtype`. Precondition: a floating type.
template <typename Function>
auto WithFormat(DType dtype, Function function) {
  if (dtype == DType::kBF16) return function(FormatBF16{});
  if (dtype == DType::kF16) return function(FormatF16{});
  return function(FormatF32{});
}

}  // namespace tideline::ops

#endif  // TIDELINE_EXEC_OPS_FORMATS_H_

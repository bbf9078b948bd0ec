// Element formats of kernels: fp32, and the two 16-bit types as elements of views.
//
// A kernel takes its floating operands in the types that the Program declares, as In<T>, Out<T>.
// What it reads becomes fp32, it computes in fp32 in the same orders whatever the types are, and
// each element it stores is rounded once (exec/comm/element.h: to nearest, ties to even). So a
// kernel in 16 bit gives exactly the rounded result of the fp32 kernel on the same values.
//
//   template <typename T>
//   struct Double {
//     template <typename Mode>
//     static void Run(const Block& block, In<T, Mode> x, Out<T, Mode> y) {
//       block.Each(y.count(), [&](int64_t i) { y[i] = 2.0f * x[i]; });
//     }
//   };
//   return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) { return Launch<Double<T>>(...); });
#ifndef TIDELINE_EXEC_OPS_FORMATS_H_
#define TIDELINE_EXEC_OPS_FORMATS_H_

#include <cstdint>
#include <type_traits>

#include "base/host_device.h"
#include "exec/comm/element.h"
#include "models/ir/dtype.h"

namespace tideline {

// Eight bits of precision, the range of fp32. Unit roundoff 2^-8.
struct BFloat16 {
  using Value = float;  // what a view gives and takes (exec/device/views.h)
  uint16_t bits;

  BFloat16() = default;
  TIDELINE_HOST_DEVICE explicit BFloat16(float value) : bits(FloatToBF16(value)) {}
  TIDELINE_HOST_DEVICE BFloat16& operator=(float value) { return *this = BFloat16(value); }
  TIDELINE_HOST_DEVICE operator float() const { return BF16ToFloat(bits); }
};

// IEEE 754 binary16: eleven bits of precision up to 65504, subnormal below 2^-14. Unit roundoff
// 2^-11.
struct Float16 {
  using Value = float;
  uint16_t bits;

  Float16() = default;
  TIDELINE_HOST_DEVICE explicit Float16(float value) : bits(FloatToF16(value)) {}
  TIDELINE_HOST_DEVICE Float16& operator=(float value) { return *this = Float16(value); }
  TIDELINE_HOST_DEVICE operator float() const { return F16ToFloat(bits); }
};

static_assert(sizeof(BFloat16) == 2 && std::is_trivially_copyable_v<BFloat16>);
static_assert(sizeof(Float16) == 2 && std::is_trivially_copyable_v<Float16>);

namespace ops {

template <typename T>
struct Type {};

// function(Type<T>()) with the element type of `dtype`. Precondition: a floating type.
template <typename Function>
auto WithFormat(DType dtype, Function function) {
  if (dtype == DType::kBF16) return function(Type<BFloat16>());
  if (dtype == DType::kF16) return function(Type<Float16>());
  return function(Type<float>());
}

// Whether there is code for a kernel whose operands are of type `from` and whose sum is of type
// `into`: sums are fp32 or of the operands' own type.
inline bool CanSum(DType from, DType into) { return into == DType::kF32 || into == from; }

// function(Type<T>(), Type<S>()) with the types of operands and sum. Precondition: CanSum().
template <typename Function>
auto WithSum(DType from, DType into, Function function) {
  return WithFormat(from, [&]<typename T>(Type<T>) {
    if (into == DType::kF32) return function(Type<T>(), Type<float>());
    return function(Type<T>(), Type<T>());
  });
}

}  // namespace ops
}  // namespace tideline

#endif  // TIDELINE_EXEC_OPS_FORMATS_H_

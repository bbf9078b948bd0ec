#include "models/ops/windows.h"

#include <algorithm>

namespace tideline {
namespace {

constexpr int64_t kTileElements = int64_t{1} << 21;
constexpr int64_t kVector = 64;  // tiles of columns are whole vectors where they can be

}  // namespace

int64_t WindowsAlong(int64_t extent, int64_t size, int32_t stride, int32_t padding) {
  const int64_t room = extent + 2 * int64_t{padding} - size;
  return room < 0 ? 0 : room / stride + 1;
}

ConvolutionShape ConvolutionOf(Op op, const Attributes& attributes,
                               const std::vector<std::vector<int64_t>>& shapes) {
  const bool forward = op == Op::kConvolution;
  const bool of_weight = op == Op::kConvolutionWeightGrad;
  const std::vector<int64_t>& x = forward ? shapes[0] : of_weight ? shapes[1] : shapes[2];
  const std::vector<int64_t>& weight = of_weight ? shapes[2] : shapes[1];
  const std::vector<int64_t>& y = forward ? shapes[2] : shapes[0];
  return {.n = x[0],
          .i = x[1],
          .h = x[2],
          .w = x[3],
          .o = weight[0],
          .r = weight[2],
          .s = weight[3],
          .p = y[2],
          .q = y[3],
          .stride = attributes.window.stride,
          .padding = attributes.window.padding};
}

std::vector<int64_t> ConvolutionScratch(Op op, const ConvolutionShape& shape) {
  if (shape.pointwise()) return {};
  const int64_t window = shape.r * shape.s;
  if (op == Op::kConvolutionGrad) {
    const int64_t fitting = std::max<int64_t>(1, kTileElements / (window * shape.positions()));
    return {std::min(shape.i, fitting) * window, shape.positions()};
  }
  int64_t columns = std::max<int64_t>(1, kTileElements / shape.terms());
  if (columns > kVector) columns = columns / kVector * kVector;
  return {shape.terms(), std::min(shape.positions(), columns)};
}

}  // namespace tideline

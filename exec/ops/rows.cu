// Sums over rows for the gradients of biases, and this rank's slice of a tensor.
#include <vector>

#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"
#include "models/ops/equation.h"

namespace tideline::ops {
namespace {

// One dimension of x: its extent, and what one step in it moves in y (0: summed).
struct Dimension {
  int64_t extent, y_stride;
};

// y (+)= x, element by element in row-major order of x.
template <bool kAccumulate>
struct ReduceRows {
  static constexpr const char* kName = "reduce_rows";
  template <typename Mode>
  static void Run(const Block& block, In<float, Mode> x, Sum<float, Mode, kAccumulate> y,
                  const std::vector<Dimension>& dimensions) {
    if constexpr (!kAccumulate) block.Each(y.count(), [&](int64_t i) { y[i] = 0.0f; });
    if (x.count() == 0) return;
    const Dimension inner = dimensions.back();
    const int outer = static_cast<int>(dimensions.size()) - 1;
    for (int64_t row = 0; row < x.count() / inner.extent; ++row) {
      int64_t to = 0, rest = row;
      for (int d = outer - 1; d >= 0; --d) {
        to += rest % dimensions[d].extent * dimensions[d].y_stride;
        rest /= dimensions[d].extent;
      }
      const int64_t from = row * inner.extent;
      if (inner.y_stride != 0) {
        block.Each(inner.extent, [&](int64_t i) { y[to + i * inner.y_stride] += x[from + i]; });
      } else {
        for (int64_t i = 0; i < inner.extent; ++i) y[to] += x[from + i];
      }
    }
  }
};

// x is [outer, parts, run] and y [outer, run]: part `part` of each.
template <typename Storage>
struct Slice {
  static constexpr const char* kName = "slice";
  template <typename Mode>
  static void Run(const Block& block, In<Storage, Mode> x, Out<Storage, Mode> y, int64_t run,
                  int64_t stride, int64_t first) {
    const int64_t from = block.index() * stride + first;
    const int64_t to = block.index() * run;
    block.Each(run, [&](int64_t i) { y[to + i] = x[from + i]; });
  }
};

template <typename Storage>
Status LaunchSliceOf(const OpCall& call) {
  const int64_t dimension = call.attributes().dimension;
  const std::vector<int64_t>& whole = call.Shape(0);
  const std::vector<int64_t>& part = call.Shape(1);
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < whole.size(); ++d) {
    if (static_cast<int64_t>(d) < dimension) outer *= whole[d];
    if (static_cast<int64_t>(d) > dimension) inner *= whole[d];
  }
  const int64_t run = part[dimension] * inner;
  const int64_t coordinate = call.context().coordinates[static_cast<int>(Axis::kTensor)];
  return Launch<Slice<Storage>>(call.target(), outer, call.Read<Storage>(0), call.Write<Storage>(1),
                                run, whole[dimension] * inner, coordinate * run);
}

}  // namespace

Status LaunchReduceRows(const OpCall& call) {
  TL_ASSIGN_OR_RETURN(const RowReduction reduction, ParseReduction(call.attributes().equation));
  std::vector<Dimension> dimensions;
  for (size_t d = 0; d < call.Shape(0).size(); ++d) {
    int64_t stride = 1;
    size_t place = reduction.output.size();
    while (place > 0 && reduction.output[place - 1] != reduction.input[d]) {
      stride *= call.Shape(1)[--place];
    }
    dimensions.push_back({call.Shape(0)[d], place == 0 ? 0 : stride});
  }
  if (call.attributes().accumulate) {
    return Launch<ReduceRows<true>>(call.target(), 1, call.Read(0), call.Update(1),
                                    std::move(dimensions));
  }
  return Launch<ReduceRows<false>>(call.target(), 1, call.Read(0), call.Write(1),
                                   std::move(dimensions));
}

Status LaunchSlice(const OpCall& call) {
  return SizeOf(call.TypeOf(0)) == 4 ? LaunchSliceOf<uint32_t>(call)
                                     : LaunchSliceOf<uint16_t>(call);
}

}  // namespace tideline::ops

// Sums over rows for the gradients of biases, and this rank's slice of a tensor.
#include <vector>

#include "exec/ops/formats.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"
#include "models/ops/equation.h"

namespace tideline::ops {
namespace {

// One loop over x: its extent, and what one step moves in x and in y.
struct ReduceLoop {
  int64_t extent, x, y;
};

constexpr int kMaxLoops = 8;
using ReduceLoops = Table<ReduceLoop, kMaxLoops>;

// The element of x at which iteration `index` of the loops begins; `y` (may be null) gets y's.
TIDELINE_HOST_DEVICE int64_t OffsetOf(const ReduceLoops& loops, int64_t index, int64_t* y) {
  int64_t from = 0;
  for (int level = loops.size() - 1; level >= 0; --level) {
    const int64_t iteration = index % loops[level].extent;
    from += iteration * loops[level].x;
    if (y != nullptr) *y += iteration * loops[level].y;
    index /= loops[level].extent;
  }
  return from;
}

// y (+)= x: a chain per element of y, over the elements that are summed into it in row-major order
// of x. `columns` is the innermost loop that y keeps; `blocks_per_row` blocks share one iteration
// of the others, `kept`.
template <typename T, typename S, bool kAccumulate>
struct ReduceRows {
  static constexpr const char* kName = "reduce_rows";
  static constexpr int kThreads = Block::kChainThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> x,
                                       Sum<S, Mode, kAccumulate> y, const ReduceLoops& kept,
                                       ReduceLoop columns, const ReduceLoops& summed, int64_t links,
                                       int64_t blocks_per_row) {
    int64_t to = 0;
    const int64_t from = OffsetOf(kept, block.index() / blocks_per_row, &to);
    const Chained part = ChainsOf(block.index() % blocks_per_row, columns.extent);
    block.Chains<1>(
        part.begin, part.end, links,
        [&](int64_t column, float(&sum)[1]) { sum[0] = OldElement(y, to + column * columns.y); },
        [&](int64_t link) { return from + OffsetOf(summed, link, nullptr); },
        [&](int64_t row, int64_t column, float(&sum)[1]) { sum[0] += x[row + column * columns.x]; },
        [&](int64_t column, const float(&sum)[1]) { y[to + column * columns.y] = sum[0]; });
  }
};

// x is [outer, parts, run] and y [outer, run]: part `part` of each.
template <typename Storage>
struct Slice {
  static constexpr const char* kName = "slice";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<Storage, Mode> x,
                                       Out<Storage, Mode> y, int64_t run, int64_t stride,
                                       int64_t first) {
    const int64_t from = block.index() * stride + first;
    const int64_t to = block.index() * run;
    block.Map(
        run, [](int64_t, Storage& element, Storage value) { element = value; }, y.From(to),
        x.From(from));
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
  ReduceLoops kept, summed;
  int64_t stride_x = 1;
  std::vector<ReduceLoop> loops(call.Shape(0).size());
  for (size_t d = loops.size(); d-- > 0; stride_x *= call.Shape(0)[d]) {
    int64_t stride_y = 1;
    size_t place = reduction.output.size();
    while (place > 0 && reduction.output[place - 1] != reduction.input[d]) {
      stride_y *= call.Shape(1)[--place];
    }
    loops[d] = {call.Shape(0)[d], stride_x, place == 0 ? 0 : stride_y};
  }
  ReduceLoop columns = {1, 0, 0};
  int64_t rows = 1, links = 1;
  for (const ReduceLoop& loop : loops) {
    ReduceLoops& list = loop.y == 0 ? summed : kept;
    // Neighbours that advance evenly in x and in y are one loop.
    if (!list.empty() && list.back().x == loop.x * loop.extent &&
        list.back().y == loop.y * loop.extent) {
      list.back() = {list.back().extent * loop.extent, loop.x, loop.y};
    } else if (!list.Push(loop)) {
      return UnavailableError("kernel reduce_rows: more than 8 dimensions; merge some");
    }
    (loop.y == 0 ? links : rows) *= loop.extent;
  }
  if (!kept.empty()) {
    columns = kept.back();
    kept.Pop();
    rows /= columns.extent;
  }
  const int64_t per_row = ChainBlocks(columns.extent);
  return WithSum(call.TypeOf(0), call.TypeOf(1), [&]<typename T, typename S>(Type<T>, Type<S>) {
    if (call.attributes().accumulate) {
      return Launch<ReduceRows<T, S, true>>(call.target(), rows * per_row, call.Read<T>(0),
                                            call.Update<S>(1), kept, columns, summed, links,
                                            per_row);
    }
    return Launch<ReduceRows<T, S, false>>(call.target(), rows * per_row, call.Read<T>(0),
                                           call.Write<S>(1), kept, columns, summed, links, per_row);
  });
}

Status LaunchSlice(const OpCall& call) {
  return SizeOf(call.TypeOf(0)) == 4 ? LaunchSliceOf<uint32_t>(call)
                                     : LaunchSliceOf<uint16_t>(call);
}

}  // namespace tideline::ops

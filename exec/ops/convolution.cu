// Convolutions as exact matrix products over gathered columns, sample by sample.
//
// The columns of a sample are [i r s, p q]; a tile of them lies in the workspace
// (models/ops/windows.h says how much). Sums: y over (i, r, s); the gradient of the weight over
// (n, p, q), from what it holds when it accumulates; the gradient of x over o for each (r, s), then
// over (r, s). All are chains, so that bits do not depend on the tile.
#include <algorithm>

#include "exec/ops/gemm.h"
#ifdef __CUDACC__
#include "exec/ops/gemm_device.h"
#endif
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"
#include "models/ops/windows.h"

namespace tideline::ops {
namespace {

// The part of a row of windows that lies within a row of the image.
struct Inside {
  int64_t begin, end;
};

// Of windows first .. first + count, which begin `offset` elements after stride * window.
TIDELINE_HOST_DEVICE inline Inside InsideOf(int64_t first, int64_t count, int64_t offset,
                                            int64_t stride, int64_t extent) {
  // 0 <= (first + j) stride + offset < extent
  const int64_t before = -offset - first * stride;
  const int64_t after = extent - offset - first * stride;
  const int64_t begin = before > 0 ? (before + stride - 1) / stride : 0;
  const int64_t end = after > 0 ? (after + stride - 1) / stride : 0;
  const int64_t from = begin < count ? begin : count;
  const int64_t to = end < count ? end : count;
  return {from, to < from ? from : to};
}

// columns[k, j] = x at term k of position first + j, 0 outside. One block per term.
struct GatherColumns {
  static constexpr const char* kName = "gather_columns";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> x,
                                       Out<float, Mode> columns, ConvolutionShape shape,
                                       int64_t first, int64_t count) {
    const int64_t term = block.index();
    const int64_t s = term % shape.s;
    const int64_t r = term / shape.s % shape.r;
    const int64_t plane = term / (shape.s * shape.r) * shape.h * shape.w;
    for (int64_t done = 0; done < count;) {
      const int64_t p = (first + done) / shape.q;
      const int64_t q = (first + done) % shape.q;
      const int64_t run = shape.q - q < count - done ? shape.q - q : count - done;
      const int64_t row = p * shape.stride - shape.padding + r;
      const int64_t to = term * count + done;
      const int64_t offset = s - shape.padding;
      Inside inside = InsideOf(q, run, offset, shape.stride, shape.w);
      if (row < 0 || row >= shape.h) inside = {run, run};
      const int64_t from = plane + row * shape.w + q * shape.stride + offset;
      block.Each(inside.begin, [&](int64_t j) { columns[to + j] = 0.0f; });
      block.Each(inside.end - inside.begin, [&](int64_t j) {
        columns[to + inside.begin + j] = x[from + (inside.begin + j) * shape.stride];
      });
      block.Each(run - inside.end, [&](int64_t j) { columns[to + inside.end + j] = 0.0f; });
      done += run;
    }
  }
};

// dx[i] = sum over (r, s) of the columns of channel i, each where it came from. One block per
// channel of the tile.
struct ScatterColumns {
  static constexpr const char* kName = "scatter_columns";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> columns,
                                       Out<float, Mode> dx, ConvolutionShape shape) {
    const int64_t plane = block.index() * shape.h * shape.w;
    block.Each(shape.h * shape.w, [&](int64_t i) { dx[plane + i] = 0.0f; });
    for (int64_t window = 0; window < shape.r * shape.s; ++window) {
      const int64_t r = window / shape.s;
      const int64_t offset = window % shape.s - shape.padding;
      const int64_t term = (block.index() * shape.r * shape.s + window) * shape.positions();
      const Inside inside = InsideOf(0, shape.q, offset, shape.stride, shape.w);
      for (int64_t p = 0; p < shape.p; ++p) {
        const int64_t row = p * shape.stride - shape.padding + r;
        if (row < 0 || row >= shape.h) continue;
        const int64_t from = term + p * shape.q + inside.begin;
        const int64_t to = plane + row * shape.w + offset + inside.begin * shape.stride;
        block.Each(inside.end - inside.begin,
                   [&](int64_t j) { dx[to + j * shape.stride] += columns[from + j]; });
      }
    }
  }
};

// One exact product. One block per tile of it: on the host one tile is all.
template <bool kAccumulate>
struct Product {
  static constexpr const char* kName = "convolution_product";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> a, In<float, Mode> b,
                                       Sum<float, Mode, kAccumulate> c, GemmShape shape,
                                       int64_t tile, int64_t tiles_n) {
    const int64_t first_m = block.index() / tiles_n * tile;
    const int64_t first_n = block.index() % tiles_n * tile;
    if (shape.m - first_m > tile) shape.m = first_m + tile;
    if (shape.n - first_n > tile) shape.n = first_n + tile;
    shape.m -= first_m;
    shape.n -= first_n;
    const int64_t at_a = first_m * shape.a_m;
    const int64_t at_b = first_n * shape.b_n;
    const int64_t at_c = first_m * shape.c_m + first_n * shape.c_n;
#ifdef __CUDA_ARCH__
    GemmTileOnDevice product(shape, kAccumulate ? c.data() + at_c : nullptr);
    product.Add(a.data() + at_a, b.data() + at_b);
    product.Store(c.data() + at_c, [](int64_t, int64_t, float sum) { return sum; });
#else
    const float* left = a.Region(at_a, shape.m, shape.a_m, shape.k, shape.a_k);
    const float* right = b.Region(at_b, shape.k, shape.b_k, shape.n, shape.b_n);
    float* out = c.Region(at_c, shape.m, shape.c_m, shape.n, shape.c_n);
    if (left == nullptr || right == nullptr || out == nullptr) return;
    Gemm(shape, left, right, out, kAccumulate);
#endif
  }
};

template <bool kAccumulate, typename View>
Status Multiply(const OpCall& call, const In<float>& a, const In<float>& b, const View& c,
                const GemmShape& shape) {
#ifdef __CUDACC__
  const int64_t tile = GemmTileOnDevice::kTile;
#else
  const int64_t tile = std::max(shape.m, shape.n);
#endif
  const int64_t tiles_m = (shape.m + tile - 1) / tile;
  const int64_t tiles_n = (shape.n + tile - 1) / tile;
  return Launch<Product<kAccumulate>>(call.target(), tiles_m * tiles_n, a, b, c, shape, tile,
                                      tiles_n);
}

In<float> PartOf(const In<float>& whole, int64_t first, int64_t count) {
  return {whole.data() + first, count};
}
Out<float> PartOf(const Out<float>& whole, int64_t first, int64_t count) {
  return {whole.data() + first, count};
}

// Elements from the first to the last of a strided box.
int64_t SpanOf(int64_t rows, int64_t row_stride, int64_t columns) {
  return (rows - 1) * row_stride + columns;
}

ConvolutionShape ShapeOf(const OpCall& call, Op op) {
  return ConvolutionOf(op, call.attributes(), {call.Shape(0), call.Shape(1), call.Shape(2)});
}

// Columns first .. first + count of a sample: in the image itself, or gathered into the workspace.
struct Columns {
  In<float> values;
  int64_t row_stride;
};

StatusOr<Columns> ColumnsOf(const OpCall& call, const ConvolutionShape& shape,
                            const In<float>& sample, int64_t first, int64_t count) {
  if (shape.pointwise()) {
    const int64_t stride = shape.positions();
    return Columns{PartOf(sample, first, SpanOf(shape.i, stride, count)), stride};
  }
  const Out<float> tile = PartOf(call.Write(3), 0, shape.terms() * count);
  TL_RETURN_IF_ERROR(
      Launch<GatherColumns>(call.target(), shape.terms(), sample, tile, shape, first, count));
  return Columns{{tile.data(), tile.count()}, count};
}

// Positions of y that one tile holds.
int64_t TileOf(const OpCall& call, const ConvolutionShape& shape) {
  return shape.pointwise() ? shape.positions() : call.Shape(3)[1];
}

}  // namespace

Status LaunchConvolution(const OpCall& call) {
  const ConvolutionShape shape = ShapeOf(call, Op::kConvolution);
  const int64_t image = shape.i * shape.h * shape.w;
  const int64_t positions = shape.positions();
  const int64_t tile = TileOf(call, shape);
  for (int64_t n = 0; n < shape.n; ++n) {
    const In<float> sample = PartOf(call.Read(0), n * image, image);
    for (int64_t first = 0; first < positions; first += tile) {
      const int64_t count = std::min(tile, positions - first);
      TL_ASSIGN_OR_RETURN(const Columns columns, ColumnsOf(call, shape, sample, first, count));
      const GemmShape product{.m = shape.o,
                              .n = count,
                              .k = shape.terms(),
                              .a_m = shape.terms(),
                              .a_k = 1,
                              .b_k = columns.row_stride,
                              .b_n = 1,
                              .c_m = positions,
                              .c_n = 1};
      const Out<float> y =
          PartOf(call.Write(2), n * shape.o * positions + first, SpanOf(shape.o, positions, count));
      TL_RETURN_IF_ERROR(Multiply<false>(call, call.Read(1), columns.values, y, product));
    }
  }
  return absl::OkStatus();
}

Status LaunchConvolutionGrad(const OpCall& call) {
  const ConvolutionShape shape = ShapeOf(call, Op::kConvolutionGrad);
  const int64_t positions = shape.positions();
  const int64_t window = shape.r * shape.s;
  const int64_t plane = shape.h * shape.w;
  const int64_t channels = shape.pointwise() ? shape.i : call.Shape(3)[0] / window;
  for (int64_t n = 0; n < shape.n; ++n) {
    const In<float> dy = PartOf(call.Read(0), n * shape.o * positions, shape.o * positions);
    for (int64_t first = 0; first < shape.i; first += channels) {
      const int64_t count = std::min(channels, shape.i - first);
      const In<float> weight =
          PartOf(call.Read(1), first * window, SpanOf(shape.o, shape.terms(), count * window));
      const GemmShape product{.m = count * window,
                              .n = positions,
                              .k = shape.o,
                              .a_m = 1,
                              .a_k = shape.terms(),
                              .b_k = positions,
                              .b_n = 1,
                              .c_m = positions,
                              .c_n = 1};
      const Out<float> dx = PartOf(call.Write(2), (n * shape.i + first) * plane, count * plane);
      if (shape.pointwise()) {
        TL_RETURN_IF_ERROR(Multiply<false>(call, weight, dy, dx, product));
        continue;
      }
      const Out<float> tile = PartOf(call.Write(3), 0, count * window * positions);
      TL_RETURN_IF_ERROR(Multiply<false>(call, weight, dy, tile, product));
      TL_RETURN_IF_ERROR(Launch<ScatterColumns>(call.target(), count,
                                                In<float>(tile.data(), tile.count()), dx, shape));
    }
  }
  return absl::OkStatus();
}

Status LaunchConvolutionWeightGrad(const OpCall& call) {
  const ConvolutionShape shape = ShapeOf(call, Op::kConvolutionWeightGrad);
  const int64_t image = shape.i * shape.h * shape.w;
  const int64_t positions = shape.positions();
  const int64_t tile = TileOf(call, shape);
  bool accumulate = call.attributes().accumulate;
  for (int64_t n = 0; n < shape.n; ++n) {
    const In<float> sample = PartOf(call.Read(1), n * image, image);
    for (int64_t first = 0; first < positions; first += tile) {
      const int64_t count = std::min(tile, positions - first);
      TL_ASSIGN_OR_RETURN(const Columns columns, ColumnsOf(call, shape, sample, first, count));
      const GemmShape product{.m = shape.o,
                              .n = shape.terms(),
                              .k = count,
                              .a_m = positions,
                              .a_k = 1,
                              .b_k = 1,
                              .b_n = columns.row_stride,
                              .c_m = shape.terms(),
                              .c_n = 1};
      const In<float> dy =
          PartOf(call.Read(0), n * shape.o * positions + first, SpanOf(shape.o, positions, count));
      TL_RETURN_IF_ERROR(accumulate
                             ? Multiply<true>(call, dy, columns.values, call.Update(2), product)
                             : Multiply<false>(call, dy, columns.values, call.Write(2), product));
      accumulate = true;
    }
  }
  return absl::OkStatus();
}

}  // namespace tideline::ops

// Maximum and average over windows of an image, and patches of it. One block per row of the output.
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {
namespace {

// [planes, height, width] and the windows over each plane.
struct PoolShape {
  int64_t height, width;  // of the image
  int64_t rows, columns;  // of windows
  SpatialWindow window;
};

// `image` and `windows` are operands [n, c, h, w] and [n, c, p, q].
PoolShape PoolOf(const OpCall& call, int image, int windows) {
  return {call.Shape(image)[2], call.Shape(image)[3], call.Shape(windows)[2],
          call.Shape(windows)[3], call.attributes().window};
}

// Indices [begin, end) that some side has.
struct Range {
  int64_t begin, end;
};

// The elements of an image that window `index` sees along one side.
TIDELINE_HOST_DEVICE inline Range ElementsOf(int64_t index, int64_t size,
                                             const SpatialWindow& window, int64_t extent) {
  const int64_t begin = index * window.stride - window.padding;
  return {begin > 0 ? begin : 0, begin + size < extent ? begin + size : extent};
}

// The windows that see element `at` along one side.
TIDELINE_HOST_DEVICE inline Range WindowsOf(int64_t at, int64_t size, const SpatialWindow& window,
                                            int64_t count) {
  const int64_t last = (at + window.padding) / window.stride;
  const int64_t before = at + window.padding - size;  // the last element not seen any more
  const int64_t first = before < 0 ? 0 : before / window.stride + 1;
  return {first, last + 1 < count ? last + 1 : count};
}

// The first of equal maxima, row by row; NaN wins.
struct MaxPool {
  static constexpr const char* kName = "max_pool";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> x, Out<float, Mode> y,
                                       Out<int32_t, Mode> index, PoolShape shape) {
    const int64_t plane = block.index() / shape.rows * shape.height * shape.width;
    const Range rows =
        ElementsOf(block.index() % shape.rows, shape.window.height, shape.window, shape.height);
    const int64_t to = block.index() * shape.columns;
    block.Each(shape.columns, [&](int64_t q) {
      const Range columns = ElementsOf(q, shape.window.width, shape.window, shape.width);
      int64_t best = rows.begin * shape.width + columns.begin;
      float most = x[plane + best];
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        for (int64_t column = columns.begin; column < columns.end; ++column) {
          const float value = x[plane + row * shape.width + column];
          const bool first_nan = value != value && most == most;
          if (!(value > most || first_nan)) continue;
          most = value;
          best = row * shape.width + column;
        }
      }
      y[to + q] = most;
      index[to + q] = static_cast<int32_t>(best);
    });
  }
};

// dx of an element: the sum over the windows it won, in order.
struct MaxPoolGrad {
  static constexpr const char* kName = "max_pool_grad";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> dy,
                                       In<int32_t, Mode> index, Out<float, Mode> dx,
                                       PoolShape shape) {
    const int64_t row = block.index() % shape.height;
    const int64_t plane = block.index() / shape.height * shape.rows * shape.columns;
    const Range rows = WindowsOf(row, shape.window.height, shape.window, shape.rows);
    const int64_t to = block.index() * shape.width;
    block.Each(shape.width, [&](int64_t column) {
      const Range columns = WindowsOf(column, shape.window.width, shape.window, shape.columns);
      const int64_t own = row * shape.width + column;
      float sum = 0.0f;
      for (int64_t p = rows.begin; p < rows.end; ++p) {
        for (int64_t q = columns.begin; q < columns.end; ++q) {
          const int64_t window = plane + p * shape.columns + q;
          if (index[window] == own) sum += dy[window];
        }
      }
      dx[to + column] = sum;
    });
  }
};

struct AveragePool {
  static constexpr const char* kName = "average_pool";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> x, Out<float, Mode> y,
                                       PoolShape shape) {
    const int64_t plane = block.index() / shape.rows * shape.height * shape.width;
    const int64_t first = block.index() % shape.rows * shape.window.stride;
    const float count = static_cast<float>(int64_t{shape.window.height} * shape.window.width);
    const int64_t to = block.index() * shape.columns;
    block.Each(shape.columns, [&](int64_t q) {
      float sum = 0.0f;
      for (int64_t row = first; row < first + shape.window.height; ++row) {
        const int64_t from = plane + row * shape.width + q * shape.window.stride;
        for (int64_t column = 0; column < shape.window.width; ++column) sum += x[from + column];
      }
      y[to + q] = sum / count;
    });
  }
};

struct AveragePoolGrad {
  static constexpr const char* kName = "average_pool_grad";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> dy, Out<float, Mode> dx,
                                       PoolShape shape) {
    const int64_t row = block.index() % shape.height;
    const int64_t plane = block.index() / shape.height * shape.rows * shape.columns;
    const Range rows = WindowsOf(row, shape.window.height, shape.window, shape.rows);
    const float count = static_cast<float>(int64_t{shape.window.height} * shape.window.width);
    const int64_t to = block.index() * shape.width;
    block.Each(shape.width, [&](int64_t column) {
      const Range columns = WindowsOf(column, shape.window.width, shape.window, shape.columns);
      float sum = 0.0f;
      for (int64_t p = rows.begin; p < rows.end; ++p) {
        for (int64_t q = columns.begin; q < columns.end; ++q) {
          sum += dy[plane + p * shape.columns + q];
        }
      }
      dx[to + column] = sum / count;
    });
  }
};

// [n, c, h, w] as [n, patches, c r s]; `kInverse` puts them back. One block per patch.
template <typename Storage, bool kInverse>
struct Patches {
  static constexpr const char* kName = kInverse ? "patches_grad" : "patches";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<Storage, Mode> from,
                                       Out<Storage, Mode> to, PoolShape shape, int64_t channels) {
    const int64_t patches = shape.rows * shape.columns;
    const int64_t sample = block.index() / patches;
    const int64_t row = block.index() % patches / shape.columns * shape.window.height;
    const int64_t column = block.index() % shape.columns * shape.window.width;
    for (int64_t line = 0; line < channels * shape.window.height; ++line) {
      const int64_t channel = line / shape.window.height;
      const int64_t y = row + line % shape.window.height;
      const int64_t in_image =
          ((sample * channels + channel) * shape.height + y) * shape.width + column;
      const int64_t in_patch =
          (block.index() * channels * shape.window.height + line) * shape.window.width;
      block.Each(shape.window.width, [&](int64_t i) {
        if constexpr (kInverse) {
          to[in_image + i] = from[in_patch + i];
        } else {
          to[in_patch + i] = from[in_image + i];
        }
      });
    }
  }
};

template <typename Storage, bool kInverse>
Status LaunchPatchesOf(const OpCall& call) {
  const std::vector<int64_t>& image = call.Shape(kInverse ? 1 : 0);
  const SpatialWindow& window = call.attributes().window;
  const PoolShape shape{image[2], image[3], image[2] / window.height, image[3] / window.width,
                        window};
  const int64_t blocks = image[0] * shape.rows * shape.columns;
  return Launch<Patches<Storage, kInverse>>(call.target(), blocks, call.Read<Storage>(0),
                                            call.Write<Storage>(1), shape, image[1]);
}

int64_t RowsOfImages(const OpCall& call, int operand) {
  const std::vector<int64_t>& shape = call.Shape(operand);
  return shape[0] * shape[1] * shape[2];
}

}  // namespace

Status LaunchMaxPool(const OpCall& call) {
  return Launch<MaxPool>(call.target(), RowsOfImages(call, 1), call.Read(0), call.Write(1),
                         call.Write<int32_t>(2), PoolOf(call, 0, 1));
}

Status LaunchMaxPoolGrad(const OpCall& call) {
  return Launch<MaxPoolGrad>(call.target(), RowsOfImages(call, 2), call.Read(0),
                             call.Read<int32_t>(1), call.Write(2), PoolOf(call, 2, 0));
}

Status LaunchAveragePool(const OpCall& call) {
  return Launch<AveragePool>(call.target(), RowsOfImages(call, 1), call.Read(0), call.Write(1),
                             PoolOf(call, 0, 1));
}

Status LaunchAveragePoolGrad(const OpCall& call) {
  return Launch<AveragePoolGrad>(call.target(), RowsOfImages(call, 1), call.Read(0), call.Write(1),
                                 PoolOf(call, 1, 0));
}

Status LaunchPatches(const OpCall& call) {
  return SizeOf(call.TypeOf(0)) == 4 ? LaunchPatchesOf<uint32_t, false>(call)
                                     : LaunchPatchesOf<uint16_t, false>(call);
}

Status LaunchPatchesGrad(const OpCall& call) {
  return SizeOf(call.TypeOf(0)) == 4 ? LaunchPatchesOf<uint32_t, true>(call)
                                     : LaunchPatchesOf<uint16_t, true>(call);
}

}  // namespace tideline::ops

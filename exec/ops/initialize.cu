// Constant and random initial values. A bucket's values are those of its boxes one after the other
// (attributes.init); an element's value depends only on the seed, the parameter's name and its
// index in the full tensor, so that every way of cutting a parameter gives the same numbers.
#include <algorithm>
#include <string>

#include "base/rng.h"
#include "exec/ops/formats.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"
#include "planner/program/init_boxes.h"

namespace tideline::ops {
namespace {

constexpr int kMaxDimensions = 8;

// Elements [begin, end) of the row-major run of one box, with what their values are made of. They
// lie in the launch's view from its first element on.
struct Box {
  StreamKey key;
  int dimensions = 0;
  int64_t extent[kMaxDimensions] = {};
  int64_t full[kMaxDimensions] = {};   // extents of the whole tensor
  int64_t first[kMaxDimensions] = {};  // of the box in it
  int64_t valid_rows = 0;
  int64_t begin = 0, end = 0;
};

// The first element of a line (all dimensions but the last) of a box: its index in the whole tensor
// and its row there.
struct Line {
  int64_t index, row;
};
TIDELINE_HOST_DEVICE Line LineOf(const Box& box, int64_t line) {
  int64_t index = box.first[box.dimensions - 1];
  int64_t row = index;
  int64_t stride = box.full[box.dimensions - 1];
  for (int d = box.dimensions - 2; d >= 0; --d) {
    row = box.first[d] + line % box.extent[d];
    index += row * stride;
    stride *= box.full[d];
    line /= box.extent[d];
  }
  return {index, row};
}

template <typename T, bool kRandom>
struct Initialize {
  static constexpr const char* kName = kRandom ? "init_normal" : "fill_parameter";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, Out<T, Mode> y, const Box& box,
                                       float value) {
    const int64_t columns = box.extent[box.dimensions - 1];
    // In one dimension every element is a row of its own.
    const bool vector = box.dimensions == 1;
    const Block::Part part = block.Tile(box.end - box.begin);
    for (int64_t position = part.begin; position < part.end;) {
      const int64_t column = (box.begin + position) % columns;
      const int64_t left = part.end - position;
      const int64_t count = columns - column < left ? columns - column : left;
      const Line line = LineOf(box, (box.begin + position) / columns);
      block.Map(
          count,
          [&](int64_t i, float& to) {
            const int64_t row = vector ? line.row + column + i : line.row;
            const bool padding = box.valid_rows > 0 && row >= box.valid_rows;
            float element = value;
            if constexpr (kRandom) element *= NormalAt(box.key, line.index + column + i);
            to = padding ? 0.0f : element;
          },
          y.From(position));
      position += count;
    }
  }
};

template <typename T>
struct FillConstant {
  static constexpr const char* kName = "fill";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, Out<T, Mode> y, float value) {
    block.MapTile(
        y.count(), [value](int64_t, float& element) { element = value; }, y);
  }
};

StatusOr<Box> BoxOf(const BoxPart& part, uint64_t seed) {
  Box box;
  box.key = MakeStreamKey(seed, part.box->parameter);
  box.dimensions = static_cast<int>(part.box->extent.size());
  if (box.dimensions > kMaxDimensions) {
    return UnavailableError("kernel initialize: parameter '" + part.box->parameter + "' has " +
                            std::to_string(box.dimensions) + " dimensions; there is code for 8");
  }
  std::copy(part.box->extent.begin(), part.box->extent.end(), box.extent);
  std::copy(part.box->full_shape.begin(), part.box->full_shape.end(), box.full);
  std::copy(part.region.first.begin(), part.region.first.end(), box.first);
  box.valid_rows = part.box->valid_rows;
  box.begin = part.region.begin;
  box.end = part.region.end;
  return box;
}

// One launch per box, and one for what no box covers.
template <typename T, bool kRandom>
Status LaunchInitialize(const OpCall& call, float value) {
  T* const y = call.Write<T>(0).data();
  int64_t covered = 0;
  for (const BoxPart& part :
       BoxParts(call.attributes(), call.context().coordinates, call.Count(0))) {
    TL_ASSIGN_OR_RETURN(const Box box, BoxOf(part, call.context().seed));
    const int64_t count = part.region.count();
    const Status launched = Launch<Initialize<T, kRandom>>(call.target(), BlocksFor(count),
                                                           Out<T>(y + part.to, count), box, value);
    TL_RETURN_IF_ERROR(launched);
    covered = part.to + count;
  }
  const int64_t rest = call.Count(0) - covered;
  if (rest == 0) return absl::OkStatus();
  return Launch<FillConstant<T>>(call.target(), BlocksFor(rest), Out<T>(y + covered, rest), 0.0f);
}

}  // namespace

Status LaunchFill(const OpCall& call) {
  const float value = call.attributes().constant;
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    if (!call.attributes().init.empty()) return LaunchInitialize<T, false>(call, value);
    return Launch<FillConstant<T>>(call.target(), BlocksFor(call.Count(0)), call.Write<T>(0),
                                   value);
  });
}

Status LaunchInitNormal(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return LaunchInitialize<T, true>(call, call.attributes().init_stddev);
  });
}

}  // namespace tideline::ops

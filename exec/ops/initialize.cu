// Constant and random initial values. A bucket's values are those of its boxes one after the other
// (attributes.init); an element's value depends only on the seed, the parameter's name and its
// index in the full tensor, so that every way of cutting a parameter gives the same numbers.
#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {
namespace {

// One box in numbers of this rank. The output holds elements [begin, end) of the row-major run of
// the box, from output element `to` on.
struct Box {
  StreamKey key;
  std::vector<int64_t> full_shape;
  std::vector<int64_t> extent;
  std::vector<int64_t> first;
  int64_t valid_rows = 0;
  int64_t begin = 0, end = 0, to = 0;

  // Row `line` of the box (all dimensions but the last): index of its first element in the full
  // tensor, and its coordinate in dimension 0.
  struct Line {
    int64_t index, row;
  };
  Line At(int64_t line) const {
    int64_t index = 0, stride = 1, row = 0;
    for (int d = static_cast<int>(extent.size()) - 1; d >= 0; --d) {
      const bool last = d + 1 == static_cast<int>(extent.size());
      const int64_t coordinate = first[d] + (last ? 0 : line % extent[d]);
      if (!last) line /= extent[d];
      index += coordinate * stride;
      stride *= full_shape[d];
      row = coordinate;
    }
    return {index, row};
  }
};

// One block per box, and one for what no box covers.
template <bool kRandom>
struct Initialize {
  static constexpr const char* kName = kRandom ? "init_normal" : "fill_parameter";
  template <typename Mode>
  static void Run(const Block& block, Out<float, Mode> y, const std::vector<Box>& boxes,
                  int64_t covered, float value) {
    if (block.index() == static_cast<int64_t>(boxes.size())) {
      block.Each(y.count() - covered, [&](int64_t i) { y[covered + i] = 0.0f; });
      return;
    }
    const Box& box = boxes[block.index()];
    const int64_t columns = box.extent.back();
    for (int64_t position = box.begin; position < box.end;) {
      const int64_t column = position % columns;
      const int64_t count = std::min(columns - column, box.end - position);
      const Box::Line line = box.At(position / columns);
      const int64_t to = box.to + position - box.begin;
      // In one dimension every element is a row of its own.
      const bool vector = box.extent.size() == 1;
      block.Each(count, [&](int64_t i) {
        const int64_t row = vector ? line.row + column + i : line.row;
        const bool padding = box.valid_rows > 0 && row >= box.valid_rows;
        float element = value;
        if constexpr (kRandom) element *= NormalAt(box.key, line.index + column + i);
        y[to + i] = padding ? 0.0f : element;
      });
      position += count;
    }
  }
};

struct FillConstant {
  static constexpr const char* kName = "fill";
  template <typename Mode>
  static void Run(const Block& block, Out<float, Mode> y, float value) {
    block.EachOfTile(y.count(), [&](int64_t i) { y[i] = value; });
  }
};

// The boxes as far as they fall into this rank's part of the bucket, and the elements they cover.
std::vector<Box> BoxesOf(const OpCall& call, int64_t& covered) {
  const int64_t shard_begin = call.At(call.attributes().element_offset);
  const int64_t shard_end = shard_begin + call.Count(0);
  std::vector<Box> boxes;
  int64_t run_begin = 0;
  covered = 0;
  for (const InitBox& init : call.attributes().init) {
    const int64_t elements = Elements(init.extent);
    const int64_t begin = std::clamp<int64_t>(shard_begin - run_begin, 0, elements);
    const int64_t end = std::clamp<int64_t>(shard_end - run_begin, 0, elements);
    if (begin < end) {
      Box box{.key = MakeStreamKey(call.context().seed, init.parameter),
              .full_shape = init.full_shape,
              .extent = init.extent,
              .first = {},
              .valid_rows = init.valid_rows,
              .begin = begin,
              .end = end,
              .to = run_begin + begin - shard_begin};
      for (const Affine& first : init.first) box.first.push_back(call.At(first));
      covered = box.to + end - begin;
      boxes.push_back(std::move(box));
    }
    run_begin += elements;
  }
  return boxes;
}

template <bool kRandom>
Status LaunchInitialize(const OpCall& call, float value) {
  int64_t covered = 0;
  std::vector<Box> boxes = BoxesOf(call, covered);
  const int64_t blocks = static_cast<int64_t>(boxes.size()) + 1;
  return Launch<Initialize<kRandom>>(call.target(), blocks, call.Write(0), std::move(boxes),
                                     covered, value);
}

}  // namespace

Status LaunchFill(const OpCall& call) {
  if (!call.attributes().init.empty()) {
    return LaunchInitialize<false>(call, call.attributes().constant);
  }
  return Launch<FillConstant>(call.target(), BlocksFor(call.Count(0)), call.Write(0),
                              call.attributes().constant);
}

Status LaunchInitNormal(const OpCall& call) {
  return LaunchInitialize<true>(call, call.attributes().init_stddev);
}

}  // namespace tideline::ops

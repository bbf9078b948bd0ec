// Constant and random initial values. A bucket's values are those of its boxes one after the other
// (attributes.init); an element's value depends only on the seed, the parameter's name and its
// index in the full tensor, so that every way of cutting a parameter gives the same numbers.
#include <utility>
#include <vector>

#include "base/rng.h"
#include "exec/ops/init_boxes.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {
namespace {

// One box with what its values are made of.
struct Box {
  StreamKey key;
  BoxPart part;
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
    const InitBox& init = *box.part.box;
    // In one dimension every element is a row of its own.
    const bool vector = init.extent.size() == 1;
    std::vector<int64_t> coordinates;
    EachLine(box.part, [&](const LineRun& run) {
      LineCoordinates(box.part, run.line, coordinates);
      int64_t index = 0;
      for (size_t d = 0; d < coordinates.size(); ++d) {
        index = index * init.full_shape[d] + coordinates[d];
      }
      const int64_t line_row = coordinates[0];
      block.Each(run.count, [&](int64_t i) {
        const int64_t row = vector ? line_row + run.column + i : line_row;
        const bool padding = init.valid_rows > 0 && row >= init.valid_rows;
        float element = value;
        if constexpr (kRandom) element *= NormalAt(box.key, index + run.column + i);
        y[run.to + i] = padding ? 0.0f : element;
      });
    });
  }
};

struct FillConstant {
  static constexpr const char* kName = "fill";
  template <typename Mode>
  static void Run(const Block& block, Out<float, Mode> y, float value) {
    block.EachOfTile(y.count(), [&](int64_t i) { y[i] = value; });
  }
};

template <bool kRandom>
Status LaunchInitialize(const OpCall& call, float value) {
  std::vector<Box> boxes;
  int64_t covered = 0;
  for (BoxPart& part : BoxParts(call.attributes(), call.context().coordinates, call.Count(0))) {
    covered = part.to + part.end - part.begin;
    boxes.push_back({MakeStreamKey(call.context().seed, part.box->parameter), std::move(part)});
  }
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

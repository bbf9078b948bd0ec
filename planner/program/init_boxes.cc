#include "planner/program/init_boxes.h"

#include <algorithm>
#include <utility>

#include "models/ir/graph.h"

namespace tideline {

std::vector<BoxPart> BoxParts(const Attributes& attributes, const Coordinates& coordinates,
                              int64_t count) {
  const int64_t shard_begin = attributes.element_offset.At(coordinates);
  const int64_t shard_end = shard_begin + count;
  std::vector<BoxPart> parts;
  int64_t run_begin = 0;
  for (const InitBox& box : attributes.init) {
    const int64_t elements = Elements(box.extent);
    const int64_t begin = std::clamp<int64_t>(shard_begin - run_begin, 0, elements);
    const int64_t end = std::clamp<int64_t>(shard_end - run_begin, 0, elements);
    if (begin < end) {
      BoxPart part{.box = &box, .region = {}, .to = run_begin + begin - shard_begin};
      for (const Affine& first : box.first) part.region.first.push_back(first.At(coordinates));
      part.region.extent = box.extent;
      part.region.begin = begin;
      part.region.end = end;
      parts.push_back(std::move(part));
    }
    run_begin += elements;
  }
  return parts;
}

}  // namespace tideline

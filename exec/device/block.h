// Block: what one block of a kernel does together, in terms that a GPU block (strided loops, warp
// shuffles) and a host loop (vector instructions) both can keep.
//
// Bits: Each orders nothing, so iterations must not depend on each other. Reduce adds over a fixed
// tree that depends on the extent only: lane l of kLanes takes elements l, l + kLanes, ... in
// order, starting from the identity, then the upper half of the lanes is added to the lower half
// until one is left. Scan goes in index order.
#ifndef TIDELINE_EXEC_DEVICE_BLOCK_H_
#define TIDELINE_EXEC_DEVICE_BLOCK_H_

#include <algorithm>
#include <cstdint>

namespace tideline {

class Block {
 public:
  static constexpr int kLanes = 64;

  Block(int64_t index, int64_t blocks) : index_(index), blocks_(blocks) {}

  int64_t index() const { return index_; }

  // The part of [0, count) that is this block's: equal runs of whole vectors but for the last.
  struct Part {
    int64_t begin, end;
  };
  Part Tile(int64_t count) const {
    const int64_t length = ((count + blocks_ - 1) / blocks_ + kLanes - 1) / kLanes * kLanes;
    const int64_t begin = std::min(count, index_ * length);
    return {begin, std::min(count, begin + length)};
  }

  // function(i) for every i in [0, count).
  template <typename Function>
  void Each(int64_t count, Function function) const {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) function(i);
  }

  // function(i) for every i of this block's part of [0, count).
  template <typename Function>
  void EachOfTile(int64_t count, Function function) const {
    const Part part = Tile(count);
#pragma GCC ivdep
    for (int64_t i = part.begin; i < part.end; ++i) function(i);
  }

  // combine over map(i), i in [0, count); combine(identity, x) must be x.
  template <typename Value, typename Map, typename Combine>
  Value Reduce(int64_t count, Value identity, Map map, Combine combine) const {
    Value lanes[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = identity;
    int64_t base = 0;
    for (; base + kLanes <= count; base += kLanes) {
#pragma GCC ivdep
      for (int lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = combine(lanes[lane], map(base + lane));
      }
    }
    for (int lane = 0; base + lane < count; ++lane) {
      lanes[lane] = combine(lanes[lane], map(base + lane));
    }
    return Fold<kLanes / 2>(lanes, combine);
  }

  template <typename Map>
  float Sum(int64_t count, Map map) const {
    return Reduce(count, 0.0f, map, [](float a, float b) { return a + b; });
  }

  // store(i, combine over map(0..i)), in index order from `first` on; returns the last value.
  template <typename Value, typename Map, typename Combine, typename Store>
  Value Scan(int64_t count, Value first, Map map, Combine combine, Store store) const {
    Value value = first;
    for (int64_t i = 0; i < count; ++i) {
      value = combine(value, map(i));
      store(i, value);
    }
    return value;
  }

 private:
  // The upper half of 2 * kWidth lanes onto the lower, and so on. Constant extents, so that each
  // step is whole vector instructions.
  template <int kWidth, typename Value, typename Combine>
  static Value Fold(Value* lanes, Combine combine) {
    for (int lane = 0; lane < kWidth; ++lane) {
      lanes[lane] = combine(lanes[lane], lanes[lane + kWidth]);
    }
    if constexpr (kWidth == 1) {
      return lanes[0];
    } else {
      return Fold<kWidth / 2>(lanes, combine);
    }
  }

  int64_t index_;
  int64_t blocks_;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_DEVICE_BLOCK_H_

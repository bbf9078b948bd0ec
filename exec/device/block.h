// Block: what one block of a kernel does together, in terms that a GPU block (strided loops,
// 128-bit accesses, warp shuffles) and a host loop (vector instructions) both can keep.
//
// A kernel's Run is executed by a whole block. On the host that is one thread; on a GPU every
// thread of the block executes it, so that
//   - primitives are called by all of them: in control flow that is the same for the whole block;
//   - code between primitives runs on every thread and only computes; what it writes stands in
//     Once();
//   - when a primitive returns, what it wrote is seen by the whole block.
//
// Views are handed to Map, Reduce and Sum rather than indexed inside their functions where that is
// possible: the primitive then moves 16 bytes at a time, and the access that the view declares says
// what is loaded and what is stored:
//
//   block.Map(n, [&](int64_t, float& y, float x, float g) { y = x * scale * g; },
//             y.From(row), x.From(row), gamma);
//
// Bits: Map and Each order nothing, so iterations must not depend on each other. Reduce adds over a
// fixed tree that depends on the extent only: lane l of kLanes takes elements l, l + kLanes, ... in
// order, starting from the identity, then the upper half of the lanes is added to the lower half
// until one is left. Scan and Chains go in index order. The bits on a GPU are those on the host.
#ifndef TIDELINE_EXEC_DEVICE_BLOCK_H_
#define TIDELINE_EXEC_DEVICE_BLOCK_H_

#include <algorithm>
#include <cstdint>

#include "base/host_device.h"
#include "exec/device/views.h"
#ifdef __CUDACC__
#include "exec/device/block_device.h"
#endif

// Marks an array that all threads of a block share; it is not initialised.
#ifdef __CUDA_ARCH__
#define TIDELINE_BLOCK_SHARED __shared__
#else
#define TIDELINE_BLOCK_SHARED
#endif

namespace tideline {

class Block {
 public:
  static constexpr int kLanes = 64;

  // Threads of a block on a GPU; a kernel says which it wants by `static constexpr int kThreads`.
  static constexpr int kWideThreads = 256;  // the default: element by element over large tiles
  static constexpr int kRowThreads = 16;    // a block per row that is reduced; eight share a CTA
  static constexpr int kChainThreads = 32;  // a thread per chain

#ifdef __CUDACC__
  __device__ Block(int64_t index, int64_t blocks, int thread, int threads)
      : index_(index), blocks_(blocks), thread_(thread), threads_(threads) {}
#endif
  Block(int64_t index, int64_t blocks) : index_(index), blocks_(blocks) {}

  TIDELINE_HOST_DEVICE int64_t index() const { return index_; }
  TIDELINE_HOST_DEVICE int64_t blocks() const { return blocks_; }

  // Which of the block's kThreads threads this is: 0 on the host. For columns of shared arrays.
  TIDELINE_HOST_DEVICE int thread() const { return thread_; }

  // The part of [0, count) that is this block's: equal runs of whole vectors but for the last.
  struct Part {
    int64_t begin, end;
  };
  TIDELINE_HOST_DEVICE Part Tile(int64_t count) const {
    const int64_t length = ((count + blocks_ - 1) / blocks_ + kLanes - 1) / kLanes * kLanes;
    const int64_t begin = index_ * length < count ? index_ * length : count;
    return {begin, count - begin < length ? count : begin + length};
  }

  // function() once for the block.
  template <typename Function>
  TIDELINE_HOST_DEVICE void Once(Function function) const {
#ifdef __CUDA_ARCH__
    if (thread_ == 0) function();
    internal::SyncBlock(threads_);
#else
    function();
#endif
  }

  // function(i) for every i in [0, count).
  template <typename Function>
  TIDELINE_HOST_DEVICE void Each(int64_t count, Function function) const {
#ifdef __CUDA_ARCH__
    for (int64_t i = thread_; i < count; i += threads_) function(i);
    internal::SyncBlock(threads_);
#else
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) function(i);
#endif
  }

  // function(row, i) for every row in [0, rows) and i in [0, columns).
  template <typename Function>
  TIDELINE_HOST_DEVICE void EachRow(int64_t rows, int64_t columns, Function function) const {
#ifdef __CUDA_ARCH__
    for (int64_t at = thread_; at < rows * columns; at += threads_) {
      function(at / columns, at % columns);
    }
    internal::SyncBlock(threads_);
#else
    for (int64_t row = 0; row < rows; ++row) {
      Each(columns, [&](int64_t i) { function(row, i); });
    }
#endif
  }

  // function(i) for every i of this block's part of [0, count).
  template <typename Function>
  TIDELINE_HOST_DEVICE void EachOfTile(int64_t count, Function function) const {
    const Part part = Tile(count);
    Each(part.end - part.begin, [&](int64_t i) { function(part.begin + i); });
  }

  // function(i, elements i of the views...) for every i in [0, count): those of In come by value,
  // those of Out and InOut as references; an Out element must be assigned.
  template <typename Function, typename... Views>
  TIDELINE_HOST_DEVICE void Map(int64_t count, Function function, const Views&... views) const {
#ifdef __CUDA_ARCH__
    internal::DeviceMap(thread_, threads_, count, function, views...);
#else
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) internal::ApplyAt(i, function, views...);
#endif
  }

  // Map over this block's part of [0, count); i counts from the start of the whole.
  template <typename Function, typename... Views>
  TIDELINE_HOST_DEVICE void MapTile(int64_t count, Function function, const Views&... views) const {
    const Part part = Tile(count);
    Map(
        part.end - part.begin,
        [&](int64_t i, auto&... elements) { function(part.begin + i, elements...); },
        views.From(part.begin)...);
  }

  // combine over map(i, elements i of the In views...), i in [0, count); combine(identity, x) must
  // be x. Every thread gets the result.
  template <typename Value, typename Function, typename Combine, typename... Views>
  TIDELINE_HOST_DEVICE Value Reduce(int64_t count, Value identity, Function map, Combine combine,
                                    const Views&... views) const {
#ifdef __CUDA_ARCH__
    return internal::DeviceReduce<kLanes>(thread_, threads_, count, identity, map, combine,
                                          views...);
#else
    Value lanes[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = identity;
    int64_t base = 0;
    for (; base + kLanes <= count; base += kLanes) {
#pragma GCC ivdep
      for (int lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = combine(lanes[lane], map(base + lane, views[base + lane]...));
      }
    }
    for (int lane = 0; base + lane < count; ++lane) {
      lanes[lane] = combine(lanes[lane], map(base + lane, views[base + lane]...));
    }
    return Fold<kLanes / 2>(lanes, combine);
#endif
  }

  template <typename Function, typename... Views>
  TIDELINE_HOST_DEVICE float Sum(int64_t count, Function map, const Views&... views) const {
    return Reduce(
        count, 0.0f, map, [](float a, float b) { return a + b; }, views...);
  }

  // Whether predicate(i) holds for an i in [0, count).
  template <typename Predicate>
  TIDELINE_HOST_DEVICE bool Any(int64_t count, Predicate predicate) const {
    bool any = false;
#ifdef __CUDA_ARCH__
    for (int64_t i = thread_; i < count; i += threads_) any |= predicate(i);
    return internal::AnyOfBlock(threads_, any);
#else
    for (int64_t i = 0; i < count; ++i) any |= predicate(i);
    return any;
#endif
  }

  // function(i) for every i in [0, count) for which predicate(i) holds, in index order; the whole
  // block calls each function(i), which may use primitives.
  template <typename Predicate, typename Function>
  TIDELINE_HOST_DEVICE void EachWhere(int64_t count, Predicate predicate, Function function) const {
#ifdef __CUDA_ARCH__
    internal::DeviceEachWhere(thread_, threads_, count, predicate, function);
#else
    for (int64_t i = 0; i < count; ++i) {
      if (predicate(i)) function(i);
    }
#endif
  }

  // store(i, combine over map(0..i)), in index order from `first` on; returns the last value.
  template <typename Value, typename Function, typename Combine, typename Store>
  TIDELINE_HOST_DEVICE Value Scan(int64_t count, Value first, Function map, Combine combine,
                                  Store store) const {
#ifdef __CUDA_ARCH__
    return internal::DeviceScan(thread_, threads_, count, first, map, combine, store);
#else
    Value value = first;
    for (int64_t i = 0; i < count; ++i) {
      value = combine(value, map(i));
      store(i, value);
    }
    return value;
#endif
  }

  // Chains j in [begin, end), independent of each other, each of kValues values taken through
  // `length` links in order: first(j, values), then step(row(i), j, values) for i ascending, then
  // store(j, values). `values` is float (&)[kValues]; row(i) is what the links i of all chains have
  // in common. Sums over rows whose order is a contract are chains, one per column.
  template <int kValues, typename First, typename Row, typename Step, typename Store>
  TIDELINE_HOST_DEVICE void Chains(int64_t begin, int64_t end, int64_t length, First first, Row row,
                                   Step step, Store store) const {
#ifdef __CUDA_ARCH__
    for (int64_t j = begin + thread_; j < end; j += threads_) {
      float values[kValues];
      first(j, values);
#pragma unroll 8
      for (int64_t i = 0; i < length; ++i) step(row(i), j, values);
      store(j, values);
    }
    internal::SyncBlock(threads_);
#else
    for (int64_t from = begin; from < end; from += kHostChains) {
      HostChains<kValues>(from, std::min(end, from + kHostChains), length, first, row, step, store);
    }
#endif
  }

 private:
  static constexpr int64_t kHostChains = 256;

  // At most kHostChains at once, link by link, so that neighbours are vectors.
  template <int kValues, typename First, typename Row, typename Step, typename Store>
  static void HostChains(int64_t begin, int64_t end, int64_t length, First first, Row row,
                         Step step, Store store) {
    float sums[kValues][kHostChains];
    const auto load = [&](int64_t j, float(&values)[kValues]) {
      for (int k = 0; k < kValues; ++k) values[k] = sums[k][j];
    };
    const auto keep = [&](int64_t j, const float(&values)[kValues]) {
      for (int k = 0; k < kValues; ++k) sums[k][j] = values[k];
    };
    const int64_t chains = end - begin;
    for (int64_t j = 0; j < chains; ++j) {
      float values[kValues];
      first(begin + j, values);
      keep(j, values);
    }
    for (int64_t i = 0; i < length; ++i) {
      const auto common = row(i);
#pragma GCC ivdep
      for (int64_t j = 0; j < chains; ++j) {
        float values[kValues];
        load(j, values);
        step(common, begin + j, values);
        keep(j, values);
      }
    }
    for (int64_t j = 0; j < chains; ++j) {
      float values[kValues];
      load(j, values);
      store(begin + j, values);
    }
  }

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
  int thread_ = 0;
  int threads_ = 1;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_DEVICE_BLOCK_H_

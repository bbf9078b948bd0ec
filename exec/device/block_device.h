// The primitives of Block (exec/device/block.h) as the threads of a GPU block execute them.
//
// A block is `threads` threads, numbered by `thread`: half a warp, a warp, or a whole CTA. Groups
// within a warp talk by shuffles and warp barriers under their own mask; wider ones by shared
// memory and the CTA's barrier. Only included by nvcc.
#ifndef TIDELINE_EXEC_DEVICE_BLOCK_DEVICE_H_
#define TIDELINE_EXEC_DEVICE_BLOCK_DEVICE_H_

#include <cstdint>

#include "exec/device/views.h"

namespace tideline::internal {

constexpr int kWarp = 32;

// The lanes of this thread's warp that belong to its group of `threads` <= 32.
__device__ __forceinline__ unsigned GroupMask(int threads) {
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned ones = threads >= kWarp ? 0xffffffffu : (1u << threads) - 1u;
  return ones << (lane / threads * threads);
}

__device__ __forceinline__ void SyncBlock(int threads) {
  if (threads <= kWarp) {
    __syncwarp(GroupMask(threads));
  } else {
    __syncthreads();
  }
}

__device__ __forceinline__ bool AnyOfBlock(int threads, bool value) {
  if (threads <= kWarp) return __any_sync(GroupMask(threads), value);
  return __syncthreads_or(value) != 0;
}

// ---- Vectors of elements ----

template <typename T, int kWidth>
struct Chunk {
  static constexpr int kBytes = kWidth * static_cast<int>(sizeof(T));
  static constexpr int kAligned = kBytes < 16 ? kBytes : 16;
  T items[kWidth];
};

template <typename Word, typename T, int kWidth>
__device__ __forceinline__ void LoadWords(const T* from, Chunk<T, kWidth>& chunk) {
  constexpr int kWords = Chunk<T, kWidth>::kBytes / static_cast<int>(sizeof(Word));
  constexpr int kEach = kWidth / kWords;
#pragma unroll
  for (int word = 0; word < kWords; ++word) {
    const Word bits = reinterpret_cast<const Word*>(from)[word];
    __builtin_memcpy(&chunk.items[word * kEach], &bits, sizeof bits);
  }
}

template <typename Word, typename T, int kWidth>
__device__ __forceinline__ void StoreWords(T* to, const Chunk<T, kWidth>& chunk) {
  constexpr int kWords = Chunk<T, kWidth>::kBytes / static_cast<int>(sizeof(Word));
  constexpr int kEach = kWidth / kWords;
#pragma unroll
  for (int word = 0; word < kWords; ++word) {
    Word bits;
    __builtin_memcpy(&bits, &chunk.items[word * kEach], sizeof bits);
    reinterpret_cast<Word*>(to)[word] = bits;
  }
}

// Elements [first, first + kWidth) of a view, in as few words as can be.
template <int kWidth, typename AnyView>
__device__ __forceinline__ Chunk<typename AnyView::Element, kWidth> LoadChunk(const AnyView& view,
                                                                              int64_t first) {
  using Piece = Chunk<typename AnyView::Element, kWidth>;
  Piece chunk;
  if constexpr (Piece::kAligned == 16) {
    LoadWords<uint4>(view.data() + first, chunk);
  } else if constexpr (Piece::kAligned == 8) {
    LoadWords<uint2>(view.data() + first, chunk);
  } else {
    LoadWords<uint32_t>(view.data() + first, chunk);
  }
  return chunk;
}

// The same, but for a view that is only written.
template <int kWidth, typename AnyView>
__device__ __forceinline__ Chunk<typename AnyView::Element, kWidth> OldChunk(const AnyView& view,
                                                                             int64_t first) {
  if constexpr (AnyView::kViewAccess == Access::kWrite) {
    return {};
  } else {
    return LoadChunk<kWidth>(view, first);
  }
}

template <int kWidth, typename AnyView>
__device__ __forceinline__ void StoreChunk(const AnyView& view, int64_t first,
                                           const Chunk<typename AnyView::Element, kWidth>& chunk) {
  using Piece = Chunk<typename AnyView::Element, kWidth>;
  if constexpr (AnyView::kViewAccess != Access::kRead) {
    if constexpr (Piece::kAligned == 16) {
      StoreWords<uint4>(view.data() + first, chunk);
    } else if constexpr (Piece::kAligned == 8) {
      StoreWords<uint2>(view.data() + first, chunk);
    } else {
      StoreWords<uint32_t>(view.data() + first, chunk);
    }
  }
}

template <int kWidth, typename AnyView>
__device__ __forceinline__ bool ChunksAligned(const AnyView& view) {
  using Piece = Chunk<typename AnyView::Element, kWidth>;
  return reinterpret_cast<uintptr_t>(view.data()) % Piece::kAligned == 0;
}

// Elements that one thread takes at once, so that the narrowest view moves 16 bytes.
template <typename... Views>
constexpr int WidthOf() {
  return ((sizeof(typename Views::Element) == 2) || ...) ? 8 : 4;
}

template <int kWidth, typename Function, typename... Views>
__device__ __forceinline__ void MapChunk(int64_t first, Function& function, const Views&... views) {
  const auto apply = [&](auto... chunks) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const auto call = [&](auto... values) {
        function(first + k, values...);
        ((chunks.items[k] = values), ...);
      };
      call(static_cast<typename Views::Value>(chunks.items[k])...);
    }
    (StoreChunk<kWidth>(views, first, chunks), ...);
  };
  apply(OldChunk<kWidth>(views, first)...);
}

template <typename Function, typename... Views>
__device__ __forceinline__ void DeviceMap(int thread, int threads, int64_t count,
                                          Function& function, const Views&... views) {
  constexpr int kWidth = WidthOf<Views...>();
  int64_t done = 0;
  if ((ChunksAligned<kWidth>(views) && ...)) {
    const int64_t chunks = count / kWidth;
    for (int64_t chunk = thread; chunk < chunks; chunk += threads) {
      MapChunk<kWidth>(chunk * kWidth, function, views...);
    }
    done = chunks * kWidth;
  }
  for (int64_t i = done + thread; i < count; i += threads) ApplyAt(i, function, views...);
  SyncBlock(threads);
}

// ---- Reduce ----

// Thread t of kLanes / 4 holds lanes 4t to 4t + 3.
template <int kLanes, typename Value, typename Function, typename Combine, typename... Views>
__device__ __forceinline__ Value ReduceInGroup(int thread, int64_t count, Value identity,
                                               Function& map, Combine& combine,
                                               const Views&... views) {
  constexpr int kPerThread = 4;
  constexpr int kThreads = kLanes / kPerThread;
  const unsigned mask = GroupMask(kThreads);
  Value lanes[kPerThread] = {identity, identity, identity, identity};
  int64_t base = thread * kPerThread;
  if ((ChunksAligned<kPerThread>(views) && ...)) {
#pragma unroll 2
    for (; base + kPerThread <= count; base += kLanes) {
      const auto take = [&](const auto&... chunks) {
#pragma unroll
        for (int k = 0; k < kPerThread; ++k) {
          lanes[k] = combine(lanes[k], map(base + k, chunks.items[k]...));
        }
      };
      take(LoadChunk<kPerThread>(views, base)...);
    }
  }
  for (; base < count; base += kLanes) {
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      if (base + k < count) lanes[k] = combine(lanes[k], map(base + k, views[base + k]...));
    }
  }
#pragma unroll
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      lanes[k] = combine(lanes[k], __shfl_down_sync(mask, lanes[k], distance, kThreads));
    }
  }
  const Value result = combine(combine(lanes[0], lanes[2]), combine(lanes[1], lanes[3]));
  return __shfl_sync(mask, result, 0, kThreads);
}

template <int kLanes, typename Value, typename Function, typename Combine, typename... Views>
__device__ __forceinline__ Value DeviceReduce(int thread, int threads, int64_t count,
                                              Value identity, Function& map, Combine& combine,
                                              const Views&... views) {
  constexpr int kThreads = kLanes / 4;
  if (threads == kThreads) {
    return ReduceInGroup<kLanes>(thread, count, identity, map, combine, views...);
  }
  // A wider block leaves the tree to its first threads, so that its bits stay those of the tree.
  __shared__ Value result;
  SyncBlock(threads);  // the last result has been read
  if (thread < kThreads) {
    const Value value = ReduceInGroup<kLanes>(thread, count, identity, map, combine, views...);
    if (thread == 0) result = value;
  }
  SyncBlock(threads);
  return result;
}

// ---- In index order ----

template <typename Predicate, typename Function>
__device__ __forceinline__ void DeviceEachWhere(int thread, int threads, int64_t count,
                                                Predicate& predicate, Function& function) {
  __shared__ unsigned hits[kWarp];  // by warp of the CTA
  const int width = threads < kWarp ? threads : kWarp;
  const unsigned group = GroupMask(width);
  for (int64_t base = 0; base < count; base += threads) {
    const int64_t i = base + thread;
    unsigned mine = __ballot_sync(group, i < count && predicate(i));
    mine = (mine & group) >> (threadIdx.x % kWarp / width * width);
    if (threads > kWarp) {
      if (threadIdx.x % kWarp == 0) hits[threadIdx.x / kWarp] = mine;
      __syncthreads();
    }
    for (int warp = 0; warp * width < threads; ++warp) {
      unsigned bits = threads > kWarp ? hits[warp] : mine;
      for (; bits != 0; bits &= bits - 1) function(base + warp * width + __ffs(bits) - 1);
    }
    SyncBlock(threads);
  }
}

template <typename Value, typename Function, typename Combine, typename Store>
__device__ __forceinline__ Value DeviceScan(int thread, int threads, int64_t count, Value first,
                                            Function& map, Combine& combine, Store& store) {
  Value value = first;
  for (int64_t i = 0; i < count; ++i) {
    value = combine(value, map(i));
    if (thread == 0) store(i, value);
  }
  SyncBlock(threads);
  return value;
}

}  // namespace tideline::internal

#endif  // TIDELINE_EXEC_DEVICE_BLOCK_DEVICE_H_

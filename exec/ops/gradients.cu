// The exact sum of squares of gradients (base/square_sum.h), which their norm is made of and which
// tells whether they are finite.
#include <algorithm>

#include "base/square_sum.h"
#include "exec/ops/formats.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {
namespace {

// Elements [begin, end) of the shard.
struct Counted {
  int64_t begin, end;
};
using CountedRuns = Table<Counted, kMostNormSpans>;

// One block per part; lane l of a block takes every kLanes-th element, and the lanes' sums are
// added when all are done.
template <typename Gradient>
struct SquareSumParts {
  static constexpr const char* kName = "square_sum_parts";
  static constexpr int kThreads = Block::kLanes;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<Gradient, Mode> gradient,
                                       Out<float, Mode> parts, const CountedRuns& runs) {
    constexpr int kLanes = Block::kLanes;
    constexpr int kLimbs = SquareSum::kLimbs;
    TIDELINE_BLOCK_SHARED uint64_t sums[kLanes][kLimbs];
    TIDELINE_BLOCK_SHARED bool odd[kLanes];  // it met a value that is no finite number
    const Block::Part tile = block.Tile(gradient.count());
    block.Each(kLanes, [&](int64_t lane) {
      for (int limb = 0; limb < kLimbs; ++limb) sums[lane][limb] = 0;
      odd[lane] = false;
      for (int run = 0; run < runs.size(); ++run) {
        const int64_t begin = runs[run].begin > tile.begin ? runs[run].begin : tile.begin;
        const int64_t end = runs[run].end < tile.end ? runs[run].end : tile.end;
        for (int64_t i = begin + lane; i < end; i += kLanes) {
          if (!SquareSum::Add(float{gradient[i]}, sums[lane])) odd[lane] = true;
        }
      }
    });
    block.Each(kLimbs, [&](int64_t limb) {
      for (int lane = 1; lane < kLanes; ++lane) sums[0][limb] += sums[lane][limb];
    });
    const bool any_odd = block.Any(kLanes, [&](int64_t lane) { return odd[lane]; });
    block.Once([&] { SquareSum::Carry(sums[0]); });
    const int64_t row = block.index() * SquareSum::kValues;
    block.Each(SquareSum::kValues, [&](int64_t i) {
      // Whether there is any is all that is asked for, and adds exactly.
      parts[row + i] = i == SquareSum::kDigits ? (any_odd ? 1.0f : 0.0f)
                                               : SquareSum::Digit(sums[0], static_cast<int>(i));
    });
  }
};

// One block.
template <bool kAccumulate>
struct SquareSumTotal {
  static constexpr const char* kName = "square_sum";
  static constexpr int kThreads = 2 * Block::kLanes;  // about one for each value
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> parts,
                                       Sum<float, Mode, kAccumulate> total) {
    constexpr int kValues = SquareSum::kValues;
    TIDELINE_BLOCK_SHARED uint64_t sums[kValues];
    TIDELINE_BLOCK_SHARED uint64_t limbs[SquareSum::kLimbs];
    const int64_t rows = parts.count() / kValues;
    block.Each(kValues, [&](int64_t i) {
      uint64_t sum = 0;
      if constexpr (kAccumulate) sum = static_cast<uint64_t>(float{total[i]});
      for (int64_t row = 0; row < rows; ++row) {
        sum += static_cast<uint64_t>(float{parts[row * kValues + i]});
      }
      sums[i] = sum;
    });
    block.Once([&] {
      for (int limb = 0; limb < SquareSum::kLimbs; ++limb) limbs[limb] = 0;
      for (int i = 0; i < SquareSum::kDigits; ++i) limbs[i / 4] += sums[i] << 8 * (i % 4);
      SquareSum::Carry(limbs);
    });
    block.Each(kValues, [&](int64_t i) {
      total[i] = i == SquareSum::kDigits ? (sums[i] > 0 ? 1.0f : 0.0f)
                                         : SquareSum::Digit(limbs, static_cast<int>(i));
    });
  }
};

// One block for each stretch of the values; those that find something all write the same.
template <typename T>
struct FindNonFinite {
  static constexpr const char* kName = "find_non_finite";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> values,
                                       InOut<int32_t, Mode> found, bool lowest_is_fine) {
    const Block::Part tile = block.Tile(values.count());
    const bool any = block.Any(tile.end - tile.begin, [&](int64_t i) {
      const float value = float{values[tile.begin + i]};
      const float distance = value - value;  // 0, or NaN of what is no finite number
      return !(distance == 0.0f) && !(lowest_is_fine && value < 0.0f);
    });
    block.Once([&] {
      if (any) found[0] = 1;
    });
  }
};

// The runs of this rank's shard that count here. CheckSupported has seen that they fit.
CountedRuns RunsOf(const OpCall& call) {
  const int64_t offset = call.At(call.attributes().element_offset);
  const int64_t count = call.Count(0);
  CountedRuns runs;
  for (const NormSpan& span : call.attributes().norm_spans) {
    if (call.At(span.copy) != 0) continue;
    const int64_t begin = std::clamp<int64_t>(span.begin - offset, 0, count);
    const int64_t end = std::clamp<int64_t>(span.end - offset, 0, count);
    if (begin >= end) continue;
    if (!runs.empty() && runs.back().end == begin) {
      runs.back().end = end;
    } else {
      runs.Push({begin, end});
    }
  }
  return runs;
}

}  // namespace

Status LaunchSquareSumParts(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename Gradient>(Type<Gradient>) {
    return Launch<SquareSumParts<Gradient>>(call.target(), call.Rows(1), call.Read<Gradient>(0),
                                            call.Write(1), RunsOf(call));
  });
}

Status LaunchFindNonFinite(const LaunchTarget& target, DType dtype, const void* values,
                           int64_t count, bool lowest_is_fine, int32_t* found) {
  return WithFormat(dtype, [&]<typename T>(Type<T>) {
    return Launch<FindNonFinite<T>>(target, BlocksFor(count),
                                    In<T>(static_cast<const T*>(values), count),
                                    InOut<int32_t>(found, 1), lowest_is_fine);
  });
}

Status LaunchSquareSum(const OpCall& call) {
  if (call.attributes().accumulate) {
    return Launch<SquareSumTotal<true>>(call.target(), 1, call.Read(0), call.Update(1));
  }
  return Launch<SquareSumTotal<false>>(call.target(), 1, call.Read(0), call.Write(1));
}

}  // namespace tideline::ops

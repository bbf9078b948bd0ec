// Cross entropy over the vocabulary, whole or in columns that several ranks hold. Columns from
// valid_columns of the full tensor on are padding: they take no part, and their gradient is 0.
#include <algorithm>
#include <limits>

#include "base/numerics.h"
#include "exec/ops/formats.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

TIDELINE_HOST_DEVICE float Larger(float a, float b) { return b > a ? b : a; }

// The columns of a row that are vocabulary, and the token of its first column.
struct Columns {
  int64_t count = 0;
  int64_t valid = 0;
  int64_t first = 0;
};

// One block per row in all of these.
template <typename T>
struct CrossEntropy {
  static constexpr const char* kName = "cross_entropy";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> logits,
                                       In<int32_t, Mode> targets, Out<float, Mode> loss,
                                       Out<float, Mode> lse, Columns columns) {
    const int64_t row = block.index() * columns.count;
    const float largest = block.Reduce(
        columns.valid, kLowest, [](int64_t, float logit) { return logit; }, Larger,
        logits.From(row));
    const float sum = block.Sum(
        columns.valid, [largest](int64_t, float logit) { return Exp(logit - largest); },
        logits.From(row));
    const float log_sum = largest + Log(sum);
    const int64_t target = targets[block.index()];
    const bool known = target >= 0 && target < columns.valid;
    const float chosen =
        known ? float{logits[row + target]} : std::numeric_limits<float>::quiet_NaN();
    block.Once([&] {
      lse[block.index()] = log_sum;
      loss[block.index()] = log_sum - chosen;
    });
  }
};

// dlogits = loss_scale (exp(logit - lse) - [column is the target]).
template <typename T>
struct CrossEntropyGrad {
  static constexpr const char* kName = "cross_entropy_grad";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> logits,
                                       In<int32_t, Mode> targets, In<float, Mode> lse,
                                       Out<T, Mode> dlogits, Columns columns, float loss_scale) {
    const int64_t row = block.index() * columns.count;
    const float log_sum = lse[block.index()];
    const int64_t target = targets[block.index()] - columns.first;
    block.Map(
        columns.valid,
        [=](int64_t i, float& to, float logit) {
          const float probability = Exp(logit - log_sum);
          to = loss_scale * (i == target ? probability - 1.0f : probability);
        },
        dlogits.From(row), logits.From(row));
    block.Map(
        columns.count - columns.valid, [](int64_t, float& to) { to = 0.0f; },
        dlogits.From(row + columns.valid));
  }
};

template <typename T>
struct RowMax {
  static constexpr const char* kName = "row_max";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> logits,
                                       Out<float, Mode> largest, Columns columns) {
    const float found = block.Reduce(
        columns.valid, kLowest, [](int64_t, float logit) { return logit; }, Larger,
        logits.From(block.index() * columns.count));
    block.Once([&] { largest[block.index()] = found; });
  }
};

// partial[0] = sum of exp(logit - max) over this rank's columns, partial[1] = the target's logit if
// it is among them, else 0.
template <typename T>
struct CrossEntropyPartial {
  static constexpr const char* kName = "cross_entropy_partial";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> logits,
                                       In<int32_t, Mode> targets, In<float, Mode> largest,
                                       Out<float, Mode> partial, Columns columns) {
    const int64_t row = block.index() * columns.count;
    const float shift = largest[block.index()];
    const float sum = block.Sum(
        columns.valid, [shift](int64_t, float logit) { return Exp(logit - shift); },
        logits.From(row));
    const int64_t target = targets[block.index()] - columns.first;
    const bool here = target >= 0 && target < columns.valid;
    block.Once([&] {
      partial[block.index()] = sum;
      partial[largest.count() + block.index()] = here ? float{logits[row + target]} : 0.0f;
    });
  }
};

struct CrossEntropyFinish {
  static constexpr const char* kName = "cross_entropy_finish";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> largest,
                                       In<float, Mode> partial, Out<float, Mode> loss,
                                       Out<float, Mode> lse) {
    block.MapTile(
        loss.count(),
        [](int64_t, float& to_loss, float& to_lse, float shift, float sum, float chosen) {
          to_lse = shift + Log(sum);
          to_loss = to_lse - chosen;
        },
        loss, lse, largest, partial, partial.From(loss.count()));
  }
};

// One chain.
template <bool kAccumulate>
struct SumLoss {
  static constexpr const char* kName = "sum_loss";
  static constexpr int kThreads = Block::kChainThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> loss,
                                       Sum<float, Mode, kAccumulate> total) {
    block.Chains<1>(
        0, 1, loss.count(), [&](int64_t, float(&sum)[1]) { sum[0] = OldElement(total, 0); },
        [](int64_t row) { return row; },
        [&](int64_t row, int64_t, float(&sum)[1]) { sum[0] += loss[row]; },
        [&](int64_t, const float(&sum)[1]) { total[0] = sum[0]; });
  }
};

Columns ColumnsOf(const OpCall& call) {
  const int64_t count = call.Columns(0);
  const int64_t first = call.At(call.attributes().row_offset);
  const int64_t vocabulary = call.attributes().valid_columns;
  const int64_t valid = vocabulary == 0 ? count : std::clamp<int64_t>(vocabulary - first, 0, count);
  return {.count = count, .valid = valid, .first = first};
}

// Rounded once; exact for powers of two that do not leave fp32.
float ScaleOf(const OpCall& call) {
  return static_cast<float>(double{call.attributes().loss_scale} * call.Scalar(0, 1.0));
}

}  // namespace

Status LaunchCrossEntropy(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<CrossEntropy<T>>(call.target(), call.Rows(0), call.Read<T>(0),
                                   call.Read<int32_t>(1), call.Write(2), call.Write(3),
                                   ColumnsOf(call));
  });
}

Status LaunchCrossEntropyGrad(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<CrossEntropyGrad<T>>(call.target(), call.Rows(0), call.Read<T>(0),
                                       call.Read<int32_t>(1), call.Read(2), call.Write<T>(3),
                                       ColumnsOf(call), ScaleOf(call));
  });
}

Status LaunchRowMax(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<RowMax<T>>(call.target(), call.Rows(0), call.Read<T>(0), call.Write(1),
                             ColumnsOf(call));
  });
}

Status LaunchCrossEntropyPartial(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<CrossEntropyPartial<T>>(call.target(), call.Rows(0), call.Read<T>(0),
                                          call.Read<int32_t>(1), call.Read(2), call.Write(3),
                                          ColumnsOf(call));
  });
}

Status LaunchCrossEntropyFinish(const OpCall& call) {
  return Launch<CrossEntropyFinish>(call.target(), BlocksFor(call.Count(0)), call.Read(0),
                                    call.Read(1), call.Write(2), call.Write(3));
}

Status LaunchSumLoss(const OpCall& call) {
  if (call.attributes().accumulate) {
    return Launch<SumLoss<true>>(call.target(), 1, call.Read(0), call.Update(1));
  }
  return Launch<SumLoss<false>>(call.target(), 1, call.Read(0), call.Write(1));
}

}  // namespace tideline::ops

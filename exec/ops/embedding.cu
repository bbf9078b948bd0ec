// Token and position embeddings. Gradients add token by token in index order onto what the table's
// gradient holds, so that micro-batches one after the other give the bits of one batch.
#include <type_traits>

#include "exec/ops/formats.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {
namespace {

// One block per token. Rows that other ranks hold give 0.
template <typename T>
struct Embedding {
  static constexpr const char* kName = "embedding";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<int32_t, Mode> ids, In<T, Mode> table,
                                       Out<T, Mode> y, int64_t hidden, int64_t row_offset) {
    const int64_t row = ids[block.index()] - row_offset;
    const int64_t to = block.index() * hidden;
    if (row < 0 || row >= table.count() / hidden) {
      block.Map(
          hidden, [](int64_t, float& element) { element = 0.0f; }, y.From(to));
      return;
    }
    block.Map(
        hidden, [](int64_t, float& element, float value) { element = value; }, y.From(to),
        table.From(row * hidden));
  }
};

// One block per token. The first token of an id adds the gradients of all tokens of that id, in
// their order, to the id's row; rows are independent, so blocks are. A row of 16 bit lies in fp32
// meanwhile.
template <typename T, typename S>
struct EmbeddingGrad {
  static constexpr const char* kName = "embedding_grad";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<int32_t, Mode> ids, In<T, Mode> dy,
                                       InOut<S, Mode> dtable, int64_t hidden, int64_t row_offset) {
    const int64_t first = block.index();
    const int32_t id = ids[first];
    const int64_t row = id - row_offset;
    if (row < 0 || row >= dtable.count() / hidden) return;
    if (block.Any(first, [&](int64_t token) { return ids[token] == id; })) return;
    const auto each_gradient = [&](const auto& function) {
      block.EachWhere(
          ids.count() - first, [&](int64_t token) { return ids[first + token] == id; },
          [&](int64_t token) { function(dy.From((first + token) * hidden)); });
    };
    if constexpr (std::is_same_v<S, float>) {
      each_gradient([&](const auto& gradients) {
        block.Map(
            hidden, [](int64_t, float& sum, float gradient) { sum += gradient; },
            dtable.From(row * hidden), gradients);
      });
    } else {
      constexpr int64_t kColumns = 4096;  // of the row at a time
      TIDELINE_BLOCK_SHARED float sums[kColumns];
      for (int64_t begin = 0; begin < hidden; begin += kColumns) {
        const int64_t count = hidden - begin < kColumns ? hidden - begin : kColumns;
        const auto part = dtable.From(row * hidden + begin);
        block.Each(count, [&](int64_t i) { sums[i] = part[i]; });
        each_gradient([&](const auto& gradients) {
          block.Each(count, [&](int64_t i) { sums[i] += gradients[begin + i]; });
        });
        block.Each(count, [&](int64_t i) { part[i] = sums[i]; });
      }
    }
  }
};

// One block per token; `table` begins at the row of the first position.
template <typename T>
struct AddPosition {
  static constexpr const char* kName = "add_position";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> x, In<T, Mode> table,
                                       Out<T, Mode> y, int64_t hidden) {
    const int64_t from = block.index() * hidden;
    block.Map(
        hidden, [](int64_t, float& sum, float value, float position) { sum = value + position; },
        y.From(from), x.From(from), table.From(from % table.count()));
  }
};

// A chain per element of the rows of the positions, over the batch.
template <typename T, typename S, bool kAccumulate>
struct AddPositionGrad {
  static constexpr const char* kName = "add_position_grad";
  static constexpr int kThreads = Block::kChainThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> dy,
                                       Sum<S, Mode, kAccumulate> rows) {
    const Chained elements = ChainsOf(block, rows.count());
    block.Chains<1>(
        elements.begin, elements.end, dy.count() / rows.count(),
        [&](int64_t element, float(&sum)[1]) { sum[0] = OldElement(rows, element); },
        [&](int64_t batch) { return batch * rows.count(); },
        [&](int64_t begin, int64_t element, float(&sum)[1]) { sum[0] += dy[begin + element]; },
        [&](int64_t element, const float(&sum)[1]) { rows[element] = sum[0]; });
  }
};

template <typename T>
struct Zero {
  static constexpr const char* kName = "zero";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, Out<T, Mode> y) {
    block.MapTile(
        y.count(), [](int64_t, float& element) { element = 0.0f; }, y);
  }
};

// Elements [begin, end) of an output become 0.
template <typename T>
Status LaunchZero(const OpCall& call, int operand, int64_t begin, int64_t end) {
  if (begin == end) return absl::OkStatus();
  return Launch<Zero<T>>(call.target(), BlocksFor(end - begin),
                         Out<T>(call.Write<T>(operand).data() + begin, end - begin));
}

// Elements of one sequence of positions, [s, h] of x[b, s, h].
int64_t SequenceElements(const OpCall& call, int operand) {
  const std::vector<int64_t>& shape = call.Shape(operand);
  return shape[1] * shape[2];
}

Status CheckPositions(const OpCall& call, int x, int table, int64_t first_row) {
  const int64_t positions = call.Shape(x)[1];
  const int64_t rows = call.Shape(table)[0];
  if (first_row >= 0 && first_row + positions <= rows) return absl::OkStatus();
  return InputError("kernel position embedding: positions " + std::to_string(first_row) + " to " +
                    std::to_string(first_row + positions - 1) + " asked of a table of " +
                    std::to_string(rows) + " rows; use a shorter --seq or a larger table");
}

template <typename T, typename S>
Status LaunchPositionSums(const OpCall& call, int64_t first) {
  const int64_t elements = SequenceElements(call, 0);
  const int64_t blocks = ChainBlocks(elements);
  if (call.attributes().accumulate) {
    const InOut<S> rows(call.Update<S>(1).data() + first, elements);
    return Launch<AddPositionGrad<T, S, true>>(call.target(), blocks, call.Read<T>(0), rows);
  }
  TL_RETURN_IF_ERROR(LaunchZero<S>(call, 1, 0, first));
  TL_RETURN_IF_ERROR(LaunchZero<S>(call, 1, first + elements, call.Count(1)));
  const Out<S> rows(call.Write<S>(1).data() + first, elements);
  return Launch<AddPositionGrad<T, S, false>>(call.target(), blocks, call.Read<T>(0), rows);
}

}  // namespace

Status LaunchEmbedding(const OpCall& call) {
  return WithFormat(call.TypeOf(1), [&]<typename T>(Type<T>) {
    return Launch<Embedding<T>>(call.target(), call.Count(0), call.Read<int32_t>(0),
                                call.Read<T>(1), call.Write<T>(2), call.Columns(1),
                                call.At(call.attributes().row_offset));
  });
}

Status LaunchEmbeddingGrad(const OpCall& call) {
  return WithSum(
      call.TypeOf(1), call.TypeOf(2), [&]<typename T, typename S>(Type<T>, Type<S>) -> Status {
        if (!call.attributes().accumulate) {
          TL_RETURN_IF_ERROR(LaunchZero<S>(call, 2, 0, call.Count(2)));
        }
        return Launch<EmbeddingGrad<T, S>>(call.target(), call.Count(0), call.Read<int32_t>(0),
                                           call.Read<T>(1), call.Update<S>(2), call.Columns(2),
                                           call.At(call.attributes().row_offset));
      });
}

Status LaunchAddPosition(const OpCall& call) {
  const int64_t first_row = call.At(call.attributes().position_offset);
  TL_RETURN_IF_ERROR(CheckPositions(call, 0, 1, first_row));
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    const In<T> rows(call.Read<T>(1).data() + first_row * call.Columns(1),
                     SequenceElements(call, 0));
    return Launch<AddPosition<T>>(call.target(), call.Rows(0), call.Read<T>(0), rows,
                                  call.Write<T>(2), call.Columns(0));
  });
}

Status LaunchAddPositionGrad(const OpCall& call) {
  const int64_t first_row = call.At(call.attributes().position_offset);
  TL_RETURN_IF_ERROR(CheckPositions(call, 0, 1, first_row));
  return WithSum(call.TypeOf(0), call.TypeOf(1), [&]<typename T, typename S>(Type<T>, Type<S>) {
    return LaunchPositionSums<T, S>(call, first_row * call.Columns(1));
  });
}

}  // namespace tideline::ops

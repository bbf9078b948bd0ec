// Token and position embeddings. Gradients add token by token in index order onto what the table's
// gradient holds, so that micro-batches one after the other give the bits of one batch.
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {
namespace {

// One block per token. Rows that other ranks hold give 0.
struct Embedding {
  static constexpr const char* kName = "embedding";
  template <typename Mode>
  static void Run(const Block& block, In<int32_t, Mode> ids, In<float, Mode> table,
                  Out<float, Mode> y, int64_t hidden, int64_t row_offset) {
    const int64_t row = ids[block.index()] - row_offset;
    const int64_t to = block.index() * hidden;
    if (row < 0 || row >= table.count() / hidden) {
      block.Each(hidden, [&](int64_t i) { y[to + i] = 0.0f; });
      return;
    }
    block.Each(hidden, [&](int64_t i) { y[to + i] = table[row * hidden + i]; });
  }
};

template <bool kAccumulate>
struct EmbeddingGrad {
  static constexpr const char* kName = "embedding_grad";
  template <typename Mode>
  static void Run(const Block& block, In<int32_t, Mode> ids, In<float, Mode> dy,
                  Sum<float, Mode, kAccumulate> dtable, int64_t hidden, int64_t row_offset) {
    if constexpr (!kAccumulate) {
      block.Each(dtable.count(), [&](int64_t i) { dtable[i] = 0.0f; });
    }
    const int64_t rows = dtable.count() / hidden;
    for (int64_t token = 0; token < ids.count(); ++token) {
      const int64_t row = ids[token] - row_offset;
      if (row < 0 || row >= rows) continue;
      block.Each(hidden, [&](int64_t i) { dtable[row * hidden + i] += dy[token * hidden + i]; });
    }
  }
};

// One block per token; `table` begins at the row of the first position.
struct AddPosition {
  static constexpr const char* kName = "add_position";
  template <typename Mode>
  static void Run(const Block& block, In<float, Mode> x, In<float, Mode> table, Out<float, Mode> y,
                  int64_t hidden) {
    const int64_t from = block.index() * hidden;
    const int64_t row = from % table.count();
    block.Each(hidden, [&](int64_t i) { y[from + i] = x[from + i] + table[row + i]; });
  }
};

// `dtable` is the whole table when it starts from zero, else the rows of the positions alone.
template <bool kAccumulate>
struct AddPositionGrad {
  static constexpr const char* kName = "add_position_grad";
  template <typename Mode>
  static void Run(const Block& block, In<float, Mode> dy, Sum<float, Mode, kAccumulate> dtable,
                  int64_t first, int64_t row_elements) {
    if constexpr (!kAccumulate) {
      block.Each(dtable.count(), [&](int64_t i) { dtable[i] = 0.0f; });
    }
    for (int64_t begin = 0; begin < dy.count(); begin += row_elements) {
      block.Each(row_elements, [&](int64_t i) { dtable[first + i] += dy[begin + i]; });
    }
  }
};

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

}  // namespace

Status LaunchEmbedding(const OpCall& call) {
  return Launch<Embedding>(call.target(), call.Count(0), call.Read<int32_t>(0), call.Read(1),
                           call.Write(2), call.Columns(1), call.At(call.attributes().row_offset));
}

Status LaunchEmbeddingGrad(const OpCall& call) {
  const int64_t offset = call.At(call.attributes().row_offset);
  if (call.attributes().accumulate) {
    return Launch<EmbeddingGrad<true>>(call.target(), 1, call.Read<int32_t>(0), call.Read(1),
                                       call.Update(2), call.Columns(2), offset);
  }
  return Launch<EmbeddingGrad<false>>(call.target(), 1, call.Read<int32_t>(0), call.Read(1),
                                      call.Write(2), call.Columns(2), offset);
}

Status LaunchAddPosition(const OpCall& call) {
  const int64_t first_row = call.At(call.attributes().position_offset);
  TL_RETURN_IF_ERROR(CheckPositions(call, 0, 1, first_row));
  const In<float> rows(call.Read(1).data() + first_row * call.Columns(1),
                       SequenceElements(call, 0));
  return Launch<AddPosition>(call.target(), call.Rows(0), call.Read(0), rows, call.Write(2),
                             call.Columns(0));
}

Status LaunchAddPositionGrad(const OpCall& call) {
  const int64_t first_row = call.At(call.attributes().position_offset);
  TL_RETURN_IF_ERROR(CheckPositions(call, 0, 1, first_row));
  const int64_t first = first_row * call.Columns(1);
  const int64_t elements = SequenceElements(call, 0);
  if (call.attributes().accumulate) {
    const InOut<float> rows(call.Update(1).data() + first, elements);
    return Launch<AddPositionGrad<true>>(call.target(), 1, call.Read(0), rows, int64_t{0},
                                         elements);
  }
  return Launch<AddPositionGrad<false>>(call.target(), 1, call.Read(0), call.Write(1), first,
                                        elements);
}

}  // namespace tideline::ops

// Token and position embeddings. Gradients add token by token in index order onto what the table's
// gradient holds, so that micro-batches one after the other give the bits of one batch.
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {
namespace {

// One block per token. Rows that other ranks hold give 0.
struct Embedding {
  static constexpr const char* kName = "embedding";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<int32_t, Mode> ids,
                                       In<float, Mode> table, Out<float, Mode> y, int64_t hidden,
                                       int64_t row_offset) {
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
// their order, to the id's row; rows are independent, so blocks are.
struct EmbeddingGrad {
  static constexpr const char* kName = "embedding_grad";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<int32_t, Mode> ids,
                                       In<float, Mode> dy, InOut<float, Mode> dtable,
                                       int64_t hidden, int64_t row_offset) {
    const int64_t first = block.index();
    const int32_t id = ids[first];
    const int64_t row = id - row_offset;
    if (row < 0 || row >= dtable.count() / hidden) return;
    if (block.Any(first, [&](int64_t token) { return ids[token] == id; })) return;
    block.EachWhere(
        ids.count() - first, [&](int64_t token) { return ids[first + token] == id; },
        [&](int64_t token) {
          block.Map(
              hidden, [](int64_t, float& sum, float gradient) { sum += gradient; },
              dtable.From(row * hidden), dy.From((first + token) * hidden));
        });
  }
};

// One block per token; `table` begins at the row of the first position.
struct AddPosition {
  static constexpr const char* kName = "add_position";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> x, In<float, Mode> table,
                                       Out<float, Mode> y, int64_t hidden) {
    const int64_t from = block.index() * hidden;
    block.Map(
        hidden, [](int64_t, float& sum, float value, float position) { sum = value + position; },
        y.From(from), x.From(from), table.From(from % table.count()));
  }
};

// A chain per element of the rows of the positions, over the batch.
template <bool kAccumulate>
struct AddPositionGrad {
  static constexpr const char* kName = "add_position_grad";
  static constexpr int kThreads = Block::kChainThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> dy,
                                       Sum<float, Mode, kAccumulate> rows) {
    const Chained elements = ChainsOf(block, rows.count());
    block.Chains<1>(
        elements.begin, elements.end, dy.count() / rows.count(),
        [&](int64_t element, float(&sum)[1]) { sum[0] = OldElement(rows, element); },
        [&](int64_t batch) { return batch * rows.count(); },
        [&](int64_t begin, int64_t element, float(&sum)[1]) { sum[0] += dy[begin + element]; },
        [&](int64_t element, const float(&sum)[1]) { rows[element] = sum[0]; });
  }
};

struct Zero {
  static constexpr const char* kName = "zero";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, Out<float, Mode> y) {
    block.MapTile(
        y.count(), [](int64_t, float& element) { element = 0.0f; }, y);
  }
};

// Elements [begin, end) of an output become 0.
Status LaunchZero(const OpCall& call, int operand, int64_t begin, int64_t end) {
  if (begin == end) return absl::OkStatus();
  return Launch<Zero>(call.target(), BlocksFor(end - begin),
                      Out<float>(call.Write(operand).data() + begin, end - begin));
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

}  // namespace

Status LaunchEmbedding(const OpCall& call) {
  return Launch<Embedding>(call.target(), call.Count(0), call.Read<int32_t>(0), call.Read(1),
                           call.Write(2), call.Columns(1), call.At(call.attributes().row_offset));
}

Status LaunchEmbeddingGrad(const OpCall& call) {
  if (!call.attributes().accumulate) {
    TL_RETURN_IF_ERROR(LaunchZero(call, 2, 0, call.Count(2)));
  }
  return Launch<EmbeddingGrad>(call.target(), call.Count(0), call.Read<int32_t>(0), call.Read(1),
                               call.Update(2), call.Columns(2),
                               call.At(call.attributes().row_offset));
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
    return Launch<AddPositionGrad<true>>(call.target(), ChainBlocks(elements), call.Read(0), rows);
  }
  TL_RETURN_IF_ERROR(LaunchZero(call, 1, 0, first));
  TL_RETURN_IF_ERROR(LaunchZero(call, 1, first + elements, call.Count(1)));
  const Out<float> rows(call.Write(1).data() + first, elements);
  return Launch<AddPositionGrad<false>>(call.target(), ChainBlocks(elements), call.Read(0), rows);
}

}  // namespace tideline::ops

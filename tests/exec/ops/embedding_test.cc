// Embeddings against loops; gradients against finite differences and for their order of adding.
#include <gtest/gtest.h>

#include "tests/exec/ops/op_harness.h"

namespace tideline {
namespace {

struct Size {
  int64_t batch, sequence, rows, hidden;
};
const Size kSizes[] = {{1, 1, 1, 1}, {2, 3, 5, 7}, {1, 11, 13, 64}, {3, 5, 17, 129}};

Doubles NaiveEmbedding(const std::vector<int32_t>& ids, int64_t hidden, int64_t offset,
                       const Doubles& table) {
  Doubles y;
  const int64_t rows = static_cast<int64_t>(table.size()) / hidden;
  for (const int32_t id : ids) {
    const int64_t row = id - offset;
    for (int64_t i = 0; i < hidden; ++i) {
      y.push_back(row >= 0 && row < rows ? table[row * hidden + i] : 0.0);
    }
  }
  return y;
}

TEST(Embedding, MatchesLoopsAndDifferences) {
  for (const Size& size : kSizes) {
    for (const int64_t offset : {int64_t{0}, size.rows / 2}) {
      Attributes attributes;
      attributes.row_offset.base = offset;
      const Shape table_shape{size.rows, size.hidden}, ids_shape{size.batch, size.sequence};
      const Shape shape{size.batch, size.sequence, size.hidden};
      const auto table = RandomFloats(Product(table_shape), "table");
      const auto ids = RandomIds(Product(ids_shape), size.rows, "ids");
      const auto dy = RandomFloats(Product(shape), "dy");
      const Function naive = [&](const Doubles& t) {
        return NaiveEmbedding(ids, size.hidden, offset, t);
      };
      OpRun forward(Op::kEmbedding, attributes);
      forward.Ids(ids_shape, ids).Input(table_shape, table).Output(shape).Run();
      ExpectClose(forward.Values(2), naive(ToDoubles(table)), 0, "embedding");
      OpRun backward(Op::kEmbeddingGrad, attributes);
      backward.Ids(ids_shape, ids).Input(shape, dy).Output(table_shape).Run();
      // Linear in the table: a difference is exact but for rounding.
      ExpectClose(backward.Values(2), DifferenceGradient(naive, ToDoubles(table), ToDoubles(dy)),
                  1e-6, "dtable");
    }
  }
}

Doubles NaivePositions(const Doubles& x, int64_t sequence, int64_t hidden, int64_t first,
                       const Doubles& table) {
  Doubles y;
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t element = static_cast<int64_t>(i) % (sequence * hidden);
    y.push_back(x[i] + table[first * hidden + element]);
  }
  return y;
}

TEST(AddPosition, MatchesLoopsAndDifferences) {
  for (const Size& size : kSizes) {
    const int64_t first = 2;  // as OPT's two extra rows
    Attributes attributes;
    attributes.position_offset.base = first;
    const Shape table_shape{size.sequence + 3, size.hidden};
    const Shape shape{size.batch, size.sequence, size.hidden};
    const auto table = RandomFloats(Product(table_shape), "table");
    const auto x = RandomFloats(Product(shape), "x"), dy = RandomFloats(Product(shape), "dy");
    const Function naive = [&](const Doubles& t) {
      return NaivePositions(ToDoubles(x), size.sequence, size.hidden, first, t);
    };
    OpRun forward(Op::kAddPosition, attributes);
    forward.Input(shape, x).Input(table_shape, table).Output(shape).Run();
    ExpectClose(forward.Values(2), naive(ToDoubles(table)), 1e-7, "add_position");
    OpRun backward(Op::kAddPositionGrad, attributes);
    backward.Input(shape, dy).Output(table_shape).Run();
    ExpectClose(backward.Values(1), DifferenceGradient(naive, ToDoubles(table), ToDoubles(dy)),
                1e-6, "dtable");
  }
}

// One sample after the other, each continuing the last, has the bits of both at once.
TEST(EmbeddingGradients, ContinueInTokenOrder) {
  constexpr int64_t kSequence = 7, kRows = 3, kHidden = 5;
  const auto dy = RandomFloats(2 * kSequence * kHidden, "dy");
  const auto ids = RandomIds(2 * kSequence, kRows, "ids");
  const auto start = RandomFloats(kRows * kHidden, "start");
  const auto sample = [](const auto& all, int64_t index) {
    const auto half = static_cast<int64_t>(all.size()) / 2;
    return std::decay_t<decltype(all)>(all.begin() + index * half,
                                       all.begin() + (index + 1) * half);
  };
  Attributes attributes;
  attributes.accumulate = true;
  const auto tokens = [&](int64_t batch, const std::vector<int32_t>& id,
                          const std::vector<float>& d, const std::vector<float>& from) {
    OpRun run(Op::kEmbeddingGrad, attributes);
    run.Ids({batch, kSequence}, id).Input({batch, kSequence, kHidden}, d);
    return run.InOut({kRows, kHidden}, from).Run().Floats(2);
  };
  EXPECT_EQ(
      tokens(1, sample(ids, 1), sample(dy, 1), tokens(1, sample(ids, 0), sample(dy, 0), start)),
      tokens(2, ids, dy, start));
  const auto positions = [&](int64_t batch, const std::vector<float>& d,
                             const std::vector<float>& from) {
    OpRun run(Op::kAddPositionGrad, attributes);
    run.Input({batch, kSequence, kHidden}, d);
    return run.InOut({kSequence, kHidden}, from).Run().Floats(1);
  };
  const auto table = RandomFloats(kSequence * kHidden, "table");
  EXPECT_EQ(positions(1, sample(dy, 1), positions(1, sample(dy, 0), table)),
            positions(2, dy, table));
}

}  // namespace
}  // namespace tideline

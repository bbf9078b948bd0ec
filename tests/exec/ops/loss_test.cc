// Cross entropy, whole and cut over the vocabulary, against fp64 loops and finite differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/exec/ops/op_harness.h"

namespace tideline {
namespace {

struct Loss {
  Doubles loss, lse;
};

Loss Naive(int64_t columns, int64_t valid, const std::vector<int32_t>& targets,
           const Doubles& logits) {
  Loss result;
  for (size_t row = 0; row < targets.size(); ++row) {
    double sum = 0;
    for (int64_t i = 0; i < valid; ++i) sum += std::exp(logits[row * columns + i]);
    result.lse.push_back(std::log(sum));
    result.loss.push_back(std::log(sum) - logits[row * columns + targets[row]]);
  }
  return result;
}

struct Size {
  int64_t batch, sequence, columns, valid;
};
const Size kSizes[] = {{1, 1, 1, 1}, {1, 2, 3, 3}, {2, 3, 64, 61}, {1, 5, 37, 37}, {1, 3, 67, 2}};

Attributes Padded(int64_t valid) {
  Attributes attributes;
  attributes.valid_columns = valid;
  attributes.loss_scale = 0.125f;
  return attributes;
}

TEST(CrossEntropy, MatchesLoopsAndDifferences) {
  for (const Size& size : kSizes) {
    const Shape shape{size.batch, size.sequence, size.columns}, rows{size.batch, size.sequence};
    const auto logits = RandomFloats(Product(shape), "logits", 4.0f);
    const auto targets = RandomIds(Product(rows), size.valid, "targets");
    const Loss expected = Naive(size.columns, size.valid, targets, ToDoubles(logits));
    OpRun forward(Op::kCrossEntropy, Padded(size.valid));
    forward.Input(shape, logits).Ids(rows, targets).Output(rows).Output(rows).Run();
    ExpectClose(forward.Values(2), expected.loss, 1e-6, "loss");
    ExpectClose(forward.Values(3), expected.lse, 1e-6, "lse");
    OpRun backward(Op::kCrossEntropyGrad, Padded(size.valid));
    backward.Input(shape, logits).Ids(rows, targets).Input(rows, forward.Floats(3)).Output(shape);
    backward.Run();
    const Function naive = [&](const Doubles& v) {
      return Naive(size.columns, size.valid, targets, v).loss;
    };
    // The seed of the loss is loss_scale for every token.
    const Doubles weights(targets.size(), 0.125);
    ExpectClose(backward.Values(3), DifferenceGradient(naive, ToDoubles(logits), weights), 1e-6,
                "dlogits");
  }
}

TEST(CrossEntropy, LargeVocabularyAlongADirection) {
  const Shape shape{1, 3, 50257}, rows{1, 3};
  const auto logits = RandomFloats(Product(shape), "logits", 8.0f);
  const auto targets = RandomIds(3, 50257, "targets");
  const Loss expected = Naive(50257, 50257, targets, ToDoubles(logits));
  OpRun forward(Op::kCrossEntropy, Padded(0));  // no padding stated: all columns
  forward.Input(shape, logits).Ids(rows, targets).Output(rows).Output(rows).Run();
  ExpectClose(forward.Values(2), expected.loss, 1e-6, "loss");
  OpRun backward(Op::kCrossEntropyGrad, Padded(0));
  backward.Input(shape, logits).Ids(rows, targets).Input(rows, forward.Floats(3)).Output(shape);
  backward.Run();
  const Doubles direction = ToDoubles(RandomFloats(Product(shape), "direction"));
  const Function naive = [&](const Doubles& v) { return Naive(50257, 50257, targets, v).loss; };
  EXPECT_NEAR(Dot(backward.Values(3), direction),
              DirectionalDifference(naive, ToDoubles(logits), Doubles(3, 0.125), direction), 1e-6);
}

// Two ranks with half of the columns each, the last 3 of 64 padding: their partial statistics give
// the loss of the whole, and their gradients its two halves.
TEST(CrossEntropy, CutOverTheVocabulary) {
  constexpr int64_t kColumns = 64, kHalf = 32, kValid = 61, kRows = 5;
  const auto logits = RandomFloats(kRows * kColumns, "logits", 4.0f);
  const auto targets = RandomIds(kRows, kValid, "targets");
  const Loss expected = Naive(kColumns, kValid, targets, ToDoubles(logits));
  Attributes attributes = Padded(kValid);
  attributes.row_offset.per_coordinate[static_cast<int>(Axis::kTensor)] = kHalf;
  std::vector<float> part[2];
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    part[i % kColumns / kHalf].push_back(logits[i]);
  }
  std::vector<float> largest(kRows, -INFINITY), partial(2 * kRows, 0.0f);
  for (int rank = 0; rank < 2; ++rank) {
    OpRun run(Op::kRowMax, attributes);
    run.Input({1, kRows, kHalf}, part[rank]).Output({1, kRows}).At({0, 0, rank}).Run();
    for (int row = 0; row < kRows; ++row) {
      largest[row] = std::max(largest[row], run.Floats(1)[row]);
    }
  }
  for (int rank = 0; rank < 2; ++rank) {
    OpRun run(Op::kCrossEntropyPartial, attributes);
    run.Input({1, kRows, kHalf}, part[rank]).Ids({1, kRows}, targets).Input({1, kRows}, largest);
    run.Output({2, 1, kRows}).At({0, 0, rank}).Run();
    for (int i = 0; i < 2 * kRows; ++i) partial[i] += run.Floats(3)[i];
  }
  OpRun finish(Op::kCrossEntropyFinish);
  finish.Input({1, kRows}, largest).Input({2, 1, kRows}, partial);
  finish.Output({1, kRows}).Output({1, kRows}).Run();
  ExpectClose(finish.Values(2), expected.loss, 1e-6, "loss");
  ExpectClose(finish.Values(3), expected.lse, 1e-6, "lse");
  OpRun whole(Op::kCrossEntropyGrad, Padded(kValid));
  whole.Input({1, kRows, kColumns}, logits).Ids({1, kRows}, targets);
  whole.Input({1, kRows}, finish.Floats(3)).Output({1, kRows, kColumns}).Run();
  for (int rank = 0; rank < 2; ++rank) {
    OpRun run(Op::kCrossEntropyGrad, attributes);
    run.Input({1, kRows, kHalf}, part[rank]).Ids({1, kRows}, targets);
    run.Input({1, kRows}, finish.Floats(3)).Output({1, kRows, kHalf}).At({0, 0, rank}).Run();
    const auto half = run.Floats(3), all = whole.Floats(3);
    for (int64_t i = 0; i < kRows * kHalf; ++i) {
      EXPECT_EQ(half[i], all[i / kHalf * kColumns + rank * kHalf + i % kHalf]);
    }
  }
}

// A rank whose columns are all padding says so: the maximum of nothing, and no gradient.
TEST(CrossEntropy, ARankWithPaddingOnly) {
  Attributes attributes = Padded(4);
  attributes.row_offset.base = 4;
  OpRun run(Op::kRowMax, attributes);
  run.Input({1, 1, 4}, {1, 2, 3, 4}).Output({1, 1}).Run();
  EXPECT_EQ(run.Floats(1)[0], -INFINITY);
  OpRun gradient(Op::kCrossEntropyGrad, attributes);
  gradient.Input({1, 1, 4}, {1, 2, 3, 4}).Ids({1, 1}, {2}).Input({1, 1}, {5}).Output({1, 1, 4});
  gradient.Run();
  EXPECT_EQ(gradient.Floats(3), std::vector<float>(4, 0.0f));
}

// A target outside the vocabulary cannot be read; it shows as NaN.
TEST(CrossEntropy, UnknownTargetGivesNaN) {
  OpRun run(Op::kCrossEntropy, Padded(3));
  run.Input({1, 2, 4}, {1, 2, 3, 4, 1, 2, 3, 4}).Ids({1, 2}, {3, -1});
  run.Output({1, 2}).Output({1, 2}).Run();
  EXPECT_TRUE(std::isnan(run.Floats(2)[0]));
  EXPECT_TRUE(std::isnan(run.Floats(2)[1]));
}

// In order, and continued: (((2^24 + 1) + 1) + -2^24) loses both ones, any other order does not.
TEST(SumLoss, AddsInIndexOrder) {
  OpRun whole(Op::kSumLoss);
  whole.Input({1, 4}, {16777216.0f, 1.0f, 1.0f, -16777216.0f}).Output({1}).Run();
  EXPECT_EQ(whole.Floats(1)[0], 0.0f);
  Attributes attributes;
  attributes.accumulate = true;
  OpRun rest(Op::kSumLoss, attributes);
  rest.Input({1, 3}, {1.0f, 1.0f, -16777216.0f}).InOut({1}, {16777216.0f}).Run();
  EXPECT_EQ(rest.Floats(1)[0], 0.0f);
  OpRun fresh(Op::kSumLoss);
  fresh.Input({2, 2}, {1.0f, 2.0f, 3.0f, 4.0f}).Output({1}).Run();
  EXPECT_EQ(fresh.Floats(1)[0], 10.0f);
}

}  // namespace
}  // namespace tideline

#include "models/ops/windows.h"

#include <gtest/gtest.h>

#include "models/ops/op_table.h"

namespace tideline {
namespace {

TEST(WindowsTest, CountsAreThoseOfEnumeration) {
  for (const int64_t extent : {1, 2, 3, 7, 14, 224}) {
    for (const int64_t size : {1, 2, 3, 7}) {
      for (const int32_t stride : {1, 2, 3}) {
        for (const int32_t padding : {0, 1, 3}) {
          int64_t count = 0;
          for (int64_t at = -padding; at + size <= extent + padding; at += stride) ++count;
          EXPECT_EQ(WindowsAlong(extent, size, stride, padding), count)
              << extent << " " << size << " " << stride << " " << padding;
        }
      }
    }
  }
}

Attributes Window(int32_t stride, int32_t padding, int32_t size = 0) {
  Attributes attributes;
  attributes.window = {.height = size, .width = size, .stride = stride, .padding = padding};
  return attributes;
}

OperandSpec Of(std::vector<int64_t> shape, DType dtype = DType::kF32) {
  return {std::move(shape), dtype};
}

// The first convolution of a ResNet: 224 + 6 - 7 = 217, / 2 = 108, + 1 = 109... of 230 elements
// with padding, windows of 7 begin at 0, 2, ..., 222: 112 of them.
TEST(WindowsTest, ConvolutionHasItsShapesAndWork) {
  const auto outputs =
      InferOutputs(Op::kConvolution, Window(2, 3), {Of({5, 3, 224, 224}), Of({64, 3, 7, 7})});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 2u);
  EXPECT_EQ((*outputs)[0].shape, (std::vector<int64_t>{5, 64, 112, 112}));
  // 147 terms: 2^21 / 147 = 14266 positions would fit, there are 12544.
  EXPECT_EQ((*outputs)[1].shape, (std::vector<int64_t>{147, 12544}));
  const Work work = WorkOf(Op::kConvolution, Window(2, 3),
                           {Of({5, 3, 224, 224}), Of({64, 3, 7, 7}), (*outputs)[0], (*outputs)[1]});
  // 2 x 5 x 64 x 12544 x 147.
  EXPECT_EQ(work.flops, 1180139520.0);
  EXPECT_EQ(work.model_flops, work.flops);
  EXPECT_EQ(work.batch, 5);
  EXPECT_EQ(work.m, 64);
  EXPECT_EQ(work.n, 12544);
  EXPECT_EQ(work.k, 147);
  // x and weight and all columns; y and all columns.
  const int64_t columns = int64_t{4} * 5 * 147 * 12544;
  EXPECT_EQ(work.bytes_read, 4 * (5 * 3 * 224 * 224 + 64 * 147) + columns);
  EXPECT_EQ(work.bytes_written, 4 * 5 * 64 * 12544 + columns);
}

TEST(WindowsTest, PointwiseConvolutionsNeedNoScratch) {
  const auto outputs = InferOutputs(Op::kConvolution, {}, {Of({2, 8, 5, 7}), Of({3, 8, 1, 1})});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 1u);
  EXPECT_EQ((*outputs)[0].shape, (std::vector<int64_t>{2, 3, 5, 7}));
}

// Large images are taken in tiles: columns of forward are whole vectors, and the gradient of the
// image takes some channels at a time.
TEST(WindowsTest, ScratchIsBounded) {
  const ConvolutionShape shape{.n = 1,
                               .i = 64,
                               .h = 500,
                               .w = 500,
                               .o = 8,
                               .r = 3,
                               .s = 3,
                               .p = 500,
                               .q = 500,
                               .stride = 1,
                               .padding = 1};
  // 2^21 / 576 = 3640, of which 3584 = 56 x 64.
  EXPECT_EQ(ConvolutionScratch(Op::kConvolution, shape), (std::vector<int64_t>{576, 3584}));
  EXPECT_EQ(ConvolutionScratch(Op::kConvolutionWeightGrad, shape),
            (std::vector<int64_t>{576, 3584}));
  // One channel has 9 x 250000 columns, more than fit: one at a time.
  EXPECT_EQ(ConvolutionScratch(Op::kConvolutionGrad, shape), (std::vector<int64_t>{9, 250000}));
}

struct Wrong {
  Op op;
  Attributes attributes;
  std::vector<OperandSpec> inputs;
  const char* named;
};

TEST(WindowsTest, WrongWindowsAreRefusedByTheirNumbers) {
  const Wrong cases[] = {
      {Op::kConvolution, Window(0, 0), {Of({1, 1, 5, 5}), Of({1, 1, 3, 3})}, "stride 0"},
      {Op::kConvolution, Window(1, 3), {Of({1, 1, 5, 5}), Of({1, 1, 3, 3})}, "padding 3"},
      {Op::kConvolution, Window(1, 0), {Of({1, 1, 2, 2}), Of({1, 1, 3, 3})}, "does not fit"},
      {Op::kConvolution, Window(1, 0), {Of({1, 4, 5, 5}), Of({1, 3, 3, 3})}, "letter 'i'"},
      {Op::kAveragePool, Window(1, 1, 3), {Of({1, 1, 5, 5})}, "averages"},
      {Op::kMaxPool, Window(1, 0, 0), {Of({1, 1, 5, 5})}, "0 x 0"},
      {Op::kPatches, Window(1, 0, 2), {Of({1, 1, 5, 4})}, "5 x 4"},
  };
  for (const Wrong& wrong : cases) {
    const auto outputs = InferOutputs(wrong.op, wrong.attributes, wrong.inputs);
    ASSERT_FALSE(outputs.ok()) << wrong.named;
    const std::string message(outputs.status().message());
    if (std::string_view(wrong.named) == "averages") {
      EXPECT_NE(message.find("0 in averages"), std::string::npos) << message;
    } else {
      EXPECT_NE(message.find(wrong.named), std::string::npos) << message;
    }
  }
}

TEST(WindowsTest, GradientsCheckTheirOutputs) {
  const Attributes window = Window(2, 1);
  const std::vector<OperandSpec> inputs = {Of({1, 2, 3, 3}), Of({2, 4, 3, 3})};
  const auto check = [&](int64_t height) {
    const OperandSpec dx = Of({1, 4, height, 5});
    std::vector<OperandSpec> operands = inputs;
    operands.push_back(dx);
    const auto workspace = WorkspaceOf(Op::kConvolutionGrad, window, operands);
    return CheckOperands(Op::kConvolutionGrad, window, inputs, {dx, *workspace});
  };
  EXPECT_TRUE(check(5).ok()) << check(5);
  EXPECT_TRUE(check(6).ok()) << check(6);  // the last row is not seen
  EXPECT_FALSE(check(7).ok());
  EXPECT_FALSE(CheckOperands(Op::kConvolutionGrad, window, inputs, {Of({1, 4, 5, 5})}).ok());
  EXPECT_FALSE(
      CheckOperands(Op::kConvolutionGrad, window, inputs, {Of({1, 4, 5, 5}), Of({3, 3})}).ok());
}

TEST(WindowsTest, JoinsAddUpAlongOneDimension) {
  Attributes along;
  along.dimension = 1;
  const auto whole = InferOutputs(Op::kConcat, along, {Of({2, 3, 4}), Of({2, 5, 4})});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ((*whole)[0].shape, (std::vector<int64_t>{2, 8, 4}));
  EXPECT_TRUE(
      CheckOperands(Op::kSplit, along, {Of({2, 8, 4})}, {Of({2, 3, 4}), Of({2, 5, 4})}).ok());
  EXPECT_FALSE(InferOutputs(Op::kConcat, along, {Of({2, 3, 4}), Of({1, 5, 4})}).ok());
  EXPECT_FALSE(
      CheckOperands(Op::kSplit, along, {Of({2, 8, 4})}, {Of({2, 3, 4}), Of({2, 4, 4})}).ok());
  along.dimension = 3;
  EXPECT_FALSE(InferOutputs(Op::kConcat, along, {Of({2, 3, 4}), Of({2, 5, 4})}).ok());
}

}  // namespace
}  // namespace tideline

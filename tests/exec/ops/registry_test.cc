// What is refused before a run, and that every op of a rank has a kernel.
#include "exec/ops/registry.h"

#include <gtest/gtest.h>

#include "models/ops/op_table.h"

namespace tideline {
namespace {

OperandSpec Read(std::vector<int64_t> shape, DType dtype = DType::kF32) {
  return {std::move(shape), dtype, Access::kRead};
}
OperandSpec Write(std::vector<int64_t> shape, DType dtype = DType::kF32) {
  return {std::move(shape), dtype, Access::kWrite};
}

Kernel Make(Op op, std::vector<OperandSpec> operands, Attributes attributes = {}) {
  Kernel kernel;
  kernel.op = op;
  kernel.attributes = std::move(attributes);
  kernel.operands = std::move(operands);
  return kernel;
}

void ExpectRefused(const Kernel& kernel, int exit_code, const std::string& text) {
  const Status status = CheckSupported(kernel);
  EXPECT_EQ(ExitCode(status), exit_code) << status;
  EXPECT_NE(std::string(status.message()).find(text), std::string::npos) << status;
}

TEST(Registry, RefusesWithTheReason) {
  const DType bf16 = DType::kBF16, fp16 = DType::kF16, fp32 = DType::kF32;
  EXPECT_TRUE(CheckSupported(Make(Op::kGelu, {Read({4}, bf16), Write({4}, bf16)})).ok());
  ExpectRefused(Make(Op::kGelu, {Read({4}, bf16), Write({4}, fp16)}), 5, "must be bf16");
  ExpectRefused(Make(Op::kAccumulate, {Read({4}), Write({4}, bf16)}), 6,
                "operand 1 in bf16 sums up operand 0 in fp32");
  ExpectRefused(Make(Op::kAdamW, {Read({4}), Write({4}, bf16), Write({4}), Write({4})}), 6,
                "operand 1 is bf16, but what the optimizer keeps must be fp32");
  ExpectRefused(
      Make(Op::kAdamW, {Read({4}), Write({4}, bf16), Write({4}), Write({4}), Write({4}, bf16)}), 6,
      "operand 4 is bf16");
  ExpectRefused(Make(Op::kSumLoss, {Read({1, 4}), Write({1}, bf16)}), 6, "must be fp32");
  ExpectRefused(
      Make(Op::kLayerNormParameterGrad, {Read({1, 2, 4}, bf16), Read({1, 2, 4}, bf16), Read({1, 2}),
                                         Read({1, 2}), Write({4}, fp32), Write({4}, bf16)}),
      6, "both have one type");
  ExpectRefused(Make(Op::kGelu, {Read({4}), Write({5})}), 5, "gelu");
  ExpectRefused(Make(Op::kGelu, {Read({4})}), 5, "gelu");
  ExpectRefused(Make(Op::kGelu, {}), 5, "gelu");
  ExpectRefused(Make(Op::kGelu, {Read({0}), Write({0})}), 5, "extent");
  ExpectRefused(Make(Op::kAllReduce, {Read({4}), Write({4})}), 5, "no kernel");
  ExpectRefused(Make(Op::kAccumulate, {Read({4}, DType::kI32), Write({4})}), 5, "int32");
  ExpectRefused(Make(Op::kInitNormal, {Write({4})}), 5, "init box");
  ExpectRefused(Make(Op::kRotary, {Read({1, 1, 1, 2048}), Write({1, 1, 1, 2048})}), 6,
                "head size 2048");
  ExpectRefused(Make(Op::kCausalSoftmax, {Read({1, 1, 3, 2}), Write({1, 1, 3, 2})}), 5,
                "3 queries but 2 keys");
  Attributes scaled;
  scaled.equation = "sk,kn->sn";
  scaled.accumulate = true;
  scaled.scale = 0.5f;
  ExpectRefused(Make(Op::kEinsum, {Read({2, 3}), Read({3, 4}), Write({2, 4})}, scaled), 5,
                "neither scale nor bias");
  Attributes spans;
  spans.spans = {{.begin = 2, .end = 4, .decay = true}, {.begin = 1, .end = 3, .decay = true}};
  ExpectRefused(Make(Op::kAdamW, {Read({4}), Write({4}), Write({4}), Write({4})}, spans), 5,
                "spans must ascend");
  Attributes box;
  box.init = {{.parameter = "w", .full_shape = {4}, .extent = {5}, .first = {{}}, .valid_rows = 0}};
  ExpectRefused(Make(Op::kInitNormal, {Write({5})}, box), 5, "parameter w");
}

TEST(Registry, EveryOpOfARankHasAKernel) {
  for (int op = 0; op < static_cast<int>(Op::kCount); ++op) {
    const Status status = CheckSupported(Make(static_cast<Op>(op), {}));
    const bool collective = static_cast<Op>(op) == Op::kAllReduce ||
                            static_cast<Op>(op) == Op::kAllGather ||
                            static_cast<Op>(op) == Op::kReduceScatter;
    EXPECT_EQ(std::string(status.message()).find("has no kernel") != std::string::npos, collective)
        << Name(static_cast<Op>(op));
  }
}

}  // namespace
}  // namespace tideline

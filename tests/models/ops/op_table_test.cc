#include "models/ops/op_table.h"

#include <gtest/gtest.h>

#include <set>

namespace tideline {
namespace {

OperandSpec F32(std::vector<int64_t> shape) { return {std::move(shape), DType::kF32}; }
OperandSpec BF16(std::vector<int64_t> shape) { return {std::move(shape), DType::kBF16}; }
OperandSpec Ids(std::vector<int64_t> shape) { return {std::move(shape), DType::kI32}; }

Attributes WithEquation(const std::string& equation) {
  Attributes attributes;
  attributes.equation = equation;
  return attributes;
}

// Work of an op whose outputs InferOutputs knows.
Work InferredWork(Op op, const Attributes& attributes, const std::vector<OperandSpec>& inputs) {
  const std::vector<OperandSpec> outputs = InferOutputs(op, attributes, inputs).value();
  std::vector<OperandSpec> operands = inputs;
  operands.insert(operands.end(), outputs.begin(), outputs.end());
  return WorkOf(op, attributes, operands);
}

TEST(OpTableTest, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (int op = 0; op < static_cast<int>(Op::kCount); ++op) {
    EXPECT_TRUE(names.insert(Name(static_cast<Op>(op))).second) << op;
  }
  EXPECT_EQ(Name(Op::kLayerNorm), "layer_norm");
  EXPECT_EQ(InputName(Op::kLayerNorm, 1), "gamma");
  EXPECT_EQ(OutputName(Op::kLayerNorm, 2), "rstd");
}

TEST(OpTableTest, OutputShapesAndTypesFollowFromTheLetters) {
  struct Case {
    Op op;
    Attributes attributes;
    std::vector<OperandSpec> inputs, outputs;
  };
  const std::vector<Case> cases = {
      {Op::kEinsum, WithEquation("bsk,kn->bsn"), {F32({2, 3, 4}), F32({4, 5})}, {F32({2, 3, 5})}},
      {Op::kEinsum,
       WithEquation("bsk,qkn,qn->qbsn"),
       {BF16({2, 3, 4}), BF16({3, 4, 5}), BF16({3, 5})},
       {BF16({3, 2, 3, 5})}},
      {Op::kEinsum,
       WithEquation("bsgrd,btgd->bgrst"),
       {F32({2, 3, 2, 4, 8}), F32({2, 7, 2, 8})},
       {F32({2, 2, 4, 3, 7})}},
      {Op::kEmbedding, {}, {Ids({2, 3}), BF16({11, 4})}, {BF16({2, 3, 4})}},
      {Op::kAddPosition, {}, {F32({2, 3, 4}), F32({9, 4})}, {F32({2, 3, 4})}},
      {Op::kLayerNorm,
       {},
       {BF16({2, 3, 4}), BF16({4}), BF16({4})},
       {BF16({2, 3, 4}), F32({2, 3}), F32({2, 3})}},
      {Op::kLayerNorm, {}, {F32({4}), F32({4}), F32({4})}, {F32({4}), F32({}), F32({})}},
      {Op::kRmsNorm, {}, {BF16({6, 4}), BF16({4})}, {BF16({6, 4}), F32({6})}},
      {Op::kAdd, {}, {F32({2, 3, 4, 5, 6}), F32({2, 3, 4, 5, 6})}, {F32({2, 3, 4, 5, 6})}},
      {Op::kAddBias, {}, {F32({2, 3, 4}), F32({4})}, {F32({2, 3, 4})}},
      {Op::kGelu, {}, {F32({7})}, {F32({7})}},
      {Op::kSwiGlu, {}, {F32({2, 7}), F32({2, 7})}, {F32({2, 7})}},
      {Op::kRotary, {}, {F32({2, 3, 4, 6})}, {F32({2, 3, 4, 6})}},
      {Op::kCausalSoftmax, {}, {F32({2, 3, 2, 4, 4})}, {F32({2, 3, 2, 4, 4})}},
      {Op::kCrossEntropy, {}, {BF16({2, 3, 9}), Ids({2, 3})}, {F32({2, 3}), F32({2, 3})}},
      {Op::kRowMax, {}, {BF16({2, 3, 9})}, {F32({2, 3})}},
      {Op::kCrossEntropyPartial, {}, {BF16({2, 3, 9}), Ids({2, 3}), F32({2, 3})}, {F32({2, 2, 3})}},
      {Op::kCrossEntropyFinish, {}, {F32({5, 3}), F32({2, 5, 3})}, {F32({5, 3}), F32({5, 3})}},
      {Op::kAttention,
       {},
       {BF16({2, 3, 4, 5, 8}), BF16({2, 7, 4, 8}), BF16({2, 7, 4, 8})},
       {BF16({2, 3, 4, 5, 8}), F32({2, 4, 5, 3})}},
      {Op::kMergeAttention,
       {},
       {F32({2, 3, 4, 5, 8}), F32({2, 4, 5, 3}), F32({2, 3, 4, 5, 8}), F32({2, 4, 5, 3})},
       {F32({2, 3, 4, 5, 8}), F32({2, 4, 5, 3})}},
      {Op::kDropout, {}, {BF16({2, 3, 4})}, {BF16({2, 3, 4})}},
      {Op::kDropout, {}, {F32({2, 3, 4, 5, 6})}, {F32({2, 3, 4, 5, 6})}},
      {Op::kAttentionGrad,
       {},
       {F32({2, 3, 4, 5, 8}), F32({2, 3, 4, 5, 8}), F32({2, 7, 4, 8}), F32({2, 7, 4, 8}),
        F32({2, 3, 4, 5, 8}), F32({2, 4, 5, 3})},
       {F32({2, 3, 4, 5, 8}), F32({2, 7, 4, 8}), F32({2, 7, 4, 8})}},
      {Op::kReduceRows, WithEquation("qbsn->qn"), {F32({3, 2, 4, 5})}, {F32({3, 5})}},
      {Op::kLayerNormGrad,
       {},
       {F32({2, 3, 4}), F32({2, 3, 4}), F32({4}), F32({2, 3}), F32({2, 3})},
       {F32({2, 3, 4})}},
      {Op::kSwiGluGrad, {}, {F32({2, 3}), F32({2, 3}), F32({2, 3})}, {F32({2, 3}), F32({2, 3})}},
      {Op::kCrossEntropyGrad, {}, {BF16({2, 3, 9}), Ids({2, 3}), F32({2, 3})}, {BF16({2, 3, 9})}},
      {Op::kAllReduce, {}, {BF16({2, 3})}, {BF16({2, 3})}},
  };
  for (const Case& expected : cases) {
    const auto outputs = InferOutputs(expected.op, expected.attributes, expected.inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    ASSERT_EQ(outputs->size(), expected.outputs.size()) << Name(expected.op);
    for (size_t output = 0; output < outputs->size(); ++output) {
      EXPECT_EQ((*outputs)[output].shape, expected.outputs[output].shape) << Name(expected.op);
      EXPECT_EQ((*outputs)[output].dtype, expected.outputs[output].dtype) << Name(expected.op);
      EXPECT_EQ((*outputs)[output].access, Access::kWrite) << Name(expected.op);
    }
    EXPECT_TRUE(CheckOperands(expected.op, expected.attributes, expected.inputs, *outputs).ok());
  }
}

TEST(OpTableTest, AccumulatedOutputsAreReadAndWritten) {
  Attributes attributes = WithEquation("bsn,bsk->kn");
  attributes.accumulate = true;
  const auto outputs =
      InferOutputs(Op::kEinsum, attributes, {BF16({2, 3, 5}), BF16({2, 3, 4})}).value();
  EXPECT_EQ(outputs[0].access, Access::kReadWrite);
  EXPECT_EQ(outputs[0].dtype, DType::kF32);
  EXPECT_EQ(OutputAccess(Op::kLayerNormParameterGrad, attributes, 1), Access::kReadWrite);
  EXPECT_EQ(OutputAccess(Op::kAdamW, {}, 0), Access::kReadWrite);
  EXPECT_EQ(OutputAccess(Op::kSumLoss, {}, 0), Access::kWrite);
  // The caller may keep the sum in another floating type, not in integers.
  EXPECT_TRUE(
      CheckOperands(Op::kEinsum, attributes, {BF16({2, 3, 5}), BF16({2, 3, 4})}, {BF16({4, 5})})
          .ok());
  EXPECT_FALSE(
      CheckOperands(Op::kEinsum, attributes, {BF16({2, 3, 5}), BF16({2, 3, 4})}, {Ids({4, 5})})
          .ok());
}

TEST(OpTableTest, DisagreeingOperandsAreNamedWithBothExtents) {
  struct Case {
    Op op;
    Attributes attributes;
    std::vector<OperandSpec> inputs;
    std::string message;
  };
  const std::vector<Case> cases = {
      {Op::kEinsum,
       WithEquation("bsk,kn->bsn"),
       {F32({2, 3, 4}), F32({6, 5})},
       "einsum: dimension 0 of operand b [6,5] is 6, but letter 'k' is 4 in operand a"},
      {Op::kEinsum,
       WithEquation("bsk,kn,n->bsn"),
       {F32({2, 3, 4}), F32({4, 5})},
       "has 3 operands, the op has 2"},
      {Op::kEinsum,
       WithEquation("bsk,kn->bsn"),
       {F32({3, 4}), F32({4, 5})},
       "operand a has 2 dimensions, its letters are 'bsk'"},
      {Op::kEinsum,
       WithEquation("bsk,kn->bsn"),
       {F32({2, 3, 4}), BF16({4, 5})},
       "operand b is bf16, it must be fp32"},
      {Op::kLayerNorm, {}, {F32({2, 3, 4}), F32({5}), F32({4})}, "operand gamma [5] is 5"},
      {Op::kEmbedding, {}, {F32({2, 3}), F32({9, 4})}, "operand ids is fp32, it must be int32"},
      {Op::kAdd, {}, {F32({2, 3}), F32({3, 2})}, "operand b [3,2] is 3"},
      {Op::kAdd, {}, {F32({2, 3})}, "1 inputs given, it takes 2"},
      {Op::kRotary, {}, {F32({2, 3, 4, 5})}, "head size 5"},
      {Op::kCausalSoftmax, {}, {F32({4})}, "has 1 dimensions"},
      {Op::kCrossEntropyFinish, {}, {F32({2, 3}), F32({3, 2, 3})}, "'p' is 2"},
      {Op::kGelu, {}, {F32({2, 0})}, "extent below 1"},
      {Op::kGelu, {}, {Ids({2, 2})}, "operand x is int32"},
      {Op::kEmbeddingGrad,
       {},
       {Ids({2, 3}), F32({2, 3, 4})},
       "do not determine the shape of dtable"},
      {Op::kFill, {}, {}, "do not determine the shape of y"},
      {Op::kAllGather, {}, {F32({2})}, "do not determine the shape of y"},
  };
  for (const Case& expected : cases) {
    const Status status = InferOutputs(expected.op, expected.attributes, expected.inputs).status();
    EXPECT_EQ(ExitCode(status), 5) << expected.message;
    EXPECT_NE(std::string(status.message()).find(expected.message), std::string::npos) << status;
  }
}

TEST(OpTableTest, OutputsThatInputsDoNotDetermineAreChecked) {
  EXPECT_TRUE(
      CheckOperands(Op::kEmbeddingGrad, {}, {Ids({2, 3}), F32({2, 3, 4})}, {F32({99, 4})}).ok());
  EXPECT_FALSE(
      CheckOperands(Op::kEmbeddingGrad, {}, {Ids({2, 3}), F32({2, 3, 4})}, {F32({99, 5})}).ok());
  EXPECT_TRUE(CheckOperands(Op::kFill, {}, {}, {BF16({3})}).ok());
  EXPECT_TRUE(CheckOperands(Op::kAdamW, {}, {F32({8})}, {F32({8}), F32({8}), F32({8})}).ok());
  EXPECT_TRUE(
      CheckOperands(Op::kAdamW, {}, {F32({8})}, {BF16({8}), F32({8}), F32({8}), F32({8})}).ok());
  EXPECT_FALSE(CheckOperands(Op::kAdamW, {}, {F32({8})}, {F32({8}), F32({7}), F32({8})}).ok());
  EXPECT_FALSE(CheckOperands(Op::kAdamW, {}, {F32({8})}, {F32({8})}).ok());
  Attributes attributes;
  attributes.dimension = 1;
  EXPECT_TRUE(CheckOperands(Op::kAllGather, attributes, {F32({2, 3})}, {F32({2, 12})}).ok());
  EXPECT_FALSE(CheckOperands(Op::kAllGather, attributes, {F32({2, 3})}, {F32({4, 3, 1})}).ok());
  EXPECT_FALSE(CheckOperands(Op::kAllGather, attributes, {F32({2, 3})}, {F32({2, 10})}).ok());
  EXPECT_TRUE(CheckOperands(Op::kReduceScatter, attributes, {F32({2, 12})}, {F32({2, 3})}).ok());
  EXPECT_FALSE(CheckOperands(Op::kSlice, attributes, {F32({2, 3})}, {F32({2, 12})}).ok());
}

TEST(OpTableTest, DescriptionsSayWhatMayBeCut) {
  const auto describe = [](Op op, std::vector<int> ranks) {
    return Describe(op, {}, ranks).value();
  };
  EXPECT_EQ(describe(Op::kLayerNorm, {3, 1, 1}).whole, "h");
  EXPECT_EQ(describe(Op::kLayerNorm, {3, 1, 1}).outputs,
            (std::vector<std::string>{"bsh", "bs", "bs"}));
  EXPECT_EQ(describe(Op::kRotary, {4}).positional, "s");
  EXPECT_EQ(describe(Op::kRotary, {4}).whole, "d");
  EXPECT_EQ(describe(Op::kAddPosition, {3, 2}).positional, "s");
  EXPECT_EQ(describe(Op::kEmbedding, {2, 2}).gathered, "v");
  EXPECT_EQ(describe(Op::kRowMax, {3}).gathered, "v");
  EXPECT_EQ(describe(Op::kCrossEntropyPartial, {3, 2, 2}).gathered, "v");
  EXPECT_EQ(describe(Op::kCrossEntropyGrad, {3, 2, 2}).gathered, "v");
  EXPECT_EQ(describe(Op::kCrossEntropy, {3, 2}).whole, "v");
  EXPECT_EQ(describe(Op::kCausalSoftmax, {4}).inputs[0].substr(2), "st");
  EXPECT_EQ(describe(Op::kCausalSoftmax, {4}).whole, "st");
  EXPECT_EQ(describe(Op::kGelu, {3}).whole, "");
}

// Linear 8x16 by 16x32 in fp32 (auto_parallel.md, worked case 9): 2*8*16*32 = 8192 FLOP; reads
// 512 + 2048 B, writes 1024 B.
TEST(OpTableTest, WorkOfAMatrixProduct) {
  const Work work =
      InferredWork(Op::kEinsum, WithEquation("sk,kn->sn"), {F32({8, 16}), F32({16, 32})});
  EXPECT_EQ(work.work_class, WorkClass::kGemm);
  EXPECT_EQ(work.flops, 8192);
  EXPECT_EQ(work.model_flops, 8192);
  EXPECT_EQ(work.bytes_read, 512 + 2048);
  EXPECT_EQ(work.bytes_written, 1024);
  EXPECT_EQ(work.m, 8);
  EXPECT_EQ(work.n, 32);
  EXPECT_EQ(work.k, 16);
  EXPECT_EQ(work.batch, 1);
}

// Grouped-query scores: b=2, s=t=6, g=3, r=4, d=8: batch 2*3, m = r*s = 24, n = 6, k = 8;
// 2*6*24*6*8 = 13824 FLOP, half of which count when causal.
TEST(OpTableTest, WorkOfCausalAttentionIsHalfForTheModel) {
  Attributes attributes = WithEquation("bsgrd,btgd->bgrst");
  attributes.causal = true;
  const Work work =
      InferredWork(Op::kEinsum, attributes, {F32({2, 6, 3, 4, 8}), F32({2, 6, 3, 8})});
  EXPECT_EQ(work.work_class, WorkClass::kBatchedGemm);
  EXPECT_EQ(work.batch, 6);
  EXPECT_EQ(work.m, 24);
  EXPECT_EQ(work.n, 6);
  EXPECT_EQ(work.k, 8);
  EXPECT_EQ(work.flops, 13824);
  EXPECT_EQ(work.model_flops, 6912);
}

// A fused projection of q, k and v is one product with 3n columns.
// 2 samples, 100 queries of 3 x 2 heads of 8, causal. Blocks of keys: queries 0..99 meet keys
// 0..63, queries 64..99 keys 64..99: 100 x 64 + 36 x 36 = 7696 pairs per head, each 2 x 8 FLOPs in
// each product; for the model half of 100 x 100.
TEST(OpTableTest, WorkOfFusedAttention) {
  Attributes attributes;
  attributes.causal = true;
  const OperandSpec q = BF16({2, 100, 3, 2, 8}), k = BF16({2, 100, 3, 8}),
                    lse = F32({2, 3, 2, 100});
  const Work forward = InferredWork(Op::kAttention, attributes, {q, k, k});
  EXPECT_EQ(forward.work_class, WorkClass::kBatchedGemm);
  EXPECT_EQ(forward.flops, 2 * 12 * 16 * 7696);
  EXPECT_EQ(forward.model_flops, 2 * 12 * 16 * 10000 / 2);
  EXPECT_EQ(forward.bytes_read, 2 * (2 * 100 * 48 + 2 * 2 * 100 * 24));
  EXPECT_EQ(forward.bytes_written, 2 * 2 * 100 * 48 + 4 * 12 * 100);
  EXPECT_EQ(forward.batch, 12);
  const Work backward = InferredWork(Op::kAttentionGrad, attributes, {q, q, k, k, q, lse});
  EXPECT_EQ(backward.flops, 7 * 12 * 16 * 7696);
  EXPECT_EQ(backward.model_flops, 4 * 12 * 16 * 10000 / 2);
  // Every key for every query; then only keys 10 to 29.
  attributes.causal = false;
  EXPECT_EQ(InferredWork(Op::kAttention, attributes, {q, k, k}).flops, 2 * 12 * 16 * 10000);
  attributes.key_begin.base = 10;
  attributes.key_end.base = 30;
  EXPECT_EQ(InferredWork(Op::kAttention, attributes, {q, k, k}).flops, 2 * 12 * 16 * 2000);
  // Queries at positions 20..119 of which keys 10..29 are at their own positions.
  attributes.causal = true;
  attributes.position_offset.base = 20;
  EXPECT_EQ(InferredWork(Op::kAttention, attributes, {q, k, k}).flops, 2 * 12 * 16 * 2000);
  // Keys at positions 110..129: queries 90..99 come to see them.
  attributes.key_offset.base = 100;
  EXPECT_EQ(InferredWork(Op::kAttention, attributes, {q, k, k}).flops, 2 * 12 * 16 * 10 * 20);
}

TEST(OpTableTest, WorkOfAFusedProjectionIsOneProduct) {
  const Work work = InferredWork(Op::kEinsum, WithEquation("bsk,qkn,qn->qbsn"),
                                 {BF16({2, 3, 4}), BF16({3, 4, 5}), BF16({3, 5})});
  EXPECT_EQ(work.work_class, WorkClass::kGemm);
  EXPECT_EQ(work.m, 6);
  EXPECT_EQ(work.n, 15);
  EXPECT_EQ(work.k, 4);
  EXPECT_EQ(work.flops, 2 * 6 * 15 * 4);
  EXPECT_EQ(work.bytes_read, 2 * (24 + 60 + 15));
}

TEST(OpTableTest, OtherOpsAreBoundByMemoryAndLookUpsTouchTheirRowsOnly) {
  // 6 tokens of a 100-row table of 4 fp32: ids 24 B, rows 96 B, result 96 B.
  Work work = InferredWork(Op::kEmbedding, {}, {Ids({2, 3}), F32({100, 4})});
  EXPECT_EQ(work.work_class, WorkClass::kMemoryBound);
  EXPECT_EQ(work.flops, 0);
  EXPECT_EQ(work.bytes_read, 24 + 96);
  EXPECT_EQ(work.bytes_written, 96);
  // A table smaller than the batch is read once: 5 rows, 80 B.
  EXPECT_EQ(InferredWork(Op::kEmbedding, {}, {Ids({2, 3}), F32({5, 4})}).bytes_read, 24 + 80);
  Attributes accumulate;
  accumulate.accumulate = true;
  OperandSpec table = F32({100, 4});
  table.access = Access::kReadWrite;
  work = WorkOf(Op::kEmbeddingGrad, accumulate, {Ids({2, 3}), F32({2, 3, 4}), table});
  EXPECT_EQ(work.bytes_read, 24 + 96 + 96);
  EXPECT_EQ(work.bytes_written, 96);
  // Overwriting clears every row.
  table.access = Access::kWrite;
  work = WorkOf(Op::kEmbeddingGrad, {}, {Ids({2, 3}), F32({2, 3, 4}), table});
  EXPECT_EQ(work.bytes_read, 24 + 96);
  EXPECT_EQ(work.bytes_written, 1600);
  // Softmax reads and writes all scores.
  work = InferredWork(Op::kCausalSoftmax, {}, {BF16({1, 2, 4, 4})});
  EXPECT_EQ(work.bytes_read, 64);
  EXPECT_EQ(work.bytes_written, 64);
  EXPECT_EQ(InferredWork(Op::kAllReduce, {}, {F32({4})}).work_class, WorkClass::kNone);
}

}  // namespace
}  // namespace tideline

// Einstein sums of two operands as batches of exact matrix products (exec/ops/einsum_plan.h).
#include "exec/ops/einsum_plan.h"
#include "exec/ops/gemm.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {
namespace {

// One block per iteration of the batch loops. `bias` is empty when there is none.
template <bool kAccumulate>
struct Einsum {
  static constexpr const char* kName = "einsum";

  template <typename Mode>
  static void Run(const Block& block, In<float, Mode> a, In<float, Mode> b, In<float, Mode> bias,
                  Sum<float, Mode, kAccumulate> c, const EinsumPlan& plan, float scale) {
    const EinsumLoop at = BatchOffsets(plan, block.index());
    const GemmShape& shape = plan.gemm;
    float* out = c.Region(at.c, shape.m, shape.c_m, shape.n, shape.c_n);
    if (out == nullptr) return;
    int64_t iterations = 1;
    for (const EinsumLoop& loop : plan.summed) iterations *= loop.extent;
    for (int64_t iteration = 0; iteration < iterations; ++iteration) {
      int64_t rest = iteration, offset_a = at.a, offset_b = at.b;
      for (size_t level = plan.summed.size(); level-- > 0;) {
        const EinsumLoop& loop = plan.summed[level];
        offset_a += rest % loop.extent * loop.a;
        offset_b += rest % loop.extent * loop.b;
        rest /= loop.extent;
      }
      const float* left = a.Region(offset_a, shape.m, shape.a_m, shape.k, shape.a_k);
      const float* right = b.Region(offset_b, shape.k, shape.b_k, shape.n, shape.b_n);
      if (left == nullptr || right == nullptr) return;
      Gemm(shape, left, right, out, kAccumulate || iteration > 0);
    }
    if (scale == 1.0f && bias.count() == 0) return;
    for (int64_t i = 0; i < shape.m; ++i) {
      float* row = out + i * shape.c_m;
      if (scale != 1.0f) block.Each(shape.n, [&](int64_t j) { row[j * shape.c_n] *= scale; });
      if (bias.count() == 0) continue;
      const int64_t from = at.bias + i * plan.bias_m;
      block.Each(shape.n, [&](int64_t j) { row[j * shape.c_n] += bias[from + j * plan.bias_n]; });
    }
  }
};

}  // namespace

Status LaunchEinsum(const OpCall& call) {
  const int output = call.operand_count() - 1;
  std::vector<std::vector<int64_t>> shapes;
  for (int operand = 0; operand <= output; ++operand) shapes.push_back(call.Shape(operand));
  TL_ASSIGN_OR_RETURN(EinsumPlan plan, PlanEinsum(call.attributes().equation, shapes));
  const int64_t blocks = plan.Batches();
  const In<float> bias = output == 3 ? call.Read(2) : In<float>(nullptr, 0);
  const float scale = call.attributes().scale;
  if (call.attributes().accumulate) {
    return Launch<Einsum<true>>(call.target(), blocks, call.Read(0), call.Read(1), bias,
                                call.Update(output), std::move(plan), scale);
  }
  return Launch<Einsum<false>>(call.target(), blocks, call.Read(0), call.Read(1), bias,
                               call.Write(output), std::move(plan), scale);
}

}  // namespace tideline::ops

// The layouts of full-size plans of the zoo are close to what must be alive at once: at most 5 %
// above the live bound (issue: quality bars). Prints each plan's largest ratio.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>

#include "models/cluster/cluster_text.h"
#include "models/zoo/zoo.h"
#include "planner/lowering/lower.h"
#include "planner/plan/plan.h"
#include "planner/plan/workload.h"
#include "planner/program/memory.h"

namespace tideline {
namespace {

struct Shape {
  std::string model, cluster;
  int64_t seq = 0;
  int32_t dp = 1, pp = 1, tp = 1;
  int64_t micro_batches = 1;
};

Plan PlanOf(const Shape& shape, const std::function<void(Plan&)>& change) {
  Plan plan;
  plan.model = *ResolveDecoder(shape.model, shape.seq);
  plan.cluster = *ParseCluster(shape.cluster);
  plan.seq = shape.seq;
  plan.dp = shape.dp;
  plan.pp = shape.pp;
  plan.tp = shape.tp;
  plan.global_batch = shape.dp * shape.micro_batches;
  change(plan);
  plan.padded_vocab = PaddedVocab(TraitsOf(plan.model).classes, plan.tp);
  plan.stages = *DefaultStages(TraitsOf(plan.model).layers, plan.pp, plan.chunks);
  plan.graph_hash = *ModelHash(plan.model, plan.seq, plan.dtype);
  return plan;
}

void ExpectTight(const Shape& shape, const std::string& what,
                 const std::function<void(Plan&)>& change) {
  const StatusOr<Program> program = Lower(PlanOf(shape, change), {.verify = false});
  ASSERT_TRUE(program.ok()) << shape.model << " " << what << ": " << program.status();
  double largest = 0;
  for (const Role& role : program->roles) {
    const MemoryFigures figures = MeasureMemory(*program, role, Space::kDevice);
    const double ratio =
        static_cast<double>(figures.extent) / static_cast<double>(figures.live_bound);
    EXPECT_LE(ratio, 1.05) << shape.model << " " << what << ", " << role.name;
    largest = std::max(largest, ratio);
  }
  std::printf("%-12s %-28s extent at most %.4f x live bound\n", shape.model.c_str(), what.c_str(),
              largest);
}

TEST(ExtentTest, StaysWithinFivePercentOfTheLiveBound) {
  const auto none = [](Plan&) {};
  const auto full = [](Plan& plan) { plan.recompute = Recompute::kFull; };
  const auto selective = [](Plan& plan) { plan.recompute = Recompute::kSelective; };
  const Shape gpt2{"gpt2", "dgx-a100-80g", 1024, 8, 1, 1, 4};
  ExpectTight(gpt2, "dp 8", none);
  ExpectTight(gpt2, "dp 8 zero 3", [](Plan& plan) { plan.zero = 3; });
  ExpectTight({"gpt2", "dgx-a100-80g", 1024, 2, 4, 1, 16}, "dp 2 pp 4 gpipe",
              [](Plan& plan) { plan.schedule = Schedule::kGPipe; });
  const Shape opt{"opt-30b", "dgx-a100-80g", 2048, 1, 1, 8, 4};
  ExpectTight(opt, "tp 8", none);
  ExpectTight(opt, "tp 8 sequence, selective", [](Plan& plan) {
    plan.sequence_parallel = true;
    plan.recompute = Recompute::kSelective;
  });
  ExpectTight({"llama2-7b", "dgx-a100-80g", 2048, 2, 2, 2, 8}, "dp 2 pp 2 tp 2 zero 2",
              [](Plan& plan) { plan.zero = 2; });
  const Shape llama{"llama2-70b", "8x dgx-a100-80g", 4096, 1, 8, 8, 32};
  ExpectTight(llama, "pp 8 tp 8", none);
  ExpectTight(llama, "pp 8 tp 8 selective", selective);
  ExpectTight(llama, "pp 8 tp 8 interleaved", [](Plan& plan) {
    plan.schedule = Schedule::kInterleaved;
    plan.chunks = 2;
  });
  ExpectTight({"gpt3-175b", "128x dgx-a100-80g", 2048, 16, 8, 8, 96}, "dp 16 pp 8 tp 8 full", full);
}

}  // namespace
}  // namespace tideline

// Real plans through the simulator: every technique lowers to something that plays to its end,
// folded like unfolded, within its live bound.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "planner/lowering/lower.h"
#include "planner/program/memory.h"
#include "sim/simulate.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

struct Case {
  std::string name;
  Plan plan;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  cases.push_back({"one", TestPlan(TinyGpt())});
  for (int32_t zero = 0; zero <= 3; ++zero) {
    Plan plan = TestPlan(TinyGpt(), {.dp = 4, .pp = 1, .tp = 2});
    plan.zero = zero;
    cases.push_back({"zero " + std::to_string(zero), plan});
  }
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    Plan plan = TestPlan(TinyLlama(), {.dp = 2, .pp = 2, .tp = 2});
    plan.recompute = recompute;
    cases.push_back({"recompute " + std::string(Name(recompute)), plan});
  }
  Plan sequence = TestPlan(TinyOpt(), {.dp = 1, .pp = 2, .tp = 4});
  sequence.sequence_parallel = true;
  cases.push_back({"sequence", sequence});
  Plan gpipe = TestPlan(TinyGpt(), {.dp = 2, .pp = 4, .tp = 1});
  gpipe.schedule = Schedule::kGPipe;
  cases.push_back({"gpipe", gpipe});
  cases.push_back(
      {"interleaved", Interleaved(TestPlan(TinyGpt(), {.dp = 2, .pp = 2, .tp = 2}), 2)});
  Plan tree = TestPlan(TinyGpt(), {.dp = 4, .pp = 2, .tp = 2});
  tree.collective_algorithm = CollectiveAlgorithm::kTree;
  cases.push_back({"tree", tree});
  return cases;
}

TEST(PlanTest, EveryTechniquePlaysFoldedAsUnfolded) {
  for (const Case& it : Cases()) {
    const StatusOr<Program> program = Lower(it.plan);
    ASSERT_TRUE(program.ok()) << it.name << ": " << program.status();
    ClusterSpec cluster = it.plan.cluster;
    if (cluster.node.gpus == 8 && program->ranks.size() > 4) {
      cluster.node.gpus = 4;  // so that there are nodes to fold and NICs to share
      cluster.node.nics = 2;
      cluster.nodes = static_cast<int32_t>(program->ranks.size()) / 4;
    }
    const auto folded = Simulate(*program, cluster, {.slow = {}}, nullptr);
    const auto unfolded = Simulate(*program, cluster, {.fold = false, .slow = {}}, nullptr);
    ASSERT_TRUE(folded.ok()) << it.name << ": " << folded.status();
    ASSERT_TRUE(unfolded.ok()) << it.name << ": " << unfolded.status();
    const double step_s = unfolded->step_time_s;
    EXPECT_TRUE(unfolded->steady) << it.name;
    EXPECT_GT(step_s, 0) << it.name;
    EXPECT_NEAR(folded->step_time_s, step_s, 1e-9 * step_s) << it.name;
    EXPECT_NEAR(unfolded->mean.Total(), step_s, 1e-9 * step_s) << it.name;
    for (size_t rank = 0; rank < program->ranks.size(); ++rank) {
      const RankResult& result = unfolded->ranks[rank];
      EXPECT_EQ(folded->ranks[rank].live_peak_bytes, result.live_peak_bytes) << it.name;
      const Role& role = program->roles[program->ranks[rank].role];
      for (const Space space : {Space::kDevice, Space::kPinnedHost}) {
        const MemoryFigures figures = MeasureMemory(*program, role, space);
        EXPECT_LE(result.live_peak_bytes[static_cast<int>(space)], figures.live_bound)
            << it.name << " rank " << rank << " " << Name(space);
      }
    }
  }
}

}  // namespace
}  // namespace tideline

// Memory of executed plans against what was predicted (issue: quality bars): the peak that the
// eager allocator observes in serial order is the static replay, to the byte, per rank, space and
// category; and what kernels really touch is at least 99 % of what they declare.
#include "planner/program/memory.h"

#include <string>

#include "exec/ops/partial_touch.h"
#include "gtest/gtest.h"
#include "models/ops/op_table.h"
#include "tests/equivalence/execute_plan.h"
#include "tests/equivalence/plan_cases.h"

namespace tideline::equivalence {
namespace {

class MemoryTest : public testing::TestWithParam<PlanCase> {};

TEST_P(MemoryTest, ObservedPeakIsTheStaticReplay) {
  const auto executed = ExecutePlan(
      GetParam().plan, {.steps = 2, .schedule = SchedulePolicy::kSerial, .eager = true});
  ASSERT_TRUE(executed.ok()) << executed.status();
  const Program& program = executed->program;
  ASSERT_EQ(executed->report.ranks.size(), program.ranks.size());
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const Role& role = program.roles[program.ranks[rank].role];
    for (int index = 0; index < kSpaces; ++index) {
      const Space space = static_cast<Space>(index);
      const MemoryFigures figures = MeasureMemory(program, role, space);
      const auto& observed = executed->report.ranks[rank].observed[index];
      ASSERT_TRUE(observed.has_value());
      EXPECT_EQ(observed->peak, figures.serial_peak)
          << "rank " << rank << " " << std::string(Name(space));
      for (int category = 0; category < kCategories; ++category) {
        EXPECT_EQ(observed->peak_by_category[category], figures.peak_by_category[category])
            << "rank " << rank << " " << std::string(Name(space)) << " "
            << std::string(Name(static_cast<Category>(category)));
      }
      EXPECT_LE(figures.serial_peak, figures.live_bound);
      EXPECT_LE(figures.live_bound, figures.extent);
    }
  }
}

// In any interleaving, what is alive stays within the live bound, and what is reserved within the
// extent.
TEST_P(MemoryTest, LivePeakStaysWithinTheBoundInAnyOrder) {
  for (const uint64_t seed : {1, 2}) {
    const auto executed =
        ExecutePlan(GetParam().plan, {.schedule = SchedulePolicy::kSeeded, .schedule_seed = seed});
    ASSERT_TRUE(executed.ok()) << executed.status();
    const Program& program = executed->program;
    for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
      const Role& role = program.roles[program.ranks[rank].role];
      const RankReport& report = executed->report.ranks[rank];
      for (int index = 0; index < kSpaces; ++index) {
        const MemoryFigures figures = MeasureMemory(program, role, static_cast<Space>(index));
        EXPECT_LE(report.live_peak[index], figures.live_bound) << "rank " << rank;
        EXPECT_LE(report.reserved_peak[index], figures.extent) << "rank " << rank;
      }
    }
  }
}

TEST_P(MemoryTest, KernelsTouchWhatTheyDeclare) {
  const auto executed = ExecutePlan(GetParam().plan, {.check = CheckLevel::kKernels});
  ASSERT_TRUE(executed.ok()) << executed.status();
  EXPECT_FALSE(executed->report.touched.empty());
  int64_t declared = 0;
  int64_t touched = 0;
  for (const TouchedOp& op : executed->report.touched) {
    const double share =
        static_cast<double>(op.touched_bytes) / static_cast<double>(op.declared_bytes);
    EXPECT_LE(op.touched_bytes, op.declared_bytes) << std::string(Name(op.op));
    const std::string_view reason = PartialTouchReason(op.op);
    if (share < 0.99) {
      EXPECT_FALSE(reason.empty()) << std::string(Name(op.op)) << " touches " << share;
    }
    if (!reason.empty()) continue;
    declared += op.declared_bytes;
    touched += op.touched_bytes;
  }
  EXPECT_GE(static_cast<double>(touched), 0.99 * static_cast<double>(declared));
}

INSTANTIATE_TEST_SUITE_P(Plans, MemoryTest, testing::ValuesIn(PlanCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tideline::equivalence

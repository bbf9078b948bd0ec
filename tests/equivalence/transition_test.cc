// A transition is played by both interpreters. On devices, element by element: each new buffer must
// hold by the new layout what the old ones held by the old one. A value tells where it belongs, so
// that nothing of the lowering is needed to say what is right.
#include "planner/lowering/transition.h"

#include <bit>
#include <cstring>

#include "base/rng.h"
#include "exec/comm/element.h"
#include "exec/data/token_source.h"
#include "exec/emulator/emulator.h"
#include "exec/interpreter/interpreter.h"
#include "gtest/gtest.h"
#include "planner/lowering/lower.h"
#include "sim/simulate.h"
#include "tests/equivalence/plan_cases.h"

namespace tideline::equivalence {
namespace {

// Checks one rank's new buffers; the number of elements checked.
int64_t CheckRank(const Transition& transition, size_t rank, const ReadBuffer& read) {
  int64_t checked = 0;
  const RankState& state = transition.to.ranks[rank];
  const auto bytes_at = [&](uint32_t buffer, int64_t offset, int64_t bytes) {
    std::vector<char> content(static_cast<size_t>(bytes));
    const Status status =
        read(static_cast<int32_t>(rank), transition.new_buffers[rank].at(buffer), offset, content);
    EXPECT_TRUE(status.ok()) << status;
    return content;
  };
  for (const StatePiece& piece : state.pieces) {
    const StateTensor& tensor = transition.to.tensors[piece.tensor];
    const std::vector<char> content = bytes_at(piece.buffer, piece.offset, piece.bytes());
    int64_t wrong = 0;
    for (const CommonRun& run : CommonRuns(piece.region, WholeTensor(tensor.shape), tensor.shape)) {
      for (int64_t i = 0; i < run.count; ++i, ++checked) {
        const float expected =
            NormalAt(transition.program.seed, TransitionStream(tensor), run.right + i);
        float rounded = expected;
        if (piece.dtype != DType::kF32) {
          char narrow[4] = {};
          StoreElement(narrow, 0, piece.dtype, expected);
          rounded = LoadElement(narrow, 0, piece.dtype);
        }
        const float actual = LoadElement(content.data(), run.left + i, piece.dtype);
        wrong += std::bit_cast<uint32_t>(actual) != std::bit_cast<uint32_t>(rounded);
      }
    }
    EXPECT_EQ(wrong, 0) << "rank " << rank << ", " << Describe(tensor);
  }
  for (const ZeroRange& zeros : state.zeros) {
    if (!transition.new_buffers[rank].contains(zeros.buffer)) continue;
    for (const char byte : bytes_at(zeros.buffer, zeros.begin, zeros.end - zeros.begin)) {
      EXPECT_EQ(byte, 0);
    }
  }
  return checked;
}

void Play(const Transition& transition, uint64_t seed) {
  const Program& program = transition.program;
  const Status executable = CheckExecutable(program);
  ASSERT_TRUE(executable.ok()) << executable;
  const auto tokens = TokenSource::Open("", program.sequence, program.global_batch);
  ASSERT_TRUE(tokens.ok());
  EmulatorOptions devices;
  devices.devices = static_cast<int>(program.ranks.size());
  devices.device_memory_bytes = int64_t{64} << 20;
  devices.check = CheckLevel::kKernels;
  devices.schedule = SchedulePolicy::kSeeded;
  devices.schedule_seed = seed;
  const auto machine = MakeEmulator(devices);
  ASSERT_TRUE(machine.ok());
  int64_t checked = 0, expected = 0;
  ExecuteHooks hooks;
  hooks.inspect = [&](const ReadBuffer& read) {
    for (size_t rank = 0; rank < transition.to.ranks.size(); ++rank) {
      checked += CheckRank(transition, rank, read);
    }
    return absl::OkStatus();
  };
  const auto report = Execute(program, **machine, *tokens, {.steps = 1}, hooks);
  ASSERT_TRUE(report.ok()) << report.status();
  for (const RankState& rank : transition.to.ranks) {
    for (const StatePiece& piece : rank.pieces) expected += piece.region.count();
  }
  EXPECT_EQ(checked, expected);
  EXPECT_GT(checked, 0);
}

TEST(TransitionTest, TheNewLayoutHoldsWhatTheOldOneHeld) {
  for (const std::string model : {"gpt_", "llama_"}) {
    const std::vector<PlanCase> cases = PlanCases(model);
    for (size_t i = 0; i < cases.size(); ++i) {
      // Each is on both sides once, with small messages and with large ones.
      const PlanCase& to = cases[(i * 5 + 3) % cases.size()];
      SCOPED_TRACE(cases[i].name + " -> " + to.name);
      Plan from_plan = cases[i].plan, to_plan = to.plan;
      if (i % 3 == 1) from_plan = InFormat(from_plan, DType::kBF16, DType::kF32);
      if (i % 3 != 0) to_plan = InFormat(to_plan, DType::kBF16, DType::kF32);
      const auto old_program = Lower(from_plan), new_program = Lower(to_plan);
      ASSERT_TRUE(old_program.ok() && new_program.ok());
      const auto transition = LowerTransition(
          *old_program, *new_program, {.staging_bytes = i % 2 == 0 ? 4096 : int64_t{64} << 20});
      ASSERT_TRUE(transition.ok()) << transition.status();
      Play(*transition, i);
    }
  }
}

// 3 x 32 x 96 fp32 elements of a projection and more, over links: it takes time, and more of them
// when all has to travel than when half of it is there already.
TEST(TransitionTest, TheSimulatorPlaysItToo) {
  const Plan one = PlanCases("gpt_plain").front().plan;
  const Plan four = PlanCases("gpt_dp4_ring").front().plan;
  const Plan two = PlanCases("gpt_dp2").front().plan;
  const auto seconds = [&](const Plan& from, const Plan& to) {
    const auto transition = LowerTransition(*Lower(from), *Lower(to));
    EXPECT_TRUE(transition.ok()) << transition.status();
    const auto result = Simulate(transition->program, four.cluster, {}, nullptr);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->step_time_s : 0.0;
  };
  const double from_one = seconds(one, four), from_two = seconds(two, four);
  EXPECT_GT(from_two, 0);
  EXPECT_GT(from_one, from_two);
}

}  // namespace
}  // namespace tideline::equivalence

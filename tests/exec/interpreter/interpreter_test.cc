#include "exec/interpreter/interpreter.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "exec/data/token_source.h"
#include "exec/emulator/emulator.h"
#include "gtest/gtest.h"
#include "planner/program/memory.h"
#include "tests/exec/interpreter/example_program.h"
#include "traces/run/run_recorder.h"

namespace tideline {
namespace {

constexpr std::string_view kText = "the tide rises, the tide falls, the twilight darkens";

class Notes : public RunObserver {
 public:
  void OnStep(const StepResult& result) override { steps.push_back({result.step, result.loss}); }
  void OnNote(std::string_view text) override { notes.emplace_back(text); }

  std::vector<std::pair<int64_t, double>> steps;
  std::vector<std::string> notes;
};

struct Outcome {
  Status status;
  RunReport report;
};

Outcome Play(const Program& program, const ExecuteOptions& options, EmulatorOptions emulator = {},
             const ExecuteHooks& hooks = {}) {
  emulator.devices = static_cast<int>(program.ranks.size());
  emulator.limit_memory = !options.eager;
  StatusOr<MachinePtr> machine = MakeEmulator(emulator);
  EXPECT_TRUE(machine.ok()) << machine.status();
  const auto tokens = TokenSource::Make(kText, "test text", program.sequence, program.global_batch);
  EXPECT_TRUE(tokens.ok()) << tokens.status();
  StatusOr<RunReport> report = Execute(program, **machine, *tokens, options, hooks);
  if (!report.ok()) return {report.status(), {}};
  return {absl::OkStatus(), *std::move(report)};
}

TEST(InterpreterTest, TheExampleIsExecutable) {
  const Status status = CheckExecutable(ExampleProgram());
  EXPECT_TRUE(status.ok()) << status;
}

TEST(InterpreterTest, LossesAreThoseComputedByHand) {
  for (const bool collapsed : {false, true}) {
    const Outcome outcome = Play(ExampleProgram(collapsed), {.steps = 5});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    const std::vector<double> expected = ExampleLosses(kText, 5);
    ASSERT_EQ(outcome.report.losses.size(), 5u);
    for (size_t step = 0; step < 5; ++step) {
      EXPECT_NEAR(outcome.report.losses[step], expected[step], 1e-5 * std::abs(expected[step]));
    }
    EXPECT_NE(expected[0], expected[1]);
  }
}

TEST(InterpreterTest, EveryScheduleAndAllocatorGivesTheSameBits) {
  const Program program = ExampleProgram();
  const std::vector<double> expected = Play(program, {.steps = 4}).report.losses;
  ASSERT_EQ(expected.size(), 4u);
  for (const CheckLevel check : {CheckLevel::kNone, CheckLevel::kOrder, CheckLevel::kKernels}) {
    const Outcome outcome = Play(program, {.steps = 4}, {.check = check});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.report.losses, expected);
  }
  for (const bool eager : {false, true}) {
    const Outcome serial =
        Play(program, {.steps = 4, .eager = eager}, {.schedule = SchedulePolicy::kSerial});
    ASSERT_TRUE(serial.status.ok()) << serial.status;
    EXPECT_EQ(serial.report.losses, expected);
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const Outcome seeded = Play(program, {.steps = 4, .eager = eager},
                                  {.schedule = SchedulePolicy::kSeeded, .schedule_seed = seed});
      ASSERT_TRUE(seeded.status.ok()) << seeded.status;
      EXPECT_EQ(seeded.report.losses, expected);
    }
  }
}

TEST(InterpreterTest, TheWitnessAgreesWithTheStaticReplay) {
  const Program program = ExampleProgram();
  const Outcome outcome =
      Play(program, {.steps = 3, .eager = true}, {.schedule = SchedulePolicy::kSerial});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  for (size_t rank = 0; rank < 2; ++rank) {
    for (const Space space : {Space::kDevice, Space::kPinnedHost}) {
      const MemoryFigures figures = MeasureMemory(program, program.roles[rank], space);
      const auto& observed = outcome.report.ranks[rank].observed[static_cast<size_t>(space)];
      ASSERT_TRUE(observed.has_value());
      EXPECT_EQ(observed->peak, figures.serial_peak) << rank;
      EXPECT_EQ(observed->peak_by_category, figures.peak_by_category) << rank;
      EXPECT_GT(observed->peak, 0);
      const int64_t live = outcome.report.ranks[rank].live_peak[static_cast<size_t>(space)];
      EXPECT_LE(live, figures.live_bound);
    }
  }
  const Outcome laid_out = Play(program, {.steps = 2});
  EXPECT_FALSE(laid_out.report.ranks[0].observed[0].has_value());
  EXPECT_EQ(laid_out.report.ranks[0].reserved_peak[0], program.roles[0].extent[0]);
}

TEST(InterpreterTest, EventsKeepEveryWaitAndSamplesEndAsTheyBegan) {
  const Program program = ExampleProgram();
  RunRecorder recorder;
  Notes notes;
  const Outcome outcome = Play(program, {.steps = 3}, {}, {.sink = &recorder, .observer = &notes});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  std::map<std::tuple<int, int, uint32_t>, RunEvent> by_place;
  for (const RunEvent& event : recorder.events()) {
    EXPECT_LE(event.start_ns, event.end_ns);
    by_place[{event.rank, event.step, event.instruction}] = event;
  }
  int waits = 0, timed = 0;
  for (int rank = 0; rank < 2; ++rank) {
    const Section& body = program.roles[rank].bodies[0];
    for (int step = 0; step < 3; ++step) {
      for (uint32_t index = 0; index < body.instructions.size(); ++index) {
        const Instruction& instruction = body.instructions[index];
        const bool memory = instruction.kind == InstructionKind::kAlloc ||
                            instruction.kind == InstructionKind::kFree;
        const auto event = by_place.find({rank, step, index});
        ASSERT_EQ(event == by_place.end(), memory) << rank << " " << step << " " << index;
        if (memory) continue;
        ++timed;
        EXPECT_EQ(recorder.names()[event->second.name], program.names[instruction.name]);
        for (const uint32_t wait : body.Waits(instruction)) {
          const auto waited = by_place.find({rank, step, wait});
          if (waited == by_place.end()) continue;
          EXPECT_LE(waited->second.end_ns, event->second.start_ns);
          ++waits;
        }
      }
    }
  }
  EXPECT_GT(waits, 20);
  EXPECT_EQ(recorder.events().size(), static_cast<size_t>(timed) + 3);  // and the prologues' three
  EXPECT_EQ(recorder.lanes().size(), 14u);
  // Live bytes of each category end at what persists.
  std::map<std::tuple<int, int, int>, int64_t> live;
  for (const MemorySample& sample : recorder.samples()) {
    EXPECT_GE(sample.live_bytes, 0);
    live[{sample.rank, sample.space, sample.category}] = sample.live_bytes;
  }
  EXPECT_EQ((live[{0, 0, static_cast<int>(Category::kParameter)}]), 64 + 4096);
  EXPECT_EQ((live[{0, 0, static_cast<int>(Category::kActivation)}]), 0);
  EXPECT_EQ((live[{1, 0, static_cast<int>(Category::kGradient)}]), 0);
  ASSERT_EQ(notes.steps.size(), 3u);
  for (size_t step = 0; step < 3; ++step) {
    EXPECT_EQ(notes.steps[step].first, static_cast<int64_t>(step));
    EXPECT_EQ(notes.steps[step].second, outcome.report.losses[step]);
  }
}

TEST(InterpreterTest, TheTimeSplitAddsUpToTheCountedSteps) {
  const Outcome outcome = Play(ExampleProgram(), {.steps = 4});
  ASSERT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.report.counted_steps, 3);
  for (const RankReport& rank : outcome.report.ranks) {
    ASSERT_EQ(rank.step_time_ns.size(), 4u);
    int64_t counted = 0;
    for (size_t step = 1; step < 4; ++step) counted += rank.step_time_ns[step];
    EXPECT_EQ(rank.time_ns.Total(), counted);
    EXPECT_GT(rank.time_ns.compute, 0);
  }
}

TEST(InterpreterTest, TouchedBytesAreCountedByOp) {
  const Outcome outcome = Play(ExampleProgram(), {.steps = 2}, {.check = CheckLevel::kKernels});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  std::set<Op> ops;
  for (const TouchedOp& touched : outcome.report.touched) {
    ops.insert(touched.op);
    EXPECT_LE(touched.touched_bytes, touched.declared_bytes);
    EXPECT_EQ(touched.touched_bytes == touched.declared_bytes, touched.op != Op::kEmbedding);
  }
  EXPECT_TRUE(ops.count(Op::kEinsum) == 1 && ops.count(Op::kAccumulate) == 1);
}

// ---- Wrong Programs ----

uint32_t Find(const Program& program, const Section& section, std::string_view name) {
  for (uint32_t index = 0; index < section.instructions.size(); ++index) {
    const uint32_t id = section.instructions[index].name;
    if (id != kNoId && program.names[id] == name) return index;
  }
  ADD_FAILURE() << name;
  return 0;
}

TEST(InterpreterTest, ADroppedWaitIsARaceUnderEverySchedule) {
  struct Case {
    int role;
    const char* name;
  };
  const Case cases[] = {{0, "copy ids"}, {0, "embed"},     {0, "send y"},
                        {0, "update w"}, {1, "gradient"},  {1, "send g"},
                        {1, "sum loss"}, {0, "copy loss"}, {1, "read loss"}};
  for (const Case& dropped : cases) {
    Program program = ExampleProgram();
    Section& body = program.roles[dropped.role].bodies[0];
    uint32_t index = Find(program, body, dropped.name);
    ASSERT_LT(body.instructions[index].waits_begin, body.instructions[index].waits_end);
    // The allocs before an instruction hold its waits too.
    do {
      body.instructions[index].waits_end = body.instructions[index].waits_begin;
    } while (index > 0 && body.instructions[--index].kind == InstructionKind::kAlloc);
    for (const SchedulePolicy policy : {SchedulePolicy::kConcurrent, SchedulePolicy::kSerial}) {
      const Outcome outcome = Play(program, {.steps = 1}, {.schedule = policy});
      EXPECT_FALSE(outcome.status.ok()) << dropped.name;
      const std::string message(outcome.status.message());
      EXPECT_TRUE(message.find("must wait for") != std::string::npos) << message;
    }
  }
}

// The index of the alloc or free of a buffer.
uint32_t FindLifetime(const Program& program, int role, InstructionKind kind,
                      std::string_view buffer) {
  const Section& body = program.roles[role].bodies[0];
  for (uint32_t index = 0; index < body.instructions.size(); ++index) {
    const Instruction& instruction = body.instructions[index];
    if (instruction.kind != kind) continue;
    const uint32_t name = program.roles[role].buffers[instruction.what].name;
    if (program.names[name] == buffer) return index;
  }
  ADD_FAILURE() << buffer;
  return 0;
}

TEST(InterpreterTest, AFreeThatDoesNotWaitIsARace) {
  // y is sent on its own lane and freed there or after it; the last access is the send, so a free
  // on the compute lane must wait for it.
  Program program = ExampleProgram();
  Section& body = program.roles[0].bodies[0];
  Instruction& free = body.instructions[FindLifetime(program, 0, InstructionKind::kFree, "y")];
  free.lane = kComputeLane;
  free.waits_end = free.waits_begin;
  const Outcome outcome = Play(program, {.steps = 1});
  ASSERT_FALSE(outcome.status.ok());
  EXPECT_NE(outcome.status.message().find("'free' must wait for 'send y'"), std::string::npos)
      << outcome.status;
}

TEST(InterpreterTest, UsesOutsideALifetimeAreErrors) {
  for (const InstructionKind kind : {InstructionKind::kAlloc, InstructionKind::kFree}) {
    Program program = ExampleProgram();
    Section& body = program.roles[1].bodies[0];
    const uint32_t index = FindLifetime(program, 1, kind, "ones");
    // Names the next buffer instead: that one changes at the wrong place, `ones` not at all.
    body.instructions[index].what = body.instructions[index].what + 1;
    EXPECT_FALSE(Play(program, {.steps = 1}).status.ok());
  }
  Program program = ExampleProgram();
  Section& body = program.roles[1].bodies[0];
  const uint32_t alloc = FindLifetime(program, 1, InstructionKind::kAlloc, "ones");
  std::swap(body.instructions[alloc], body.instructions[alloc + 1]);
  const Outcome outcome = Play(program, {.steps = 1});
  EXPECT_NE(outcome.status.message().find("'ones' is used while it is not live"), std::string::npos)
      << outcome.status;
}

TEST(InterpreterTest, AMissingCollectiveIsReportedNotHung) {
  Program program = ExampleProgram();
  Section& body = program.roles[1].bodies[0];
  Instruction& instruction = body.instructions[Find(program, body, "sum loss")];
  // A message in its place, which never comes: rank 0 is left alone in the collective.
  instruction.operands_end = instruction.operands_begin + 1;
  instruction.kind = InstructionKind::kReceive;
  instruction.what = 1;
  const Outcome outcome = Play(program, {.steps = 2});
  ASSERT_FALSE(outcome.status.ok());
  EXPECT_NE(outcome.status.message().find("stuck"), std::string::npos) << outcome.status;
  EXPECT_NE(outcome.status.message().find("rank 1 has not come"), std::string::npos);
}

TEST(InterpreterTest, DifferingCollectivesNameEveryRanksCall) {
  Program program = ExampleProgram();
  Collective other = program.collectives[0];
  other.order = ReductionOrder::kTree;
  program.collectives.push_back(other);
  Section& body = program.roles[1].bodies[0];
  body.instructions[Find(program, body, "sum loss")].what = 1;
  const Outcome outcome = Play(program, {.steps = 1});
  ASSERT_FALSE(outcome.status.ok());
  for (const char* part : {"rank 0: 'sum loss'", "rank 1: 'sum loss'", "order tree"}) {
    EXPECT_NE(outcome.status.message().find(part), std::string::npos) << outcome.status;
  }
}

TEST(InterpreterTest, ASmallVocabularyIsRefused) {
  Program program = ExampleProgram();
  EXPECT_EQ(VocabularyOf(program), 0);
  Kernel kernel;
  kernel.op = Op::kCrossEntropyGrad;
  for (const int64_t columns : {300, 255, 0}) {
    kernel.attributes.valid_columns = columns;
    program.kernels.push_back(kernel);
  }
  EXPECT_EQ(VocabularyOf(program), 255);
  const Outcome outcome = Play(program, {.steps = 1});
  EXPECT_EQ(ExitCode(outcome.status), 5);
  EXPECT_NE(outcome.status.message().find("255"), std::string::npos) << outcome.status;
}

TEST(InterpreterTest, BodiesFollowTheSchedule) {
  Program program;
  program.schedule = {{0, 1}, {1, 0}, {2, 1}};
  EXPECT_EQ(*BodySequence(program, 5), (std::vector<uint32_t>{0, 1, 1, 1, 2}));
  EXPECT_EQ(*BodySequence(program, 1), (std::vector<uint32_t>{0}));
  program.schedule = {{0, 3}};
  EXPECT_EQ(ExitCode(BodySequence(program, 4).status()), 5);
  EXPECT_EQ(BodySequence(program, 2)->size(), 2u);
  program.schedule = {{0, 0}, {1, 0}};
  EXPECT_FALSE(BodySequence(program, 2).ok());
  program.schedule = {};
  EXPECT_FALSE(BodySequence(program, 2).ok());
}

// ---- Checkpoints ----

class ResumeTest : public ::testing::Test {
 protected:
  ResumeTest()
      : folder_(::testing::TempDir() + "/resume-" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name()),
        program_(ExampleProgram()) {
    std::filesystem::remove_all(folder_);
  }
  ExecuteOptions Options(int64_t steps, bool resume) const {
    return {.steps = steps,
            .checkpoint_folder = folder_,
            .checkpoint_every = 2,
            .resume = resume,
            .plan_hash = "plan"};
  }

  const std::string folder_;
  const Program program_;
};

TEST_F(ResumeTest, ResumedLossesAreThoseOfAnUnbrokenRun) {
  const std::vector<double> unbroken = Play(program_, {.steps = 9}).report.losses;
  for (const bool eager : {false, true}) {
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(Play(program_, Options(5, false)).status.ok());
    Notes notes;
    ExecuteOptions options = Options(9, true);
    options.eager = eager;
    const Outcome resumed = Play(program_, options, {}, {.observer = &notes});
    ASSERT_TRUE(resumed.status.ok()) << resumed.status;
    EXPECT_EQ(resumed.report.resumed_from_step, 5);
    EXPECT_EQ(resumed.report.losses, unbroken);
    EXPECT_EQ(notes.steps.front().first, 5);
    // Already at the end: the stored losses, nothing played.
    const Outcome again = Play(program_, Options(9, true));
    ASSERT_TRUE(again.status.ok()) << again.status;
    EXPECT_EQ(again.report.losses, unbroken);
    EXPECT_EQ(again.report.resumed_from_step, 9);
  }
}

TEST_F(ResumeTest, AnEmptyFolderStartsAtZeroWithANote) {
  Notes notes;
  const Outcome outcome = Play(program_, Options(2, true), {}, {.observer = &notes});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.report.resumed_from_step, -1);
  ASSERT_FALSE(notes.notes.empty());
  EXPECT_NE(notes.notes[0].find("starting at step 0"), std::string::npos);
}

TEST_F(ResumeTest, ADamagedNewestFallsBackAndGivesTheSameLosses) {
  const std::vector<double> unbroken = Play(program_, {.steps = 6}).report.losses;
  ASSERT_TRUE(Play(program_, Options(4, false)).status.ok());
  std::filesystem::resize_file(folder_ + "/step-000000000004.checkpoint/rank-00001.shard", 70);
  Notes notes;
  const Outcome outcome = Play(program_, Options(6, true), {}, {.observer = &notes});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.report.resumed_from_step, 2);
  EXPECT_EQ(outcome.report.losses, unbroken);
  EXPECT_NE(notes.notes[0].find("is damaged"), std::string::npos);
}

TEST_F(ResumeTest, WhatDoesNotGoTogetherIsRefused) {
  ASSERT_TRUE(Play(program_, Options(2, false)).status.ok());
  EXPECT_EQ(ExitCode(Play(program_, Options(4, false)).status), 2) << "not empty, no --resume";
  ExecuteOptions other_plan = Options(4, true);
  other_plan.plan_hash = "another";
  Notes notes;
  EXPECT_TRUE(Play(program_, other_plan, {}, {.observer = &notes}).status.ok());
  EXPECT_NE(notes.notes[0].find("written under another plan"), std::string::npos);
  Program other_graph = program_;
  other_graph.graph_hash = "another";
  EXPECT_EQ(ExitCode(Play(other_graph, Options(4, true)).status), 5);
  EXPECT_EQ(ExitCode(Play(program_, {.steps = 2, .resume = true}).status), 2);
  ExecuteOptions never = Options(4, true);
  never.checkpoint_every = 0;
  EXPECT_EQ(ExitCode(Play(program_, never).status), 2);
  EXPECT_EQ(ExitCode(Play(program_, {.steps = 0}).status), 2);
}

}  // namespace
}  // namespace tideline

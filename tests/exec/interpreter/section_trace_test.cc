#include "exec/interpreter/section_trace.h"

#include "gtest/gtest.h"
#include "planner/program/builder.h"
#include "traces/run/run_recorder.h"

namespace tideline {
namespace {

// One rank: a receive on its own lane, and on the compute lane (alloc x) make x, use x (after the
// receive), (free x). A persistent parameter of 100 bytes; x has 40, r (what is received) 8.
class SectionTraceTest : public ::testing::Test {
 protected:
  SectionTraceTest() {
    ProgramBuilder build(&program_);
    build.AddRole("only");
    build.AddBuffer(0, "w", 100, Category::kParameter, Space::kDevice, true);
    const uint32_t x = build.AddBuffer(0, "x", 40, Category::kActivation);
    const uint32_t r = build.AddBuffer(0, "r", 8, Category::kCommunication);
    const uint32_t peer = build.Intern(Peer{Axis::kPipeline, 1});
    const uint16_t link = build.LaneOf(0, {LaneKind::kReceiveFrom, peer});
    Role& role = program_.roles[0];
    role.bodies.resize(1);
    SectionBuilder body(&role, &role.bodies[0]);
    const auto add = [&](InstructionKind kind, uint16_t lane, uint32_t what,
                         std::vector<Operand> operands, std::vector<uint32_t> waits) {
      Instruction instruction{.kind = kind, .what = what};
      instruction.lane = lane;
      return body.Append(instruction, operands, waits);
    };
    const Operand received = {.buffer = r, .bytes = 8, .access = Access::kWrite};
    alloc_r_ = add(InstructionKind::kAlloc, link, r, {}, {});
    receive_ = add(InstructionKind::kReceive, link, peer, {received}, {});
    alloc_x_ = add(InstructionKind::kAlloc, kComputeLane, x, {}, {});
    make_ = add(InstructionKind::kCompute, kComputeLane, 0, {}, {});
    use_ = add(InstructionKind::kCompute, kComputeLane, 0, {}, {receive_});
    free_x_ = add(InstructionKind::kFree, kComputeLane, x, {}, {});
    free_r_ = add(InstructionKind::kFree, kComputeLane, r, {}, {});
  }

  // Section from 0 to 100. Launches at 5, 12, 20. make runs 15-30, the receive is at hand at 10,
  // its peer at 40, it moves until 60; use runs 65-90.
  SectionTrace Played() {
    SectionTrace trace(program_, program_.roles[0], program_.roles[0].bodies[0]);
    trace.Begin(0);
    trace.OnLaunched(receive_, 5);
    trace.OnLaunched(make_, 12);
    trace.OnLaunched(use_, 20);
    const OperationTime operations[] = {
        {receive_, 10, 40, 60}, {make_, 15, 15, 22}, {make_, 22, 22, 30}, {use_, 65, 65, 90}};
    trace.End(100, operations);
    return trace;
  }

  Program program_;
  uint32_t alloc_r_, receive_, alloc_x_, make_, use_, free_x_, free_r_;
};

TEST_F(SectionTraceTest, OperationsOfOneInstructionAreOne) {
  const SectionTrace trace = Played();
  EXPECT_EQ(trace.At(make_).start_ns, 15);
  EXPECT_EQ(trace.At(make_).end_ns, 30);
  EXPECT_FALSE(trace.At(alloc_x_).ran);
}

TEST_F(SectionTraceTest, IdleTimeIsChargedToWhatItWaitsFor) {
  TimeSplit<int64_t> split;
  Played().ChargeTime(split);
  // [0, 15) before make: nothing to wait for but its launch at 12: host 12, stall 3.
  // [30, 65) before use: the receive ends at 60, after its launch at 20. The own end was at hand at
  // 10, before; the peer came at 40: bubble 10; it moved until 60: exposed 20; then stall 5.
  // [90, 100) at the end: the last to finish was use itself: stall 10.
  EXPECT_EQ(split.compute, 15 + 25);
  EXPECT_EQ(split.host, 12);
  EXPECT_EQ(split.bubble, 10);
  EXPECT_EQ(split.exposed_comm, 20);
  EXPECT_EQ(split.stall, 3 + 5 + 10);
  EXPECT_EQ(split.Total(), 100);
}

// One kernel waits for an all-reduce that waits for a receive.
TEST(SectionTraceChainTest, TheCauseIsFollowedThroughACollective) {
  Program program;
  ProgramBuilder build(&program);
  build.AddRole("only");
  const uint32_t peer = build.Intern(Peer{Axis::kPipeline, 1});
  const uint32_t group = build.Intern(Group{{Axis::kTensor}, {}});
  const uint16_t link = build.LaneOf(0, {LaneKind::kReceiveFrom, peer});
  const uint16_t ring = build.LaneOf(0, {LaneKind::kGroup, group});
  const uint32_t x = build.AddBuffer(0, "x", 8, Category::kCommunication);
  Role& role = program.roles[0];
  role.bodies.resize(1);
  SectionBuilder body(&role, &role.bodies[0]);
  const auto add = [&](InstructionKind kind, uint16_t lane, uint32_t what,
                       std::vector<uint32_t> waits) {
    Instruction instruction{.kind = kind, .what = what};
    instruction.lane = lane;
    return body.Append(instruction, {}, waits);
  };
  const uint32_t receive = add(InstructionKind::kReceive, link, peer, {});
  const uint32_t alloc = add(InstructionKind::kAlloc, ring, x, {receive});
  const uint32_t reduce = add(InstructionKind::kCollective, ring, 0, {alloc});
  const uint32_t use = add(InstructionKind::kCompute, kComputeLane, 0, {reduce});
  SectionTrace trace(program, role, role.bodies[0]);
  trace.Begin(0);
  trace.OnLaunched(receive, 4);
  trace.OnLaunched(reduce, 6);
  trace.OnLaunched(use, 7);
  const OperationTime operations[] = {
      {receive, 5, 40, 60}, {reduce, 62, 65, 80}, {use, 81, 81, 90}};
  trace.End(90, operations);
  TimeSplit<int64_t> split;
  trace.ChargeTime(split);
  // [0, 81) before use: launched at 4, at hand at 5 (host 4, stall 1); the sender came at 40
  // (bubble 35) and was done at 60 (exposed 20); stall 2; the group was complete at 65 (bubble 3)
  // and done at 80 (exposed 15); stall 1.
  EXPECT_EQ(
      split,
      (TimeSplit<int64_t>{
          .compute = 9, .host = 4, .exposed_comm = 20 + 15, .bubble = 35 + 3, .stall = 1 + 2 + 1}));
}

TEST_F(SectionTraceTest, EventsCarryBytesOfTransfersOnly) {
  RunRecorder recorder;
  Played().EmitEvents(3, 7, {}, recorder);
  ASSERT_EQ(recorder.events().size(), 3u);
  EXPECT_EQ(recorder.events()[0].instruction, receive_);
  EXPECT_EQ(recorder.events()[0].bytes, 8);
  EXPECT_EQ(recorder.events()[0].rank, 3);
  EXPECT_EQ(recorder.events()[0].step, 7);
  EXPECT_EQ(recorder.events()[1].bytes, 0);
  EXPECT_EQ(recorder.events()[2].start_ns, 65);
}

TEST_F(SectionTraceTest, TheTideFollowsAllocsAndFrees) {
  RunRecorder recorder;
  MemoryTide tide(program_.roles[0], 3);
  tide.Play(Played(), &recorder);
  // w 100 from the start; x from 15 (make starts) and r from 40 (the receive starts) until 90.
  struct Expected {
    int64_t time_ns;
    Category category;
    int64_t live;
  };
  const Expected expected[] = {{0, Category::kParameter, 100},
                               {15, Category::kActivation, 40},
                               {40, Category::kCommunication, 8},
                               {90, Category::kActivation, 0},
                               {90, Category::kCommunication, 0}};
  ASSERT_EQ(recorder.samples().size(), std::size(expected));
  for (size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(recorder.samples()[i].time_ns, expected[i].time_ns) << i;
    EXPECT_EQ(recorder.samples()[i].category, static_cast<uint8_t>(expected[i].category)) << i;
    EXPECT_EQ(recorder.samples()[i].live_bytes, expected[i].live) << i;
  }
  EXPECT_EQ(tide.peak(Space::kDevice), 148);
  EXPECT_EQ(tide.peak(Space::kPinnedHost), 0);
}

}  // namespace
}  // namespace tideline

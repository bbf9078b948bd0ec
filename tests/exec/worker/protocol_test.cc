#include "exec/worker/protocol.h"

#include <unistd.h>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace tideline {
namespace {

WorkerRequest Request() {
  WorkerRequest request;
  request.program = std::string("program\0bytes", 13);
  request.data_path = "text.txt";
  request.steps = 7;
  request.checkpoint_folder = "ckpt";
  request.resume = true;
  request.dry_run = true;
  request.plan_hash = "abc";
  request.eager = true;
  request.check = CheckLevel::kKernels;
  request.schedule = SchedulePolicy::kSeeded;
  request.schedule_seed = 42;
  request.devices_per_node = 2;
  request.device_memory_bytes = int64_t{1} << 40;
  request.record = true;
  return request;
}

RunReport Report() {
  RunReport report;
  report.losses = {5.5, 0.1};
  report.resumed_from_step = 1;
  report.counted_steps = 1;
  report.ranks.resize(2);
  report.ranks[1].extent = {10, 20};
  report.ranks[1].observed[0] = ObservedMemory{7, {1, 2, 4}};
  report.ranks[1].time_ns = {1, 2, 3, 4, 5};
  report.ranks[1].step_time_ns = {100, 200};
  report.touched = {{Op::kEinsum, 100, 99}};
  report.finding = "step 1: the loss is nan";
  return report;
}

TEST(ProtocolTest, RequestsComeBack) {
  const WorkerRequest sent = Request();
  const auto got = DecodeRequest(EncodeRequest(sent));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(EncodeRequest(*got), EncodeRequest(sent));
  EXPECT_EQ(got->program, sent.program);
  EXPECT_EQ(got->schedule_seed, 42u);
  EXPECT_EQ(got->check, CheckLevel::kKernels);
}

TEST(ProtocolTest, ReportsComeBack) {
  const auto got = DecodeReport(EncodeReport(Report()));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(EncodeReport(*got), EncodeReport(Report()));
  EXPECT_EQ(got->losses, Report().losses);
  EXPECT_EQ(got->finding, Report().finding);
  EXPECT_FALSE(got->ranks[0].observed[0].has_value());
  EXPECT_EQ(got->ranks[1].observed[0]->peak_by_category[2], 4);
  EXPECT_EQ(got->ranks[1].time_ns, Report().ranks[1].time_ns);
}

TEST(ProtocolTest, EventsSamplesAndStepsComeBack) {
  RunEvent event;
  event.rank = 3;
  event.step = -1;
  event.name = 9;
  event.start_ns = 10;
  event.end_ns = 12;
  const auto events = DecodeEvents(EncodeEvents({event, event}));
  ASSERT_TRUE(events.ok());
  ASSERT_EQ(events->size(), 2u);
  EXPECT_EQ((*events)[1].end_ns, 12);
  EXPECT_EQ((*events)[1].step, -1);
  const auto samples = DecodeSamples(EncodeSamples({{1, 1, 2, 100, 5}}));
  ASSERT_TRUE(samples.ok());
  EXPECT_EQ((*samples)[0].live_bytes, 5);
  EXPECT_EQ(DecodeStep(EncodeStep({4, 1.5, 0.25}))->loss, 1.5);
  EXPECT_EQ(DecodeLane(EncodeLane({1, 2, "compute"}))->name, "compute");
}

TEST(ProtocolTest, FailuresKeepTheirCodeAndText) {
  const Status status = DecodeFailure(EncodeFailure(InputError("bad program")));
  EXPECT_EQ(ExitCode(status), 5);
  EXPECT_EQ(status.message(), "bad program");
  EXPECT_FALSE(DecodeFailure(EncodeFailure(absl::OkStatus())).ok());
}

TEST(ProtocolTest, ValuesOutOfRangeAreRefused) {
  EXPECT_FALSE(DecodeSamples(EncodeSamples({{0, 2, 0, 0, 0}})).ok());
  EXPECT_FALSE(DecodeSamples(EncodeSamples({{0, 0, 10, 0, 0}})).ok());
  RunEvent event;
  event.start_ns = 5;
  event.end_ns = 4;
  EXPECT_FALSE(DecodeEvents(EncodeEvents({event})).ok());
  EXPECT_FALSE(DecodeStep(EncodeStep({-1, 0, 0})).ok());
  WorkerRequest request = Request();
  request.check = static_cast<CheckLevel>(3);
  EXPECT_FALSE(DecodeRequest(EncodeRequest(request)).ok());
  std::string other_version = EncodeRequest(Request());
  other_version[0] = 99;
  EXPECT_NE(DecodeRequest(other_version).status().message().find("version 99"), std::string::npos);
  std::string hello = EncodeHello();
  EXPECT_TRUE(CheckHello(hello).ok());
  hello[0] = 99;
  EXPECT_FALSE(CheckHello(hello).ok());
}

TEST(ProtocolTest, EveryCutIsRefused) {
  const std::string request = EncodeRequest(Request());
  for (size_t size = 0; size < request.size(); ++size) {
    EXPECT_FALSE(DecodeRequest(std::string_view(request).substr(0, size)).ok()) << size;
  }
  const std::string report = EncodeReport(Report());
  for (size_t size = 0; size < report.size(); ++size) {
    EXPECT_FALSE(DecodeReport(std::string_view(report).substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(DecodeReport(report + "x").ok());
}

TEST(ProtocolTest, DamagedPayloadsNeverCrash) {
  Rng rng(1, "protocol_test");
  const std::string originals[] = {EncodeRequest(Request()), EncodeReport(Report()),
                                   EncodeEvents(std::vector<RunEvent>(3)),
                                   EncodeFailure(RunError("x"))};
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = originals[round % 4];
    for (uint64_t change = rng.Below(4) + 1; change > 0; --change) {
      bytes[rng.Below(bytes.size())] = static_cast<char>(rng.Next());
    }
    (void)DecodeRequest(bytes).ok();
    (void)DecodeReport(bytes).ok();
    (void)DecodeEvents(bytes).ok();
    (void)DecodeFailure(bytes).ok();
  }
}

class FrameTest : public ::testing::Test {
 protected:
  FrameTest() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    read_ = ends[0];
    write_ = ends[1];
  }
  ~FrameTest() override {
    close(read_);
    if (write_ >= 0) close(write_);
  }
  void Put(std::string_view bytes) {
    EXPECT_EQ(write(write_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void End() {
    close(write_);
    write_ = -1;
  }

  int read_ = -1, write_ = -1;
  bool ended_ = false;
};

TEST_F(FrameTest, FramesFollowEachOtherAndEnd) {
  ASSERT_TRUE(WriteFrame(write_, FrameType::kNote, "hello").ok());
  ASSERT_TRUE(WriteFrame(write_, FrameType::kStep, "").ok());
  End();
  const auto first = ReadFrame(read_, &ended_);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->type, FrameType::kNote);
  EXPECT_EQ(first->payload, "hello");
  EXPECT_EQ(ReadFrame(read_, &ended_)->payload, "");
  EXPECT_FALSE(ended_);
  EXPECT_TRUE(ReadFrame(read_, &ended_).ok());
  EXPECT_TRUE(ended_);
}

TEST_F(FrameTest, CutAndForeignFramesAreErrors) {
  Put("TLW");
  End();
  EXPECT_FALSE(ReadFrame(read_, &ended_).ok());
}

TEST_F(FrameTest, ForeignBytesAreErrors) {
  Put("GET / HTTP/1.1\r\n");
  EXPECT_FALSE(ReadFrame(read_, &ended_).ok());
}

TEST_F(FrameTest, LongFramesAreRefusedBeforeTheyAreRead) {
  ASSERT_TRUE(WriteFrame(write_, FrameType::kNote, "0123456789").ok());
  const auto frame = ReadFrame(read_, &ended_, 9);
  ASSERT_FALSE(frame.ok());
  EXPECT_NE(frame.status().message().find("10 bytes"), std::string::npos);
}

}  // namespace
}  // namespace tideline

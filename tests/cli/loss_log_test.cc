#include "cli/loss_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/file.h"

namespace tideline {
namespace {

constexpr const char* kHeading = "step,loss,learning_rate,seconds\n";

class LossLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/losses.csv";
    unlink(path_.c_str());
    adam_.learning_rate = 1e-3f;
    adam_.warmup_steps = 4;
  }
  std::string Content() const {
    const StatusOr<std::string> content = ReadFile(path_);
    return content.ok() ? *content : "";
  }
  void Put(const std::string& text) const { ASSERT_TRUE(WriteFileAtomically(path_, text).ok()); }

  std::string path_;
  AdamSettings adam_;
};

// Warm-up over 4 steps to 1e-3: 2.5e-4 and 5e-4. Every line is there at once.
TEST_F(LossLogTest, HasALinePerStep) {
  LossLog log(path_, adam_);
  EXPECT_FALSE(log.begun());
  ASSERT_TRUE(log.Begin(0).ok());
  EXPECT_EQ(Content(), kHeading);
  ASSERT_TRUE(log.Append(0, 5.5, 0.25).ok());
  EXPECT_EQ(Content(), std::string(kHeading) + "0,5.5,0.00025,0.250000\n");
  ASSERT_TRUE(log.Append(1, NAN, std::nullopt).ok());
  EXPECT_EQ(Content(), std::string(kHeading) + "0,5.5,0.00025,0.250000\n1,nan,5e-04,\n");
}

TEST_F(LossLogTest, WithAGateEveryLineHasNormAndScale) {
  const std::string heading = "step,loss,learning_rate,seconds,gradient_norm,loss_scale\n";
  LossLog log(path_, adam_, /*gated=*/true);
  ASSERT_TRUE(log.Begin(0).ok());
  ASSERT_TRUE(log.Append(0, 5.5, 0.25, StepGradients{0.125, 65536, false}).ok());
  ASSERT_TRUE(log.Append(1, 5.5, 0.25, StepGradients{INFINITY, 65536, true}).ok());
  ASSERT_TRUE(log.Append(2, 5.5, 0.25).ok());
  EXPECT_EQ(Content(), heading + "0,5.5,0.00025,0.250000,0.125,65536\n" +
                           "1,5.5,5e-04,0.250000,inf,65536\n2,5.5,0.00075,0.250000,,\n");
  // A log of a plan without one is none of this plan's.
  EXPECT_EQ(ExitCode(LossLog(path_, adam_).CheckContinues()), 5);
}

TEST_F(LossLogTest, AResumedRunCutsWhatItPlaysAgain) {
  Put(std::string(kHeading) + "0,5,1,1\n1,4,1,1\n2,3,1,1\n3,2,1");
  {
    LossLog log(path_, adam_);
    ASSERT_TRUE(log.CheckContinues().ok());
    ASSERT_TRUE(log.Begin(2).ok());
    ASSERT_TRUE(log.Append(2, 7, 0.5).ok());
  }
  EXPECT_EQ(Content(), std::string(kHeading) + "0,5,1,1\n1,4,1,1\n2,7,0.00075,0.500000\n");
  // Past all lines: goes on behind them.
  LossLog later(path_, adam_);
  ASSERT_TRUE(later.Begin(9).ok());
  ASSERT_TRUE(later.Append(9, 1, 0.5).ok());
  EXPECT_NE(Content().find("2,7,0.00075,0.500000\n9,1,0.001,0.500000\n"), std::string::npos);
}

TEST_F(LossLogTest, ALineCutOffIsDropped) {
  for (const std::string cut : {"step,lo", "step,loss,learning_rate,seconds\n0,5,1,1\n1,4"}) {
    Put(cut);
    LossLog log(path_, adam_);
    EXPECT_TRUE(log.CheckContinues().ok()) << cut;
    ASSERT_TRUE(log.Begin(1).ok()) << cut;
    ASSERT_TRUE(log.Append(1, 2, 1).ok());
    EXPECT_TRUE(Content().ends_with("\n1,2,5e-04,1.000000\n")) << Content();
    EXPECT_TRUE(Content().starts_with(kHeading)) << Content();
  }
}

TEST_F(LossLogTest, ANewRunBeginsAnew) {
  Put("something else\n");
  LossLog log(path_, adam_);
  ASSERT_TRUE(log.Begin(0).ok());
  EXPECT_EQ(Content(), kHeading);
}

TEST_F(LossLogTest, AnotherFileIsNotGoneOnWith) {
  for (const std::string other :
       {"text\n", "step,loss,learning_rate,seconds\n0,1,1,1\nabc\n",
        "step,loss,learning_rate,seconds\n1,1,1,1\n1,1,1,1\n",
        "step,loss,learning_rate,seconds\n1\n", "step,loss,learning_rate,seconds\n-1,2,3,4\n"}) {
    Put(other);
    LossLog log(path_, adam_);
    EXPECT_EQ(ExitCode(log.CheckContinues()), 5) << other;
    EXPECT_NE(log.CheckContinues().message().find(path_), std::string::npos);
    EXPECT_EQ(ExitCode(log.Begin(5)), 5) << other;
    EXPECT_EQ(Content(), other);
  }
}

// Counts what it is told.
class Listener : public RunObserver {
 public:
  void OnStep(const StepResult&) override { ++steps; }
  void OnNote(std::string_view text) override { notes.emplace_back(text); }
  int steps = 0;
  std::vector<std::string> notes;
};

TEST_F(LossLogTest, TheLoggerWritesAndPassesOn) {
  Put(std::string(kHeading) + "0,5,1,1\n1,4,1,1\n2,3,1,1\n");
  LossLog log(path_, adam_);
  Listener listener;
  LossLogger logger(&log, &listener);
  logger.OnNote("resuming");
  EXPECT_FALSE(log.begun());  // until a step is done the file stays
  logger.OnStep({1, 3, 0.5});
  RunReport run;
  run.losses = {5, 3, INFINITY};
  run.finding = "diverged";
  EXPECT_TRUE(logger.Finish(run).ok());
  EXPECT_EQ(listener.steps, 1);
  EXPECT_EQ(listener.notes, std::vector<std::string>{"resuming"});
  EXPECT_EQ(Content(), std::string(kHeading) + "0,5,1,1\n1,3,5e-04,0.500000\n2,inf,0.00075,\n");
}

TEST_F(LossLogTest, ARunWithNothingLeftCutsTheLinesBeyondItsEnd) {
  Put(std::string(kHeading) + "0,5,1,1\n1,4,1,1\n2,3,1,1\n");
  LossLog log(path_, adam_);
  Listener listener;
  LossLogger logger(&log, &listener);
  RunReport run;
  run.losses = {5, 4};
  run.resumed_from_step = 2;
  EXPECT_TRUE(logger.Finish(run).ok());
  EXPECT_EQ(Content(), std::string(kHeading) + "0,5,1,1\n1,4,1,1\n");
}

TEST_F(LossLogTest, AFailedLogIsSaidOnceAndDoesNotStopTheRun) {
  LossLog log("/nonexistent/losses.csv", adam_);
  Listener listener;
  LossLogger logger(&log, &listener);
  logger.OnStep({0, 1, 1});
  logger.OnStep({1, 1, 1});
  EXPECT_EQ(listener.steps, 2);
  EXPECT_EQ(listener.notes.size(), 1u);
  EXPECT_EQ(ExitCode(logger.Finish({})), 1);
}

TEST_F(LossLogTest, FailuresNameThePath) {
  LossLog nowhere("/nonexistent/losses.csv", adam_);
  EXPECT_EQ(ExitCode(nowhere.Begin(0)), 1);
  EXPECT_NE(nowhere.Begin(0).message().find("/nonexistent/losses.csv"), std::string::npos);
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  LossLog full("/dev/full", adam_);
  EXPECT_EQ(ExitCode(full.Begin(0)), 1);
}

}  // namespace
}  // namespace tideline

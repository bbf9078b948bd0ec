#include "base/progress.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tideline {
namespace {

struct Recorder {
  double now_s = 0;
  std::string text;
  ProgressOptions Options(bool terminal, bool quiet = false) {
    return {.quiet = quiet,
            .terminal = terminal,
            .write = [this](std::string_view piece) { text += piece; },
            .now_s = [this] { return now_s; }};
  }
};

TEST(ProgressTest, WithoutATerminalALineEveryTenSeconds) {
  Recorder recorder;
  Progress progress("running", 100, recorder.Options(false));
  for (int second = 0; second <= 25; ++second) {
    recorder.now_s = second;
    progress.Update(second * 4, "loss 2.5");
  }
  progress.Finish();
  EXPECT_EQ(recorder.text,
            "running: 40 of 100 after 10 s, loss 2.5\nrunning: 80 of 100 after 20 s, loss 2.5\n");
}

TEST(ProgressTest, OnATerminalABarThatIsCleared) {
  Recorder recorder;
  {
    Progress progress("running", 4, recorder.Options(true));
    recorder.now_s = 1;
    progress.Update(2);
  }
  EXPECT_EQ(recorder.text, "\rrunning [###############...............] 2/4  1 s\x1b[K\r\x1b[K");
}

TEST(ProgressTest, QuietWritesNothing) {
  Recorder recorder;
  {
    Progress progress("running", 4, recorder.Options(true, true));
    recorder.now_s = 100;
    progress.Update(2);
  }
  EXPECT_EQ(recorder.text, "");
}

TEST(ProgressTest, MoreThanTheTotalKeepsTheBarWhole) {
  Recorder recorder;
  Progress progress("running", 4, recorder.Options(true));
  recorder.now_s = 1;
  progress.Update(9);
  EXPECT_NE(recorder.text.find(std::string(30, '#')), std::string::npos);
}

TEST(ColorTest, EnvironmentDecidesWhenAuto) {
  setenv("TERM", "xterm", 1);
  setenv("NO_COLOR", "1", 1);
  EXPECT_TRUE(UseColor("always", 1));
  EXPECT_FALSE(UseColor("never", 1));
  EXPECT_FALSE(UseColor("auto", 1));
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(UseColor("auto", 1));
}

}  // namespace
}  // namespace tideline

#include "models/ir/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tideline {
namespace {

AdamSettings Settings(RateSchedule schedule, int64_t warmup, int64_t decay, float least) {
  AdamSettings settings;
  settings.learning_rate = 0.5f;
  settings.schedule = schedule;
  settings.warmup_steps = warmup;
  settings.decay_steps = decay;
  settings.least_learning_rate = least;
  return settings;
}

TEST(LearningRateTest, IsTheSettingItselfWithoutASchedule) {
  const AdamSettings settings;
  for (const int64_t step : {0, 1, 7, 1'000'000'000}) {
    EXPECT_EQ(LearningRateAt(settings, step), double{1e-3f}) << step;
  }
}

// 4 steps to 0.5: 0.5 (s + 1) / 4, exact in binary.
TEST(LearningRateTest, WarmsUpLinearlyFromTheFirstStep) {
  for (const RateSchedule schedule :
       {RateSchedule::kConstant, RateSchedule::kLinear, RateSchedule::kCosine}) {
    const AdamSettings settings = Settings(schedule, 4, 12, 0);
    EXPECT_EQ(LearningRateAt(settings, 0), 0.125);
    EXPECT_EQ(LearningRateAt(settings, 1), 0.25);
    EXPECT_EQ(LearningRateAt(settings, 2), 0.375);
    EXPECT_EQ(LearningRateAt(settings, 3), 0.5);
    EXPECT_EQ(LearningRateAt(settings, 4), 0.5);  // where the decay begins
  }
  EXPECT_EQ(LearningRateAt(Settings(RateSchedule::kConstant, 1, 0, 0), 0), 0.5);
  EXPECT_EQ(LearningRateAt(Settings(RateSchedule::kConstant, 4, 0, 0), 1'000'000), 0.5);
}

// From 0.5 at step 4 to 0.125 at step 12: step 6 is a quarter of the way, 0.5 - 0.375 / 4.
TEST(LearningRateTest, FallsLinearlyToTheLeast) {
  const AdamSettings settings = Settings(RateSchedule::kLinear, 4, 12, 0.125f);
  EXPECT_EQ(LearningRateAt(settings, 6), 0.40625);
  EXPECT_EQ(LearningRateAt(settings, 8), 0.3125);
  EXPECT_EQ(LearningRateAt(settings, 11), 0.125 + 0.375 / 8);
  EXPECT_EQ(LearningRateAt(settings, 12), 0.125);
  EXPECT_EQ(LearningRateAt(settings, 1'000'000), 0.125);
}

// Over the 12 steps from 0: at a third cos(pi / 3) = 1/2 leaves 3/4 of the way down, half way 1/2,
// at two thirds 1/4.
TEST(LearningRateTest, FallsAlongACosine) {
  const AdamSettings settings = Settings(RateSchedule::kCosine, 0, 12, 0.1f);
  const double least = double{0.1f};
  const double range = 0.5 - least;
  EXPECT_EQ(LearningRateAt(settings, 0), 0.5);
  EXPECT_NEAR(LearningRateAt(settings, 4), least + 0.75 * range, 1e-11);
  EXPECT_NEAR(LearningRateAt(settings, 6), least + 0.5 * range, 1e-11);
  EXPECT_NEAR(LearningRateAt(settings, 8), least + 0.25 * range, 1e-11);
  EXPECT_EQ(LearningRateAt(settings, 12), least);
  EXPECT_EQ(LearningRateAt(settings, 13), least);
}

// Against libm to a relative 1e-10, also where the cosine nearly cancels; never rising, never below
// the least.
TEST(LearningRateTest, FollowsTheFormulaOverLongRuns) {
  for (const int64_t decay : {1, 2, 3, 101, 99991}) {
    const AdamSettings settings = Settings(RateSchedule::kCosine, 0, decay, 0);
    double last = 0.5;
    for (int64_t step = 0; step < decay; ++step) {
      const double rate = LearningRateAt(settings, step);
      const double half =
          std::sin(std::acos(0.0) * static_cast<double>(decay - step) / static_cast<double>(decay));
      EXPECT_NEAR(rate / (0.5 * half * half), 1.0, 1e-10) << step << " of " << decay;
      EXPECT_LE(rate, last);
      EXPECT_GT(rate, 0.0);
      last = rate;
    }
  }
}

// Settings that Validate refuses still give numbers: a Program from outside may hold them.
TEST(LearningRateTest, AnySettingsGiveANumber) {
  for (const int64_t decay : {-5, 0, 3, 4}) {
    const AdamSettings settings = Settings(RateSchedule::kCosine, 4, decay, 0.25f);
    EXPECT_EQ(LearningRateAt(settings, 3), 0.5);
    EXPECT_EQ(LearningRateAt(settings, 4), 0.25);
  }
  EXPECT_EQ(LearningRateAt(Settings(RateSchedule::kConstant, -4, 0, 0), 0), 0.5);
}

}  // namespace
}  // namespace tideline

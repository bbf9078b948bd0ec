#include "planner/plan/pins.h"

#include <gtest/gtest.h>

#include "planner/plan/evaluation.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

TEST(PinsTest, ReadsWhatItWrites) {
  const std::string text =
      "tp=8,pp=8,dp=16,micro_batch=1,zero=1,reduce=once,recompute=full,schedule=interleaved,chunks="
      "2,"
      "sequence_parallel=1,bucket=25MiB,dtype=bf16,grad_dtype=fp32";
  const StatusOr<Pins> pins = ParsePins(text);
  ASSERT_TRUE(pins.ok()) << pins.status();
  EXPECT_EQ(FormatPins(*pins), text);
  EXPECT_EQ(FormatPins(*ParsePins("recompute=full,attention=fused")),
            "recompute=full,attention=fused");
  Plan fused = TestPlan(TinyGpt());
  fused.attention = AttentionForm::kFused;
  EXPECT_EQ(*ParsePins(FormatPins(PinsOf(fused))), PinsOf(fused));
  EXPECT_EQ(*ParsePins(""), Pins());
  EXPECT_EQ(*ParsePins("offload=none"), Pins());
  const Pins of_plan = PinsOf(TestPlan(TinyGpt(), {.tp = 2}));
  EXPECT_EQ(*ParsePins(FormatPins(of_plan)), of_plan);
}

TEST(PinsTest, MalformedPinsAreUsageErrors) {
  const std::pair<const char*, const char*> cases[] = {
      {"tq=8", "tp"},
      {"tp", "tp"},
      {"tp=", "tp"},
      {"tp=eight", "whole number"},
      {"tp=0", "from 1"},
      {"tp=2,tp=4", "tp"},
      {"zero=4", "from 0 to 3"},
      {"reduce=twice", "each_micro_batch"},
      {"recompute=all", "selective"},
      {"attention=flash", "fused"},
      {"schedule=1f1", "1f1b"},
      {"sequence_parallel=2", "0 or 1"},
      {"bucket=25", "25MiB"},
      {"dtype=int8", "bf16"},
      {"offload=optimizer", "none"},
  };
  for (const auto& [text, named] : cases) {
    const StatusOr<Pins> pins = ParsePins(text);
    EXPECT_EQ(ExitCode(pins.status()), 2) << text;
    EXPECT_NE(pins.status().message().find(named), std::string::npos)
        << text << ": " << pins.status();
  }
}

TEST(EvaluationTest, RoundTrips) {
  const Evaluation evaluation{.step_time_s = 0.1,
                              .peak_memory_bytes = int64_t{1} << 40,
                              .host_peak_memory_bytes = 7,
                              .exposed_comm_fraction = 0.25,
                              .bubble_fraction = 0.125,
                              .host_bound_fraction = 1.0 / 3,
                              .stall_fraction = 0.0625};
  EXPECT_EQ(*ParseEvaluation(SerializeEvaluation(evaluation)), evaluation);
  EXPECT_FALSE(ParseEvaluation("\xff\xff").ok());
}

}  // namespace
}  // namespace tideline

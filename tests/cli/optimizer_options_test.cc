#include "cli/optimizer_options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tideline {
namespace {

using Given = std::vector<std::pair<std::string, std::string>>;

StatusOr<OptionValues> ValuesOf(const Given& given) {
  OptionValues values;
  for (const auto& [name, value] : given) {
    for (const OptionRecord& record : OptimizerOptions()) {
      if (record.name == name) TL_RETURN_IF_ERROR(values.Add(record, value));
    }
  }
  TL_RETURN_IF_ERROR(values.FillDefaults(OptimizerOptions()));
  return values;
}

StatusOr<AdamSettings> Read(const Given& given) {
  TL_ASSIGN_OR_RETURN(const OptionValues values, ValuesOf(given));
  return ReadOptimizer(values);
}

StatusOr<GradientOptions> ReadGradients(const Given& given) {
  TL_ASSIGN_OR_RETURN(const OptionValues values, ValuesOf(given));
  return ReadGradientOptions(values);
}

TEST(OptimizerOptionsTest, LeaveTheDefaultsAlone) {
  const StatusOr<AdamSettings> adam = Read({});
  ASSERT_TRUE(adam.ok()) << adam.status();
  EXPECT_EQ(*adam, AdamSettings());
}

TEST(OptimizerOptionsTest, SetRateAndSchedule) {
  AdamSettings expected;
  expected.learning_rate = 3e-4f;
  expected.schedule = RateSchedule::kCosine;
  expected.warmup_steps = 100;
  expected.decay_steps = 1000;
  expected.least_learning_rate = 1e-5f;
  const StatusOr<AdamSettings> adam =
      Read({{"lr", "3e-4"}, {"lr-schedule", "cosine:warmup=100,steps=1000,least=1e-5"}});
  ASSERT_TRUE(adam.ok()) << adam.status();
  EXPECT_EQ(*adam, expected);
  EXPECT_EQ(Read({{"lr-schedule", "linear:steps=10"}})->decay_steps, 10);
  EXPECT_EQ(Read({{"lr-schedule", "constant:warmup=10"}})->warmup_steps, 10);
}

TEST(OptimizerOptionsTest, ClippingAndLossScaling) {
  EXPECT_EQ(ReadGradients({})->clip_norm, 0.0);
  EXPECT_FALSE(ReadGradients({})->loss_scale.has_value());
  EXPECT_EQ(ReadGradients({{"clip-norm", "1.5"}})->clip_norm, 1.5);
  EXPECT_EQ(ReadGradients({{"loss-scale", "0"}})->loss_scale, 0.0);
  const StatusOr<GradientOptions> both = ReadGradients({{"loss-scale", "1024:steps=7"}});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->loss_scale, 1024.0);
  EXPECT_EQ(both->loss_scale_steps, 7);
  for (const auto& [text, named] : {std::pair{"1000", "a power of two"},
                                    {"x", "a power of two such as 65536"},
                                    {"1024:step=1", "did you mean `steps`"},
                                    {"1024:steps=0", "a whole number of steps"}}) {
    const StatusOr<GradientOptions> wrong = ReadGradients({{"loss-scale", text}});
    ASSERT_FALSE(wrong.ok()) << text;
    EXPECT_EQ(ExitCode(wrong.status()), 2) << wrong.status();
    EXPECT_NE(wrong.status().message().find(named), std::string::npos) << wrong.status();
    EXPECT_NE(wrong.status().message().find("--loss-scale"), std::string::npos) << wrong.status();
  }
  EXPECT_EQ(ExitCode(ReadGradients({{"clip-norm", "-1"}}).status()), 2);
}

TEST(OptimizerOptionsTest, ErrorsNameWhatIsWrong) {
  struct Case {
    const char* schedule;
    const char* named;
  };
  const Case cases[] = {
      {"cosin:steps=3", "did you mean `cosine`"},
      {"cosine:warm=3", "valid: warmup, steps, least"},
      {"cosine", "above warmup=0"},
      {"linear:warmup=10,steps=10", "above warmup=10"},
      {"linear:steps=1.5", "a whole number of steps"},
      {"linear:steps=-1", "a whole number of steps"},
      {"linear:steps=2000000000", "1000000000"},
      {"cosine:steps=10,least=x", "a rate such as 1e-5"},
      {"cosine:steps=10,least=0.5", "at most --lr 0.001"},
      {"cosine:steps=10,steps=20", "steps"},
      {"constant:steps=10", "constant"},
      {":warmup=3", "valid: constant, linear, cosine"},
  };
  for (const Case& wrong : cases) {
    const StatusOr<AdamSettings> adam = Read({{"lr-schedule", wrong.schedule}});
    ASSERT_FALSE(adam.ok()) << wrong.schedule;
    EXPECT_EQ(ExitCode(adam.status()), 2) << adam.status();
    EXPECT_NE(adam.status().message().find("--lr-schedule"), std::string::npos) << adam.status();
    EXPECT_NE(adam.status().message().find(wrong.named), std::string::npos) << adam.status();
  }
  EXPECT_EQ(ExitCode(Read({{"lr", "-1"}}).status()), 2);
  EXPECT_EQ(ExitCode(Read({{"lr", "nan"}}).status()), 2);
}

}  // namespace
}  // namespace tideline

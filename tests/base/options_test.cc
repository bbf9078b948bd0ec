#include "base/options.h"

#include <gtest/gtest.h>

namespace tideline {
namespace {

std::vector<OptionRecord> Records() {
  return {
      {.name = "steps",
       .kind = OptionKind::kInteger,
       .value_name = "N",
       .sentence = "Steps to run.",
       .default_text = "10",
       .least = 1,
       .most = 1000},
      {.name = "memory-limit",
       .kind = OptionKind::kBytes,
       .value_name = "SIZE",
       .sentence = "Bytes per GPU."},
      {.name = "check",
       .kind = OptionKind::kChoice,
       .value_name = "LEVEL",
       .sentence = "What the emulator checks.",
       .default_text = "order",
       .choices = {"order", "kernels", "none"}},
      {.name = "slow",
       .kind = OptionKind::kText,
       .value_name = "RULE",
       .sentence = "Slows a rank down.",
       .repeated = true},
      {.name = "scale",
       .kind = OptionKind::kReal,
       .value_name = "X",
       .sentence = "A factor.",
       .default_text = "0.5",
       .least = 0,
       .most = 1},
      {.name = "after",
       .kind = OptionKind::kSeconds,
       .value_name = "TIME",
       .sentence = "When.",
       .default_text = "5us"},
      {.name = "no-fold", .kind = OptionKind::kFlag, .value_name = "", .sentence = "Unfolded."}};
}

TEST(OptionsTest, DefaultsFillWhatWasNotGiven) {
  const auto records = Records();
  OptionValues values;
  ASSERT_TRUE(values.Add(records[0], "20").ok());
  ASSERT_TRUE(values.Add(records[3], "a").ok());
  ASSERT_TRUE(values.Add(records[3], "b").ok());
  ASSERT_TRUE(values.Add(records[6], "").ok());
  ASSERT_TRUE(values.FillDefaults(records).ok());
  EXPECT_EQ(values.Integer("steps"), 20);
  EXPECT_EQ(values.Text("check"), "order");
  EXPECT_EQ(values.Texts("slow"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(values.Real("scale"), 0.5);
  EXPECT_EQ(values.Seconds("after"), 5e-6);
  EXPECT_TRUE(values.Flag("no-fold"));
  EXPECT_FALSE(values.Has("memory-limit"));
}

TEST(OptionsTest, BadValuesNameTheOption) {
  const auto records = Records();
  OptionValues values;
  for (const auto& [index, text] : std::vector<std::pair<int, std::string>>{
           {0, "0"}, {0, "1001"}, {0, "x"}, {1, "40"}, {2, "ordr"}, {3, ""}, {4, "2"}, {5, "5"}}) {
    const Status status = values.Add(records[static_cast<size_t>(index)], text);
    EXPECT_EQ(ExitCode(status), 2) << text;
    EXPECT_EQ(
        std::string(status.message()).rfind("--" + records[static_cast<size_t>(index)].name, 0), 0u)
        << status.message();
  }
  EXPECT_NE(values.Add(records[2], "ordr").message().find("did you mean `order`"),
            absl::string_view::npos);
  ASSERT_TRUE(values.Add(records[0], "5").ok());
  EXPECT_FALSE(values.Add(records[0], "6").ok());
}

TEST(OptionsTest, RequiredOptionsMustBeGiven) {
  auto records = Records();
  records[1].required = true;
  OptionValues values;
  const Status status = values.FillDefaults(records);
  EXPECT_EQ(status.message(),
            "--memory-limit is missing; write --memory-limit SIZE: Bytes per GPU.");
}

TEST(OptionsTest, RangesInWords) {
  const auto records = Records();
  EXPECT_EQ(DescribeRange(records[0]), "a whole number from 1 to 1000");
  EXPECT_EQ(DescribeRange(records[2]), "one of order, kernels, none");
  EXPECT_EQ(DescribeRange(records[4]), "a number from 0 to 1");
}

}  // namespace
}  // namespace tideline

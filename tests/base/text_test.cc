#include "base/text.h"

#include <gtest/gtest.h>

namespace tideline {
namespace {

TEST(TextTest, EditDistanceCountsSingleEdits) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);  // k>s, e>i, +g
  EXPECT_EQ(EditDistance("gpt2", "gtp2"), 1u);       // a swap
  EXPECT_EQ(EditDistance("GPT2", "gpt2"), 0u);
}

TEST(TextTest, EditDistanceIsSymmetric) {
  const std::vector<std::string> words = {"",         "a", "dgx-a100-80g", "dgx-v100-32g",
                                          "emulated", "ab"};
  for (const std::string& left : words) {
    for (const std::string& right : words) {
      EXPECT_EQ(EditDistance(left, right), EditDistance(right, left));
    }
  }
}

TEST(TextTest, NearestNameOnlyWhenNear) {
  const std::vector<std::string> valid = {"gpt2", "opt-30b", "llama2-7b", "llama2-70b"};
  EXPECT_EQ(NearestName("gpt-2", valid), "gpt2");
  EXPECT_EQ(NearestName("lama2-70b", valid), "llama2-70b");
  EXPECT_EQ(NearestName("zzzzzz", valid), std::nullopt);
  EXPECT_EQ(NearestName("x", {}), std::nullopt);
  EXPECT_EQ(NearestName("llama", valid), "llama2-7b");  // its beginning
  EXPECT_EQ(NearestName("ll", valid), std::nullopt);
}

TEST(TextTest, UnknownNameListsTheValidOnes) {
  EXPECT_EQ(UnknownName("model", "gpt-2", {"gpt2", "opt-30b"}),
            "unknown model `gpt-2`; did you mean `gpt2`? valid: gpt2, opt-30b");
  EXPECT_EQ(UnknownName("model", "zzzzzz", {"gpt2", "opt-30b"}),
            "unknown model `zzzzzz`; valid: gpt2, opt-30b");
}

TEST(TextTest, QuotedIsPrintableAndShort) {
  EXPECT_EQ(Quoted("a\nb\x1b\xff"), "`a\\x0ab\\x1b\\xff`");
  EXPECT_EQ(Quoted("abcdef", 3), "`abc...`");
  EXPECT_EQ(Quoted("abc", 3), "`abc`");
}

TEST(TextTest, SplitsOutsideBracesOnly) {
  const auto parts = SplitOutsideBraces(" a{b=1,c={d,e}} , f ", ',');
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(*parts, (std::vector<std::string>{"a{b=1,c={d,e}}", "f"}));
  EXPECT_TRUE(SplitOutsideBraces("", ',')->empty());
  EXPECT_FALSE(SplitOutsideBraces("a{b", ',').ok());
  EXPECT_FALSE(SplitOutsideBraces("a}b", ',').ok());
  EXPECT_FALSE(SplitOutsideBraces("a,,b", ',').ok());
  EXPECT_FALSE(SplitOutsideBraces("a,", ',').ok());
}

TEST(TextTest, KeyValueLists) {
  const auto entries = ParseKeyValues("tp=8, pp = 2,offload={budget=2GiB}");
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ((*entries)[1].key, "pp");
  EXPECT_EQ((*entries)[1].value, "2");
  EXPECT_EQ((*entries)[2].value, "{budget=2GiB}");
  for (const char* text : {"tp", "=8", "tp=", "tp=8,tp=4", "tp=8,,pp=2", "tp={"}) {
    EXPECT_EQ(ExitCode(ParseKeyValues(text).status()), 2) << text;
  }
}

TEST(TextTest, BracedNames) {
  const auto braced = SplitBracedName("dgx{gpus=1}");
  ASSERT_TRUE(braced.ok());
  EXPECT_EQ(braced->name, "dgx");
  EXPECT_EQ(braced->list, "gpus=1");
  EXPECT_EQ(SplitBracedName("dgx")->list, "");
  EXPECT_EQ(SplitBracedName("dgx{}")->name, "dgx");
  for (const char* text : {"dgx}", "dgx{gpus=1", "dgx{gpus=1}x", "{"}) {
    EXPECT_FALSE(SplitBracedName(text).ok()) << text;
  }
}

TEST(TextTest, Counted) {
  EXPECT_EQ(Counted(1, "GPU"), "1 GPU");
  EXPECT_EQ(Counted(0, "GPU"), "0 GPUs");
  EXPECT_EQ(Counted(64, "GPU"), "64 GPUs");
}

}  // namespace
}  // namespace tideline

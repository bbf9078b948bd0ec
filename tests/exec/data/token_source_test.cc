#include "exec/data/token_source.h"

#include <fstream>
#include <vector>

#include "exec/data/builtin_text.h"
#include "gtest/gtest.h"

namespace tideline {
namespace {

TEST(TokenSourceTest, SamplesWrapAroundAndTargetsAreTheNextByte) {
  // 11 bytes, sequences of 3: abc def ghi, the j is a target only: count = 3.
  const auto source = TokenSource::Make("abcdefghijk", "test", 3, 2);
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->count(), 3);
  std::vector<int32_t> ids(6), targets(6);
  source->Load(1, 0, ids, targets);  // samples 2 and 3 mod 3 = 0
  EXPECT_EQ(ids, (std::vector<int32_t>{'g', 'h', 'i', 'a', 'b', 'c'}));
  EXPECT_EQ(targets, (std::vector<int32_t>{'h', 'i', 'j', 'b', 'c', 'd'}));
}

TEST(TokenSourceTest, TheShortestTextHasOneSequence) {
  EXPECT_EQ(TokenSource::Make("abcd", "test", 3, 1)->count(), 1);
  const auto shorter = TokenSource::Make("abc", "short.txt", 3, 1);
  ASSERT_FALSE(shorter.ok());
  EXPECT_EQ(ExitCode(shorter.status()), 5);
  EXPECT_NE(shorter.status().message().find("short.txt"), std::string::npos);
}

TEST(TokenSourceTest, BytesAreNotNegative) {
  const auto source = TokenSource::Make("\xff\x80\x01", "test", 2, 1);
  std::vector<int32_t> ids(2), targets(2);
  source->Load(0, 0, ids, targets);
  EXPECT_EQ(ids, (std::vector<int32_t>{255, 128}));
  EXPECT_EQ(targets, (std::vector<int32_t>{128, 1}));
}

TEST(TokenSourceTest, ReadsFilesAndTheBuiltInText) {
  const std::string path = ::testing::TempDir() + "/text";
  std::ofstream(path) << "hello world";
  EXPECT_EQ(TokenSource::Open(path, 5, 1)->count(), 2);
  EXPECT_EQ(ExitCode(TokenSource::Open(path + "-missing", 5, 1).status()), 5);
  const int64_t size = static_cast<int64_t>(BuiltinText().size());
  EXPECT_EQ(TokenSource::Open("", 64, 8)->count(), (size - 1) / 64);
}

}  // namespace
}  // namespace tideline

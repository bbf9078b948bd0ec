#include "exec/data/token_source.h"

#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "exec/data/builtin_text.h"
#include "gtest/gtest.h"
#include "tests/exec/data/dataset_files.h"

namespace tideline {
namespace {

using Ids = std::vector<int32_t>;

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

// Ids and then targets of samples of one step.
Ids LoadedBy(const TokenSource& source, int64_t step, int64_t first, size_t tokens,
             int64_t vocabulary = 0) {
  Ids ids(tokens), targets(tokens);
  const Status status = source.Load(step, first, vocabulary, ids, targets);
  EXPECT_TRUE(status.ok()) << status;
  ids.insert(ids.end(), targets.begin(), targets.end());
  return ids;
}

void ExpectError(const Status& status, const std::vector<std::string>& parts) {
  EXPECT_EQ(ExitCode(status), 5) << status;
  for (const std::string& part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " not in: " << status;
  }
}

TEST(TokenSourceTest, SamplesWrapAroundAndTargetsAreTheNextByte) {
  // 11 bytes, sequences of 3: abc def ghi, the j is a target only: count = 3.
  const auto source = TokenSource::Make("abcdefghijk", "test", 3, 2);
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->count(), 3);
  // Samples 2 and 3 mod 3 = 0.
  EXPECT_EQ(LoadedBy(*source, 1, 0, 6),
            (Ids{'g', 'h', 'i', 'a', 'b', 'c', 'h', 'i', 'j', 'b', 'c', 'd'}));
}

TEST(TokenSourceTest, TheShortestTextHasOneSequence) {
  EXPECT_EQ(TokenSource::Make("abcd", "test", 3, 1)->count(), 1);
  ExpectError(TokenSource::Make("abc", "short.txt", 3, 1).status(), {"short.txt", "3 bytes", "4"});
  ExpectError(TokenSource::Make("", "empty.txt", 3, 1).status(), {"empty.txt", "0 bytes"});
  const std::string tokens = "u16:" + Write("short", TokenBytes<uint16_t>({1, 2, 3}));
  EXPECT_EQ(TokenSource::Open(tokens, 2, 1)->count(), 1);
  ExpectError(TokenSource::Open(tokens, 3, 1).status(), {tokens, "3 tokens", "4", "--seq"});
  ExpectError(TokenSource::Open("u32:" + Write("empty", ""), 1, 1).status(), {"0 tokens"});
}

TEST(TokenSourceTest, BytesAreNotNegative) {
  const auto source = TokenSource::Make("\xff\x80\x01", "test", 2, 1);
  EXPECT_EQ(LoadedBy(*source, 0, 0, 2), (Ids{255, 128, 128, 1}));
}

TEST(TokenSourceTest, ReadsFilesAndTheBuiltInText) {
  const std::string path = Write("text", "hello world");
  EXPECT_EQ(TokenSource::Open(path, 5, 1)->count(), 2);
  EXPECT_EQ(ExitCode(TokenSource::Open(path + "-missing", 5, 1).status()), 5);
  ExpectError(TokenSource::Open(::testing::TempDir(), 5, 1).status(), {"folder"});
  ExpectError(TokenSource::Open("u16:" + ::testing::TempDir(), 5, 1).status(), {"folder"});
  const int64_t size = static_cast<int64_t>(BuiltinText().size());
  EXPECT_EQ(TokenSource::Open("", 64, 8)->count(), (size - 1) / 64);
}

// The same tokens, whatever holds them: the same samples and the same hash.
TEST(TokenSourceTest, FormatsOfTheSameTokensAreTheSameData) {
  const std::string text = "The water does not come in like a wave.";
  std::vector<uint16_t> narrow(text.begin(), text.end());
  std::vector<uint32_t> wide(text.begin(), text.end());
  const auto size = static_cast<int32_t>(text.size());
  const std::string prefix = ::testing::TempDir() + "/same";
  Write("same.bin", TokenBytes(narrow));
  Write("same.idx", IndexBytes(FieldsOf(8, 2, {10, 0, 7, size - 17})));
  const auto expected = TokenSource::Open(Write("same.txt", text), 5, 2);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const std::string& data : {"u16:" + Write("same.u16", TokenBytes(narrow)),
                                  "u32:" + Write("same.u32", TokenBytes(wide)),
                                  "megatron:" + prefix, prefix + ".bin", prefix + ".idx"}) {
    const auto source = TokenSource::Open(data, 5, 2);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(source->count(), expected->count());
    EXPECT_EQ(source->hash(), expected->hash()) << data;
    EXPECT_EQ(source->origin(), data);
    for (int64_t step = 0; step < 9; ++step) {
      EXPECT_EQ(LoadedBy(*source, step, 0, 10), LoadedBy(*expected, step, 0, 10)) << data;
    }
  }
}

TEST(TokenSourceTest, HashesTellDataApart) {
  const auto hash = [](const std::string& text) {
    return TokenSource::Make(text, "", 2, 1)->hash();
  };
  EXPECT_EQ(hash("abcdef"), hash("abcdef"));
  EXPECT_NE(hash("abcdef"), hash("abcdeg"));
  EXPECT_NE(hash("abcdef"), hash("bacdef"));
  EXPECT_NE(hash("abcdef"), hash("abcdefa"));
}

TEST(TokenSourceTest, BytesNeedTwoHundredAndFiftySixRows) {
  const auto source = TokenSource::Make("abcd", "notes.txt", 3, 1);
  EXPECT_TRUE(source->CheckVocabulary(256).ok());
  EXPECT_TRUE(source->CheckVocabulary(0).ok());
  ExpectError(source->CheckVocabulary(255), {"notes.txt", "255", "vocab=256"});
}

TEST(TokenSourceTest, TokensOutsideTheVocabularyAreNamed) {
  const std::string data = "u16:" + Write("wide", TokenBytes<uint16_t>({7, 300, 9, 300, 2, 0}));
  const auto source = TokenSource::Open(data, 2, 1);
  ASSERT_TRUE(source.ok());
  EXPECT_TRUE(source->CheckVocabulary(301).ok());
  EXPECT_TRUE(source->CheckVocabulary(0).ok());
  const std::vector<std::string> parts = {data, "token 300", "position 1", "vocabulary of 300",
                                          "vocab=301"};
  ExpectError(source->CheckVocabulary(300), parts);
  Ids ids(2), targets(2);
  EXPECT_TRUE(source->Load(0, 0, 301, ids, targets).ok());
  ExpectError(source->Load(0, 0, 300, ids, targets), parts);
  ExpectError(source->Load(1, 0, 300, ids, targets), {"token 300", "position 3"});
}

TEST(TokenSourceTest, WhatNoTokenIsIsRefusedAtOpening) {
  // 2^31 does not fit the int32 of ids.
  ExpectError(
      TokenSource::Open("u32:" + Write("huge", TokenBytes<uint32_t>({1, 1u << 31})), 1, 1).status(),
      {"token 2147483648", "position 1"});
  Write("signed.bin", TokenBytes<int64_t>({1, 2, -3}));
  Write("signed.idx", IndexBytes(FieldsOf(5, 8, {3})));
  ExpectError(TokenSource::Open("megatron:" + ::testing::TempDir() + "/signed", 1, 1).status(),
              {"token -3", "position 2"});
}

// 2^25 tokens of 2 bytes, all 0 but few, none of them on the disk. Of so many, opening looks at
// 256 blocks of 16,384 that begin every (2^25 - 2^14) / 255 = 131,521 tokens.
class LargeFileTest : public ::testing::Test {
 protected:
  static constexpr int64_t kCount = int64_t{1} << 25;
  StatusOr<TokenSource> Open(int64_t position) {
    const std::string path = Write("large", "");
    EXPECT_EQ(truncate(path.c_str(), kCount * 2), 0);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(position * 2);
    file << TokenBytes<uint16_t>({300});
    file.close();
    return TokenSource::Open("u16:" + path, 1000, 1);
  }
};

TEST_F(LargeFileTest, TokensThatOpeningDidNotSeeAreFoundWhenLoaded) {
  const auto source = Open(20000);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE(source->CheckVocabulary(256).ok());
  EXPECT_EQ(source->count(), (kCount - 1) / 1000);
  Ids ids(1000), targets(1000);
  EXPECT_TRUE(source->Load(18, 0, 256, ids, targets).ok());
  // The last target of sequence 19, the first token of sequence 20.
  ExpectError(source->Load(19, 0, 256, ids, targets), {"token 300", "position 20000"});
  ExpectError(source->Load(20, 0, 256, ids, targets), {"token 300", "position 20000"});
}

TEST_F(LargeFileTest, OpeningSeesTheEndsAndTheBlocksBetween) {
  const std::string unseen = Open(20000)->hash();
  EXPECT_EQ(Open(131520)->hash(), unseen);
  for (const int64_t position : {int64_t{0}, int64_t{131521}, kCount - 1}) {
    const auto source = Open(position);
    ExpectError(source->CheckVocabulary(256), {"token 300", std::to_string(position)});
    EXPECT_NE(source->hash(), unseen) << position;
  }
}

TEST_F(LargeFileTest, CutOffWhileItIsRead) {
  const auto source = Open(0);
  ASSERT_EQ(truncate((::testing::TempDir() + "/large").c_str(), 5000), 0);
  Ids ids(1000), targets(1000);
  EXPECT_TRUE(source->Load(1, 0, 0, ids, targets).ok());
  ExpectError(source->Load(2, 0, 0, ids, targets), {"large", "cut off"});
}

}  // namespace
}  // namespace tideline

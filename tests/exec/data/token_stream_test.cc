#include "exec/data/token_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>

#include "tests/exec/data/dataset_files.h"

namespace tideline {
namespace {

using Tokens = std::vector<int64_t>;

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

Tokens All(const TokenStream& stream) {
  Tokens tokens(static_cast<size_t>(stream.count()));
  EXPECT_TRUE(stream.Read(0, tokens).ok());
  return tokens;
}

TEST(TokenStreamTest, NumbersAreLittleEndian) {
  const auto decode = [](TokenType type, std::string text) {
    const int64_t count = static_cast<int64_t>(text.size()) / BytesOf(type);
    return All(TokenStream(ByteFile::FromMemory(std::move(text), "x"), type, {{0, 0}}, count));
  };
  const std::string text = "\x01\xff\xff\xff\xff\xff\xff\xff";
  EXPECT_EQ(decode(TokenType::kUint8, text), (Tokens{1, 255, 255, 255, 255, 255, 255, 255}));
  EXPECT_EQ(decode(TokenType::kInt8, text), (Tokens{1, -1, -1, -1, -1, -1, -1, -1}));
  // 0xff01 is 65281, or 65281 - 65536.
  EXPECT_EQ(decode(TokenType::kUint16, text), (Tokens{65281, 65535, 65535, 65535}));
  EXPECT_EQ(decode(TokenType::kInt16, text), (Tokens{-255, -1, -1, -1}));
  // 0xffffff01 is 2^32 - 255.
  EXPECT_EQ(decode(TokenType::kUint32, text), (Tokens{4294967041, 4294967295}));
  EXPECT_EQ(decode(TokenType::kInt32, text), (Tokens{-255, -1}));
  EXPECT_EQ(decode(TokenType::kInt64, text), (Tokens{-255}));
}

// Tokens 0 1 2 | 3 4 | 5 at bytes 4.., 0.. and 12.. of "defgabcxxxxxh" say a b c d e h.
TEST(TokenStreamTest, RunsAreReadAsOneStream) {
  const TokenStream stream(ByteFile::FromMemory("defgabcxxxxxh", "runs"), TokenType::kUint8,
                           {{0, 4}, {3, 0}, {5, 12}}, 6);
  const Tokens all = {'a', 'b', 'c', 'd', 'e', 'h'};
  for (size_t first = 0; first <= 6; ++first) {
    for (size_t end = first; end <= 6; ++end) {
      Tokens part(end - first);
      ASSERT_TRUE(stream.Read(static_cast<int64_t>(first), part).ok());
      EXPECT_EQ(part, Tokens(all.begin() + first, all.begin() + end)) << first << " " << end;
    }
  }
}

TEST(TokenStreamTest, OpensRawFiles) {
  const std::string path = Write("raw", TokenBytes<uint16_t>({0, 50256, 65535, 258}));
  auto stream = TokenStream::Open({DataFormat::kUint16, path});
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ(All(*stream), (Tokens{0, 50256, 65535, 258}));
  // 0 + 50256 * 65536 and 65535 + 258 * 65536.
  stream = TokenStream::Open({DataFormat::kUint32, path});
  EXPECT_EQ(All(*stream), (Tokens{3293577216, 16973823}));
  stream = TokenStream::Open({DataFormat::kBytes, path});
  EXPECT_EQ(stream->count(), 8);
  EXPECT_EQ(TokenStream::Open({DataFormat::kUint16, Write("none", "")})->count(), 0);
}

TEST(TokenStreamTest, SizesThatAreNoWholeNumberOfTokens) {
  for (const size_t size : {1, 3, 7, 9}) {
    const std::string path = Write("odd", std::string(size, 'x'));
    for (const DataFormat format : {DataFormat::kUint16, DataFormat::kUint32}) {
      const Status status = TokenStream::Open({format, path}).status();
      EXPECT_EQ(ExitCode(status), 5);
      EXPECT_NE(status.message().find(path), std::string::npos) << status;
      EXPECT_NE(status.message().find(std::to_string(size)), std::string::npos) << status;
    }
  }
  EXPECT_FALSE(TokenStream::Open({DataFormat::kUint32, Write("two", "xx")}).ok());
}

TEST(TokenStreamTest, OpensMegatronDatasets) {
  Write("set.bin", TokenBytes<int32_t>({5, 6, 7, 8, 9}));
  Write("set.idx", IndexBytes(FieldsOf(4, 4, {2, 0, 3})));
  const auto stream = TokenStream::Open({DataFormat::kMegatron, ::testing::TempDir() + "/set"});
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ(All(*stream), (Tokens{5, 6, 7, 8, 9}));
  for (const char* missing : {"/set.bin", "/set.idx"}) {
    const std::string path = ::testing::TempDir() + missing;
    const std::string kept = path + ".kept";
    ASSERT_EQ(rename(path.c_str(), kept.c_str()), 0);
    const Status status =
        TokenStream::Open({DataFormat::kMegatron, ::testing::TempDir() + "/set"}).status();
    EXPECT_EQ(ExitCode(status), 5);
    EXPECT_NE(status.message().find(path), std::string::npos) << status;
    ASSERT_EQ(rename(kept.c_str(), path.c_str()), 0);
  }
}

// Sequences in any order in the .bin: the stream is what reading them one by one gives.
TEST(TokenStreamTest, ShuffledDatasetsReadInTheOrderOfTheirIndex) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<int32_t> lengths(1 + random() % 40);
    for (int32_t& length : lengths) length = static_cast<int32_t>(random() % 4);
    IndexFields fields = FieldsOf(8, 2, lengths);
    std::vector<size_t> order(lengths.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<uint16_t> data;
    for (const size_t sequence : order) {
      fields.pointers[sequence] = static_cast<int64_t>(data.size()) * 2;
      for (int32_t i = 0; i < lengths[sequence]; ++i) {
        data.push_back(static_cast<uint16_t>(sequence * 100 + static_cast<size_t>(i)));
      }
    }
    Tokens expected;
    for (size_t sequence = 0; sequence < lengths.size(); ++sequence) {
      for (int32_t i = 0; i < lengths[sequence]; ++i) {
        expected.push_back(static_cast<int64_t>(sequence * 100) + i);
      }
    }
    Write("shuffled.bin", TokenBytes(data));
    Write("shuffled.idx", IndexBytes(fields));
    const auto stream =
        TokenStream::Open({DataFormat::kMegatron, ::testing::TempDir() + "/shuffled"});
    ASSERT_TRUE(stream.ok()) << stream.status();
    EXPECT_EQ(All(*stream), expected);
  }
}

}  // namespace
}  // namespace tideline

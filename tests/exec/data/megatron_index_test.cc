#include "exec/data/megatron_index.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/exec/data/dataset_files.h"

namespace tideline {
namespace {

StatusOr<MegatronIndex> Parse(const std::string& bytes, int64_t data_bytes) {
  return ReadMegatronIndex(ByteFile::FromMemory(bytes, "set.idx"), "set.bin", data_bytes);
}

// Two sequences of 3 and 2 tokens of uint16, a document each, byte by byte.
TEST(MegatronIndexTest, TheBytesOfTheFormat) {
  const unsigned char bytes[] = {
      'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0,                       // magic
      1,   0,   0,   0,   0,   0,   0,   0,                          // version
      8,                                                             // uint16
      2,   0,   0,   0,   0,   0,   0,   0,                          // sequences
      3,   0,   0,   0,   0,   0,   0,   0,                          // document indices
      3,   0,   0,   0,   2,   0,   0,   0,                          // lengths
      0,   0,   0,   0,   0,   0,   0,   0, 6, 0, 0, 0, 0, 0, 0, 0,  // pointers
      0,   0,   0,   0,   0,   0,   0,   0, 1, 0, 0, 0, 0, 0, 0, 0,  // documents
      2,   0,   0,   0,   0,   0,   0,   0,
  };
  const std::string text(reinterpret_cast<const char*>(bytes), sizeof bytes);
  EXPECT_EQ(IndexBytes(FieldsOf(8, 2, {3, 2})), text);
  const auto index = Parse(text, 10);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->type, TokenType::kUint16);
  EXPECT_EQ(index->sequences, 2);
  EXPECT_EQ(index->tokens, 5);
  EXPECT_EQ(index->runs, (std::vector<TokenRun>{{0, 0}}));
}

TEST(MegatronIndexTest, EveryTypeOfToken) {
  const std::vector<std::pair<uint8_t, TokenType>> types = {
      {1, TokenType::kUint8}, {2, TokenType::kInt8},  {3, TokenType::kInt16},
      {4, TokenType::kInt32}, {5, TokenType::kInt64}, {8, TokenType::kUint16}};
  for (const auto& [code, type] : types) {
    const auto index = Parse(IndexBytes(FieldsOf(code, BytesOf(type), {7})), 7 * BytesOf(type));
    ASSERT_TRUE(index.ok()) << index.status();
    EXPECT_EQ(index->type, type);
  }
}

// Sequence 1 lies before sequence 0, sequence 2 follows 1 in the file only by its place:
// bytes 0..4 are sequence 1, 4..10 sequence 0, 10..12 sequence 2.
TEST(MegatronIndexTest, OneRunForEachJump) {
  IndexFields fields = FieldsOf(8, 2, {3, 2, 1});
  fields.pointers = {4, 0, 10};
  const auto index = Parse(IndexBytes(fields), 12);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->tokens, 6);
  EXPECT_EQ(index->runs, (std::vector<TokenRun>{{0, 4}, {3, 0}, {5, 10}}));
}

// More entries than are read at once (16,384), and empty sequences anywhere.
TEST(MegatronIndexTest, ManySequencesAreOneRun) {
  std::vector<int32_t> lengths(40001, 1);
  lengths.front() = lengths[20000] = lengths.back() = 0;
  const auto index = Parse(IndexBytes(FieldsOf(4, 4, lengths)), 39998 * 4);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->sequences, 40001);
  EXPECT_EQ(index->tokens, 39998);
  EXPECT_EQ(index->runs, (std::vector<TokenRun>{{0, 0}}));
}

TEST(MegatronIndexTest, NoSequencesAndNoDocuments) {
  const auto none = Parse(IndexBytes({}), 0);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->tokens, 0);
  EXPECT_TRUE(none->runs.empty());
}

TEST(MegatronIndexTest, WrongFieldsAreNamed) {
  struct Case {
    const char* field;
    std::function<void(IndexFields&)> change;
    int64_t data_bytes = 10;
  };
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  const std::vector<Case> cases = {
      {"magic", [](IndexFields& f) { f.magic[0] = 'N'; }},
      {"magic", [](IndexFields& f) { f.magic[8] = 1; }},
      {"version", [](IndexFields& f) { f.version = 2; }},
      {"version", [](IndexFields& f) { f.version = uint64_t{1} << 63; }},
      {"dtype", [](IndexFields& f) { f.type = 0; }},
      {"dtype", [](IndexFields& f) { f.type = 6; }},
      {"dtype", [](IndexFields& f) { f.type = 7; }},
      {"dtype", [](IndexFields& f) { f.type = 9; }},
      {"sequence_count", [](IndexFields& f) { f.sequence_count = uint64_t{1} << 63; }},
      {"sequence_count", [](IndexFields& f) { f.sequence_count = ~uint64_t{0}; }},
      {"document_count", [](IndexFields& f) { f.sequence_count = 1; }},
      {"document_count", [](IndexFields& f) { f.document_count = 2; }},
      {"document_count", [](IndexFields& f) { f.document_count = uint64_t{1} << 61; }},
      {"document_count", [](IndexFields& f) { f.document_count = (uint64_t{1} << 61) + 3; }},
      {"sequence_lengths", [](IndexFields& f) { f.lengths[1] = -1; }},
      {"sequence_pointers", [](IndexFields& f) { f.lengths[1] = INT32_MAX; }},
      {"sequence_pointers", [](IndexFields& f) { f.pointers[1] = -2; }},
      {"sequence_pointers", [](IndexFields& f) { f.pointers[1] = 5; }},
      {"sequence_pointers", [](IndexFields& f) { f.pointers[1] = 8; }},
      {"sequence_pointers", [](IndexFields& f) { f.pointers[1] = kLargest; }},
      {"sequence_pointers", [](IndexFields&) {}, 8},
      {"sequence_pointers", [](IndexFields&) {}, 12},
      {"sequence_pointers", [](IndexFields&) {}, 0},
      {"document_indices", [](IndexFields& f) { f.documents[0] = -1; }},
      {"document_indices", [](IndexFields& f) { f.documents[1] = 3; }},
      {"document_indices", [](IndexFields& f) { f.documents[2] = 0; }},
  };
  for (const Case& wrong : cases) {
    IndexFields fields = FieldsOf(8, 2, {3, 2});
    wrong.change(fields);
    const Status status = Parse(IndexBytes(fields), wrong.data_bytes).status();
    EXPECT_EQ(ExitCode(status), 5) << wrong.field;
    EXPECT_EQ(status.message().find(std::string("set.idx: ") + wrong.field), 0u)
        << wrong.field << ": " << status;
  }
}

TEST(MegatronIndexTest, AnyOtherLengthOfTheFileIsRefused) {
  const std::string whole = IndexBytes(FieldsOf(8, 2, {3, 2}));
  ASSERT_TRUE(Parse(whole, 10).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(ExitCode(Parse(whole.substr(0, size), 10).status()), 5) << size;
  }
  for (const size_t more : {1, 2, 8, 12}) {
    EXPECT_FALSE(Parse(whole + std::string(more, '\0'), 10).ok()) << more;
  }
}

}  // namespace
}  // namespace tideline

// Mutated Megatron indices: whatever is accepted must let every token be read, from inside the
// .bin; three seconds.
#include <gtest/gtest.h>

#include <string>

#include "exec/data/megatron_index.h"
#include "exec/data/token_stream.h"
#include "tests/exec/data/dataset_files.h"
#include "tests/fuzz/mutate.h"

namespace tideline {
namespace {

constexpr int64_t kDataBytes = 64;

Status ReadEverything(std::string_view bytes) {
  const ByteFile file = ByteFile::FromMemory(std::string(bytes), "fuzz.idx");
  TL_ASSIGN_OR_RETURN(MegatronIndex index, ReadMegatronIndex(file, "fuzz.bin", kDataBytes));
  if (index.tokens < 0 || static_cast<int64_t>(index.runs.size()) > index.sequences) {
    return InternalError("more runs than sequences");
  }
  for (size_t i = 0; i < index.runs.size(); ++i) {
    const int64_t least = i == 0 ? 0 : index.runs[i - 1].first + 1;
    if (index.runs[i].first < least || index.runs[i].first >= index.tokens) {
      return InternalError("runs do not ascend");
    }
  }
  const TokenStream stream(ByteFile::FromMemory(std::string(kDataBytes, 'x'), "fuzz.bin"),
                           index.type, std::move(index.runs), index.tokens);
  std::vector<int64_t> tokens(static_cast<size_t>(index.tokens));
  const Status read = stream.Read(0, tokens);
  return read.ok() ? read : InternalError(std::string(read.message()));
}

TEST(DataFuzzTest, MegatronIndex) {
  IndexFields shuffled = FieldsOf(8, 2, {16, 8, 8});
  shuffled.pointers = {32, 0, 16};
  const FuzzResult result = FuzzParser(
      {IndexBytes(FieldsOf(8, 2, {20, 0, 12})), IndexBytes(FieldsOf(4, 4, {16})),
       IndexBytes(FieldsOf(1, 1, std::vector<int32_t>(32, 2))), IndexBytes(shuffled)},
      ReadEverything,
      {.budget_s = 3,
       .tokens = {std::string("MMIDIDX\0\0", 9), std::string(8, '\xff'), std::string(8, '\0'),
                  std::string(7, '\0') + "\x80", std::string("\xff\xff\xff\x7f", 4)},
       .exit_codes = {5}});
  EXPECT_GT(result.accepted, 100);
  EXPECT_GT(result.rejected, 1000);
}

}  // namespace
}  // namespace tideline

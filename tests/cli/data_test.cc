// `execute --data` in every format: the same tokens train to the same losses, bit for bit, and what
// is wrong with a file is said before a step is run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/file.h"
#include "tests/cli/run_program.h"
#include "tests/exec/data/dataset_files.h"

namespace tideline {
namespace {

std::string Temporary(const std::string& name) {
  return std::string(std::getenv("TEST_TMPDIR")) + "/" + name;
}

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = Temporary(name);
  EXPECT_TRUE(WriteFileAtomically(path, bytes).ok());
  return path;
}

class DataTest : public ::testing::Test {
 protected:
  // A plan of two ranks that share no sample, 4 samples of 16 tokens a step.
  static void SetUpTestSuite() {
    const ProgramResult planned =
        RunProgram({"cli/tideline", "plan", "gpt:layers=1,hidden=16,heads=2,vocab=256", "--seq",
                    "16", "--cluster", "emulated:2x64MiB", "--global-batch", "4", "--pin", "dp=2",
                    "-o", Temporary("plan.json")});
    ASSERT_EQ(planned.exit_code, 0) << planned.err;
  }
  static ProgramResult Execute(const std::string& data, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"cli/tideline", "execute", Temporary("plan.json"),
                                      "--json",       "--data",  data};
    words.insert(words.end(), more.begin(), more.end());
    return RunProgram(words);
  }
  // As the text of the JSON, which gives back every bit of a number.
  static std::string LossesOf(const ProgramResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const size_t begin = result.out.find("\"losses\"");
    EXPECT_NE(begin, std::string::npos);
    if (begin == std::string::npos) return "";
    return result.out.substr(begin, result.out.find(']', begin) - begin);
  }
  static void ExpectError(const ProgramResult& result, int exit_code,
                          const std::vector<std::string>& parts) {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    for (const std::string& part : parts) {
      EXPECT_NE(result.err.find(part), std::string::npos) << part << " not in: " << result.err;
    }
  }
};

// 331 bytes: 20 sequences, so that 6 steps of 4 wrap around; all values of a byte.
std::string Text() {
  std::string text;
  for (int i = 0; i < 331; ++i) text.push_back(static_cast<char>(i * 37 + i / 7));
  return text;
}

std::vector<uint16_t> Tokens() {
  std::vector<uint16_t> tokens;
  for (const char byte : Text()) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

TEST_F(DataTest, EveryFormatTrainsToTheSameLosses) {
  Write("set.bin", TokenBytes(Tokens()));
  Write("set.idx", IndexBytes(FieldsOf(8, 2, {100, 1, 0, 230})));
  const std::string folder = Temporary("checkpoints");
  const std::string expected = LossesOf(Execute(Write("text", Text()), {"--steps", "6"}));
  EXPECT_NE(expected.find(','), std::string::npos);
  const std::string narrow = "u16:" + Write("narrow", TokenBytes(Tokens()));
  EXPECT_EQ(LossesOf(Execute(narrow, {"--steps", "6"})), expected);
  EXPECT_EQ(LossesOf(Execute("megatron:" + Temporary("set"), {"--steps", "6"})), expected);
  const ProgramResult begun = Execute(narrow, {"--steps", "4", "--checkpoint", folder});
  EXPECT_EQ(begun.exit_code, 0) << begun.err;
  // Data in another format is the same data, so the run goes on.
  EXPECT_EQ(
      LossesOf(Execute(Temporary("set.bin"), {"--steps", "6", "--checkpoint", folder, "--resume"})),
      expected);
  // Other tokens are other data.
  std::vector<uint16_t> other = Tokens();
  other[200] ^= 1;
  const std::string changed = "u16:" + Write("changed", TokenBytes(other));
  ExpectError(Execute(changed, {"--steps", "7", "--checkpoint", folder, "--resume"}), 5,
              {"--data", changed, "set.bin"});
  EXPECT_NE(LossesOf(Execute(changed, {"--steps", "6"})), expected);
}

TEST_F(DataTest, WhatIsWrongIsNamed) {
  std::vector<uint16_t> tokens = Tokens();
  tokens[123] = 256;
  const std::string wide = "u16:" + Write("wide", TokenBytes(tokens));
  ExpectError(Execute(wide), 5, {wide, "token 256", "position 123", "vocabulary of 256"});
  const std::string odd = Write("odd", std::string(101, 'x'));
  ExpectError(Execute("u16:" + odd), 5, {odd, "101", "2-byte"});
  ExpectError(Execute("u32:" + odd), 5, {odd, "101", "4-byte"});
  ExpectError(Execute("u16:" + Write("none", "")), 5, {"none", "0 tokens", "17"});
  ExpectError(Execute("u16:" + Temporary("absent")), 5, {"absent", "No such file"});
  ExpectError(Execute("u16:/dev/zero"), 5, {"/dev/zero"});
  ExpectError(Execute("bytes:/dev/stdin"), 2, {"--data", "/dev/stdin"});
  ExpectError(Execute("u16:"), 2, {"u16:PATH"});
  ExpectError(Execute("u15:" + odd), 5, {"u15", "u16", "megatron"});
  const std::string alone = Write("alone.bin", TokenBytes(Tokens()));
  ExpectError(Execute(alone), 5, {alone, "alone.idx", "u16:" + alone});
  Write("alone.idx", IndexBytes(FieldsOf(8, 2, {100})));
  ExpectError(Execute(alone), 5, {"alone.idx", "sequence_pointers", "200", "662"});
  ExpectError(Execute("u16:" + alone, {"-o", alone}), 2, {"-o", "--data"});
}

}  // namespace
}  // namespace tideline

#include "exec/data/data_name.h"

#include <gtest/gtest.h>

#include <fstream>

namespace tideline {
namespace {

using Files = std::vector<std::string>;

std::string Make(const std::string& name) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << "x";
  return path;
}

TEST(DataNameTest, FormatsAreSaidBeforeTheColon) {
  EXPECT_EQ(ParseDataName("book.txt")->format, DataFormat::kBytes);
  EXPECT_EQ(ParseDataName("u16:a:b")->format, DataFormat::kUint16);
  EXPECT_EQ(ParseDataName("u16:a:b")->path, "a:b");
  EXPECT_EQ(ParseDataName("u32:/x.bin")->format, DataFormat::kUint32);
  EXPECT_EQ(ParseDataName("u32:/x.bin")->path, "/x.bin");
  EXPECT_EQ(ParseDataName("bytes:u16:a")->format, DataFormat::kBytes);
  EXPECT_EQ(ParseDataName("bytes:u16:a")->path, "u16:a");
  EXPECT_EQ(ParseDataName("Book: one.txt")->path, "Book: one.txt");
  EXPECT_EQ(ParseDataName("./dir:x/u16:y")->format, DataFormat::kBytes);
  EXPECT_EQ(ParseDataName("")->path, "");
}

TEST(DataNameTest, MegatronIsNamedByPrefixOrByEitherFile) {
  for (const char* text : {"megatron:set", "megatron:set.bin", "megatron:set.idx"}) {
    const auto name = ParseDataName(text);
    ASSERT_TRUE(name.ok()) << name.status();
    EXPECT_EQ(name->format, DataFormat::kMegatron);
    EXPECT_EQ(FilesOf(*name), (Files{"set.bin", "set.idx"}));
  }
  const std::string data = Make("both.bin");
  const std::string index = Make("both.idx");
  for (const std::string& text : {data, index}) {
    EXPECT_EQ(ParseDataName(text)->format, DataFormat::kMegatron);
    EXPECT_EQ(FilesOf(*ParseDataName(text)), (Files{data, index}));
  }
  EXPECT_EQ(FilesOf(*ParseDataName("u16:x")), Files{"x"});
}

// Alone, a .bin may hold anything.
TEST(DataNameTest, HalfADatasetIsRefused) {
  const std::string data = Make("half.bin");
  const Status alone = ParseDataName(data).status();
  EXPECT_EQ(ExitCode(alone), 5);
  for (const std::string& part :
       {data, ::testing::TempDir() + "/half.idx", "u16:" + data, "u32:" + data, "bytes:" + data}) {
    EXPECT_NE(alone.message().find(part), std::string::npos) << alone;
  }
  EXPECT_TRUE(ParseDataName("bytes:" + data).ok());
  EXPECT_EQ(ExitCode(ParseDataName(Make("other.idx")).status()), 5);
  const Status absent = ParseDataName("/nowhere/set.bin").status();
  EXPECT_EQ(ExitCode(absent), 5);
  EXPECT_NE(absent.message().find("no such file"), std::string::npos) << absent;
}

TEST(DataNameTest, UnknownFormatsListTheValidOnes) {
  const Status status = ParseDataName("u15:tokens").status();
  EXPECT_EQ(ExitCode(status), 5);
  for (const char* part : {"u15", "did you mean", "bytes", "u16", "u32", "megatron"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status;
  }
  // A file that is called so is data like any other.
  const std::string path = ::testing::TempDir() + "/u15:tokens";
  EXPECT_TRUE(ParseDataName(path).ok());
  for (const char* text : {"u16:", "u32:", "bytes:", "megatron:"}) {
    EXPECT_EQ(ExitCode(ParseDataName(text).status()), 2) << text;
  }
}

}  // namespace
}  // namespace tideline

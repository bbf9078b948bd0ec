#include "base/byte_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

namespace tideline {
namespace {

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string Part(const ByteFile& file, int64_t offset, size_t size) {
  std::string bytes(size, '?');
  const Status status = file.Read(offset, bytes);
  return status.ok() ? bytes : std::string(status.message());
}

TEST(ByteFileTest, FileAndMemoryReadAlike) {
  const std::string path = Write("ten", "0123456789");
  auto opened = ByteFile::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const ByteFile memory = ByteFile::FromMemory("0123456789", "ten");
  const ByteFile file = *std::move(opened);
  for (const ByteFile* bytes : {&file, &memory}) {
    EXPECT_EQ(bytes->size(), 10);
    EXPECT_EQ(Part(*bytes, 0, 10), "0123456789");
    EXPECT_EQ(Part(*bytes, 7, 3), "789");
    EXPECT_EQ(Part(*bytes, 3, 1), "3");
    EXPECT_EQ(Part(*bytes, 10, 0), "");
    for (const auto& [offset, size] :
         std::vector<std::pair<int64_t, size_t>>{{10, 1}, {8, 3}, {11, 0}, {INT64_MAX, 1}}) {
      std::string part(size, '?');
      const Status status = bytes->Read(offset, part);
      EXPECT_EQ(ExitCode(status), 5) << offset << " " << size;
      EXPECT_NE(status.message().find("ten"), std::string::npos) << status;
    }
  }
}

// Read by mapping, the page behind the new end would be a SIGBUS.
TEST(ByteFileTest, AFileThatIsCutOffMeanwhileIsAnError) {
  const std::string path = Write("cut", std::string(20000, 'x'));
  const auto file = ByteFile::Open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(Part(*file, 19990, 10), std::string(10, 'x'));
  ASSERT_EQ(truncate(path.c_str(), 100), 0);
  EXPECT_EQ(Part(*file, 90, 10), std::string(10, 'x'));
  std::string part(11, '?');
  const Status status = file->Read(90, part);
  EXPECT_EQ(ExitCode(status), 5);
  for (const char* word : {"cut off", "20000", "101"}) {
    EXPECT_NE(status.message().find(word), std::string::npos) << status;
  }
}

TEST(ByteFileTest, WhatIsNoFileIsRefused) {
  const std::string pipe = ::testing::TempDir() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);  // nobody writes to it
  for (const std::string& path :
       {::testing::TempDir(), std::string("/nowhere/x"), std::string("/dev/zero"), pipe}) {
    const auto file = ByteFile::Open(path);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(ExitCode(file.status()), 5);
    EXPECT_NE(file.status().message().find(path), std::string::npos) << file.status();
  }
}

// 2^40 bytes, of which none is on the disk.
TEST(ByteFileTest, SizesPassFourGibibytes) {
  const std::string path = Write("sparse", "");
  constexpr int64_t kSize = int64_t{1} << 40;
  if (truncate(path.c_str(), kSize) != 0) GTEST_SKIP() << "no sparse files of this size here";
  const auto file = ByteFile::Open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->size(), kSize);
  EXPECT_EQ(Part(*file, kSize - 2, 2), std::string(2, '\0'));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tideline

#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace tideline {
namespace {

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  int FilesInFolder() const {
    int count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++count;
    return count;
  }
  std::string folder_;
};

TEST_F(FileTest, WrittenBytesAreRead) {
  const std::string path = folder_ + "/a";
  const std::string bytes("x\0y\n", 4);
  ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  EXPECT_EQ(*ReadFile(path), bytes);
  ASSERT_TRUE(WriteFileAtomically(path, "").ok());
  EXPECT_EQ(*ReadFile(path), "");
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(FileTest, TheLimitIsExact) {
  const std::string path = folder_ + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, std::string(100000, 'x')).ok());
  EXPECT_TRUE(ReadFile(path, 100000).ok());
  const auto too_large = ReadFile(path, 99999);
  EXPECT_EQ(ExitCode(too_large.status()), 5);
}

TEST_F(FileTest, UnreadablePathsAreInputErrors) {
  EXPECT_EQ(ExitCode(ReadFile(folder_ + "/none").status()), 5);
  EXPECT_EQ(ExitCode(ReadFile(folder_).status()), 5);
}

TEST_F(FileTest, DevicesAreNotRead) {
  for (const char* path : {"/dev/zero", "/dev/null", "/dev/random"}) {
    EXPECT_EQ(ExitCode(ReadFile(path, 10).status()), 5) << path;
  }
}

TEST_F(FileTest, AskingWhetherItIsWritableChangesNothing) {
  const std::string path = folder_ + "/a";
  EXPECT_TRUE(CheckWritable(path).ok());
  EXPECT_EQ(FilesInFolder(), 0);
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  EXPECT_TRUE(CheckWritable(path).ok());
  EXPECT_EQ(*ReadFile(path), "old");
  for (const std::string& bad : {folder_, path + "/b", folder_ + "/none/b", folder_ + "/"}) {
    EXPECT_EQ(ExitCode(CheckWritable(bad)), 1) << bad;
  }
  std::filesystem::create_symlink(folder_ + "/none", folder_ + "/dangling");
  EXPECT_EQ(ExitCode(CheckWritable(folder_ + "/dangling")), 1);
  EXPECT_TRUE(CheckFolderWritable(folder_).ok());
  EXPECT_TRUE(CheckFolderWritable(folder_ + "/b/c").ok());
  EXPECT_EQ(ExitCode(CheckFolderWritable(path)), 1);
  EXPECT_EQ(ExitCode(CheckFolderWritable(path + "/b")), 1);
  EXPECT_EQ(FilesInFolder(), 2);
}

TEST_F(FileTest, WithoutCommitTheOldContentStays) {
  const std::string path = folder_ + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  {
    auto file = AtomicFile::Create(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Append("new and never committed").ok());
    EXPECT_EQ(*ReadFile(path), "old");
    AtomicFile moved = *std::move(file);
    EXPECT_EQ(FilesInFolder(), 2);
  }
  EXPECT_EQ(*ReadFile(path), "old");
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(FileTest, AppendedPiecesAddUp) {
  const std::string path = folder_ + "/a";
  auto file = AtomicFile::Create(path);
  ASSERT_TRUE(file->Append("one ").ok());
  ASSERT_TRUE(file->Append("two").ok());
  EXPECT_EQ(file->size(), 7);
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(*ReadFile(path), "one two");
}

TEST_F(FileTest, PermissionsAndLinksOfTheOldFileStay) {
  const std::string path = folder_ + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  const std::string link = folder_ + "/link";
  ASSERT_EQ(symlink(path.c_str(), link.c_str()), 0);
  ASSERT_TRUE(WriteFileAtomically(link, "new").ok());
  EXPECT_EQ(*ReadFile(path), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  struct stat information {};
  ASSERT_EQ(stat(path.c_str(), &information), 0);
  EXPECT_EQ(information.st_mode & 0777, 0600u);
}

TEST_F(FileTest, UnwritablePathsAreRunErrors) {
  EXPECT_EQ(ExitCode(WriteFileAtomically(folder_ + "/none/a", "x")), 1);
  EXPECT_EQ(ExitCode(WriteFileAtomically(folder_, "x")), 1);
  EXPECT_EQ(ExitCode(WriteFileAtomically("/dev/null", "x")), 1);
}

TEST(FolderOfTest, Splits) {
  EXPECT_EQ(FolderOf("/a/b.json"), "/a");
  EXPECT_EQ(FolderOf("b.json"), ".");
  EXPECT_EQ(FolderOf("/b"), "/");
}

}  // namespace
}  // namespace tideline

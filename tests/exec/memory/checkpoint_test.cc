#include "exec/memory/checkpoint.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "gtest/gtest.h"

namespace tideline {
namespace {

namespace fs = std::filesystem;

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest()
      : path_(::testing::TempDir() + "/checkpoint-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(path_);
  }

  static CheckpointHeader Header(int64_t step) {
    CheckpointHeader header;
    header.step = step;
    header.graph_hash = "graph";
    header.plan_hash = "plan";
    header.seed = 3;
    header.data_origin = "text";
    header.data_hash = "0123456789abcdef";
    for (int64_t i = 0; i < step; ++i) header.losses.push_back(1.0 / static_cast<double>(i + 1));
    header.ranks = {{{"w", 3000000}, {"empty", 0}}, {{"w", 5}}};
    return header;
  }
  static char ByteAt(int64_t step, int rank, int buffer, int64_t offset) {
    return static_cast<char>(step * 31 + rank * 7 + buffer * 3 + offset % 251);
  }
  static Status Save(const CheckpointFolder& folder, int64_t step) {
    return folder.Save(Header(step),
                       [step](int rank, int buffer, int64_t offset, std::span<char> bytes) {
                         for (size_t i = 0; i < bytes.size(); ++i) {
                           bytes[i] = ByteAt(step, rank, buffer, offset + static_cast<int64_t>(i));
                         }
                         return absl::OkStatus();
                       });
  }
  // Whether the payload is that of `step`, complete and in order.
  static void ExpectPayload(const CheckpointFolder& folder, const CheckpointFolder::Found& found,
                            int64_t step) {
    int64_t seen = 0;
    ASSERT_TRUE(folder
                    .Load(found,
                          [&](int rank, int buffer, int64_t offset, std::string_view bytes) {
                            for (size_t i = 0; i < bytes.size(); ++i) {
                              EXPECT_EQ(bytes[i], ByteAt(step, rank, buffer,
                                                         offset + static_cast<int64_t>(i)));
                            }
                            seen += static_cast<int64_t>(bytes.size());
                            return absl::OkStatus();
                          })
                    .ok());
    EXPECT_EQ(seen, 3000005);
  }
  CheckpointFolder Open() {
    auto folder = CheckpointFolder::Open(path_, 0);
    EXPECT_TRUE(folder.ok()) << folder.status();
    return *std::move(folder);
  }
  std::string File(int64_t step) const {
    char name[64];
    std::snprintf(name, sizeof name, "/step-%012ld.checkpoint", static_cast<long>(step));
    return path_ + name;
  }
  static std::string Bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string path_;
};

TEST_F(CheckpointTest, ComesBackAsItWas) {
  const CheckpointFolder folder = Open();
  std::vector<std::string> notes;
  EXPECT_FALSE((*folder.FindNewest(&notes)).has_value());
  ASSERT_TRUE(Save(folder, 10).ok());
  const auto found = folder.FindNewest(&notes);
  ASSERT_TRUE(found.ok() && found->has_value()) << found.status();
  EXPECT_EQ((*found)->header, Header(10));
  ExpectPayload(folder, **found, 10);
  EXPECT_TRUE(notes.empty());
}

TEST_F(CheckpointTest, KeepsTheTwoNewest) {
  const CheckpointFolder folder = Open();
  for (const int64_t step : {10, 20, 30, 40}) ASSERT_TRUE(Save(folder, step).ok());
  EXPECT_FALSE(fs::exists(File(20)));
  EXPECT_TRUE(fs::exists(File(30)));
  EXPECT_TRUE(fs::exists(File(40)));
}

// Damaged later ones are passed over when a run goes on from an older one: what it then writes is
// kept, and counts.
TEST_F(CheckpointTest, DamagedLaterOnesPushNothingOut) {
  CheckpointFolder folder = Open();
  for (const int64_t step : {4, 10, 20}) {
    ASSERT_TRUE(Save(folder, step).ok());
    fs::copy_file(File(step), File(step) + ".kept");
  }
  fs::copy_file(File(4) + ".kept", File(4), fs::copy_options::overwrite_existing);
  for (const int64_t step : {10, 20}) fs::resize_file(File(step), 1000);
  for (const int64_t step : {5, 6, 7}) ASSERT_TRUE(Save(folder, step).ok());
  std::vector<std::string> notes;
  const auto found = folder.FindNewest(&notes);
  ASSERT_TRUE(found.ok() && found->has_value()) << found.status();
  EXPECT_EQ((*found)->header.step, 7);
  EXPECT_EQ(notes.size(), 2u);
  EXPECT_TRUE(fs::exists(File(6)));
  EXPECT_FALSE(fs::exists(File(5)));
  EXPECT_TRUE(fs::exists(File(10)) && fs::exists(File(20)));
}

TEST_F(CheckpointTest, OnlyItsOwnNamesCount) {
  CheckpointFolder folder = Open();
  ASSERT_TRUE(Save(folder, 2).ok());
  fs::copy_file(File(2), path_ + "/step-my_backup__1.checkpoint");
  fs::copy_file(File(2), path_ + "/step-my_backup__2.checkpoint");
  fs::copy_file(File(2), File(99));
  ASSERT_EQ(mkfifo(File(98).c_str(), 0600), 0);
  ASSERT_TRUE(Save(folder, 3).ok());
  std::vector<std::string> notes;
  const auto found = folder.FindNewest(&notes);
  ASSERT_TRUE(found.ok() && found->has_value()) << found.status();
  EXPECT_EQ((*found)->header.step, 3);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find("holds step 2"), std::string::npos) << notes[0];
  EXPECT_NE(notes[1].find("no regular file"), std::string::npos) << notes[1];
}

TEST_F(CheckpointTest, DamageAnywhereFallsBackToThePrevious) {
  const CheckpointFolder folder = Open();
  ASSERT_TRUE(Save(folder, 1).ok());
  ASSERT_TRUE(Save(folder, 2).ok());
  const std::string whole = Bytes(File(2));
  const int64_t size = static_cast<int64_t>(whole.size());
  // Magic, header length, step, hash, losses, buffer table, payload (first, middle), digest.
  for (const int64_t at :
       {int64_t{0}, int64_t{9}, int64_t{15}, int64_t{17}, int64_t{34}, int64_t{60}, int64_t{100},
        int64_t{200}, int64_t{1500000}, size - 33, size - 32, size - 1}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    std::ofstream(File(2), std::ios::binary) << damaged;
    std::vector<std::string> notes;
    const auto found = folder.FindNewest(&notes);
    ASSERT_TRUE(found.ok() && found->has_value()) << at;
    EXPECT_EQ((*found)->header.step, 1) << "byte " << at;
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].find("step-000000000002.checkpoint' is damaged"), std::string::npos);
  }
}

TEST_F(CheckpointTest, TruncationAnywhereFallsBackToThePrevious) {
  const CheckpointFolder folder = Open();
  ASSERT_TRUE(Save(folder, 1).ok());
  ASSERT_TRUE(Save(folder, 2).ok());
  const std::string whole = Bytes(File(2));
  for (const size_t size : {size_t{0}, size_t{7}, size_t{8}, size_t{15}, size_t{16}, size_t{47},
                            size_t{48}, size_t{100}, size_t{1000000}, whole.size() - 33,
                            whole.size() - 32, whole.size() - 1, whole.size() + 1}) {
    std::string cut = whole;
    cut.resize(size, 'x');
    std::ofstream(File(2), std::ios::binary) << cut;
    std::vector<std::string> notes;
    const auto found = folder.FindNewest(&notes);
    ASSERT_TRUE(found.ok() && found->has_value()) << size;
    EXPECT_EQ((*found)->header.step, 1) << size << " bytes";
  }
}

TEST_F(CheckpointTest, AllDamagedIsAnError) {
  const CheckpointFolder folder = Open();
  ASSERT_TRUE(Save(folder, 1).ok());
  std::ofstream(File(1), std::ios::binary) << "nothing";
  std::vector<std::string> notes;
  const auto found = folder.FindNewest(&notes);
  EXPECT_EQ(ExitCode(found.status()), 5);
}

TEST_F(CheckpointTest, OneRunAtATime) {
  const CheckpointFolder folder = Open();
  const auto second = CheckpointFolder::Open(path_, 0.1);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find("in use by another run"), std::string::npos);
}

TEST_F(CheckpointTest, LookingChangesNothing) {
  auto absent = CheckpointFolder::OpenExisting(path_, 0);
  ASSERT_TRUE(absent.ok()) << absent.status();
  EXPECT_FALSE(absent->has_value());
  EXPECT_FALSE(fs::exists(path_));
  fs::create_directories(path_);
  auto empty = CheckpointFolder::OpenExisting(path_, 0);
  ASSERT_TRUE(empty.ok() && empty->has_value());
  EXPECT_EQ(*(*empty)->HasAny(), false);
  EXPECT_TRUE(fs::is_empty(path_));
  {
    const CheckpointFolder folder = Open();
    ASSERT_TRUE(Save(folder, 4).ok());
    const auto busy = CheckpointFolder::OpenExisting(path_, 0);
    EXPECT_NE(busy.status().message().find("in use"), std::string::npos) << busy.status();
  }
  auto looked = CheckpointFolder::OpenExisting(path_, 0);
  ASSERT_TRUE(looked.ok() && looked->has_value()) << looked.status();
  std::vector<std::string> notes;
  const auto found = (*looked)->FindNewest(&notes);
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->header, Header(4));
}

TEST_F(CheckpointTest, AKillInsideAWriteLeavesThePrevious) {
  {
    const CheckpointFolder folder = Open();
    ASSERT_TRUE(Save(folder, 1).ok());
  }
  const pid_t child = fork();
  if (child == 0) {
    auto folder = CheckpointFolder::Open(path_, 0);
    if (!folder.ok()) _exit(9);
    // Dies with a part of the payload written, as a killed worker does.
    const Status status =
        folder->Save(Header(2), [](int rank, int, int64_t offset, std::span<char>) {
          if (rank == 0 && offset > 1000000) kill(getpid(), SIGKILL);
          return absl::OkStatus();
        });
    _exit(status.ok() ? 8 : 7);
  }
  int result = 0;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  ASSERT_TRUE(WIFSIGNALED(result));
  const auto entries = [&] {
    return std::distance(fs::directory_iterator(path_), fs::directory_iterator());
  };
  EXPECT_EQ(entries(), 3) << "the lock, the previous and what was half written";
  const CheckpointFolder folder = Open();  // the dead process holds no lock
  EXPECT_EQ(entries(), 2) << "half-written files are cleared away";
  std::vector<std::string> notes;
  const auto found = folder.FindNewest(&notes);
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->header.step, 1);
  ExpectPayload(folder, **found, 1);
}

TEST_F(CheckpointTest, AFailingReadLeavesNothingBehind) {
  const CheckpointFolder folder = Open();
  const Status status = folder.Save(
      Header(1), [](int, int, int64_t, std::span<char>) { return RunError("device lost"); });
  EXPECT_EQ(status.message(), "device lost");
  EXPECT_FALSE(*folder.HasAny());
}

TEST_F(CheckpointTest, AnotherRunsIsRefusedByWhatDiffers) {
  const CheckpointHeader own = Header(3);
  CheckpointHeader later = Header(8);
  EXPECT_TRUE(CheckSameRun(later, own).ok()) << "the step may differ";
  later.graph_hash = "other";
  EXPECT_NE(CheckSameRun(later, own).message().find("another model graph"), std::string::npos);
  EXPECT_EQ(ExitCode(CheckSameRun(later, own)), 5);
  later = Header(8);
  later.plan_hash = "other";
  EXPECT_NE(CheckSameRun(later, own).message().find("another plan"), std::string::npos);
  later = Header(8);
  later.seed = 9;
  EXPECT_NE(CheckSameRun(later, own)
                .message()
                .find("--seed: the checkpoint of step 8 was made "
                      "with 9, this run has 3"),
            std::string::npos);
  later = Header(8);
  later.data_origin = "moved";
  EXPECT_TRUE(CheckSameRun(later, own).ok()) << "a moved text is the same text";
  later.data_hash = "fedcba9876543210";
  EXPECT_NE(CheckSameRun(later, own).message().find("--data"), std::string::npos);
  later = Header(8);
  later.ranks.pop_back();
  EXPECT_NE(CheckSameRun(later, own).message().find("number of ranks"), std::string::npos);
  later = Header(8);
  later.ranks[0][0].bytes = 4;
  EXPECT_NE(CheckSameRun(later, own).message().find("persistent buffers"), std::string::npos);
}

TEST_F(CheckpointTest, AFolderThatCannotBeMadeIsNamed) {
  const auto folder = CheckpointFolder::Open("/dev/null/ckpt", 0);
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.status().message().find("/dev/null/ckpt"), std::string::npos);
}

}  // namespace
}  // namespace tideline

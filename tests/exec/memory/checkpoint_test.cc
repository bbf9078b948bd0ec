#include "exec/memory/checkpoint.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "exec/memory/restore.h"
#include "gtest/gtest.h"
#include "tests/exec/memory/example_checkpoint.h"

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

  CheckpointFolder Open() {
    auto folder = CheckpointFolder::Open(path_, 0);
    EXPECT_TRUE(folder.ok()) << folder.status();
    return *std::move(folder);
  }
  Status Save(const CheckpointFolder& folder, int64_t step) {
    return SaveExample(folder, path_, step);
  }
  // The newest, which is to be of `step`, with what is said about others in notes_.
  CheckpointFolder::Found Newest(const CheckpointFolder& folder, int64_t step) {
    notes_.clear();
    const auto found = folder.FindNewest(&notes_);
    EXPECT_TRUE(found.ok() && found->has_value()) << found.status();
    if (!found.ok() || !found->has_value()) return {};
    EXPECT_EQ((*found)->manifest.step, step);
    return **found;
  }
  // Whether what comes back is the state of `step`, on the ranks that wrote it.
  static void ExpectState(const CheckpointFolder::Found& found, int64_t step) {
    const ProgramState state = ExampleState();
    const auto restorer = StateRestorer::Make(found, state);
    ASSERT_TRUE(restorer.ok()) << restorer.status();
    int64_t seen = 0;
    for (int32_t rank = 0; rank < 3; ++rank) {
      const std::vector<StatePiece>& pieces = state.ranks[static_cast<size_t>(rank)].pieces;
      const Status status =
          restorer->Restore(rank, [&](uint32_t buffer, int64_t offset, std::string_view bytes) {
            const StatePiece& piece = pieces[buffer];
            const std::vector<int64_t>& shape = state.tensors[piece.tensor].shape;
            for (const CommonRun& run : CommonRuns(piece.region, WholeTensor(shape), shape)) {
              for (int64_t i = 0; i < run.count; ++i) {
                const int64_t at = (run.left + i) * 4 - offset;
                if (at < 0 || at >= std::ssize(bytes)) continue;
                float value = 0;
                std::memcpy(&value, bytes.data() + at, 4);
                EXPECT_EQ(value, ExampleValue(step, piece.tensor, run.right + i));
                ++seen;
              }
            }
            return absl::OkStatus();
          });
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_EQ(seen, 30);
  }
  std::string Folder(int64_t step) const {
    char name[64];
    std::snprintf(name, sizeof name, "/step-%012ld.checkpoint", static_cast<long>(step));
    return path_ + name;
  }
  static std::string Bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void Write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  std::vector<std::string> Files(int64_t step) const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(Folder(step))) files.push_back(entry.path());
    return files;
  }

  const std::string path_;
  std::vector<std::string> notes_;
};

TEST_F(CheckpointTest, ComesBackAsItWas) {
  const CheckpointFolder folder = Open();
  EXPECT_FALSE((*folder.FindNewest(nullptr)).has_value());
  ASSERT_TRUE(Save(folder, 10).ok());
  EXPECT_EQ(Files(10).size(), 4u) << "three shards and the manifest";
  CheckpointFolder::Found found = Newest(folder, 10);
  ExpectState(found, 10);
  EXPECT_TRUE(notes_.empty());
  // Shard 1: 32 bytes of header, 9 + 7 elements, 32 bytes of digest.
  EXPECT_EQ(found.manifest.shards[1].bytes, 32 + 16 * 4 + 32);
  EXPECT_EQ(found.manifest.shards[1].bytes,
            static_cast<int64_t>(fs::file_size(Folder(10) + "/rank-00001.shard")));
  for (ShardRecord& shard : found.manifest.shards) {
    EXPECT_EQ(shard.sha256.size(), 64u);
    shard = {"", 0, "", shard.pieces};
  }
  EXPECT_EQ(found.manifest, ExampleManifest(10));
  const auto again = CheckpointFolder::ReadManifest(path_, 10);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->path, found.path);
}

TEST_F(CheckpointTest, TheSameStateGivesTheSameBytes) {
  const CheckpointFolder folder = Open();
  ASSERT_TRUE(Save(folder, 3).ok());
  std::map<std::string, std::string> first;
  for (const std::string& file : Files(3)) first[file] = Bytes(file);
  ASSERT_TRUE(Save(folder, 3).ok());
  for (const std::string& file : Files(3)) EXPECT_EQ(Bytes(file), first.at(file)) << file;
}

TEST_F(CheckpointTest, KeepsTheTwoNewest) {
  const CheckpointFolder folder = Open();
  for (const int64_t step : {10, 20, 30, 40}) ASSERT_TRUE(Save(folder, step).ok());
  EXPECT_FALSE(fs::exists(Folder(20)));
  EXPECT_TRUE(fs::exists(Folder(30)));
  EXPECT_TRUE(fs::exists(Folder(40)));
  EXPECT_EQ(std::distance(fs::directory_iterator(path_), {}), 3) << "and the lock";
}

// Damaged later ones are passed over when a run goes on from an older one: what it then writes is
// kept, and counts.
TEST_F(CheckpointTest, DamagedLaterOnesPushNothingOut) {
  const CheckpointFolder folder = Open();
  ASSERT_TRUE(Save(folder, 10).ok());
  ASSERT_TRUE(Save(folder, 20).ok());
  fs::resize_file(Folder(10) + "/rank-00002.shard", 50);
  fs::remove(Folder(20) + "/manifest");
  for (const int64_t step : {5, 6, 7}) ASSERT_TRUE(Save(folder, step).ok());
  Newest(folder, 7);
  EXPECT_EQ(notes_.size(), 2u);
  EXPECT_TRUE(fs::exists(Folder(6)));
  EXPECT_FALSE(fs::exists(Folder(5)));
  EXPECT_TRUE(fs::exists(Folder(10)) && fs::exists(Folder(20)));
  // When the run gets there, its own takes the place of the damaged one.
  ASSERT_TRUE(Save(folder, 10).ok());
  ExpectState(Newest(folder, 10), 10);
  EXPECT_EQ(notes_.size(), 1u);
}

TEST_F(CheckpointTest, OnlyItsOwnNamesCount) {
  const CheckpointFolder folder = Open();
  ASSERT_TRUE(Save(folder, 2).ok());
  const auto copy = [&](const std::string& to) {
    fs::copy(Folder(2), to, fs::copy_options::recursive);
  };
  copy(path_ + "/step-my_backup__1.checkpoint");
  copy(path_ + "/step-my_backup__2.checkpoint");
  copy(Folder(99));
  ASSERT_EQ(mkfifo(Folder(98).c_str(), 0600), 0);
  Write(Folder(97), "nothing");
  fs::create_directory(Folder(96));
  ASSERT_TRUE(Save(folder, 3).ok());
  Newest(folder, 3);
  ASSERT_EQ(notes_.size(), 4u);
  EXPECT_NE(notes_[0].find("holds step 2"), std::string::npos) << notes_[0];
  EXPECT_NE(notes_[1].find("neither a folder nor a file"), std::string::npos) << notes_[1];
  EXPECT_NE(notes_[2].find("no folder"), std::string::npos) << notes_[2];
  EXPECT_NE(notes_[3].find("manifest"), std::string::npos) << notes_[3];
}

TEST_F(CheckpointTest, OneOfAnEarlierVersionIsToldApart) {
  const CheckpointFolder folder = Open();
  Write(Folder(4), std::string("TLCKPT03") + std::string(100, '\0'));
  std::vector<std::string> notes;
  const auto found = folder.FindNewest(&notes);
  EXPECT_EQ(ExitCode(found.status()), 5);
  EXPECT_NE(found.status().message().find("as earlier versions wrote"), std::string::npos);
  EXPECT_NE(found.status().message().find("--save-weights"), std::string::npos);
}

TEST_F(CheckpointTest, AnyChangedBitFallsBackToThePrevious) {
  const CheckpointFolder folder = Open();
  ASSERT_TRUE(Save(folder, 1).ok());
  ASSERT_TRUE(Save(folder, 2).ok());
  int64_t tried = 0;
  for (const std::string& file : Files(2)) {
    const std::string whole = Bytes(file);
    for (size_t at = 0; at < whole.size(); at += 7, ++tried) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
      Write(file, damaged);
      Newest(folder, 1);
      ASSERT_EQ(notes_.size(), 1u) << file << " byte " << at;
      EXPECT_NE(notes_[0].find("step-000000000002.checkpoint' is damaged"), std::string::npos);
    }
    Write(file, whole);
  }
  EXPECT_GT(tried, 100);
  ExpectState(Newest(folder, 2), 2);
}

TEST_F(CheckpointTest, AnyTruncationFallsBackToThePrevious) {
  const CheckpointFolder folder = Open();
  ASSERT_TRUE(Save(folder, 1).ok());
  ASSERT_TRUE(Save(folder, 2).ok());
  for (const std::string& file : Files(2)) {
    const std::string whole = Bytes(file);
    for (size_t size = 0; size <= whole.size() + 1; size += size < 70 ? 1 : 13) {
      if (size == whole.size()) continue;
      std::string cut = whole;
      cut.resize(size, 'x');
      Write(file, cut);
      Newest(folder, 1);
    }
    fs::remove(file);
    Newest(folder, 1);
    EXPECT_NE(notes_[0].find(fs::path(file).filename()), std::string::npos) << notes_[0];
    Write(file, whole);
  }
  Newest(folder, 2);
}

TEST_F(CheckpointTest, ShardsOfOthersAreFound) {
  const CheckpointFolder folder = Open();
  ASSERT_TRUE(Save(folder, 1).ok());
  ASSERT_TRUE(Save(folder, 2).ok());
  const std::string one = Folder(2) + "/rank-00001.shard", two = Folder(2) + "/rank-00002.shard";
  fs::rename(one, one + ".other");
  fs::rename(two, one);
  fs::rename(one + ".other", two);
  Newest(folder, 1);
  EXPECT_NE(notes_[0].find("rank-00001.shard: it is the shard of rank 2 of step 2"),
            std::string::npos)
      << notes_[0];
  fs::copy_file(Folder(1) + "/rank-00001.shard", one, fs::copy_options::overwrite_existing);
  Newest(folder, 1);
  EXPECT_NE(notes_[0].find("of step 1, not of rank 1 of step 2"), std::string::npos) << notes_[0];
}

TEST_F(CheckpointTest, AllDamagedIsAnError) {
  const CheckpointFolder folder = Open();
  ASSERT_TRUE(Save(folder, 1).ok());
  Write(Folder(1) + "/manifest", "nothing");
  std::vector<std::string> notes;
  EXPECT_EQ(ExitCode(folder.FindNewest(&notes).status()), 5);
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
    ASSERT_TRUE(folder.Begin(5).ok());
    const auto busy = CheckpointFolder::OpenExisting(path_, 0);
    EXPECT_NE(busy.status().message().find("in use"), std::string::npos) << busy.status();
  }
  auto looked = CheckpointFolder::OpenExisting(path_, 0);
  ASSERT_TRUE(looked.ok() && looked->has_value()) << looked.status();
  ExpectState(Newest(**looked, 4), 4);
  EXPECT_EQ(std::distance(fs::directory_iterator(path_), {}), 3);
}

TEST_F(CheckpointTest, AKillInsideAWriteLeavesThePrevious) {
  // Dies while a shard is written, as a killed worker does; then with all shards written and no
  // manifest yet.
  for (const bool all_shards : {false, true}) {
    fs::remove_all(path_);
    {
      const CheckpointFolder folder = Open();
      ASSERT_TRUE(Save(folder, 1).ok());
    }
    const pid_t child = fork();
    if (child == 0) {
      auto folder = CheckpointFolder::Open(path_, 0);
      if (!folder.ok()) _exit(9);
      const Status status = SaveExample(*folder, path_, 2, [&](int32_t rank, uint32_t) {
        if (rank == (all_shards ? 2 : 1)) kill(getpid(), SIGKILL);
        return absl::OkStatus();
      });
      _exit(status.ok() ? 8 : 7);
    }
    int result = 0;
    ASSERT_EQ(waitpid(child, &result, 0), child);
    ASSERT_TRUE(WIFSIGNALED(result));
    const auto entries = [&] { return std::distance(fs::directory_iterator(path_), {}); };
    EXPECT_EQ(entries(), 3) << "the lock, the previous and what was half written";
    const CheckpointFolder folder = Open();  // the dead process holds no lock
    EXPECT_EQ(entries(), 2) << "half-written ones are cleared away";
    ExpectState(Newest(folder, 1), 1);
  }
}

// What is half removed is no checkpoint any more.
TEST_F(CheckpointTest, AKillInsideARemovalLeavesNoHalf) {
  {
    const CheckpointFolder folder = Open();
    ASSERT_TRUE(Save(folder, 1).ok());
    ASSERT_TRUE(Save(folder, 2).ok());
  }
  fs::rename(Folder(1), Folder(1) + ".tmp-old");
  fs::remove(Folder(1) + ".tmp-old/rank-00000.shard");
  const CheckpointFolder folder = Open();
  EXPECT_EQ(std::distance(fs::directory_iterator(path_), {}), 2);
  Newest(folder, 2);
  EXPECT_TRUE(notes_.empty());
}

TEST_F(CheckpointTest, AFailingReadLeavesNoCheckpoint) {
  const CheckpointFolder folder = Open();
  const Status status =
      SaveExample(folder, path_, 1, [](int32_t, uint32_t) { return RunError("device lost"); });
  EXPECT_EQ(status.message(), "device lost");
  EXPECT_FALSE(*folder.HasAny());
  ASSERT_TRUE(Save(folder, 1).ok()) << "what the first attempt left is in nobody's way";
  ExpectState(Newest(folder, 1), 1);
}

TEST_F(CheckpointTest, AMissingShardIsNoCheckpoint) {
  const CheckpointFolder folder = Open();
  ASSERT_TRUE(folder.Begin(1).ok());
  const Status status = folder.Commit(ExampleManifest(1));
  EXPECT_EQ(ExitCode(status), 1);
  EXPECT_NE(status.message().find("rank-00000.shard"), std::string::npos) << status;
  EXPECT_FALSE(*folder.HasAny());
}

TEST_F(CheckpointTest, AnotherRunsIsRefusedByWhatDiffers) {
  const CheckpointManifest own = ExampleManifest(3);
  CheckpointManifest later = ExampleManifest(8);
  EXPECT_TRUE(CheckSameRun(later, own).ok()) << "the step may differ";
  EXPECT_EQ(NoteOfOtherPlan(later, own), "");
  later.graph_hash = "other";
  EXPECT_NE(CheckSameRun(later, own).message().find("another model graph"), std::string::npos);
  EXPECT_EQ(ExitCode(CheckSameRun(later, own)), 5);
  later = ExampleManifest(8);
  later.global_batch = 32;
  EXPECT_NE(CheckSameRun(later, own)
                .message()
                .find("global batch: the checkpoint of step 8 was made with 32 samples, this run "
                      "has 16"),
            std::string::npos)
      << CheckSameRun(later, own);
  later = ExampleManifest(8);
  later.seed = 9;
  EXPECT_NE(CheckSameRun(later, own)
                .message()
                .find("--seed: the checkpoint of step 8 was made "
                      "with 9, this run has 3"),
            std::string::npos);
  later = ExampleManifest(8);
  later.data_origin = "moved";
  EXPECT_TRUE(CheckSameRun(later, own).ok()) << "a moved text is the same text";
  later.data_hash = "fedcba9876543210";
  EXPECT_NE(CheckSameRun(later, own).message().find("--data"), std::string::npos);
  later = ExampleManifest(8);
  later.plan_hash = "other";
  later.shards.pop_back();
  EXPECT_TRUE(CheckSameRun(later, own).ok());
  EXPECT_NE(NoteOfOtherPlan(later, own).find("another plan (other, 2 ranks; this one: plan, 3"),
            std::string::npos)
      << NoteOfOtherPlan(later, own);
  later.optimizer->beta1 = 0.5f;
  EXPECT_TRUE(NoteOfOtherPlan(later, own).ends_with("settings of the optimizer: beta1"));
}

TEST_F(CheckpointTest, AFolderThatCannotBeMadeIsNamed) {
  const auto folder = CheckpointFolder::Open("/dev/null/ckpt", 0);
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.status().message().find("/dev/null/ckpt"), std::string::npos);
}

}  // namespace
}  // namespace tideline

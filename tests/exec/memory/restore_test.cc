#include "exec/memory/restore.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include "exec/comm/element.h"
#include "gtest/gtest.h"
#include "tests/exec/memory/example_checkpoint.h"

namespace tideline {
namespace {

class RestoreTest : public ::testing::Test {
 protected:
  RestoreTest()
      : path_(::testing::TempDir() + "/restore-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(path_);
    auto folder = CheckpointFolder::Open(path_, 0);
    EXPECT_TRUE(folder.ok() && SaveExample(*folder, path_, 1).ok());
    found_ = **folder->FindNewest(nullptr);
  }

  // One rank with everything: w in buffer 0 from byte 8 on, a narrower copy of it in buffer 1,
  // momentum in buffer 2, and padding around w.
  static ProgramState WholeState(DType narrow) {
    ProgramState state;
    state.tensors = {{"w", StateKind::kMomentum, {3, 5}}, {"w", StateKind::kParameter, {3, 5}}};
    RankState& rank = state.ranks.emplace_back();
    const TensorRegion whole = WholeTensor({3, 5});
    rank.pieces = {{.tensor = 1, .region = whole, .buffer = 0, .offset = 8},
                   {.tensor = 1, .region = whole, .dtype = narrow, .buffer = 1, .primary = false},
                   {.tensor = 0, .region = whole, .buffer = 2}};
    rank.zeros = {{0, 0, 8}, {0, 68, 72}};
    return state;
  }

  const std::string path_;
  CheckpointFolder::Found found_;
};

TEST_F(RestoreTest, AnotherLayoutAndTypeGetTheSameValues) {
  for (const DType narrow : {DType::kBF16, DType::kF16}) {
    const auto restorer = StateRestorer::Make(found_, WholeState(narrow));
    ASSERT_TRUE(restorer.ok()) << restorer.status();
    std::map<uint32_t, std::string> buffers = {
        {0, std::string(72, 'x')}, {1, std::string(30, 'x')}, {2, std::string(60, 'x')}};
    ASSERT_TRUE(restorer
                    ->Restore(0,
                              [&](uint32_t buffer, int64_t offset, std::string_view bytes) {
                                std::memcpy(buffers[buffer].data() + offset, bytes.data(),
                                            bytes.size());
                                return absl::OkStatus();
                              })
                    .ok());
    EXPECT_EQ(buffers[0].substr(0, 8) + buffers[0].substr(68), std::string(12, '\0'));
    for (int64_t i = 0; i < 15; ++i) {
      const float w = ExampleValue(1, 0, i);
      EXPECT_EQ(LoadElement(buffers[0].data() + 8, i, DType::kF32), w);
      EXPECT_EQ(LoadElement(buffers[2].data(), i, DType::kF32), ExampleValue(1, 1, i));
      char rounded[4] = {};
      StoreElement(rounded, 0, narrow, w);
      EXPECT_EQ(LoadElement(buffers[1].data(), i, narrow), LoadElement(rounded, 0, narrow));
    }
  }
}

TEST_F(RestoreTest, RanksRestoreAtOnce) {
  ProgramState state = WholeState(DType::kBF16);
  state.ranks.resize(8, state.ranks[0]);
  const auto restorer = StateRestorer::Make(found_, state);
  ASSERT_TRUE(restorer.ok());
  std::vector<int64_t> bytes(8, 0);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < 8; ++rank) {
    threads.emplace_back([&, rank] {
      EXPECT_TRUE(restorer
                      ->Restore(rank,
                                [&](uint32_t, int64_t, std::string_view part) {
                                  bytes[static_cast<size_t>(rank)] += std::ssize(part);
                                  return absl::OkStatus();
                                })
                      .ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bytes, std::vector<int64_t>(8, 72 + 30 + 60));
}

TEST_F(RestoreTest, WhatDoesNotFitIsRefusedBeforeAnythingIsWritten) {
  ProgramState less = WholeState(DType::kBF16);
  less.tensors[0].name = "v";
  const auto other = StateRestorer::Make(found_, less);
  EXPECT_EQ(ExitCode(other.status()), 5);
  EXPECT_NE(other.status().message().find("no place for momentum of `w`"), std::string::npos)
      << other.status();
  ProgramState more = WholeState(DType::kBF16);
  more.tensors.push_back({"w", StateKind::kVariance, {3, 5}});
  more.ranks[0].pieces.push_back({.tensor = 2, .region = WholeTensor({3, 5}), .buffer = 3});
  EXPECT_NE(StateRestorer::Make(found_, more)
                .status()
                .message()
                .find("step-000000000001.checkpoint': variance of `w` is missing"),
            std::string::npos)
      << StateRestorer::Make(found_, more).status();
}

TEST_F(RestoreTest, AFileThatEndsEarlyIsAnErrorThatNamesTheTensor) {
  const auto restorer = StateRestorer::Make(found_, WholeState(DType::kBF16));
  ASSERT_TRUE(restorer.ok());
  std::filesystem::resize_file(found_.path + "/rank-00002.shard", 33);
  const Status status =
      restorer->Restore(0, [](uint32_t, int64_t, std::string_view) { return absl::OkStatus(); });
  EXPECT_EQ(ExitCode(status), 5);
  EXPECT_NE(status.message().find("momentum of `w`"), std::string::npos) << status;
  EXPECT_NE(status.message().find("rank-00002.shard"), std::string::npos) << status;
}

}  // namespace
}  // namespace tideline

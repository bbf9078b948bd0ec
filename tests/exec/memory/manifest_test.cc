// Manifests whose checksum is right but that say what cannot be: each is refused by what is wrong,
// and names the tensor or the shard.
#include "exec/memory/manifest.h"

#include <functional>
#include <random>

#include "gtest/gtest.h"
#include "tests/exec/memory/example_checkpoint.h"

namespace tideline {
namespace {

constexpr int64_t kHuge = INT64_MAX;

// As Commit leaves it.
CheckpointManifest Complete() {
  CheckpointManifest manifest = ExampleManifest(2);
  for (size_t i = 0; i < manifest.shards.size(); ++i) {
    ShardRecord& shard = manifest.shards[i];
    shard.file = ShardName(static_cast<int32_t>(i));
    shard.sha256 = std::string(64, 'a');
    shard.bytes = kShardHeaderBytes + kDigestBytes;
    for (const StoredPiece& piece : shard.pieces) shard.bytes += piece.bytes();
  }
  return manifest;
}

TEST(ManifestTest, ComesBackAsItWas) {
  const auto read = DecodeManifest(EncodeManifest(Complete()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, Complete());
  EXPECT_TRUE(CheckComplete(*read).ok());
  CheckpointManifest without = Complete();
  without.optimizer.reset();
  EXPECT_EQ(*DecodeManifest(EncodeManifest(without)), without);
}

TEST(ManifestTest, OffsetsAreThoseOfTheFile) {
  const ProgramState state = StateInShards(Complete());
  ASSERT_EQ(state.ranks.size(), 3u);
  EXPECT_EQ(state.ranks[1].pieces[0].offset, 32);
  EXPECT_EQ(state.ranks[1].pieces[1].offset, 32 + 9 * 4);
}

TEST(ManifestTest, WhatCannotBeIsRefused) {
  struct Case {
    const char* says;
    std::function<void(CheckpointManifest&)> change;
  };
  const auto piece = [](CheckpointManifest& m) -> StoredPiece& { return m.shards[1].pieces[0]; };
  const std::vector<Case> cases = {
      {"step -1", [](auto& m) { m.step = -1; }},
      {"has step 3 and 2 losses", [](auto& m) { m.step = 3; }},
      {"parameter `w` is listed twice", [](auto& m) { m.tensors.push_back(m.tensors[0]); }},
      {"the shape of parameter `w`", [](auto& m) { m.tensors[0].shape = {}; }},
      {"the shape of parameter `w`",
       [](auto& m) {
         m.tensors[0].shape = {3, 0};
       }},
      {"the shape of parameter `w`",
       [](auto& m) {
         m.tensors[0].shape = {3, -5};
       }},
      {"the shape of parameter `w`",
       [](auto& m) {
         m.tensors[0].shape = {kHuge, 5};
       }},
      {"the shape of momentum of `w`", [](auto& m) { m.tensors[1].shape = {kHuge}; }},
      {"shard 0 is called `../../etc/passwd`",
       [](auto& m) { m.shards[0].file = "../../etc/passwd"; }},
      {"shard 1 is called `/dev/zero`", [](auto& m) { m.shards[1].file = "/dev/zero"; }},
      {"shard 1 is called `rank-00000.shard`",
       [](auto& m) { m.shards[1].file = m.shards[0].file; }},
      {"shard 0 is called `rank-00001.shard`",
       [](auto& m) { std::swap(m.shards[0], m.shards[1]); }},
      {"rank-00001.shard: a piece belongs to no tensor", [&](auto& m) { piece(m).tensor = 2; }},
      {"parameter `w`: its type is bf16", [&](auto& m) { piece(m).dtype = DType::kBF16; }},
      {"parameter `w`: its type is int32", [&](auto& m) { piece(m).dtype = DType::kI32; }},
      {"another number of dimensions", [&](auto& m) { piece(m).region.first.pop_back(); }},
      {"another number of dimensions", [&](auto& m) { piece(m).region.extent.push_back(1); }},
      {"leaves the tensor in dimension 1", [&](auto& m) { piece(m).region.first[1] = 3; }},
      {"leaves the tensor in dimension 0", [&](auto& m) { piece(m).region.first[0] = kHuge; }},
      {"leaves the tensor in dimension 0", [&](auto& m) { piece(m).region.first[0] = -1; }},
      {"leaves the tensor in dimension 0", [&](auto& m) { piece(m).region.extent[0] = kHuge; }},
      {"leaves the tensor in dimension 1", [&](auto& m) { piece(m).region.extent[1] = 0; }},
      {"elements leave its box", [&](auto& m) { piece(m).region.end = 10; }},
      {"elements leave its box", [&](auto& m) { piece(m).region.end = kHuge; }},
      {"elements leave its box", [&](auto& m) { piece(m).region.begin = -1; }},
      {"elements leave its box", [&](auto& m) { piece(m).region.begin = 9; }},
      {"said to have 9223372036854775807 bytes", [](auto& m) { m.shards[2].bytes = kHuge; }},
      {"said to have -1 bytes", [](auto& m) { m.shards[2].bytes = -1; }},
      {"rank-00001.shard: it is said to have 128 bytes, but its pieces make 120",
       [&](auto& m) { piece(m).region.end -= 2; }},
      {"hold 15 elements of momentum of `w`, which has 20",
       [](auto& m) {
         m.tensors[1].shape = {4, 5};
       }},
      {"hold 7 elements of momentum of `w`, which has 15", [](auto& m) { m.shards.pop_back(); }},
      {"hold 23 elements of momentum of `w`, which has 15",
       [](auto& m) {
         m.shards.push_back(m.shards[2]);
         m.shards[3].file = ShardName(3);
       }},
      {"hold 0 elements of variance of `w`",
       [](auto& m) {
         m.tensors.push_back({"w", StateKind::kVariance, {3, 5}});
       }},
  };
  for (const Case& each : cases) {
    CheckpointManifest manifest = Complete();
    each.change(manifest);
    const auto read = DecodeManifest(EncodeManifest(manifest));
    EXPECT_EQ(ExitCode(read.status()), 5) << each.says;
    EXPECT_NE(read.status().message().find(each.says), std::string::npos) << each.says << "\n"
                                                                          << read.status();
  }
}

// As many elements as there should be, but two of them twice: element 7 is the first of shard 2.
TEST(ManifestTest, OverlapsAreFound) {
  CheckpointManifest manifest = Complete();
  manifest.shards[2].pieces[0].region.begin -= 2;
  manifest.shards[2].pieces[0].region.end -= 2;
  const auto read = DecodeManifest(EncodeManifest(manifest));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(CheckComplete(*read).message(), "momentum of `w`: element 5 is there twice");
}

// Whatever bytes: an error or a manifest, never anything else; and with a checksum made anew, what
// is read is sound.
TEST(ManifestTest, MutationsNeverPassUnsound) {
  std::mt19937 random(5);
  const std::string whole = EncodeManifest(Complete());
  int64_t refused = 0, accepted = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string fields = whole.substr(16, whole.size() - 16 - kDigestBytes);
    for (uint32_t change = 0; change <= random() % 3; ++change) {
      const size_t at = random() % fields.size();
      switch (random() % 4) {
        case 0:
          fields[at] = static_cast<char>(random());
          break;
        case 1:
          fields.erase(at, random() % 9);
          break;
        case 2:
          fields.insert(at, random() % 9, '\xff');
          break;
        default:
          for (size_t i = at; i < std::min(at + 8, fields.size()); ++i) {
            fields[i] = i == at + 7 ? '\x7f' : '\xff';
          }
      }
    }
    const auto read = DecodeManifest(FrameManifest(fields));
    if (!read.ok()) {
      EXPECT_EQ(ExitCode(read.status()), 5);
      ++refused;
      continue;
    }
    ++accepted;
    int64_t elements = 0;
    for (const ShardRecord& shard : read->shards) {
      for (const StoredPiece& piece : shard.pieces) elements += piece.region.count();
    }
    EXPECT_LE(elements, 30);
    (void)CheckComplete(*read).ok();
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 100) << "texts and numbers that may be anything";
}

}  // namespace
}  // namespace tideline

// Collectives by copies and adds have the bytes of the collectives executed literally.
#include "exec/comm/copy_collective.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/rng.h"
#include "exec/comm/element.h"

namespace tideline {
namespace {

using Bytes = std::vector<char>;

// One member's buffers: of random elements, a NaN and both zeros among them.
struct MemberMemory {
  Bytes input, output;
};

std::vector<MemberMemory> RandomMemory(const Collective& collective, int32_t members,
                                       uint64_t seed) {
  Rng rng(seed, "copy collective");
  std::vector<MemberMemory> memory(static_cast<size_t>(members));
  const int64_t size = SizeOf(collective.dtype);
  for (MemberMemory& each : memory) {
    each.input.resize(static_cast<size_t>(InputBytes(collective, members)));
    each.output.assign(static_cast<size_t>(OutputBytes(collective, members)), 0x5a);
    for (int64_t i = 0; i < static_cast<int64_t>(each.input.size()) / size; ++i) {
      if (collective.dtype == DType::kI32) {
        const uint32_t value = static_cast<uint32_t>(rng.Next());
        std::memcpy(each.input.data() + i * size, &value, sizeof value);
        continue;
      }
      float value = static_cast<float>(rng.Uniform() * 200 - 100);
      if (rng.Below(50) == 0) value = rng.Below(2) == 0 ? -0.0f : 0.0f;
      if (rng.Below(200) == 0) value = std::numeric_limits<float>::quiet_NaN();
      StoreElement(each.input.data(), i, collective.dtype, value);
    }
  }
  return memory;
}

// In place, both views are one buffer of the larger size.
std::vector<MemberBuffers> BuffersOf(std::vector<MemberMemory>& memory, bool in_place) {
  std::vector<MemberBuffers> buffers;
  for (MemberMemory& each : memory) {
    if (in_place) {
      Bytes whole = each.input;
      if (each.output.size() > whole.size()) {
        whole = each.output;
        // The gathered buffer holds random elements everywhere.
        for (size_t i = 0; i < whole.size(); ++i) whole[i] = each.input[i % each.input.size()];
      }
      each.output = whole;
      buffers.push_back({each.output.data(), each.output.data()});
    } else {
      buffers.push_back({each.input.data(), each.output.data()});
    }
  }
  return buffers;
}

void ExpectSameBytes(const Collective& collective, int32_t members, bool in_place) {
  std::vector<MemberMemory> literal = RandomMemory(collective, members, 11);
  std::vector<MemberMemory> copied = literal;
  const std::vector<MemberBuffers> by_copies = BuffersOf(copied, in_place);
  RunCollective(collective, BuffersOf(literal, in_place));
  const StatusOr<std::vector<CopyPass>> passes = CopyPasses(collective, by_copies);
  ASSERT_TRUE(passes.ok()) << passes.status();
  for (const CopyPass& pass : *passes) RunCopyPass(pass, collective.dtype);
  for (int32_t member = 0; member < members; ++member) {
    EXPECT_EQ(copied[member].output, literal[member].output)
        << Describe(collective) << ", member " << member << " of " << members
        << (in_place ? ", in place" : "");
  }
}

TEST(CopyCollective, HasTheBytesOfTheLiteralOne) {
  for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                                    CollectiveKind::kAllGather, CollectiveKind::kBroadcast}) {
    for (const ReductionOrder order : {ReductionOrder::kRank, ReductionOrder::kRing,
                                       ReductionOrder::kTree, ReductionOrder::kHalvingDoubling}) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        for (const int32_t members : {1, 2, 3, 8}) {
          for (const bool in_place : {false, true}) {
            const Collective collective{.kind = kind,
                                        .order = order,
                                        .ring_start = order == ReductionOrder::kRing ? 1 : 0,
                                        .dtype = dtype,
                                        .outer = 3,
                                        .block = 101};
            ExpectSameBytes(collective, members, in_place);
          }
        }
      }
    }
  }
}

TEST(CopyCollective, TakesMaximaIntegersAndManyBlocks) {
  ExpectSameBytes({.reduction = Reduction::kMaximum, .block = 1000}, 4, false);
  ExpectSameBytes({.kind = CollectiveKind::kAllGather, .dtype = DType::kI32, .block = 7}, 3, true);
  ExpectSameBytes({.order = ReductionOrder::kRing, .ring_start = 2, .block = 20001}, 3, true);
  ExpectSameBytes({.order = ReductionOrder::kRing, .block = 2}, 5, false);  // empty chunks
  ExpectSameBytes({.block = 0}, 2, false);
}

TEST(CopyCollective, NamesTheLargestGroup) {
  std::vector<float> values(33);
  std::vector<MemberBuffers> members;
  for (float& value : values) members.push_back({&value, &value});
  const auto passes = CopyPasses({.block = 1}, members);
  EXPECT_EQ(ExitCode(passes.status()), 6);
  EXPECT_NE(std::string(passes.status().message()).find("33"), std::string::npos);
}

}  // namespace
}  // namespace tideline

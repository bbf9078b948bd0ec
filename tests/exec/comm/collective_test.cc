#include "exec/comm/collective.h"

#include <cmath>

#include "base/rng.h"
#include "exec/comm/element.h"
#include "gtest/gtest.h"

namespace tideline {
namespace {

using Row = std::vector<float>;

// Values whose sums depend on the order of addition.
std::vector<Row> Inputs(int32_t members, int64_t count) {
  Rng rng(7, "collective_test");
  std::vector<Row> rows(members, Row(count));
  for (Row& row : rows) {
    for (float& value : row) {
      value = static_cast<float>(rng.Uniform() - 0.5) *
              std::ldexp(1.0f, static_cast<int>(rng.Below(24)));
    }
  }
  return rows;
}

// The sum of one element, each order written out by hand for up to eight members.
float HandSum(ReductionOrder order, const std::vector<float>& r, int first) {
  const int n = static_cast<int>(r.size());
  switch (order) {
    case ReductionOrder::kRank: {
      float sum = r[0];
      for (int i = 1; i < n; ++i) sum += r[i];
      return sum;
    }
    case ReductionOrder::kRing: {
      float sum = r[first % n];
      for (int i = 1; i < n; ++i) sum += r[(first + i) % n];
      return sum;
    }
    case ReductionOrder::kTree:
      switch (n) {
        case 1:
          return r[0];
        case 2:
          return r[0] + r[1];
        case 3:
          return (r[0] + r[1]) + r[2];
        case 4:
          return (r[0] + r[1]) + (r[2] + r[3]);
        case 5:
          return ((r[0] + r[1]) + r[2]) + (r[3] + r[4]);
        case 6:
          return ((r[0] + r[1]) + r[2]) + ((r[3] + r[4]) + r[5]);
        case 7:
          return ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + r[6]);
        default:
          return ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
      }
    case ReductionOrder::kHalvingDoubling:
      switch (n) {
        case 1:
          return r[0];
        case 2:
          return r[0] + r[1];
        case 3:
          return (r[0] + r[1]) + r[2];
        case 4:
          return (r[0] + r[2]) + (r[1] + r[3]);
        case 5:
          return ((r[0] + r[1]) + r[3]) + (r[2] + r[4]);
        case 6:
          return ((r[0] + r[1]) + r[4]) + ((r[2] + r[3]) + r[5]);
        case 7:
          return ((r[0] + r[1]) + (r[4] + r[5])) + ((r[2] + r[3]) + r[6]);
        default:
          return ((r[0] + r[4]) + (r[2] + r[6])) + ((r[1] + r[5]) + (r[3] + r[7]));
      }
  }
  return 0.0f;
}

constexpr ReductionOrder kOrders[] = {ReductionOrder::kRank, ReductionOrder::kRing,
                                      ReductionOrder::kTree, ReductionOrder::kHalvingDoubling};

std::vector<float> Column(const std::vector<Row>& rows, int64_t index) {
  std::vector<float> values;
  for (const Row& row : rows) values.push_back(row[index]);
  return values;
}

int ChunkOf(int64_t index, int64_t count, int n) {
  int64_t begin = 0;
  for (int chunk = 0; chunk < n; ++chunk) {
    begin += count / n + (chunk < count % n ? 1 : 0);
    if (index < begin) return chunk;
  }
  return n - 1;
}

TEST(CollectiveTest, AllReduceIsBitwiseTheHandWrittenSum) {
  for (const ReductionOrder order : kOrders) {
    for (int n = 1; n <= 8; ++n) {
      for (const int64_t count : {1, 2, 7, 13, 64, 1031, 2500}) {
        const int start = n > 2 ? 2 : 0;
        Collective call;
        call.order = order;
        call.ring_start = start;
        call.block = count;
        std::vector<Row> inputs = Inputs(n, count);
        std::vector<Row> outputs(n, Row(count));
        std::vector<Row> in_place = inputs;
        std::vector<MemberBuffers> apart, same;
        for (int rank = 0; rank < n; ++rank) {
          apart.push_back({inputs[rank].data(), outputs[rank].data()});
          same.push_back({in_place[rank].data(), in_place[rank].data()});
        }
        RunCollective(call, apart);
        RunCollective(call, same);
        for (int64_t i = 0; i < count; ++i) {
          const float expected = HandSum(order, Column(inputs, i), start + ChunkOf(i, count, n));
          for (int rank = 0; rank < n; ++rank) {
            ASSERT_EQ(outputs[rank][i], expected) << n << " ranks, element " << i;
            ASSERT_EQ(in_place[rank][i], expected);
          }
        }
      }
    }
  }
}

TEST(CollectiveTest, ReduceScatterThenAllGatherIsBitwiseTheHandWrittenSum) {
  constexpr int64_t kOuter = 3, kPiece = 5;
  for (const ReductionOrder order : kOrders) {
    for (int n = 1; n <= 8; ++n) {
      const int64_t count = kOuter * n * kPiece;
      Collective scatter;
      scatter.kind = CollectiveKind::kReduceScatter;
      scatter.order = order;
      scatter.ring_start = n - 1;
      scatter.outer = kOuter;
      scatter.block = kPiece;
      Collective gather = scatter;
      gather.kind = CollectiveKind::kAllGather;
      const std::vector<Row> inputs = Inputs(n, count);
      std::vector<Row> parts(n, Row(kOuter * kPiece)), full(n, Row(count)), in_place = inputs;
      std::vector<MemberBuffers> down, up, same;
      for (int rank = 0; rank < n; ++rank) {
        down.push_back({inputs[rank].data(), parts[rank].data()});
        up.push_back({parts[rank].data(), full[rank].data()});
        same.push_back({in_place[rank].data(), in_place[rank].data()});
      }
      RunCollective(scatter, down);
      RunCollective(gather, up);
      RunCollective(scatter, same);
      RunCollective(gather, same);
      for (int64_t i = 0; i < count; ++i) {
        const int owner = static_cast<int>(i / kPiece % n);  // element (o, r, i) belongs to r
        const float expected = HandSum(order, Column(inputs, i), n - 1 + owner);
        for (int rank = 0; rank < n; ++rank) {
          ASSERT_EQ(full[rank][i], expected) << n << " ranks, element " << i;
          ASSERT_EQ(in_place[rank][i], expected);
        }
      }
    }
  }
}

TEST(CollectiveTest, SixteenBitSumsAreRoundedOnce) {
  // 256 + 1 + 1 in bf16 (8 bits of mantissa): rounding after each addition would leave 256.
  std::vector<uint16_t> a = {FloatToBF16(256.0f)}, b = {FloatToBF16(1.0f)}, c = b;
  Collective call;
  call.dtype = DType::kBF16;
  call.block = 1;
  const std::vector<MemberBuffers> members = {
      {a.data(), a.data()}, {b.data(), b.data()}, {c.data(), c.data()}};
  RunCollective(call, members);
  EXPECT_EQ(BF16ToFloat(a[0]), 258.0f);
  EXPECT_EQ(a[0], b[0]);
  EXPECT_EQ(a[0], c[0]);
}

TEST(CollectiveTest, BroadcastSendsTheFirstMembersBytes) {
  std::vector<int32_t> a = {1, 2, 3}, b(3), c(3);
  Collective call;
  call.kind = CollectiveKind::kBroadcast;
  call.dtype = DType::kI32;
  call.block = 3;
  const std::vector<MemberBuffers> members = {
      {a.data(), a.data()}, {b.data(), b.data()}, {c.data(), c.data()}};
  RunCollective(call, members);
  EXPECT_EQ(b, a);
  EXPECT_EQ(c, a);
}

TEST(CollectiveTest, RefusesWhatCannotBeDone) {
  Collective call;
  call.block = 4;
  std::vector<float> data(16);
  EXPECT_TRUE(ValidateCollective(call, 2, data.data(), data.data()).ok());
  EXPECT_TRUE(ValidateCollective(call, 2, data.data(), data.data() + 4).ok());
  EXPECT_FALSE(ValidateCollective(call, 2, data.data(), data.data() + 3).ok());
  call.dtype = DType::kI32;
  EXPECT_FALSE(ValidateCollective(call, 2, data.data(), data.data()).ok());
  call.dtype = DType::kF32;
  call.block = -1;
  EXPECT_FALSE(ValidateCollective(call, 2, data.data(), data.data()).ok());
  call.block = INT64_MAX / 4;
  EXPECT_FALSE(ValidateCollective(call, 2, data.data(), data.data()).ok());
}

TEST(CollectiveTest, RangesOfAnInPlaceGatherReadOnlyTheOwnPart) {
  Collective call;
  call.kind = CollectiveKind::kAllGather;
  call.block = 4;
  std::vector<float> data(12);
  absl::InlinedVector<Range, 6> ranges;
  AppendRanges(call, 3, 1, data.data(), data.data(), ranges);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].begin, data.data() + 4);
  EXPECT_EQ(ranges[0].bytes, 16);
  EXPECT_EQ(ranges[0].access, Access::kRead);
  EXPECT_EQ(ranges[1].bytes, 48);
  EXPECT_EQ(ranges[1].access, Access::kWrite);
}

}  // namespace
}  // namespace tideline

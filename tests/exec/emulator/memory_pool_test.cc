#include "exec/emulator/memory_pool.h"

#include <cstring>

#include "gtest/gtest.h"

namespace tideline {
namespace {

MemoryPool::Limits Small() { return {4, 2, 1000, 500, true}; }

TEST(MemoryPoolTest, HoldsExactlyTheCapacity) {
  MemoryPool pool(Small());
  auto a = pool.Reserve(0, Space::kDevice, 600, "a", Category::kParameter);
  ASSERT_TRUE(a.ok());
  std::memset(*a, 1, 600);
  ASSERT_TRUE(pool.Reserve(0, Space::kDevice, 400, "b", Category::kActivation).ok());
  const auto c = pool.Reserve(0, Space::kDevice, 1, "c", Category::kGradient);
  ASSERT_FALSE(c.ok());
  EXPECT_EQ(ExitCode(c.status()), 1);
  const std::string message(c.status().message());
  EXPECT_NE(message.find("'c' (gradient) needs 1 bytes, 1000 of 1000"), std::string::npos);
  EXPECT_NE(message.find("parameter 600, activation 400"), std::string::npos) << message;
  pool.Release(0, *a);
  EXPECT_EQ(pool.ReservedBytes(0, Space::kDevice), 400);
  EXPECT_TRUE(pool.Reserve(0, Space::kDevice, 600, "c", Category::kGradient).ok());
  EXPECT_TRUE(pool.Reserve(1, Space::kDevice, 1000, "other device", Category::kGradient).ok());
}

TEST(MemoryPoolTest, PinnedMemoryBelongsToTheNode) {
  MemoryPool pool(Small());
  ASSERT_TRUE(pool.Reserve(0, Space::kPinnedHost, 300, "a", Category::kInput).ok());
  EXPECT_FALSE(pool.Reserve(1, Space::kPinnedHost, 201, "b", Category::kInput).ok());
  EXPECT_TRUE(pool.Reserve(1, Space::kPinnedHost, 200, "b", Category::kInput).ok());
  EXPECT_TRUE(pool.Reserve(2, Space::kPinnedHost, 500, "next node", Category::kInput).ok());
}

TEST(MemoryPoolTest, UntouchedReservationsCostNothing) {
  MemoryPool pool({1, 1, int64_t{1} << 40, 0, true});
  const auto big = pool.Reserve(0, Space::kDevice, int64_t{1} << 38, "big", Category::kParameter);
  ASSERT_TRUE(big.ok()) << big.status();
  static_cast<char*>(*big)[(int64_t{1} << 38) - 1] = 1;
}

TEST(MemoryPoolTest, ReservationsAreAlignedAndApart) {
  MemoryPool pool(Small());
  const auto a = pool.Reserve(0, Space::kDevice, 0, "empty", Category::kInput);
  const auto b = pool.Reserve(0, Space::kDevice, 3, "b", Category::kInput);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(*a, *b);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*b) % kAlignment, 0u);
}

TEST(MemoryPoolTest, WithoutLimitsOnlyTheSumIsKept) {
  MemoryPool pool({1, 1, 10, 0, false});
  EXPECT_TRUE(pool.Reserve(0, Space::kDevice, 100, "a", Category::kInput).ok());
  EXPECT_EQ(pool.ReservedBytes(0, Space::kDevice), 100);
}

}  // namespace
}  // namespace tideline

#include "exec/emulator/touch_witness.h"

#include "gtest/gtest.h"

namespace tideline {
namespace {

constexpr size_t kActivationIndex = static_cast<size_t>(Category::kActivation);
constexpr size_t kParameterIndex = static_cast<size_t>(Category::kParameter);

TEST(TouchWitnessTest, LivesRunFromFirstToLastTouch) {
  char p[100] = {}, x[40] = {}, y[60] = {}, unused[1000] = {};
  TouchWitness witness;
  witness.AddReservation(p, 100, Space::kDevice, Category::kParameter);
  witness.AddReservation(x, 40, Space::kDevice, Category::kActivation);
  witness.AddReservation(y, 60, Space::kDevice, Category::kActivation);
  witness.AddReservation(unused, 1000, Space::kDevice, Category::kGradient);
  const auto touch = [&](std::vector<Range> ranges) { witness.Touch(ranges); };
  touch({{p, 100, Access::kWrite}});                         // p: 100
  touch({{p, 100, Access::kRead}, {x, 4, Access::kWrite}});  // p x: 140, one byte counts all
  touch({{x + 39, 1, Access::kRead}, {y + 10, 4, Access::kWrite}});  // p x y: 200, the peak
  touch({{y, 60, Access::kRead}});                                   // x is gone: 160
  touch({{p, 100, Access::kReadWrite}});                             // 100
  const ObservedMemory observed = witness.Observed(Space::kDevice);
  EXPECT_EQ(observed.peak, 200);
  EXPECT_EQ(observed.peak_by_category[kParameterIndex], 100);
  EXPECT_EQ(observed.peak_by_category[kActivationIndex], 100);
  EXPECT_EQ(witness.Observed(Space::kPinnedHost).peak, 0);
}

TEST(TouchWitnessTest, TheSplitIsThatOfTheFirstPeak) {
  char a[64] = {}, b[64] = {};
  TouchWitness witness;
  witness.AddReservation(a, 64, Space::kDevice, Category::kParameter);
  witness.AddReservation(b, 64, Space::kDevice, Category::kActivation);
  const Range first = {a, 64, Access::kWrite}, second = {b, 64, Access::kWrite};
  witness.Touch({&first, 1});
  witness.Touch({&second, 1});
  const ObservedMemory observed = witness.Observed(Space::kDevice);
  EXPECT_EQ(observed.peak, 64);
  EXPECT_EQ(observed.peak_by_category[kParameterIndex], 64);
  EXPECT_EQ(observed.peak_by_category[kActivationIndex], 0);
}

TEST(TouchWitnessTest, ReservationsMadeAgainCountApart) {
  char a[64] = {};
  TouchWitness witness;
  for (int step = 0; step < 3; ++step) {
    witness.AddReservation(a, 64, Space::kDevice, Category::kActivation);
    const Range range = {a, 64, Access::kWrite};
    witness.Touch({&range, 1});
    witness.RemoveReservation(a);
  }
  EXPECT_EQ(witness.Observed(Space::kDevice).peak, 64);
}

}  // namespace
}  // namespace tideline

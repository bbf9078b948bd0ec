#include "base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tideline {
namespace {

void ExpectPhilox(PhiloxBlock counter, uint32_t key0, uint32_t key1, PhiloxBlock expected) {
  const PhiloxBlock got = Philox4x32(counter, key0, key1);
  for (int word = 0; word < 4; ++word) EXPECT_EQ(got.word[word], expected.word[word]);
}

// Known answers published with the paper (Random123, kat_vectors, philox4x32 10 rounds).
TEST(Philox, KnownAnswers) {
  ExpectPhilox({{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}});
  ExpectPhilox({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u,
               {{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}});
  ExpectPhilox({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, 0xa4093822u, 0x299f31d0u,
               {{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}});
}

// FNV-1a, 64 bits: the offset basis for "" and the published values of "a" and "foobar".
TEST(StreamKey, HashesNamesWithFnv1a) {
  EXPECT_EQ(MakeStreamKey(0, "").name_hash, 0xcbf29ce484222325u);
  EXPECT_EQ(MakeStreamKey(0, "a").name_hash, 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(MakeStreamKey(0, "foobar").name_hash, 0x85944171f73967e8u);
}

// Moments of N(0, 1) within five standard errors: mean 1/sqrt(n), variance sqrt(2/n), skewness
// sqrt(6/n), kurtosis sqrt(24/n); and the share inside one standard deviation, 0.682689.
TEST(NormalAt, HasTheMomentsOfANormal) {
  constexpr int kCount = 400000;
  double sums[5] = {};
  int inside = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = NormalAt(7, "layers.0.weight", i);
    double power = 1;
    for (double& sum : sums) {
      sum += power;
      power *= value;
    }
    inside += std::fabs(value) < 1.0 ? 1 : 0;
  }
  const double n = kCount;
  EXPECT_NEAR(sums[1] / n, 0.0, 5 / std::sqrt(n));
  EXPECT_NEAR(sums[2] / n, 1.0, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(sums[3] / n, 0.0, 5 * std::sqrt(15 / n));
  EXPECT_NEAR(sums[4] / n, 3.0, 5 * std::sqrt(96 / n));
  EXPECT_NEAR(inside / n, 0.682689, 5 * std::sqrt(0.682689 * 0.317311 / n));
}

TEST(NormalAt, DependsOnSeedNameAndIndexOnly) {
  EXPECT_EQ(NormalAt(1, "a", 5), NormalAt(MakeStreamKey(1, "a"), 5));
  std::set<float> distinct;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (const std::string name : {"a", "b", "layers.1", "layers.2"}) {
      for (const uint64_t index :
           {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, uint64_t{1} << 40}) {
        distinct.insert(NormalAt(seed, name, index));
      }
    }
  }
  EXPECT_EQ(distinct.size(), 160u);
}

// Neighbouring elements, streams and seeds are uncorrelated: five standard errors of 1/sqrt(n).
TEST(NormalAt, NeighboursAreUncorrelated) {
  constexpr int kCount = 100000;
  double next = 0, stream = 0, seed = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = NormalAt(3, "w", i);
    next += value * NormalAt(3, "w", i + 1);
    stream += value * NormalAt(3, "v", i);
    seed += value * NormalAt(4, "w", i);
  }
  const double bound = 5 / std::sqrt(double{kCount});
  EXPECT_NEAR(next / kCount, 0.0, bound);
  EXPECT_NEAR(stream / kCount, 0.0, bound);
  EXPECT_NEAR(seed / kCount, 0.0, bound);
}

TEST(Rng, SameSeedSameSequence) {
  Rng first(42), second(42), other(43), named(42, "x");
  bool differs = false, name_differs = false;
  for (int i = 0; i < 100; ++i) {
    const uint64_t value = first.Next();
    EXPECT_EQ(value, second.Next());
    differs |= value != other.Next();
    name_differs |= value != named.Next();
  }
  EXPECT_TRUE(differs);
  EXPECT_TRUE(name_differs);
}

TEST(Rng, BelowIsUniformAndBounded) {
  Rng rng(1);
  for (const uint64_t bound : {uint64_t{1}, uint64_t{2}, uint64_t{7}, uint64_t{1} << 63}) {
    for (int i = 0; i < 1000; ++i) EXPECT_LT(rng.Below(bound), bound);
  }
  // Chi-squared with 6 degrees of freedom; 30 is beyond the 99.99th percentile.
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts[rng.Below(7)];
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - 10000.0) * (count - 10000.0) / 10000.0;
  EXPECT_LT(chi_squared, 30.0);
}

TEST(Rng, UniformLiesInTheUnitInterval) {
  Rng rng(1);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) {
    const double value = rng.Uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 5 * std::sqrt(1.0 / 12 / 100000));
}

}  // namespace
}  // namespace tideline

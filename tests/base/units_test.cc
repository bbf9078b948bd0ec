#include "base/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace tideline {
namespace {

TEST(UnitsTest, BytesInBinaryAndDecimalUnits) {
  EXPECT_EQ(*ParseBytes("80GiB"), int64_t{80} << 30);
  EXPECT_EQ(*ParseBytes("240GB"), 240'000'000'000);
  EXPECT_EQ(*ParseBytes("512 B"), 512);
  EXPECT_EQ(*ParseBytes("64KiB"), 65536);
  EXPECT_EQ(*ParseBytes("64kB"), 64000);
  EXPECT_EQ(*ParseBytes("2TiB"), int64_t{2} << 40);
  EXPECT_EQ(*ParseBytes("0"), 0);
  EXPECT_EQ(*ParseBytes("0MB"), 0);
  // 1.5 * 2^20 exactly; 0.3 GiB = 322122547.2 rounds to the nearest byte.
  EXPECT_EQ(*ParseBytes("1.5MiB"), 1572864);
  EXPECT_EQ(*ParseBytes("0.3GiB"), 322122547);
}

TEST(UnitsTest, BytesAreExactUpToTheEndOfTheRange) {
  EXPECT_EQ(*ParseBytes("9223372036854775807B"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(*ParseBytes("8388607TiB"), int64_t{8388607} << 40);
  EXPECT_FALSE(ParseBytes("8388608TiB").ok());  // 2^63
  EXPECT_FALSE(ParseBytes("99999999999999999999B").ok());
}

TEST(UnitsTest, MalformedSizesSayWhatToWrite) {
  for (const char* text : {"",       "GiB",    "-1GiB", "+1GiB",  " 1GiB", "1 GiB ", "1  GiB",
                           "80",     "80gib",  "80G",   "80Gb",   "1.GiB", ".5GiB",  "1.2.3GiB",
                           "1e3GiB", "1,5GiB", "nan",   "infGiB", "0x10B", "1GiB/s"}) {
    const StatusOr<int64_t> bytes = ParseBytes(text);
    ASSERT_FALSE(bytes.ok()) << text;
    EXPECT_EQ(ExitCode(bytes.status()), 2) << text;
    EXPECT_NE(bytes.status().message().find("80GiB"), absl::string_view::npos)
        << bytes.status().message();
  }
  EXPECT_EQ(
      ParseBytes("80").status().message(),
      "`80` is no size: its unit is missing (B, KiB, kB, MiB, MB, GiB, GB, TiB, TB); write for "
      "example 80GiB");
}

TEST(UnitsTest, RatesInBytesAndBits) {
  EXPECT_EQ(*ParseBytesPerSecond("600GB/s"), 6e11);
  EXPECT_EQ(*ParseBytesPerSecond("200Gb/s"), 25e9);
  EXPECT_EQ(*ParseBytesPerSecond("1.5GiB/s"), 1.5 * 1073741824.0);
  EXPECT_EQ(*ParseBytesPerSecond("2e9B/s"), 2e9);
  EXPECT_FALSE(ParseBytesPerSecond("600GB").ok());
  EXPECT_FALSE(ParseBytesPerSecond("600Gb").ok());
  EXPECT_FALSE(ParseBytesPerSecond("1e308TB/s").ok());  // not finite
  EXPECT_FALSE(ParseBytesPerSecond("1e999B/s").ok());
}

TEST(UnitsTest, TimesAreTheNearestDoubles) {
  EXPECT_EQ(*ParseSeconds("5us"), 5e-6);
  EXPECT_EQ(*ParseSeconds("3ns"), 3e-9);
  EXPECT_EQ(*ParseSeconds("1.5ms"), 1.5e-3);
  EXPECT_EQ(*ParseSeconds("2min"), 120);
  EXPECT_EQ(*ParseSeconds("1h"), 3600);
  EXPECT_FALSE(ParseSeconds("5 ").ok());
  EXPECT_FALSE(ParseSeconds("5µs").ok());
}

TEST(UnitsTest, Speeds) {
  EXPECT_EQ(*ParseFlopsPerSecond("312TFLOP/s"), 312e12);
  EXPECT_FALSE(ParseFlopsPerSecond("312TFLOPS").ok());
}

TEST(UnitsTest, FormattedTextIsShortAndExact) {
  EXPECT_EQ(FormatBytes(int64_t{256} << 20), "256MiB");
  EXPECT_EQ(FormatBytes(240'000'000'000), "240GB");
  EXPECT_EQ(FormatBytes(12345), "12345B");
  EXPECT_EQ(FormatBytes(0), "0B");
  EXPECT_EQ(FormatBytesPerSecond(6e11), "600GB/s");
  EXPECT_EQ(FormatBytesPerSecond(0), "0B/s");
  EXPECT_EQ(FormatSeconds(5e-6), "5us");
  EXPECT_EQ(FormatSeconds(5e-10), "5e-10s");
  EXPECT_EQ(FormatSeconds(0), "0s");
  EXPECT_EQ(FormatFlopsPerSecond(312e12), "312TFLOP/s");
}

TEST(UnitsTest, WhatIsPrintedReadsBackToTheSameValue) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20000; ++round) {
    const auto bytes = static_cast<int64_t>(random() >> (1 + random() % 62));
    ASSERT_EQ(*ParseBytes(FormatBytes(bytes)), bytes);
    const double value =
        std::ldexp(static_cast<double>(random()), -static_cast<int>(random() % 120));
    ASSERT_EQ(*ParseSeconds(FormatSeconds(value)), value);
    ASSERT_EQ(*ParseBytesPerSecond(FormatBytesPerSecond(value)), value);
    ASSERT_EQ(*ParseFlopsPerSecond(FormatFlopsPerSecond(value)), value);
    ASSERT_EQ(*ParseReal(ShortestReal(value), 0, 1e300), value);
  }
}

TEST(UnitsTest, TextForPeople) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1572864), "1.5 MiB");
  EXPECT_EQ(HumanBytes(-1572864), "-1.5 MiB");
  EXPECT_EQ(HumanSeconds(0.00102163), "1.022 ms");
  EXPECT_EQ(HumanSeconds(2e-10), "0.2 ns");
  EXPECT_EQ(HumanSeconds(0), "0 s");
  EXPECT_EQ(HumanBytesPerSecond(25e9), "25 GB/s");
  EXPECT_EQ(HumanFlopsPerSecond(312e12), "312 TFLOP/s");
  EXPECT_EQ(HumanCount(124439808), "124.4 M");
  EXPECT_EQ(HumanCount(7), "7");
  EXPECT_EQ(HumanBytes(std::numeric_limits<double>::infinity()), "inf B");
}

TEST(UnitsTest, PlainNumbersKeepTheirBounds) {
  EXPECT_EQ(*ParseInteger("-3", -3, 3), -3);
  EXPECT_FALSE(ParseInteger("4", -3, 3).ok());
  EXPECT_FALSE(ParseInteger("3.0", -3, 3).ok());
  EXPECT_FALSE(ParseInteger("", 0, 3).ok());
  EXPECT_FALSE(ParseInteger(" 3", 0, 3).ok());
  EXPECT_FALSE(ParseInteger("99999999999999999999", 0, std::numeric_limits<int64_t>::max()).ok());
  EXPECT_EQ(*ParseReal("1.25", 1, 2), 1.25);
  EXPECT_FALSE(ParseReal("2.5", 1, 2).ok());
  EXPECT_FALSE(ParseReal("nan", 1, 2).ok());
}

}  // namespace
}  // namespace tideline

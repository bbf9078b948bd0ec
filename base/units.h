// Units: reads and prints sizes, rates and times as text.
//
// A size is "80GiB", "512 B"; a rate "600GB/s" or, as network cards are sold, "200Gb/s" (bits); a
// time "5us"; a speed "312TFLOP/s". KiB, MiB, GiB, TiB are powers of 1024, kB, MB, GB, TB of 1000;
// the two are never mixed and letters' case counts. A unit is required except after a plain 0.
// Within the program sizes are int64_t with the suffix _bytes, times double seconds with the suffix
// _s, rates double bytes per second. Errors are usage errors (exit 2); a reader of files turns
// them into input errors.
#ifndef TIDELINE_BASE_UNITS_H_
#define TIDELINE_BASE_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tideline {

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

// Non-negative whole bytes; a decimal fraction is rounded to the nearest byte. Errors: no number,
// sign, unknown or missing unit, more than int64_t holds.
StatusOr<int64_t> ParseBytes(std::string_view text);

// Bytes per second, finite and >= 0. "GB/s", "GiB/s", "Gb/s" (bits, 8 to the byte).
StatusOr<double> ParseBytesPerSecond(std::string_view text);

// Seconds, finite and >= 0: "ns", "us", "ms", "s", "min", "h".
StatusOr<double> ParseSeconds(std::string_view text);

// Floating-point operations per second, finite and >= 0: "GFLOP/s", "TFLOP/s".
StatusOr<double> ParseFlopsPerSecond(std::string_view text);

// A whole decimal number from `least` to `most`, digits only with an optional minus.
StatusOr<int64_t> ParseInteger(std::string_view text, int64_t least, int64_t most);

// A finite decimal number from `least` to `most`.
StatusOr<double> ParseReal(std::string_view text, double least, double most);

// Exact text that the parsers above read back to the same value: "256MiB", "240GB", "12345B";
// "600GB/s"; "5us".
std::string FormatBytes(int64_t bytes);
std::string FormatBytesPerSecond(double bytes_per_second);
std::string FormatSeconds(double seconds);
std::string FormatFlopsPerSecond(double flops_per_second);

// Rounded to four digits, for people: "39.06 GiB", "1.022 ms", "312 TFLOP/s". Negative and
// non-finite values print as they are.
std::string HumanBytes(double bytes);
std::string HumanSeconds(double seconds);
std::string HumanBytesPerSecond(double bytes_per_second);
std::string HumanFlopsPerSecond(double flops_per_second);
// "1.234 T", "124.4 M": counts.
std::string HumanCount(double count);

// The shortest decimal text that reads back to the same double; "inf", "-inf" and "nan" as such.
std::string ShortestReal(double value);

}  // namespace tideline

#endif  // TIDELINE_BASE_UNITS_H_

#include "base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace tideline {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kBinary = 1024.0;

constexpr std::array<Unit, 9> kByteUnits = {{{"B", 1},
                                             {"KiB", kBinary},
                                             {"kB", 1e3},
                                             {"MiB", kBinary* kBinary},
                                             {"MB", 1e6},
                                             {"GiB", kBinary* kBinary* kBinary},
                                             {"GB", 1e9},
                                             {"TiB", kBinary* kBinary* kBinary* kBinary},
                                             {"TB", 1e12}}};
constexpr std::array<Unit, 12> kRateUnits = {{{"B/s", 1},
                                              {"kB/s", 1e3},
                                              {"MB/s", 1e6},
                                              {"GB/s", 1e9},
                                              {"TB/s", 1e12},
                                              {"KiB/s", kBinary},
                                              {"MiB/s", kBinary* kBinary},
                                              {"GiB/s", kBinary* kBinary* kBinary},
                                              {"TiB/s", kBinary* kBinary* kBinary* kBinary},
                                              {"Mb/s", 1e6 / 8},
                                              {"Gb/s", 1e9 / 8},
                                              {"Tb/s", 1e12 / 8}}};
constexpr std::array<Unit, 6> kTimeUnits = {
    {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}}};
constexpr std::array<Unit, 5> kSpeedUnits = {
    {{"FLOP/s", 1}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}}};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "GiB, MiB": what to write, in messages.
std::string UnitNames(std::span<const Unit> units) {
  std::vector<std::string> names;
  for (const Unit& unit : units) names.emplace_back(unit.name);
  return JoinNames(names);
}

// Splits "80 GiB" into "80" and "GiB"; one space may stand between them.
struct NumberAndUnit {
  std::string_view number;
  std::string_view unit;
};

Status NotAQuantity(std::string_view kind, std::string_view text, std::string_view why,
                    std::string_view example) {
  return UsageError(absl::StrCat(Quoted(text), " is no ", std::string(kind), ": ", std::string(why),
                                 "; write for example ", std::string(example)));
}

StatusOr<NumberAndUnit> SplitNumber(std::string_view kind, std::string_view text,
                                    std::string_view example) {
  if (text.empty()) return NotAQuantity(kind, text, "it is empty", example);
  if (text[0] == '-') return NotAQuantity(kind, text, "it must not be negative", example);
  if (!IsDigit(text[0])) return NotAQuantity(kind, text, "it must start with a digit", example);
  size_t end = 0;
  while (end < text.size() && (IsDigit(text[end]) || text[end] == '.')) ++end;
  // An exponent belongs to the number only when digits follow: "1e9B/s" against "1EB".
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    size_t digits = end + 1;
    if (digits < text.size() && (text[digits] == '-' || text[digits] == '+')) ++digits;
    if (digits < text.size() && IsDigit(text[digits])) {
      end = digits;
      while (end < text.size() && IsDigit(text[end])) ++end;
    }
  }
  NumberAndUnit split{text.substr(0, end), text.substr(end)};
  if (!split.unit.empty() && split.unit[0] == ' ') split.unit.remove_prefix(1);
  return split;
}

StatusOr<double> UnitFactor(std::string_view kind, std::string_view text,
                            const NumberAndUnit& split, std::span<const Unit> units,
                            std::string_view example) {
  for (const Unit& unit : units) {
    if (unit.name == split.unit) return unit.factor;
  }
  if (split.unit.empty()) {
    if (split.number == "0") return 1.0;
    return NotAQuantity(kind, text, absl::StrCat("its unit is missing (", UnitNames(units), ")"),
                        example);
  }
  return NotAQuantity(
      kind, text,
      absl::StrCat("its unit ", Quoted(split.unit, 16), " is none of ", UnitNames(units)), example);
}

StatusOr<double> ParseQuantity(std::string_view kind, std::string_view text,
                               std::span<const Unit> units, std::string_view example) {
  TL_ASSIGN_OR_RETURN(const NumberAndUnit split, SplitNumber(kind, text, example));
  TL_ASSIGN_OR_RETURN(const double factor, UnitFactor(kind, text, split, units, example));
  double number = 0;
  const char* end = split.number.data() + split.number.size();
  const auto [stop, error] = std::from_chars(split.number.data(), end, number);
  if (error != std::errc() || stop != end || !std::isfinite(number)) {
    return NotAQuantity(kind, text, "its number cannot be read", example);
  }
  // 5us must be the double nearest to 5e-6; 5 * 1e-6 is not, 5 / 1e6 is.
  const double value = factor < 1 ? number / std::round(1 / factor) : number * factor;
  if (!std::isfinite(value)) return NotAQuantity(kind, text, "it is too large", example);
  return value;
}

std::string BaseUnit(std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (unit.factor == 1) return std::string(unit.name);
  }
  return "";
}

// The unit that gives the shortest text which reads back to the same value; the larger unit wins a
// tie.
std::string FormatQuantity(double value, std::span<const Unit> units) {
  std::string best = absl::StrCat(ShortestReal(value), BaseUnit(units));
  if (value == 0 || !std::isfinite(value)) return best;
  bool found = false;
  for (const Unit& unit : units) {
    const double scaled =
        unit.factor < 1 ? value * std::round(1 / unit.factor) : value / unit.factor;
    if (scaled < 1 || scaled >= 1e4) continue;
    const std::string text = absl::StrCat(ShortestReal(scaled), std::string(unit.name));
    if (found && text.size() > best.size()) continue;
    const StatusOr<double> read_back = ParseQuantity("value", text, units, "1");
    if (!read_back.ok() || *read_back != value) continue;
    best = text;
    found = true;
  }
  return best;
}

// Rounded to four digits in the largest unit of which there is at least one.
std::string Human(double value, std::span<const Unit> units) {
  if (value == 0 || !std::isfinite(value)) {
    const std::string unit = BaseUnit(units);
    return absl::StrCat(ShortestReal(value), unit.empty() ? "" : " ", unit);
  }
  const Unit* best = &units[0];
  for (const Unit& unit : units) {
    if (std::fabs(value) >= unit.factor && unit.factor >= best->factor) best = &unit;
  }
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%.4g", value / best->factor);
  return absl::StrCat(digits.data(), best->name.empty() ? "" : " ", std::string(best->name));
}

}  // namespace

StatusOr<int64_t> ParseBytes(std::string_view text) {
  constexpr std::string_view kKind = "size";
  constexpr std::string_view kExample = "80GiB";
  TL_ASSIGN_OR_RETURN(const NumberAndUnit split, SplitNumber(kKind, text, kExample));
  TL_ASSIGN_OR_RETURN(const double factor, UnitFactor(kKind, text, split, kByteUnits, kExample));
  // Exact: mantissa * factor / 10^decimals in 128 bits; 24 digits times 2^40 fit.
  constexpr size_t kMostDigits = 24;
  if (split.number.size() > kMostDigits) {
    return NotAQuantity(kKind, text, "its number is too long", kExample);
  }
  __int128 mantissa = 0;
  __int128 power = 1;
  bool seen_point = false;
  for (const char c : split.number) {
    if (c == '.') {
      if (seen_point) return NotAQuantity(kKind, text, "it has two decimal points", kExample);
      seen_point = true;
      continue;
    }
    if (!IsDigit(c)) return NotAQuantity(kKind, text, "its number cannot be read", kExample);
    mantissa = mantissa * 10 + (c - '0');
    if (seen_point) power *= 10;
  }
  if (!IsDigit(split.number.back())) {
    return NotAQuantity(kKind, text, "digits must follow the decimal point", kExample);
  }
  const __int128 scaled = mantissa * static_cast<int64_t>(factor);
  const __int128 bytes = (scaled + power / 2) / power;
  if (bytes > std::numeric_limits<int64_t>::max()) {
    return NotAQuantity(kKind, text, "it is more than 2^63 bytes", kExample);
  }
  return static_cast<int64_t>(bytes);
}

StatusOr<double> ParseBytesPerSecond(std::string_view text) {
  return ParseQuantity("rate", text, kRateUnits, "600GB/s");
}

StatusOr<double> ParseSeconds(std::string_view text) {
  return ParseQuantity("time", text, kTimeUnits, "5us");
}

StatusOr<double> ParseFlopsPerSecond(std::string_view text) {
  return ParseQuantity("speed", text, kSpeedUnits, "312TFLOP/s");
}

StatusOr<int64_t> ParseInteger(std::string_view text, int64_t least, int64_t most) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::invalid_argument || stop != end) {
    return UsageError(absl::StrCat(Quoted(text), " is no whole number; write digits only, from ",
                                   least, " to ", most));
  }
  if (error != std::errc() || value < least || value > most) {
    return UsageError(absl::StrCat(Quoted(text), " is out of range; write a whole number from ",
                                   least, " to ", most));
  }
  return value;
}

StatusOr<double> ParseReal(std::string_view text, double least, double most) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::invalid_argument || stop != end || !std::isfinite(value)) {
    return UsageError(absl::StrCat(Quoted(text), " is no number; write one from ",
                                   ShortestReal(least), " to ", ShortestReal(most)));
  }
  if (error != std::errc() || value < least || value > most) {
    return UsageError(absl::StrCat(Quoted(text), " is out of range; write a number from ",
                                   ShortestReal(least), " to ", ShortestReal(most)));
  }
  return value;
}

std::string FormatBytes(int64_t bytes) {
  std::string best = absl::StrCat(bytes, "B");
  if (bytes <= 0) return best;
  for (const Unit& unit : kByteUnits) {
    const auto factor = static_cast<int64_t>(unit.factor);
    if (bytes % factor != 0) continue;
    std::string text = absl::StrCat(bytes / factor, std::string(unit.name));
    if (text.size() <= best.size()) best = std::move(text);
  }
  return best;
}

std::string FormatBytesPerSecond(double bytes_per_second) {
  // Bits never: a rate prints in bytes whatever it was read from.
  return FormatQuantity(bytes_per_second, std::span(kRateUnits).first(5));
}

std::string FormatSeconds(double seconds) {
  return FormatQuantity(seconds, std::span(kTimeUnits).first(4));
}

std::string FormatFlopsPerSecond(double flops_per_second) {
  return FormatQuantity(flops_per_second, kSpeedUnits);
}

std::string HumanBytes(double bytes) {
  constexpr std::array<Unit, 5> kUnits = {{{"B", 1},
                                           {"KiB", kBinary},
                                           {"MiB", kBinary * kBinary},
                                           {"GiB", kBinary * kBinary * kBinary},
                                           {"TiB", kBinary * kBinary * kBinary * kBinary}}};
  return Human(bytes, kUnits);
}

std::string HumanSeconds(double seconds) { return Human(seconds, std::span(kTimeUnits).first(4)); }

std::string HumanBytesPerSecond(double bytes_per_second) {
  return Human(bytes_per_second, std::span(kRateUnits).first(5));
}

std::string HumanFlopsPerSecond(double flops_per_second) {
  return Human(flops_per_second, kSpeedUnits);
}

std::string HumanCount(double count) {
  constexpr std::array<Unit, 7> kUnits = {
      {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18}}};
  return Human(count, kUnits);
}

std::string ShortestReal(double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), error == std::errc() ? end : text.data());
}

}  // namespace tideline

#include "base/text.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

char LowerCase(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  constexpr size_t kLongest = 64;
  a = a.substr(0, kLongest);
  b = b.substr(0, kLongest);
  // rows[0], rows[1] and rows[2] are the distances of the prefixes before the last, last and
  // present prefix of `a`.
  std::vector<std::vector<size_t>> rows(3, std::vector<size_t>(b.size() + 1));
  for (size_t column = 0; column <= b.size(); ++column) rows[2][column] = column;
  for (size_t row = 1; row <= a.size(); ++row) {
    std::rotate(rows.begin(), rows.begin() + 1, rows.end());
    rows[2][0] = row;
    for (size_t column = 1; column <= b.size(); ++column) {
      const char left = LowerCase(a[row - 1]);
      const char right = LowerCase(b[column - 1]);
      size_t best = std::min(rows[1][column], rows[2][column - 1]) + 1;
      best = std::min(best, rows[1][column - 1] + (left == right ? 0 : 1));
      const bool swapped = row > 1 && column > 1 && left == LowerCase(b[column - 2]) &&
                           right == LowerCase(a[row - 2]);
      if (swapped) best = std::min(best, rows[0][column - 2] + 1);
      rows[2][column] = best;
    }
  }
  return rows[2][b.size()];
}

std::optional<std::string> NearestName(std::string_view name,
                                       const std::vector<std::string>& valid) {
  std::optional<std::string> nearest;
  size_t least = 0;
  for (const std::string& candidate : valid) {
    const size_t distance = EditDistance(name, candidate);
    if (distance > std::max<size_t>(1, std::max(name.size(), candidate.size()) / 3)) continue;
    if (nearest.has_value() && distance >= least) continue;
    nearest = candidate;
    least = distance;
  }
  if (nearest.has_value() || name.size() < 3) return nearest;
  for (const std::string& candidate : valid) {
    if (candidate.compare(0, name.size(), name) == 0) return candidate;
  }
  return std::nullopt;
}

std::string JoinNames(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) absl::StrAppend(&joined, joined.empty() ? "" : ", ", name);
  return joined;
}

std::string UnknownName(std::string_view kind, std::string_view name,
                        const std::vector<std::string>& valid) {
  std::string message = absl::StrCat("unknown ", std::string(kind), " ", Quoted(name), ";");
  if (const std::optional<std::string> nearest = NearestName(name, valid)) {
    absl::StrAppend(&message, " did you mean ", Quoted(*nearest), "?");
  }
  absl::StrAppend(&message, " valid: ", JoinNames(valid));
  return message;
}

std::string Counted(int64_t count, std::string_view noun) {
  return absl::StrCat(count, " ", std::string(noun), count == 1 ? "" : "s");
}

std::string Quoted(std::string_view text, size_t limit) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string quoted = "`";
  for (size_t position = 0; position < text.size(); ++position) {
    if (position == limit) {
      quoted += "...";
      break;
    }
    const auto byte = static_cast<unsigned char>(text[position]);
    if (byte >= 0x20 && byte < 0x7f) {
      quoted += text[position];
    } else {
      quoted += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  quoted += '`';
  return quoted;
}

StatusOr<std::vector<std::string>> SplitOutsideBraces(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (Trim(text).empty()) return parts;
  size_t depth = 0;
  size_t start = 0;
  for (size_t position = 0; position <= text.size(); ++position) {
    const bool at_end = position == text.size();
    if (!at_end && text[position] == '{') ++depth;
    if (!at_end && text[position] == '}') {
      if (depth == 0) {
        return UsageError(absl::StrCat("unmatched } in ", Quoted(text), "; write NAME{key=value}"));
      }
      --depth;
    }
    if (!at_end && (text[position] != separator || depth > 0)) continue;
    if (at_end && depth > 0) {
      return UsageError(absl::StrCat("missing } in ", Quoted(text), "; write NAME{key=value}"));
    }
    const std::string_view part = Trim(text.substr(start, position - start));
    if (part.empty()) {
      return UsageError(absl::StrCat("empty entry in the list ", Quoted(text), "; drop the extra ",
                                     std::string(1, separator)));
    }
    parts.emplace_back(part);
    start = position + 1;
  }
  return parts;
}

StatusOr<std::vector<KeyValue>> ParseKeyValues(std::string_view text) {
  TL_ASSIGN_OR_RETURN(const std::vector<std::string> parts, SplitOutsideBraces(text, ','));
  std::vector<KeyValue> entries;
  std::set<std::string> keys;
  for (const std::string& part : parts) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos) {
      return UsageError(absl::StrCat("entry ", Quoted(part), " has no value; write KEY=VALUE"));
    }
    KeyValue entry;
    entry.key = std::string(Trim(std::string_view(part).substr(0, equals)));
    entry.value = std::string(Trim(std::string_view(part).substr(equals + 1)));
    if (entry.key.empty() || entry.value.empty()) {
      return UsageError(absl::StrCat("entry ", Quoted(part), " has an empty ",
                                     entry.key.empty() ? "key" : "value", "; write KEY=VALUE"));
    }
    if (!keys.insert(entry.key).second) {
      return UsageError(absl::StrCat("key ", Quoted(entry.key), " is given twice in ", Quoted(text),
                                     "; keep one of them"));
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

StatusOr<BracedName> SplitBracedName(std::string_view text) {
  text = Trim(text);
  const size_t open = text.find('{');
  if (open == std::string_view::npos) {
    if (text.find('}') != std::string_view::npos) {
      return UsageError(absl::StrCat("unmatched } in ", Quoted(text), "; write NAME{key=value}"));
    }
    return BracedName{.name = std::string(text), .list = ""};
  }
  if (text.back() != '}') {
    return UsageError(absl::StrCat("the braces of ", Quoted(text),
                                   " must close at its end; write NAME{key=value}"));
  }
  return BracedName{.name = std::string(Trim(text.substr(0, open))),
                    .list = std::string(text.substr(open + 1, text.size() - open - 2))};
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

}  // namespace tideline

#include "traces/tide/tide_panels.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "base/units.h"

namespace tideline {
namespace {

constexpr int kColumns = 400;
constexpr double kAlikeShare = 0.02;
// A longer list of ranks would run out of the picture.
constexpr size_t kLongestList = 70;

std::map<int32_t, std::string> RolesOf(const RunMetadata& metadata) {
  std::map<int32_t, std::string> roles;
  for (const RunRank& rank : metadata.ranks) roles[rank.rank] = rank.role;
  return roles;
}

const std::string& RoleOf(const std::map<int32_t, std::string>& roles, int32_t rank) {
  static const std::string none;
  const auto found = roles.find(rank);
  return found == roles.end() ? none : found->second;
}

bool LookAlike(const std::vector<TideSplit>& a, const std::vector<TideSplit>& b) {
  double different = 0;
  double whole = 0;
  for (size_t column = 0; column < a.size(); ++column) {
    const std::vector<int64_t>& left = a[column].by_category;
    const std::vector<int64_t>& right = b[column].by_category;
    for (size_t category = 0; category < std::max(left.size(), right.size()); ++category) {
      const int64_t before = category < left.size() ? left[category] : 0;
      const int64_t after = category < right.size() ? right[category] : 0;
      different += static_cast<double>(std::abs(before - after));
    }
    whole += static_cast<double>(std::max<int64_t>(1, std::max(a[column].total_bytes,  //
                                                               b[column].total_bytes)));
  }
  return different <= kAlikeShare * whole;
}

struct Group {
  std::string role;
  std::vector<TideSplit> columns;  // of the first curve, which the others are held against
  const TideCurve* fullest = nullptr;
  int64_t peak_bytes = 0;
  std::vector<int32_t> ranks;
};

// The ranks that each played rank stands for, itself included.
std::map<int32_t, std::vector<int32_t>> StandsFor(const PlayedAs& played_as) {
  std::map<int32_t, std::vector<int32_t>> ranks;
  for (size_t rank = 0; rank < played_as.size(); ++rank) {
    ranks[played_as[rank]].push_back(static_cast<int32_t>(rank));
  }
  return ranks;
}

std::string GroupName(const Group& group) {
  std::string ranks = FormatRanks(group.ranks);
  if (ranks.size() > kLongestList) {
    const size_t end = ranks.rfind(", ", kLongestList);
    ranks = absl::StrCat(ranks.substr(0, end == std::string::npos ? kLongestList : end), ", ... (",
                         group.ranks.size(), " ranks)");
  }
  return absl::StrCat(group.role, group.role.empty() ? "" : ", ",
                      group.ranks.size() == 1 ? "rank " : "ranks ", ranks);
}

}  // namespace

std::vector<TidePanel> DistinctPanels(std::span<const TideCurve> curves,
                                      const RunMetadata& metadata, const PlayedAs& played_as) {
  const std::map<int32_t, std::string> roles = RolesOf(metadata);
  std::map<int32_t, std::vector<int32_t>> stands_for = StandsFor(played_as);
  std::vector<Group> groups;
  for (const TideCurve& curve : curves) {
    const std::string& role = RoleOf(roles, curve.rank);
    std::vector<TideSplit> columns = Resample(curve, kColumns);
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& other) {
      return other.role == role && LookAlike(other.columns, columns);
    });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), Group());
      group->role = role;
      group->columns = std::move(columns);
    }
    const int64_t peak = Peak(curve).total_bytes;
    if (group->fullest == nullptr || peak > group->peak_bytes) {
      group->fullest = &curve;
      group->peak_bytes = peak;
    }
    const auto found = stands_for.find(curve.rank);
    if (found == stands_for.end()) {
      group->ranks.push_back(curve.rank);
    } else {
      group->ranks.insert(group->ranks.end(), found->second.begin(), found->second.end());
    }
  }
  for (Group& group : groups) std::sort(group.ranks.begin(), group.ranks.end());
  std::sort(groups.begin(), groups.end(),
            [](const Group& a, const Group& b) { return a.ranks < b.ranks; });
  std::vector<TidePanel> panels;
  for (const Group& group : groups) panels.push_back({group.fullest, GroupName(group)});
  return panels;
}

std::vector<TidePanel> ChosenPanels(std::span<const TideCurve> curves, const RunMetadata& metadata,
                                    const PlayedAs& played_as, std::span<const int32_t> ranks) {
  const std::map<int32_t, std::string> roles = RolesOf(metadata);
  std::map<int32_t, const TideCurve*> by_rank;
  for (const TideCurve& curve : curves) by_rank[curve.rank] = &curve;
  std::vector<TidePanel> panels;
  for (const int32_t rank : ranks) {
    const int32_t played =
        static_cast<size_t>(rank) < played_as.size() ? played_as[static_cast<size_t>(rank)] : rank;
    const auto curve = by_rank.find(played);
    if (curve == by_rank.end()) continue;
    const std::string& role = RoleOf(roles, rank);
    panels.push_back(
        {curve->second, absl::StrCat("rank ", rank, role.empty() ? "" : absl::StrCat(", ", role),
                                     played == rank ? "" : absl::StrCat(", as rank ", played))});
  }
  return panels;
}

std::string FormatRanks(std::span<const int32_t> ranks) {
  std::string text;
  for (size_t begin = 0; begin < ranks.size();) {
    size_t end = begin;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    absl::StrAppend(&text, text.empty() ? "" : ", ", ranks[begin]);
    if (end > begin) absl::StrAppend(&text, end == begin + 1 ? ", " : "-", ranks[end]);
    begin = end + 1;
  }
  return text;
}

StatusOr<std::vector<int32_t>> ParseRanks(std::string_view text, int32_t count) {
  std::set<int32_t> ranks;
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), ',');
  for (const std::string& part : parts) {
    const std::vector<std::string> ends = absl::StrSplit(part, '-');
    const StatusOr<int64_t> first = ParseInteger(ends[0], 0, count - 1);
    const StatusOr<int64_t> last = ParseInteger(ends.back(), 0, count - 1);
    if (ends.size() > 2 || !first.ok() || !last.ok() || *last < *first) {
      return UsageError(absl::StrCat(Quoted(part), " is no rank or range of ranks from 0 to ",
                                     count - 1, "; write ranks as 0,3,8-15"));
    }
    for (int64_t rank = *first; rank <= *last; ++rank) ranks.insert(static_cast<int32_t>(rank));
  }
  return std::vector<int32_t>(ranks.begin(), ranks.end());
}

}  // namespace tideline

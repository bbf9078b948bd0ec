#include "planner/program/byte_set.h"

#include <algorithm>

namespace tideline {

void ByteSet::Add(int64_t begin, int64_t end) {
  if (begin >= end) return;
  auto next = intervals_.upper_bound(begin);
  if (next != intervals_.begin()) {
    const auto before = std::prev(next);
    if (before->second >= begin) {
      begin = before->first;
      end = std::max(end, before->second);
      next = intervals_.erase(before);
    }
  }
  while (next != intervals_.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = intervals_.erase(next);
  }
  intervals_.emplace_hint(next, begin, end);
}

std::vector<std::pair<int64_t, int64_t>> ByteSet::Missing(int64_t begin, int64_t end) const {
  std::vector<std::pair<int64_t, int64_t>> missing;
  auto next = intervals_.upper_bound(begin);
  if (next != intervals_.begin()) begin = std::max(begin, std::prev(next)->second);
  for (; begin < end && next != intervals_.end() && next->first < end; ++next) {
    if (begin < next->first) missing.emplace_back(begin, next->first);
    begin = next->second;
  }
  if (begin < end) missing.emplace_back(begin, end);
  return missing;
}

}  // namespace tideline

// ByteSet: a set of integers (bytes of a buffer, elements of a region) kept as disjoint intervals.
// Adding and asking cost O(log intervals) and the intervals touched.
#ifndef TIDELINE_PLANNER_PROGRAM_BYTE_SET_H_
#define TIDELINE_PLANNER_PROGRAM_BYTE_SET_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace tideline {

class ByteSet {
 public:
  // Adds [begin, end).
  void Add(int64_t begin, int64_t end);

  // The parts of [begin, end) that are not in the set, ascending.
  std::vector<std::pair<int64_t, int64_t>> Missing(int64_t begin, int64_t end) const;

  bool Contains(int64_t begin, int64_t end) const { return Missing(begin, end).empty(); }
  bool empty() const { return intervals_.empty(); }
  const std::map<int64_t, int64_t>& intervals() const { return intervals_; }  // begin -> end

 private:
  std::map<int64_t, int64_t> intervals_;  // neither empty nor touching
};

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_BYTE_SET_H_

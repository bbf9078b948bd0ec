// Communicators: the groups of a Program as lists of ranks, made once and shared.
#ifndef TIDELINE_SIM_COMMUNICATION_COMMUNICATORS_H_
#define TIDELINE_SIM_COMMUNICATION_COMMUNICATORS_H_

#include <cstdint>
#include <vector>

#include "planner/program/program.h"

namespace tideline {

class Communicators {
 public:
  // Costs O(groups x ranks). `program` must outlive this.
  explicit Communicators(const Program& program);

  // Ranks of `group` as seen from `rank`, in the group's order; empty when a subset excludes it.
  const std::vector<int32_t>& MembersOf(uint32_t group, int32_t rank) const;

  // The place of `rank` in MembersOf(group, rank), or -1.
  int32_t PositionOf(uint32_t group, int32_t rank) const { return position_[group][rank]; }

 private:
  std::vector<std::vector<int32_t>> instance_;              // [group][rank], -1: not a member
  std::vector<std::vector<int32_t>> position_;              // [group][rank], -1: not a member
  std::vector<std::vector<std::vector<int32_t>>> members_;  // [group][instance]
  std::vector<int32_t> none_;
};

}  // namespace tideline

#endif  // TIDELINE_SIM_COMMUNICATION_COMMUNICATORS_H_

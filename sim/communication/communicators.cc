#include "sim/communication/communicators.h"

#include <algorithm>

namespace tideline {

Communicators::Communicators(const Program& program) {
  const int32_t ranks = static_cast<int32_t>(program.ranks.size());
  for (const Group& group : program.groups) {
    std::vector<int32_t> instance(ranks, -1), position(ranks, -1);
    std::vector<std::vector<int32_t>> instances;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      if (instance[rank] >= 0) continue;
      std::vector<int32_t> members = Members(program, group, rank);
      if (std::find(members.begin(), members.end(), rank) == members.end()) continue;
      for (size_t i = 0; i < members.size(); ++i) {
        instance[members[i]] = static_cast<int32_t>(instances.size());
        position[members[i]] = static_cast<int32_t>(i);
      }
      instances.push_back(std::move(members));
    }
    instance_.push_back(std::move(instance));
    position_.push_back(std::move(position));
    members_.push_back(std::move(instances));
  }
}

const std::vector<int32_t>& Communicators::MembersOf(uint32_t group, int32_t rank) const {
  const int32_t instance = instance_[group][rank];
  return instance < 0 ? none_ : members_[group][instance];
}

}  // namespace tideline

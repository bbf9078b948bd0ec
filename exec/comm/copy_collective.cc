#include "exec/comm/copy_collective.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

class Planner {
 public:
  Planner(const Collective& collective, std::span<const MemberBuffers> members)
      : collective_(collective), members_(members), ranks_(static_cast<int32_t>(members.size())) {}

  void AllReduce() {
    const int64_t count = collective_.outer * collective_.block;
    const bool by_chunk = collective_.order == ReductionOrder::kRing;
    for (int64_t begin = 0; begin < count;) {
      const RingChunk chunk =
          by_chunk ? RingChunkAt(begin, count, ranks_) : RingChunk{.number = 0, .end = count};
      CopyPass pass = Reducing(chunk.number);
      pass.block = chunk.end - begin;
      pass.from_first = pass.to_first = begin;
      for (const MemberBuffers& member : members_) pass.destinations.Push(member.output);
      passes_.push_back(pass);
      begin = chunk.end;
    }
  }

  void ReduceScatter() {
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      const MemberBuffers& owner = members_[rank];
      CopyPass pass = Reducing(rank);
      Part(rank, &pass.from_first, &pass.from_outer);
      if (owner.input == owner.output) {
        Part(rank, &pass.to_first, &pass.to_outer);
      } else {
        pass.to_outer = collective_.block;
      }
      pass.destinations.Push(owner.output);
      passes_.push_back(pass);
    }
  }

  void AllGather() {
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      const MemberBuffers& owner = members_[rank];
      CopyPass pass = Whole();
      Part(rank, &pass.to_first, &pass.to_outer);
      const bool in_place = owner.input == owner.output;
      if (in_place) {
        Part(rank, &pass.from_first, &pass.from_outer);
      } else {
        pass.from_outer = collective_.block;
      }
      pass.sources.Push(owner.input);
      for (int32_t member = 0; member < ranks_; ++member) {
        if (member != rank || !in_place) pass.destinations.Push(members_[member].output);
      }
      passes_.push_back(pass);
    }
  }

  void Broadcast() {
    CopyPass pass = Whole();
    pass.from_outer = pass.to_outer = collective_.block;
    pass.sources.Push(members_[0].input);
    for (const MemberBuffers& member : members_) {
      if (member.output != members_[0].input) pass.destinations.Push(member.output);
    }
    passes_.push_back(pass);
  }

  std::vector<CopyPass> Take() { return std::move(passes_); }

 private:
  CopyPass Whole() const {
    CopyPass pass;
    pass.outer = collective_.outer;
    pass.block = collective_.block;
    return pass;
  }

  // Where member `rank`'s part of the full tensor lies.
  void Part(int32_t rank, int64_t* first, int64_t* outer) const {
    *first = rank * collective_.block;
    *outer = ranks_ * collective_.block;
  }

  // A pass over all inputs in the order of ring chunk `chunk`.
  CopyPass Reducing(int32_t chunk) const {
    CopyPass pass = Whole();
    if (collective_.kind == CollectiveKind::kAllReduce) pass.outer = 1;
    pass.reduction = collective_.reduction;
    for (const MemberBuffers& member : members_) pass.sources.Push(member.input);
    const int32_t first = static_cast<int32_t>((int64_t{collective_.ring_start} + chunk) % ranks_);
    const ReductionSteps steps = StepsOf(collective_.order, ranks_, first);
    for (const ReductionStep& step : steps.steps) pass.steps.Push(step);
    pass.result = steps.result;
    return pass;
  }

  const Collective& collective_;
  std::span<const MemberBuffers> members_;
  const int32_t ranks_;
  std::vector<CopyPass> passes_;
};

}  // namespace

StatusOr<std::vector<CopyPass>> CopyPasses(const Collective& collective,
                                           std::span<const MemberBuffers> members) {
  if (members.size() > kMaxCopyMembers) {
    return UnavailableError(absl::StrCat("--comm copy: a group of ", members.size(),
                                         " members; there is code for ", kMaxCopyMembers));
  }
  if (collective.outer == 0 || collective.block == 0) return std::vector<CopyPass>();
  Planner planner(collective, members);
  switch (collective.kind) {
    case CollectiveKind::kAllReduce:
      planner.AllReduce();
      break;
    case CollectiveKind::kAllGather:
      planner.AllGather();
      break;
    case CollectiveKind::kReduceScatter:
      planner.ReduceScatter();
      break;
    case CollectiveKind::kBroadcast:
      planner.Broadcast();
      break;
  }
  return planner.Take();
}

}  // namespace tideline

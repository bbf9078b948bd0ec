#include "exec/emulator/touch_witness.h"

#include <algorithm>

#include "base/check.h"

namespace tideline {

void TouchWitness::AddReservation(const void* memory, int64_t bytes, Space space,
                                  Category category) {
  current_[reinterpret_cast<uintptr_t>(memory)] = {bytes, space, category};
}

void TouchWitness::RemoveReservation(const void* memory) {
  const auto found = current_.find(reinterpret_cast<uintptr_t>(memory));
  TL_CHECK(found != current_.end(), "only reservations are removed");
  if (found->second.first >= 0) ended_.push_back(found->second);
  current_.erase(found);
}

void TouchWitness::Touch(std::span<const Range> ranges) {
  const int64_t operation = operations_++;
  for (const Range& range : ranges) {
    if (range.bytes == 0) continue;
    const auto next = current_.upper_bound(reinterpret_cast<uintptr_t>(range.begin));
    if (next == current_.begin()) continue;
    Life& life = std::prev(next)->second;
    if (life.first < 0) life.first = operation;
    life.last = operation;
  }
}

ObservedMemory TouchWitness::Observed(Space space) const {
  struct Change {
    int64_t operation = 0;
    bool begins = false;
    const Life* life = nullptr;
  };
  std::vector<Change> changes;
  const auto add = [&](const Life& life) {
    if (life.space != space || life.first < 0) return;
    changes.push_back({life.first, true, &life});
    changes.push_back({life.last + 1, false, &life});
  };
  for (const Life& life : ended_) add(life);
  for (const auto& [address, life] : current_) add(life);
  // What ended before an operation is gone when the operation's own buffers come.
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.operation != b.operation ? a.operation < b.operation : a.begins < b.begins;
  });
  ObservedMemory observed;
  int64_t live = 0;
  std::array<int64_t, kCategories> split{};
  for (size_t i = 0; i < changes.size(); ++i) {
    const Life& life = *changes[i].life;
    const int64_t signed_bytes = changes[i].begins ? life.bytes : -life.bytes;
    live += signed_bytes;
    split[static_cast<size_t>(life.category)] += signed_bytes;
    const bool settled =
        i + 1 == changes.size() || changes[i + 1].operation != changes[i].operation;
    if (settled && live > observed.peak) observed = {live, split};
  }
  return observed;
}

}  // namespace tideline

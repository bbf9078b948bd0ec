// MemoryPool: the limited memories of emulated devices and their nodes.
//
// Each device has device memory of its own; pinned host memory belongs to a node and is shared by
// its devices (DEFINITIONS 12b). A reservation is an anonymous mapping without reserved swap: pages
// cost real memory once they are written, so a plan for large devices can be tried on a small host
// as long as it touches little. What is counted is the bytes asked for. Safe from any thread.
#ifndef TIDELINE_EXEC_EMULATOR_MEMORY_POOL_H_
#define TIDELINE_EXEC_EMULATOR_MEMORY_POOL_H_

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/program/program.h"

namespace tideline {

class MemoryPool {
 public:
  struct Limits {
    int devices = 1;
    int devices_per_node = 1;
    int64_t device_bytes = 0;
    int64_t pinned_bytes = 0;  // per node
    bool enforced = true;      // false: reservations may exceed the capacities
  };

  explicit MemoryPool(const Limits& limits);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Beyond the capacity: RunError naming the reservation, the capacity and what is live by
  // category.
  StatusOr<void*> Reserve(int device, Space space, int64_t bytes, std::string_view name,
                          Category category);
  void Release(int device, void* memory);
  int64_t ReservedBytes(int device, Space space) const;
  const Limits& limits() const { return limits_; }

 private:
  struct Reservation {
    Space space = Space::kDevice;
    Category category = Category::kActivation;
    int64_t bytes = 0;
    int64_t mapped = 0;
  };
  using Split = std::array<int64_t, kCategories>;

  int64_t Sum(int device, Space space) const;
  std::string Tide(int device, Space space) const;

  const Limits limits_;
  mutable std::mutex mutex_;
  std::vector<std::map<void*, Reservation>> reservations_;  // by device
  std::vector<std::array<Split, kSpaces>> live_;            // by device
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_EMULATOR_MEMORY_POOL_H_

#include "exec/emulator/memory_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace tideline {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

MemoryPool::MemoryPool(const Limits& limits)
    : limits_(limits), reservations_(limits.devices), live_(limits.devices) {}

MemoryPool::~MemoryPool() {
  for (const auto& device : reservations_) {
    for (const auto& [memory, reservation] : device) munmap(memory, reservation.mapped);
  }
}

int64_t MemoryPool::Sum(int device, Space space) const {
  int64_t sum = 0;
  for (const int64_t bytes : live_[device][static_cast<int>(space)]) sum += bytes;
  return sum;
}

std::string MemoryPool::Tide(int device, Space space) const {
  std::string tide;
  for (int category = 0; category < kCategories; ++category) {
    const int64_t bytes = live_[device][static_cast<int>(space)][category];
    if (bytes == 0) continue;
    absl::StrAppend(&tide, tide.empty() ? "" : ", ", View(Name(static_cast<Category>(category))),
                    " ", bytes);
  }
  return tide.empty() ? "nothing" : tide;
}

StatusOr<void*> MemoryPool::Reserve(int device, Space space, int64_t bytes, std::string_view name,
                                    Category category) {
  TL_CHECK(device >= 0 && device < limits_.devices && bytes >= 0, "a device's reservation");
  std::lock_guard lock(mutex_);
  int64_t held = Sum(device, space);
  int64_t capacity = limits_.device_bytes;
  if (space == Space::kPinnedHost) {
    capacity = limits_.pinned_bytes;
    const int node = device / limits_.devices_per_node;
    held = 0;
    for (int other = 0; other < limits_.devices; ++other) {
      if (other / limits_.devices_per_node == node) held += Sum(other, space);
    }
  }
  if (limits_.enforced && bytes > capacity - held) {
    return RunError(absl::StrCat("device ", device, " is out of ", View(Name(space)), " memory: '",
                                 View(name), "' (", View(Name(category)), ") needs ", bytes,
                                 " bytes, ", held, " of ", capacity, " bytes are taken",
                                 space == Space::kPinnedHost ? " on its node" : "",
                                 "; live on the device: ", Tide(device, space),
                                 ". Choose a plan that holds less, or devices with more memory"));
  }
  const int64_t page = sysconf(_SC_PAGESIZE);
  if (bytes > INT64_MAX - page) {
    return RunError(absl::StrCat("'", View(name), "' of ", bytes, " bytes cannot be mapped"));
  }
  const int64_t mapped = bytes < page ? page : (bytes + page - 1) / page * page;
  void* memory = mmap(nullptr, static_cast<size_t>(mapped), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return RunError(absl::StrCat("the host cannot map ", mapped, " bytes for '", View(name),
                                 "' of device ", device, ": ", std::strerror(errno)));
  }
  reservations_[device][memory] = {space, category, bytes, mapped};
  live_[device][static_cast<int>(space)][static_cast<int>(category)] += bytes;
  return memory;
}

void MemoryPool::Release(int device, void* memory) {
  std::lock_guard lock(mutex_);
  const auto found = reservations_[device].find(memory);
  TL_CHECK(found != reservations_[device].end(), "only reservations are released, once");
  const Reservation& reservation = found->second;
  munmap(memory, static_cast<size_t>(reservation.mapped));
  live_[device][static_cast<int>(reservation.space)][static_cast<int>(reservation.category)] -=
      reservation.bytes;
  reservations_[device].erase(found);
}

int64_t MemoryPool::ReservedBytes(int device, Space space) const {
  std::lock_guard lock(mutex_);
  return Sum(device, space);
}

}  // namespace tideline

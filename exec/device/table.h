// Table: a short list that travels with a kernel's arguments.
//
// Arguments of a kernel are copied into the launch as bytes (a GPU reads them from its parameter
// memory), so they may hold no vectors and no pointers to host memory. A Table has its items in
// itself; all arguments of one launch together may take kMaxArgumentBytes (exec/device/launch.h).
#ifndef TIDELINE_EXEC_DEVICE_TABLE_H_
#define TIDELINE_EXEC_DEVICE_TABLE_H_

#include <cstdint>

#include "base/host_device.h"

namespace tideline {

template <typename T, int kCapacity>
class Table {
 public:
  // False when the table is full; the item is then not taken.
  bool Push(const T& item) {
    if (count_ == kCapacity) return false;
    items_[count_++] = item;
    return true;
  }

  TIDELINE_HOST_DEVICE const T& operator[](int64_t index) const { return items_[index]; }
  TIDELINE_HOST_DEVICE int size() const { return count_; }
  void Pop() { --count_; }
  T& back() { return items_[count_ - 1]; }
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == kCapacity; }

 private:
  T items_[kCapacity];
  int32_t count_ = 0;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_DEVICE_TABLE_H_

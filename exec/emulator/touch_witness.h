// TouchWitness: how much memory a run really needed, told only by what its operations touched.
//
// The observed figure (DEFINITIONS 2), independent of the others: with the eager allocator every
// buffer is a reservation of its own, and the witness takes each one to live from its first to its
// last touched byte, in the order in which the device's operations were given (the serial
// schedule). It knows neither the layout nor kAlloc and kFree; the category comes with the
// reservation. Reservations that nothing touches count nothing. O(log reservations) per range, O(n
// log n) per figure. For one host thread.
#ifndef TIDELINE_EXEC_EMULATOR_TOUCH_WITNESS_H_
#define TIDELINE_EXEC_EMULATOR_TOUCH_WITNESS_H_

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "exec/device/device.h"
#include "planner/program/program.h"

namespace tideline {

class TouchWitness {
 public:
  void AddReservation(const void* memory, int64_t bytes, Space space, Category category);
  // Its life ended with its last touch.
  void RemoveReservation(const void* memory);

  // The next operation of the device touches `ranges`, each inside one reservation.
  void Touch(std::span<const Range> ranges);

  ObservedMemory Observed(Space space) const;

 private:
  struct Life {
    int64_t bytes = 0;
    Space space = Space::kDevice;
    Category category = Category::kActivation;
    int64_t first = -1;  // operation number; -1: not touched yet
    int64_t last = -1;
  };

  int64_t operations_ = 0;
  std::map<uintptr_t, Life> current_;
  std::vector<Life> ended_;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_EMULATOR_TOUCH_WITNESS_H_

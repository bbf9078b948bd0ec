// OrderChecker: finds races between operations of one device, whatever the interleaving was.
//
// Every stream (the host is stream 0) has a vector clock: entry s is the number of the last
// operation of stream s that is certainly over before the stream's next one starts. An interval map
// over addresses keeps, per byte range, the last writer and the readers since. An access that does
// not find the writer (and, when it writes, every reader) in its own clock is a race: the two could
// overlap in some run, even if this one was lucky. So the verdict depends only on what was asked,
// not on timing (the idea of FastTrack, Flanagan & Freund, PLDI 2009, over byte ranges). A read of
// bytes that nothing wrote is found by the same map.
//
// Cost: O(log ranges + ranges touched) per access, O(streams) per event. For one host thread.
#ifndef TIDELINE_EXEC_EMULATOR_ORDER_CHECKER_H_
#define TIDELINE_EXEC_EMULATOR_ORDER_CHECKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "exec/device/operation.h"

namespace tideline {

class OrderChecker {
 public:
  using Clock = std::vector<uint64_t>;  // by stream; missing entries are 0
  static constexpr int kHost = 0;

  explicit OrderChecker(int device);

  int AddStream(std::string_view name);

  // How messages name the instruction of a tag, besides its number.
  void DescribeTags(std::function<std::string(uint64_t tag)> describe) {
    describe_ = std::move(describe);
  }

  void AddReservation(const void* memory, int64_t bytes, std::string_view name);
  void RemoveReservation(const void* memory);

  // The stream's next operation touches `ranges`. Errors (exit 1): a race, a read of unwritten
  // bytes, bytes outside every reservation. With `forget` the written bytes count as unwritten
  // afterwards.
  Status Access(int stream, const char* name, uint64_t tag, std::span<const Range> ranges,
                bool forget = false);

  // What an event recorded now stands for, and its being waited for by `stream`.
  Clock ClockOf(int stream) const { return clocks_[stream]; }
  void Join(int stream, const Clock& clock);
  // Every stream and the host have waited for each other.
  void JoinAll();

 private:
  struct Visit {
    int stream = -1;
    uint64_t index = 0;
    uint64_t tag = 0;
    const char* name = "";
  };
  struct Piece {
    uintptr_t end = 0;
    bool defined = false;
    Visit writer;
    std::vector<Visit> readers;
  };
  struct Reservation {
    uintptr_t end = 0;
    std::string name;
  };
  using Pieces = std::map<uintptr_t, Piece>;

  bool Before(const Visit& earlier, int stream) const;
  Status Read(const Visit& access, uintptr_t begin, uintptr_t end);
  Status Write(const Visit& access, uintptr_t begin, uintptr_t end, bool forget);
  Pieces::iterator Cut(uintptr_t at);
  std::string Place(uintptr_t begin, uintptr_t end) const;
  std::string Operation(const Visit& access) const;
  Status Race(const Visit& earlier, const char* did, const Visit& later, const char* does,
              uintptr_t begin, uintptr_t end) const;

  const int device_;
  std::function<std::string(uint64_t)> describe_;
  std::vector<std::string> names_;
  std::vector<Clock> clocks_;
  std::map<uintptr_t, Reservation> reservations_;
  Pieces pieces_;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_EMULATOR_ORDER_CHECKER_H_

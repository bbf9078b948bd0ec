#include "planner/program/live_bound.h"

#include <algorithm>
#include <vector>

namespace tideline {
namespace {

// Frees are numbered per lane, in lane order; a prefix of a lane's frees is their count.
struct FreeId {
  uint32_t lane = 0;
  uint32_t index = 0;
};

// The frees of one lane that can take bytes. The newest one with bytes left before a given place is
// found by skipping over full ones, with path halving (Tarjan 1975).
class LaneFrees {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  void Add(uint32_t instruction, int64_t bytes) {
    left_.push_back(bytes);
    instructions_.push_back(instruction);
    skip_.push_back(static_cast<uint32_t>(skip_.size()));
    first_shipment_.push_back(kNone);
  }

  uint32_t size() const { return static_cast<uint32_t>(left_.size()); }
  uint32_t Instruction(uint32_t index) const { return instructions_[index]; }
  int64_t left(uint32_t index) const { return left_[index]; }
  uint32_t& FirstShipment(uint32_t index) { return first_shipment_[index]; }

  void Fill(uint32_t index, int64_t bytes) {
    left_[index] -= bytes;
    if (left_[index] == 0) skip_[index + 1] = index;
  }

  // The newest of the first `count` frees that has bytes left.
  uint32_t NewestLeft(uint32_t count) {
    while (count != 0 && skip_[count] != count) {
      skip_[count] = skip_[skip_[count]];
      count = skip_[count];
    }
    return count == 0 ? kNone : count - 1;
  }

 private:
  std::vector<int64_t> left_;
  std::vector<uint32_t> instructions_;
  std::vector<uint32_t> skip_ = {0};  // per count: the count to look at instead
  std::vector<uint32_t> first_shipment_;
};

// Ships the bytes of allocs to frees that happen before them, as many as can be shipped at all.
class Transport {
 public:
  Transport(const Section& section, const HappensBefore& order, size_t lanes,
            std::span<const int64_t> bytes)
      : section_(section), order_(order), bytes_(bytes), frees_(lanes), frees_until_(lanes) {
    for (std::vector<uint32_t>& until : frees_until_) until.push_back(0);
    closed_.assign(lanes, 0);
    reach_.resize(lanes);
    scanned_.resize(lanes);
    steps_.resize(lanes);
  }

  int64_t UnshippedBytes() {
    int64_t unshipped = 0;
    for (uint32_t index = 0; index < section_.instructions.size(); ++index) {
      const Instruction& instruction = section_.instructions[index];
      if (instruction.kind == InstructionKind::kFree && bytes_[instruction.what] > 0) {
        frees_[instruction.lane].Add(index, bytes_[instruction.what]);
      }
      frees_until_[instruction.lane].push_back(frees_[instruction.lane].size());
      if (instruction.kind == InstructionKind::kAlloc && bytes_[instruction.what] > 0) {
        unshipped += bytes_[instruction.what] - Ship(index, bytes_[instruction.what]);
      }
    }
    return unshipped;
  }

 private:
  static constexpr uint32_t kNone = LaneFrees::kNone;

  struct Shipment {
    uint32_t alloc = 0;
    int64_t bytes = 0;
    uint32_t next = kNone;  // of the same free
  };
  // The reach on a lane grew to `until`: the shipment's alloc comes after those frees and has bytes
  // in `from`, which was in reach before. No shipment: the alloc that is shipped comes after them.
  struct Step {
    uint32_t until = 0;
    uint32_t shipment = kNone;
    FreeId from;
  };

  struct Range {
    uint32_t begin = 0, end = 0;
  };

  // How many frees of `lane` happen before `alloc`.
  uint32_t FreesBefore(uint32_t alloc, uint32_t lane) const {
    return frees_until_[lane][order_.Seen(alloc, static_cast<uint16_t>(lane))];
  }

  int64_t Ship(uint32_t alloc, int64_t bytes) {
    StartSearch(alloc);
    int64_t shipped = 0;
    while (shipped < bytes) {
      const FreeId target = NewestInReach();
      if (target.index != kNone) {
        shipped += ShipAlong(alloc, target, bytes - shipped);
      } else if (!ScanOne()) {
        // Nothing in reach has bytes left, nor will what comes later give it any.
        for (size_t lane = 0; lane < frees_.size(); ++lane) {
          closed_[lane] = std::max(closed_[lane], reach_[lane]);
        }
        break;
      }
    }
    return shipped;
  }

  void StartSearch(uint32_t alloc) {
    for (uint32_t lane = 0; lane < frees_.size(); ++lane) {
      reach_[lane] = FreesBefore(alloc, lane);
      scanned_[lane] = {reach_[lane], reach_[lane]};
      steps_[lane].assign(1, {.until = reach_[lane], .shipment = kNone, .from = {}});
    }
  }

  FreeId NewestInReach() {
    FreeId newest{0, kNone};
    for (uint32_t lane = 0; lane < frees_.size(); ++lane) {
      const uint32_t index = frees_[lane].NewestLeft(reach_[lane]);
      if (index == kNone) continue;
      if (newest.index == kNone ||
          frees_[lane].Instruction(index) > frees_[newest.lane].Instruction(newest.index)) {
        newest = {lane, index};
      }
    }
    return newest;
  }

  // Looks at the newest free in reach that was not looked at: whoever shipped into it may ship
  // elsewhere instead, so what comes before that alloc is in reach too. False when none is left.
  bool ScanOne() {
    FreeId next{0, kNone};
    for (uint32_t lane = 0; lane < frees_.size(); ++lane) {
      Range& scanned = scanned_[lane];
      uint32_t index = kNone;
      if (scanned.end < reach_[lane]) {
        index = reach_[lane] - 1;
      } else if (scanned.begin > closed_[lane]) {
        index = scanned.begin - 1;
      }
      if (index == kNone) continue;
      if (next.index == kNone ||
          frees_[lane].Instruction(index) > frees_[next.lane].Instruction(next.index)) {
        next = {lane, index};
      }
    }
    if (next.index == kNone) return false;
    Range& scanned = scanned_[next.lane];
    if (scanned.end < reach_[next.lane]) {
      // All of the new part at once: it is short, and ranges stay ranges.
      const uint32_t end = reach_[next.lane];
      const uint32_t begin = std::max(scanned.end, closed_[next.lane]);
      scanned.end = end;
      for (uint32_t index = end; index-- > begin;) Scan({next.lane, index});
    } else {
      --scanned.begin;
      Scan(next);
    }
    return true;
  }

  void Scan(FreeId free) {
    uint32_t shipment = frees_[free.lane].FirstShipment(free.index);
    for (; shipment != kNone; shipment = shipments_[shipment].next) {
      if (shipments_[shipment].bytes == 0) continue;
      for (uint32_t lane = 0; lane < frees_.size(); ++lane) {
        const uint32_t until = FreesBefore(shipments_[shipment].alloc, lane);
        if (until <= reach_[lane]) continue;
        reach_[lane] = until;
        steps_[lane].push_back({until, shipment, free});
      }
    }
  }

  const Step& StepTo(FreeId free) const {
    const std::vector<Step>& steps = steps_[free.lane];
    return *std::upper_bound(steps.begin(), steps.end(), free.index,
                             [](uint32_t index, const Step& step) { return index < step.until; });
  }

  // Ships up to `most` bytes of `alloc` so that `target` takes them: along the steps, each alloc
  // moves bytes from the free through which it was reached to the next one.
  int64_t ShipAlong(uint32_t alloc, FreeId target, int64_t most) {
    int64_t bytes = std::min(most, frees_[target.lane].left(target.index));
    for (FreeId at = target; StepTo(at).shipment != kNone; at = StepTo(at).from) {
      bytes = std::min(bytes, shipments_[StepTo(at).shipment].bytes);
    }
    if (bytes == 0) {
      // An earlier round used up a shipment that these steps rest on.
      StartSearch(alloc);
      return 0;
    }
    frees_[target.lane].Fill(target.index, bytes);
    FreeId at = target;
    for (; StepTo(at).shipment != kNone; at = StepTo(at).from) {
      Shipment& moved = shipments_[StepTo(at).shipment];
      moved.bytes -= bytes;
      const uint32_t mover = moved.alloc;
      AddShipment(at, mover, bytes);
    }
    AddShipment(at, alloc, bytes);
    return bytes;
  }

  void AddShipment(FreeId to, uint32_t alloc, int64_t bytes) {
    uint32_t& first = frees_[to.lane].FirstShipment(to.index);
    shipments_.push_back({alloc, bytes, first});
    first = static_cast<uint32_t>(shipments_.size() - 1);
  }

  const Section& section_;
  const HappensBefore& order_;
  std::span<const int64_t> bytes_;
  std::vector<LaneFrees> frees_;                    // per lane
  std::vector<std::vector<uint32_t>> frees_until_;  // [lane][position]: frees before it
  std::vector<Shipment> shipments_;
  std::vector<uint32_t> closed_;  // per lane: these first frees are full and stay so
  // Of one search, per lane: frees in reach, those looked at, and how the reach grew.
  std::vector<uint32_t> reach_;
  std::vector<Range> scanned_;
  std::vector<std::vector<Step>> steps_;
};

}  // namespace

int64_t LiveBound(const Section& section, const HappensBefore& order, size_t lanes,
                  std::span<const int64_t> bytes) {
  return Transport(section, order, lanes, bytes).UnshippedBytes();
}

}  // namespace tideline

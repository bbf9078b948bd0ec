#include "planner/techniques/pipeline/schedule.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

// `warm_up` forwards, then one forward and one backward in turn, then the rest.
std::vector<Unit> OneForwardOneBackward(const std::vector<Unit>& forward,
                                        const std::vector<Unit>& backward, size_t warm_up) {
  std::vector<Unit> order(forward.begin(), forward.begin() + warm_up);
  size_t next_backward = 0;
  for (size_t next = warm_up; next < forward.size(); ++next) {
    order.push_back(forward[next]);
    order.push_back(backward[next_backward++]);
  }
  order.insert(order.end(), backward.begin() + next_backward, backward.end());
  return order;
}

std::vector<Unit> StageOrder(Schedule schedule, int32_t stage, int32_t stages, int32_t chunks,
                             int64_t micro_batches) {
  const bool interleaves = schedule == Schedule::kInterleaved && chunks > 1;
  const int64_t units = micro_batches * chunks;
  std::vector<Unit> forward, backward;
  for (int64_t u = 0; u < units; ++u) {
    const int64_t round = int64_t{stages} * chunks;
    const int64_t row = interleaves ? u % round / stages : 0;
    const int64_t micro_batch = interleaves ? u / round * stages + u % stages : u;
    const auto chunk_at = [&](int64_t r) { return static_cast<int32_t>(r * stages + stage); };
    forward.push_back({false, chunk_at(row), static_cast<int32_t>(micro_batch)});
    backward.push_back({true, chunk_at(chunks - 1 - row), static_cast<int32_t>(micro_batch)});
  }
  int64_t warm_up = stages - stage - 1;
  if (interleaves) warm_up = 2 * warm_up + int64_t{chunks - 1} * stages;
  if (schedule == Schedule::kGPipe) warm_up = units;
  return OneForwardOneBackward(forward, backward, std::min(warm_up, units));
}

// The ends of all units played so far; negative: not yet.
class Ends {
 public:
  Ends(size_t chunks, size_t micro_batches)
      : chunks_(chunks), ends_(2 * chunks * micro_batches, -1.0) {}

  double& At(const Unit& unit) {
    return ends_[(static_cast<size_t>(unit.micro_batch) * 2 + unit.backward) * chunks_ +
                 unit.chunk];
  }

 private:
  size_t chunks_;
  std::vector<double> ends_;
};

}  // namespace

std::vector<std::vector<Unit>> UnitOrder(Schedule schedule, int32_t stages, int32_t chunks,
                                         int64_t micro_batches) {
  std::vector<std::vector<Unit>> order;
  for (int32_t stage = 0; stage < stages; ++stage) {
    order.push_back(StageOrder(schedule, stage, stages, chunks, micro_batches));
  }
  return order;
}

StatusOr<std::vector<std::vector<TimedUnit>>> PlayUnits(const std::vector<std::vector<Unit>>& order,
                                                        const UnitTimes& times) {
  const int32_t chunks = static_cast<int32_t>(times.forward.size());
  const int32_t stages = static_cast<int32_t>(order.size());
  int32_t micro_batches = 0;
  size_t left = 0;
  for (const std::vector<Unit>& units : order) {
    left += units.size();
    for (const Unit& unit : units) micro_batches = std::max(micro_batches, unit.micro_batch + 1);
  }
  Ends ends(chunks, micro_batches);
  // When the input of `unit` is there; negative: its producer has not run.
  const auto input_ready = [&](const Unit& unit) {
    Unit producer = unit;
    if (!unit.backward) {
      if (--producer.chunk < 0) return 0.0;
    } else if (++producer.chunk == chunks) {
      producer = {false, unit.chunk, unit.micro_batch};
    }
    const double end = ends.At(producer);
    const bool transferred = producer.chunk % stages != unit.chunk % stages;
    return end < 0 ? end : end + (transferred ? times.hop : 0);
  };

  std::vector<std::vector<TimedUnit>> played(order.size());
  while (left > 0) {
    const size_t before = left;
    for (size_t stage = 0; stage < order.size(); ++stage) {
      std::vector<TimedUnit>& done = played[stage];
      while (done.size() < order[stage].size()) {
        const Unit& unit = order[stage][done.size()];
        const double ready = input_ready(unit);
        if (ready < 0) break;
        const double start = std::max(ready, done.empty() ? 0.0 : done.back().end);
        const double end =
            start + (unit.backward ? times.backward[unit.chunk] : times.forward[unit.chunk]);
        ends.At(unit) = end;
        done.push_back({unit, start, end});
        --left;
      }
    }
    if (left == before) {
      return InternalError(
          absl::StrCat("the pipeline schedule waits for itself: ", left, " units cannot start"));
    }
  }
  return played;
}

std::vector<std::vector<ScheduleItem>> PlaceTransfers(
    const std::vector<std::vector<TimedUnit>>& played, int32_t model_chunks) {
  struct Placed {
    double time = 0;
    bool runs = false;  // transfers stand before units that start at the same time
    ScheduleItem item;
    auto Key() const {
      const Unit& unit = item.unit;
      return std::tuple(time, runs, unit.chunk, unit.backward, unit.micro_batch);
    }
  };
  const int32_t stages = static_cast<int32_t>(played.size());
  std::vector<std::vector<Placed>> placed(stages);
  for (int32_t stage = 0; stage < stages; ++stage) {
    for (const TimedUnit& timed : played[stage]) {
      const Unit& unit = timed.unit;
      placed[stage].push_back({timed.start, true, {ScheduleItem::Kind::kRun, unit, 0}});
      const int32_t consumer = unit.backward ? unit.chunk - 1 : unit.chunk + 1;
      if (consumer < 0 || consumer == model_chunks || consumer % stages == stage) continue;
      const int32_t peer = consumer % stages;
      placed[stage].push_back({timed.end, false, {ScheduleItem::Kind::kSend, unit, peer}});
      placed[peer].push_back({timed.end, false, {ScheduleItem::Kind::kReceive, unit, stage}});
    }
  }
  std::vector<std::vector<ScheduleItem>> lists(stages);
  for (int32_t stage = 0; stage < stages; ++stage) {
    std::sort(placed[stage].begin(), placed[stage].end(),
              [](const Placed& a, const Placed& b) { return a.Key() < b.Key(); });
    for (const Placed& entry : placed[stage]) lists[stage].push_back(entry.item);
  }
  return lists;
}

}  // namespace tideline

// Knobs of data parallelism that no plan carries.
#ifndef TIDELINE_PLANNER_TECHNIQUES_DATA_PARALLEL_OPTIONS_H_
#define TIDELINE_PLANNER_TECHNIQUES_DATA_PARALLEL_OPTIONS_H_

#include <cstdint>

namespace tideline {

struct DataParallelOptions {
  // Largest micro-batch proposed unless pinned; kernels gain nothing beyond it.
  int64_t largest_micro_batch = 16;
};

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_DATA_PARALLEL_OPTIONS_H_

// Chrome trace JSON of a Run, as Perfetto (ui.perfetto.dev) and chrome://tracing read it.
//
// One process per rank, named with its role and coordinates; one thread per lane; one complete
// event per instruction, with its category (kind, phase) and arguments (step, instruction, layer,
// micro-batch, bytes); one stacked counter per rank and memory space with a series per category.
// Times are microseconds with three decimals, so no nanosecond is lost. Written as it is read, a
// block at a time: about 200 bytes per event. Viewers grow slow above a few hundred MB: choose a
// time window or ranks. Format: the Trace Event Format document, phases M, X and C.
#ifndef TIDELINE_TRACES_FORMATS_CHROME_TRACE_H_
#define TIDELINE_TRACES_FORMATS_CHROME_TRACE_H_

#include <cstdint>
#include <limits>
#include <ostream>
#include <vector>

#include "base/status.h"
#include "traces/run/run_source.h"

namespace tideline {

struct ChromeTraceOptions {
  // Events and samples that touch [begin_ns, end_ns].
  int64_t begin_ns = std::numeric_limits<int64_t>::min();
  int64_t end_ns = std::numeric_limits<int64_t>::max();
  std::vector<int32_t> ranks = {};  // empty: all
  bool memory = true;               // write the counters
};

// Errors: those of reading `run`; a stream that does not take the bytes (exit 1 kind).
Status WriteChromeTrace(const RunSource& run, const ChromeTraceOptions& options, std::ostream& out);

}  // namespace tideline

#endif  // TIDELINE_TRACES_FORMATS_CHROME_TRACE_H_

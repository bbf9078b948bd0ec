// RunSource: a Run that can be read, whether it lies in memory or in a file.
#ifndef TIDELINE_TRACES_RUN_RUN_SOURCE_H_
#define TIDELINE_TRACES_RUN_RUN_SOURCE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "traces/run/run_metadata.h"
#include "traces/run/run_sink.h"

namespace tideline {

struct RunLane {
  int32_t rank = 0;
  uint16_t lane = 0;
  uint32_t name = 0;  // into names()
  bool operator==(const RunLane&) const = default;
};

// Events and samples come in the order in which they were added, a block at a time; a visitor's
// error ends the walk and is returned. Reading does not change the source: several threads may.
class RunSource {
 public:
  virtual ~RunSource() = default;
  virtual const RunMetadata& metadata() const = 0;
  virtual const std::vector<std::string>& names() const = 0;  // by RunEvent::name
  virtual const std::vector<RunLane>& lanes() const = 0;
  virtual uint64_t event_count() const = 0;
  virtual uint64_t sample_count() const = 0;
  virtual Status VisitEvents(
      const std::function<Status(std::span<const RunEvent>)>& visitor) const = 0;
  virtual Status VisitSamples(
      const std::function<Status(std::span<const MemorySample>)>& visitor) const = 0;
};

}  // namespace tideline

#endif  // TIDELINE_TRACES_RUN_RUN_SOURCE_H_

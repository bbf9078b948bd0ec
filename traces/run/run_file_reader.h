// RunFileReader: a Run file, mapped, as a RunSource; blocks are decoded when visited.
//
// A file without an index (its writer was killed) opens to its last whole block; complete() says
// so. Every byte is checked before it is believed: damaged, truncated and hostile files give an
// InputError with the file offset, never a crash, and never more memory than the tables of the
// file itself and the records of one block. Immutable; any number of threads may read.
#ifndef TIDELINE_TRACES_RUN_RUN_FILE_READER_H_
#define TIDELINE_TRACES_RUN_RUN_FILE_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "traces/run/run_source.h"

namespace tideline {

class RunFileReader : public RunSource {
 public:
  // Errors (exit 5 kind): cannot be read, not a Run file, another version, damaged tables.
  static StatusOr<std::unique_ptr<RunFileReader>> Open(const std::string& path);

  // The same from bytes in memory; `name` stands for the path in messages.
  static StatusOr<std::unique_ptr<RunFileReader>> FromBytes(std::string bytes, std::string name);

  // False: the writer did not finish; what is here is everything up to the last whole block.
  virtual bool complete() const = 0;

  // Blocks of events in file order, and the time each spans (everything, in an incomplete file): a
  // viewer reads only those it shows.
  struct EventBlock {
    uint32_t count = 0;
    int64_t first_ns = 0;
    int64_t last_ns = 0;
  };
  virtual std::vector<EventBlock> event_blocks() const = 0;
  virtual StatusOr<std::vector<RunEvent>> ReadEvents(size_t block) const = 0;
};

}  // namespace tideline

#endif  // TIDELINE_TRACES_RUN_RUN_FILE_READER_H_

// SampleSource: where the samples of training come from, whatever they are.
//
// A source is a pure function of step and sample number, so that a resumed run reads what an
// unbroken one would have read. Threads: Load may be called from any number at once.
#ifndef TIDELINE_EXEC_DATA_SAMPLE_SOURCE_H_
#define TIDELINE_EXEC_DATA_SAMPLE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "planner/program/program.h"

namespace tideline {

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // Where the samples come from, and which they are: a checkpoint is not continued on others.
  virtual const std::string& origin() const = 0;
  virtual const std::string& hash() const = 0;

  // Whether a model of this vocabulary or so many classes (0: any number) can take the samples, as
  // far as can be told without loading them. Error: exit 5.
  virtual Status CheckVocabulary(int64_t vocabulary) const = 0;

  // Fills the operands of `task` with its samples, the first of which is number `first` of `step`.
  // Precondition: task loads what this source has, the spans have LoadedBytes(task) bytes.
  virtual Status Load(const HostTask& task, int64_t step, int64_t first, int64_t vocabulary,
                      std::span<const std::span<std::byte>> operands) const = 0;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_DATA_SAMPLE_SOURCE_H_

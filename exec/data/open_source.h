// Opens the source of the samples that a Program loads.
#ifndef TIDELINE_EXEC_DATA_OPEN_SOURCE_H_
#define TIDELINE_EXEC_DATA_OPEN_SOURCE_H_

#include <memory>
#include <string>

#include "base/status.h"
#include "exec/data/sample_source.h"
#include "planner/program/program.h"

namespace tideline {

// `data` as in TokenSource::Open for a program that loads tokens; one that loads images has
// generated ones (exec/data/image_source.h), of `classes` and with the program's seed, and takes no
// other data (exit 2).
StatusOr<std::unique_ptr<const SampleSource>> OpenSamples(const Program& program,
                                                          const std::string& data, int64_t classes);

}  // namespace tideline

#endif  // TIDELINE_EXEC_DATA_OPEN_SOURCE_H_

// RunFileWriter: a RunSink that streams to a Run file (".tlr").
//
// Events go out in blocks of 64 Ki as packed columns: about 20 bytes per event instead of 56, at
// several million per second (bench/run_file_bench.cc). It is an AtomicFile: `path` is replaced by
// Finish(), which adds the index; without it, or when it fails, nothing new is left. What a killed
// writer leaves, "<path>.tmp-<pid>-<n>", is readable to its last whole block and in nobody's way.
// Not for concurrent calls: whoever has several threads holds a lock.
//
//   TL_ASSIGN_OR_RETURN(auto writer, RunFileWriter::Create("run.tlr"));
//   writer->SetMetadata(metadata);
//   Play(program, *writer);
//   TL_RETURN_IF_ERROR(writer->Finish());
#ifndef TIDELINE_TRACES_RUN_RUN_FILE_WRITER_H_
#define TIDELINE_TRACES_RUN_RUN_FILE_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "traces/run/run_metadata.h"
#include "traces/run/run_sink.h"

namespace tideline {

class RunFileWriter : public RunSink {
 public:
  // Errors (exit 1 kind): the file cannot be created; the message has the system's reason.
  static StatusOr<std::unique_ptr<RunFileWriter>> Create(const std::string& path);

  // May be called again, e.g. with the metrics at the end: the last one counts.
  virtual void SetMetadata(const RunMetadata& metadata) = 0;

  // Writes what is left, index and trailer, syncs, renames. A write error of any call before is
  // reported here. Call once; nothing may be added afterwards.
  virtual Status Finish() = 0;
};

}  // namespace tideline

#endif  // TIDELINE_TRACES_RUN_RUN_FILE_WRITER_H_

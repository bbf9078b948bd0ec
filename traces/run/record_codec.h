// Blocks of Run records as packed columns, and back.
#ifndef TIDELINE_TRACES_RUN_RECORD_CODEC_H_
#define TIDELINE_TRACES_RUN_RECORD_CODEC_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "traces/run/run_sink.h"

namespace tideline {

// Starts are differences to the event before; ends are durations.
std::string EncodeEvents(std::span<const RunEvent> events);
std::string EncodeSamples(std::span<const MemorySample> samples);

// Decode `count` records from a payload whose bytes may be anything. Errors (exit 5 kind): columns
// that do not fit, left-over bytes, values out of their type's range, a name id of `names` or above
// (events), negative ranks, durations or bytes.
StatusOr<std::vector<RunEvent>> DecodeEvents(std::string_view payload, size_t count, size_t names);
StatusOr<std::vector<MemorySample>> DecodeSamples(std::string_view payload, size_t count);

}  // namespace tideline

#endif  // TIDELINE_TRACES_RUN_RECORD_CODEC_H_

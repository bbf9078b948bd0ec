// RunMetadata: what a Run says about itself, so that it can be read without the program that made
// it. Stored as one JSON document in the Run file.
#ifndef TIDELINE_TRACES_RUN_RUN_METADATA_H_
#define TIDELINE_TRACES_RUN_RUN_METADATA_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tideline {

struct RunRank {
  int32_t rank = 0;
  int32_t node = 0;
  std::string role;            // "stage 2"
  std::string coordinates;     // "dp=0 pp=2 tp=1"
  int64_t capacity_bytes = 0;  // of device memory; 0: not known
  bool operator==(const RunRank&) const = default;
};

struct RunMetadata {
  std::string source;     // "simulated", "emulated", "cuda", or the format it was imported from
  std::string plan_hash;  // SHA-256 of the plan; empty where there is none
  std::string title;      // for people: "gpt2 on 2x dgx-a100-80g"
  // Names of the numbers in RunEvent::kind and phase, MemorySample::space and category.
  std::vector<std::string> kinds;
  std::vector<std::string> phases;
  std::vector<std::string> spaces;
  std::vector<std::string> categories;
  std::vector<RunRank> ranks;
  std::map<std::string, double> metrics;  // "step_time_s": 0.5; keys as in the JSON output
  bool operator==(const RunMetadata&) const = default;
};

// One JSON document; keys in a fixed order, so equal metadata gives equal bytes.
std::string ToJson(const RunMetadata& metadata);

// Errors (exit 5 kind): not JSON, or a field of the wrong type; the message names the field.
StatusOr<RunMetadata> ParseRunMetadata(std::string_view json);

// names[index], or "<what> <index>" when the metadata does not name it.
std::string NameOrNumber(const std::vector<std::string>& names, size_t index,
                         std::string_view what);

}  // namespace tideline

#endif  // TIDELINE_TRACES_RUN_RUN_METADATA_H_

#include "models/cluster/cluster_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/units.h"
#include "models/cluster/catalogue.h"
#include "models/cluster/validate.h"

namespace tideline {
namespace {

constexpr std::string_view kEmulated = "emulated:";
constexpr std::string_view kEmulatedForm = "emulated:GPUSxMEMORY";

Status BadCluster(std::string_view text, const std::string& why) {
  return UsageError(absl::StrCat("cluster ", Quoted(text), ": ", why));
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Takes "4x" off the front of `text`; 1 when there is none.
StatusOr<int32_t> TakeCount(std::string_view* text) {
  size_t digits = 0;
  while (digits < text->size() && IsDigit((*text)[digits])) ++digits;
  if (digits == 0) return 1;
  if (digits == text->size() || (*text)[digits] != 'x') {
    return UsageError("a count is written with an x; write for example 4x dgx-a100-80g");
  }
  TL_ASSIGN_OR_RETURN(const int64_t count, ParseInteger(text->substr(0, digits), 1, kMostNodes));
  *text = Trim(text->substr(digits + 1));
  return static_cast<int32_t>(count);
}

StatusOr<ClusterSpec> ParseEmulated(std::string_view name) {
  const std::string_view form = name.substr(kEmulated.size());
  const size_t separator = form.find('x');
  if (separator == std::string_view::npos) {
    return UsageError("emulated GPUs need count and memory; write for example emulated:4x256MiB");
  }
  TL_ASSIGN_OR_RETURN(const int64_t gpus,
                      ParseInteger(form.substr(0, separator), 1, kMostGpusPerNode));
  TL_ASSIGN_OR_RETURN(const int64_t memory_bytes, ParseBytes(form.substr(separator + 1)));
  return EmulatedCluster(static_cast<int32_t>(gpus), memory_bytes);
}

StatusOr<ClusterSpec> FindCluster(const std::string& name) {
  if (name.starts_with(kEmulated)) return ParseEmulated(name);
  for (CatalogueEntry& entry : Catalogue()) {
    if (entry.name != name) continue;
    ClusterSpec cluster;
    cluster.node = std::move(entry.node);
    cluster.device = std::move(entry.device);
    cluster.host = CudaHostProfile();
    return cluster;
  }
  return UsageError(UnknownName("cluster", name, ClusterNames()) + ", or a .json file");
}

// Keeps the first `gpus` of the node.
Status OverrideGpus(std::string_view value, ClusterSpec* cluster) {
  NodeSpec& node = cluster->node;
  const int32_t most = cluster->emulated ? kMostGpusPerNode : node.gpus;
  TL_ASSIGN_OR_RETURN(const int64_t gpus, ParseInteger(value, 1, most));
  node.gpus = static_cast<int32_t>(gpus);
  if (node.interconnect == Interconnect::kMesh) {
    node.links_between.resize(static_cast<size_t>(gpus));
    for (std::vector<int32_t>& row : node.links_between) row.resize(static_cast<size_t>(gpus));
  }
  return absl::OkStatus();
}

Status OverrideCount(std::string_view value, int64_t most, int32_t* count) {
  TL_ASSIGN_OR_RETURN(const int64_t wide, ParseInteger(value, 1, most));
  *count = static_cast<int32_t>(wide);
  return absl::OkStatus();
}

Status OverrideBytes(std::string_view value, int64_t* bytes) {
  TL_ASSIGN_OR_RETURN(*bytes, ParseBytes(value));
  return absl::OkStatus();
}

Status OverrideRate(std::string_view value, double* rate) {
  TL_ASSIGN_OR_RETURN(*rate, ParseBytesPerSecond(value));
  return absl::OkStatus();
}

struct OverrideKey {
  const char* name;
  Status (*apply)(std::string_view value, ClusterSpec* cluster);
};

constexpr OverrideKey kOverrideKeys[] = {
    {"gpus", OverrideGpus},
    {"memory",
     [](std::string_view value, ClusterSpec* cluster) {
       return OverrideBytes(value, &cluster->device.memory_bytes);
     }},
    {"host_memory",
     [](std::string_view value, ClusterSpec* cluster) {
       return OverrideBytes(value, &cluster->node.host_memory_bytes);
     }},
    {"host_cores",
     [](std::string_view value, ClusterSpec* cluster) {
       return OverrideCount(value, kMostHostCores, &cluster->node.host_cores);
     }},
    {"nics",
     [](std::string_view value, ClusterSpec* cluster) {
       return OverrideCount(value, kMostNics, &cluster->node.nics);
     }},
    {"nic_bandwidth",
     [](std::string_view value, ClusterSpec* cluster) {
       return OverrideRate(value, &cluster->node.nic_bandwidth);
     }},
    {"nvlink_bandwidth",
     [](std::string_view value, ClusterSpec* cluster) {
       return OverrideRate(value, &cluster->node.nvlink_bandwidth);
     }},
};

Status ApplyOverride(const KeyValue& entry, ClusterSpec* cluster) {
  std::vector<std::string> names;
  for (const OverrideKey& key : kOverrideKeys) {
    names.emplace_back(key.name);
    if (entry.key == key.name) return Annotate(key.apply(entry.value, cluster), entry.key);
  }
  return UsageError(UnknownName("key", entry.key, names));
}

Status ApplyOverrides(std::string_view list, ClusterSpec* cluster) {
  TL_ASSIGN_OR_RETURN(const std::vector<KeyValue> overrides, ParseKeyValues(list));
  for (const KeyValue& entry : overrides) TL_RETURN_IF_ERROR(ApplyOverride(entry, cluster));
  return absl::OkStatus();
}

StatusOr<ClusterSpec> ParseParts(std::string_view text) {
  std::string_view rest = Trim(text);
  TL_ASSIGN_OR_RETURN(const int32_t nodes, TakeCount(&rest));
  TL_ASSIGN_OR_RETURN(const BracedName braced, SplitBracedName(rest));
  if (braced.name.empty()) {
    return UsageError(absl::StrCat("the name is missing; valid: ", JoinNames(ClusterNames())));
  }
  TL_ASSIGN_OR_RETURN(ClusterSpec cluster, FindCluster(braced.name));
  cluster.name = std::string(Trim(text));
  cluster.nodes = nodes;
  TL_RETURN_IF_ERROR(ApplyOverrides(braced.list, &cluster));
  return cluster;
}

}  // namespace

StatusOr<ClusterSpec> ParseCluster(std::string_view text) {
  StatusOr<ClusterSpec> cluster = ParseParts(text);
  if (!cluster.ok()) return BadCluster(text, std::string(cluster.status().message()));
  // The figures came from the command line, so a bad one is a usage error.
  const Status valid = ValidateCluster(*cluster);
  if (!valid.ok()) return BadCluster(text, std::string(valid.message()));
  return cluster;
}

Status OverrideCluster(std::string_view list, ClusterSpec* cluster) {
  Status applied = ApplyOverrides(list, cluster);
  if (applied.ok()) applied = ValidateCluster(*cluster);
  return applied.ok() ? applied : BadCluster(list, std::string(applied.message()));
}

std::vector<std::string> ClusterNames() {
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : Catalogue()) names.push_back(entry.name);
  names.emplace_back(kEmulatedForm);
  return names;
}

}  // namespace tideline

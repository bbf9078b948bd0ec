#include "models/cluster/cluster_json.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "models/cluster/cluster_text.h"
#include "models/cluster/validate.h"

namespace tideline {
namespace {

constexpr std::pair<const char*, Interconnect> kInterconnects[] = {
    {"switch", Interconnect::kSwitch},
    {"mesh", Interconnect::kMesh},
    {"pcie", Interconnect::kPcie},
};

// The fields of each part, named once for reading and writing. A Visitor has one function per kind
// of field.
template <typename Visitor, typename Device>
void VisitDevice(Visitor* visit, Device* device) {
  visit->Text("name", &device->name);
  visit->Bytes("memory", &device->memory_bytes);
  visit->Bytes("runtime_reserve", &device->runtime_reserve_bytes);
  visit->Speed("peak_fp32", &device->peak_fp32_flops);
  visit->Speed("peak_16bit", &device->peak_16bit_flops);
  visit->Rate("memory_bandwidth", &device->memory_bandwidth);
  visit->Seconds("kernel_overhead", &device->kernel_overhead_s);
  visit->Real("gemm_efficiency", &device->gemm_efficiency);
  visit->Real("half_m", &device->half_m);
  visit->Real("half_n", &device->half_n);
  visit->Real("half_k", &device->half_k);
  visit->Real("bandwidth_efficiency", &device->bandwidth_efficiency);
  visit->Shares("op_efficiency", &device->op_efficiency);
  visit->Bool("calibrated", &device->calibrated);
}

template <typename Visitor, typename Node>
void VisitNode(Visitor* visit, Node* node) {
  visit->Integer("gpus", &node->gpus);
  visit->Connection("interconnect", &node->interconnect);
  visit->Rate("nvlink_bandwidth", &node->nvlink_bandwidth);
  visit->Seconds("nvlink_latency", &node->nvlink_latency_s);
  visit->Matrix("links_between", &node->links_between);
  visit->Rate("pcie_bandwidth", &node->pcie_bandwidth);
  visit->Seconds("pcie_latency", &node->pcie_latency_s);
  visit->Integer("nics", &node->nics);
  visit->Rate("nic_bandwidth", &node->nic_bandwidth);
  visit->Seconds("nic_latency", &node->nic_latency_s);
  visit->Bytes("host_memory", &node->host_memory_bytes);
  visit->Integer("host_cores", &node->host_cores);
  visit->Rate("dram_bandwidth", &node->dram_bandwidth);
  visit->OptionalReal("core_efficiency", &node->core_efficiency);
}

template <typename Visitor, typename Fabric>
void VisitFabric(Visitor* visit, Fabric* fabric) {
  visit->List("leaf_sizes", &fabric->leaf_sizes);
  visit->Rate("leaf_uplink_bandwidth", &fabric->leaf_uplink_bandwidth);
  visit->Seconds("spine_latency", &fabric->spine_latency_s);
}

template <typename Visitor, typename Host>
void VisitHost(Visitor* visit, Host* host) {
  visit->Text("name", &host->name);
  visit->Seconds("kernel_launch", &host->kernel_launch_s);
  visit->Seconds("collective_launch", &host->collective_launch_s);
  visit->Seconds("copy_launch", &host->copy_launch_s);
  visit->Seconds("host_task", &host->host_task_s);
  visit->Seconds("step", &host->step_s);
}

class WriteVisitor {
 public:
  explicit WriteVisitor(JsonWriter* json) : json_(*json) {}
  void Text(const char* name, const std::string* value) { json_.Field(name, *value); }
  void Bool(const char* name, const bool* value) { json_.Field(name, *value); }
  void Integer(const char* name, const int32_t* value) { json_.Field(name, *value); }
  void Real(const char* name, const double* value) { json_.Field(name, *value); }
  void OptionalReal(const char* name, const double* value) { Real(name, value); }
  void Shares(const char* name, const std::map<std::string, double>* value) {
    if (value->empty()) return;
    json_.Key(name).BeginObject();
    for (const auto& [op, share] : *value) json_.Field(op, share);
    json_.EndObject();
  }
  void Bytes(const char* name, const int64_t* value) { json_.Field(name, FormatBytes(*value)); }
  void Rate(const char* name, const double* value) {
    json_.Field(name, FormatBytesPerSecond(*value));
  }
  void Seconds(const char* name, const double* value) { json_.Field(name, FormatSeconds(*value)); }
  void Speed(const char* name, const double* value) {
    json_.Field(name, FormatFlopsPerSecond(*value));
  }
  void Connection(const char* name, const Interconnect* value) {
    for (const auto& [text, kind] : kInterconnects) {
      if (kind == *value) json_.Field(name, text);
    }
  }
  void List(const char* name, const std::vector<int32_t>* value) {
    json_.Key(name);
    WriteList(*value);
  }
  void Matrix(const char* name, const std::vector<std::vector<int32_t>>* value) {
    json_.Key(name).BeginArray();
    for (const std::vector<int32_t>& row : *value) WriteList(row);
    json_.EndArray();
  }

 private:
  void WriteList(const std::vector<int32_t>& list) {
    json_.BeginInlineArray();
    for (const int32_t item : list) json_.Value(item);
    json_.EndArray();
  }
  JsonWriter& json_;
};

// Reads what is there; `required`: everything must be there, except lists. Keeps the first error.
class ReadVisitor {
 public:
  ReadVisitor(JsonObject object, bool required) : object_(std::move(object)), required_(required) {}

  void Text(const char* name, std::string* value) {
    if (Wanted(name)) Note(object_.Read(name, value));
  }
  void Bool(const char* name, bool* value) {
    if (Wanted(name)) Note(object_.Read(name, value));
  }
  void Integer(const char* name, int32_t* value) {
    if (Wanted(name)) Note(object_.Read(name, value));
  }
  void Real(const char* name, double* value) {
    if (Wanted(name)) Note(object_.Read(name, value));
  }
  void OptionalReal(const char* name, double* value) {
    if (object_.Find(name).has_value()) Note(object_.Read(name, value));
  }
  void Shares(const char* name, std::map<std::string, double>* value) {
    const std::optional<JsonValue> field = object_.Find(name);
    if (!field.has_value()) return;
    StatusOr<JsonObject> shares = field->AsObject();
    Note(shares.status());
    if (!shares.ok()) return;
    value->clear();
    for (const auto& [op, share] : shares->Members()) {
      const StatusOr<double> number = share.AsReal();
      Note(number.status());
      (*value)[op] = number.ok() ? *number : 1;
    }
  }
  void Bytes(const char* name, int64_t* value) { Quantity(name, ParseBytes, value); }
  void Rate(const char* name, double* value) { Quantity(name, ParseBytesPerSecond, value); }
  void Seconds(const char* name, double* value) { Quantity(name, ParseSeconds, value); }
  void Speed(const char* name, double* value) { Quantity(name, ParseFlopsPerSecond, value); }
  void Connection(const char* name, Interconnect* value) {
    if (!Wanted(name)) return;
    std::string text;
    Note(object_.Read(name, &text));
    std::vector<std::string> names;
    for (const auto& [known, kind] : kInterconnects) {
      names.emplace_back(known);
      if (text == known) {
        *value = kind;
        return;
      }
    }
    const std::optional<JsonValue> field = object_.Find(name);
    if (field.has_value()) Note(field->Error(UnknownName("interconnect", text, names)));
  }
  void List(const char* name, std::vector<int32_t>* value) {
    const std::optional<JsonValue> field = object_.Find(name);
    if (field.has_value()) ReadList(*field, value);
  }
  void Matrix(const char* name, std::vector<std::vector<int32_t>>* value) {
    const std::optional<JsonValue> field = object_.Find(name);
    if (!field.has_value()) return;
    const StatusOr<std::vector<JsonValue>> rows = field->AsArray();
    Note(rows.status());
    if (!rows.ok()) return;
    value->assign(rows->size(), {});
    for (size_t row = 0; row < rows->size(); ++row) ReadList((*rows)[row], &(*value)[row]);
  }

  Status Finish() {
    Note(object_.Finish());
    return status_;
  }

 private:
  bool Wanted(const char* name) { return required_ || object_.Find(name).has_value(); }

  void Note(const Status& status) {
    if (status_.ok()) status_ = status;
  }

  template <typename T>
  void Quantity(const char* name, StatusOr<T> (*parse)(std::string_view), T* value) {
    if (!Wanted(name)) return;
    const StatusOr<JsonValue> field = object_.Get(name);
    Note(field.status());
    if (!field.ok()) return;
    const StatusOr<std::string> text = field->AsString();
    Note(text.status());
    if (!text.ok()) return;
    const StatusOr<T> parsed = parse(*text);
    if (parsed.ok()) {
      *value = *parsed;
    } else {
      Note(field->Error(std::string(parsed.status().message())));
    }
  }

  void ReadList(const JsonValue& field, std::vector<int32_t>* value) {
    const StatusOr<std::vector<JsonValue>> items = field.AsArray();
    Note(items.status());
    if (!items.ok()) return;
    value->clear();
    for (const JsonValue& item : *items) {
      const StatusOr<int64_t> number = item.AsInteger(0, kMostNodes);
      Note(number.status());
      value->push_back(number.ok() ? static_cast<int32_t>(*number) : 0);
    }
  }

  JsonObject object_;
  bool required_;
  Status status_;
};

// Reads the part `name` of `object` with a ReadVisitor.
template <typename Part>
Status ReadPart(JsonObject* object, const char* name, bool required, Part* part,
                void (*visit_part)(ReadVisitor*, Part*)) {
  const std::optional<JsonValue> field = object->Find(name);
  if (!field.has_value()) return required ? object->Get(name).status() : absl::OkStatus();
  TL_ASSIGN_OR_RETURN(JsonObject fields, field->AsObject());
  ReadVisitor visitor(std::move(fields), required);
  visit_part(&visitor, part);
  return visitor.Finish();
}

StatusOr<ClusterSpec> ReadBase(JsonObject* object) {
  const std::optional<JsonValue> field = object->Find("base");
  if (!field.has_value()) return ClusterSpec();
  TL_ASSIGN_OR_RETURN(const std::string text, field->AsString());
  StatusOr<ClusterSpec> base = ParseCluster(text);
  if (!base.ok()) return field->Error(std::string(base.status().message()));
  return base;
}

StatusOr<ClusterSpec> ReadDocument(const JsonDocument& document, const std::string& file) {
  TL_ASSIGN_OR_RETURN(JsonObject object, document.root().AsObject());
  int32_t version = 0;
  TL_RETURN_IF_ERROR(object.Read("schema_version", &version, 1, 1));
  const bool complete = !object.Find("base").has_value();
  TL_ASSIGN_OR_RETURN(ClusterSpec cluster, ReadBase(&object));
  TL_RETURN_IF_ERROR(object.ReadOptional("name", &cluster.name));
  TL_RETURN_IF_ERROR(object.ReadOptional("nodes", &cluster.nodes, 1, kMostNodes));
  TL_RETURN_IF_ERROR(object.ReadOptional("emulated", &cluster.emulated));
  TL_RETURN_IF_ERROR(
      ReadPart(&object, "node", complete, &cluster.node, VisitNode<ReadVisitor, NodeSpec>));
  TL_RETURN_IF_ERROR(
      ReadPart(&object, "device", complete, &cluster.device, VisitDevice<ReadVisitor, DeviceSpec>));
  TL_RETURN_IF_ERROR(
      ReadPart(&object, "fabric", false, &cluster.fabric, VisitFabric<ReadVisitor, FabricSpec>));
  TL_RETURN_IF_ERROR(
      ReadPart(&object, "host", complete, &cluster.host, VisitHost<ReadVisitor, HostProfile>));
  TL_RETURN_IF_ERROR(object.Finish());
  if (cluster.name.empty()) cluster.name = file;
  TL_RETURN_IF_ERROR(Annotate(ValidateCluster(cluster), file));
  return cluster;
}

template <typename Part>
void WritePart(JsonWriter* json, const char* name, const Part& part,
               void (*visit_part)(WriteVisitor*, const Part*)) {
  json->Key(name).BeginObject();
  WriteVisitor visitor(json);
  visit_part(&visitor, &part);
  json->EndObject();
}

}  // namespace

StatusOr<ClusterSpec> ReadClusterJson(std::string_view text, const std::string& file) {
  TL_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text, file));
  return ReadDocument(document, file);
}

StatusOr<ClusterSpec> LoadCluster(const std::string& text) {
  const size_t braces = text.ends_with('}') ? text.find(".json{") : text.npos;
  const std::string path = braces == text.npos ? text : text.substr(0, text.find('{', braces));
  if (!path.ends_with(".json")) return ParseCluster(text);
  TL_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Load(path));
  TL_ASSIGN_OR_RETURN(ClusterSpec cluster, ReadDocument(document, path));
  if (braces == text.npos) return cluster;
  TL_RETURN_IF_ERROR(OverrideCluster(
      std::string_view(text).substr(path.size() + 1, text.size() - path.size() - 2), &cluster));
  absl::StrAppend(&cluster.name, text.substr(path.size()));
  return cluster;
}

std::string WriteClusterJson(const ClusterSpec& cluster) {
  JsonWriter json;
  json.BeginObject();
  json.Field("schema_version", 1).Field("name", cluster.name).Field("nodes", cluster.nodes);
  json.Field("emulated", cluster.emulated);
  WritePart(&json, "node", cluster.node, VisitNode<WriteVisitor, const NodeSpec>);
  WritePart(&json, "device", cluster.device, VisitDevice<WriteVisitor, const DeviceSpec>);
  WritePart(&json, "fabric", cluster.fabric, VisitFabric<WriteVisitor, const FabricSpec>);
  WritePart(&json, "host", cluster.host, VisitHost<WriteVisitor, const HostProfile>);
  json.EndObject();
  return json.Take();
}

}  // namespace tideline

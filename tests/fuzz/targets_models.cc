// Parsers of models/: clusters, model names and configurations, weights, equations.
#include <unistd.h>

#include <algorithm>

#include "models/cluster/cluster_json.h"
#include "models/cluster/cluster_text.h"
#include "models/cluster/validate.h"
#include "models/import/hf_config.h"
#include "models/import/safetensors.h"
#include "models/ops/equation.h"
#include "models/zoo/model.h"
#include "models/zoo/zoo.h"
#include "tests/fuzz/target.h"

namespace tideline {
namespace {

// Whatever is accepted must be valid and survive being written and read.
Status CheckCluster(const ClusterSpec& cluster) {
  if (!ValidateCluster(cluster).ok()) return InternalError("accepted but not valid");
  const StatusOr<ClusterSpec> read = ReadClusterJson(WriteClusterJson(cluster), "fuzz.json");
  if (!read.ok()) return InternalError(std::string(read.status().message()));
  ClusterSpec same_name = *read;
  same_name.name = cluster.name;  // bytes that are no UTF-8 are replaced when written
  if (!(same_name == cluster)) return InternalError("a cluster changes when written and read");
  return absl::OkStatus();
}

Status ParseClusterText(std::string_view text) {
  TL_ASSIGN_OR_RETURN(const ClusterSpec cluster, ParseCluster(text));
  return CheckCluster(cluster);
}

std::vector<std::string> ClusterTextSeeds() {
  return {"4x dgx-a100-80g", "dgx-a100-40g{gpus=1}", "emulated:4x256MiB",
          "2x emulated:2x64MiB{host_memory=2GiB,host_cores=3}",
          "p3.16xlarge{nics=2,nic_bandwidth=100Gb/s,nvlink_bandwidth=50GB/s,memory=15GiB}"};
}

Status ParseClusterJson(std::string_view text) {
  TL_ASSIGN_OR_RETURN(const ClusterSpec cluster, ReadClusterJson(text, "fuzz.json"));
  return CheckCluster(cluster);
}

std::vector<std::string> ClusterJsonSeeds() {
  return {WriteClusterJson(*ParseCluster("4x dgx-v100-32g")),
          WriteClusterJson(*ParseCluster("emulated:4x256MiB")),
          R"({"schema_version": 1, "base": "2x dgx-a100-80g", "node": {"nics": 2}, "fabric": {
             "leaf_sizes": [1, 1], "leaf_uplink_bandwidth": "50GB/s", "spine_latency": "1us"}})"};
}

// Whatever is accepted is a valid configuration; small ones must also build or say why not.
Status CheckConfig(const ModelConfig& config) {
  if (!ValidateModel(config).ok()) return InternalError("accepted but not valid");
  if (TraitsOf(config).layers > 64) return absl::OkStatus();
  const StatusOr<Graph> graph = BuildModel(config, {.batch = 1, .sequence = 1});
  if (!graph.ok()) {
    return InternalError("accepted but not buildable: " + std::string(graph.status().message()));
  }
  return absl::OkStatus();
}

Status ParseHfConfig(std::string_view text) {
  TL_ASSIGN_OR_RETURN(const ImportedModel model, ImportHfConfig(text, "fuzz.json"));
  return CheckConfig(model.config);
}

std::vector<std::string> HfConfigSeeds() {
  return {R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16,
              "vocab_size": 11, "n_inner": null, "activation_function": "gelu_new",
              "tie_word_embeddings": false, "layer_norm_epsilon": 1e-05})",
          R"({"model_type": "opt", "hidden_size": 8, "num_hidden_layers": 2, "ffn_dim": 32,
              "num_attention_heads": 2, "vocab_size": 11, "max_position_embeddings": 16,
              "do_layer_norm_before": true, "word_embed_proj_dim": 8, "enable_bias": true})",
          R"({"model_type": "llama", "hidden_size": 16, "intermediate_size": 20, "head_dim": 4,
              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
              "vocab_size": 11, "rms_norm_eps": 1e-06, "rope_theta": 500000.0,
              "sliding_window": null, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
              "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 8192}})"};
}

Status ParseModelText(std::string_view text) {
  TL_ASSIGN_OR_RETURN(const ModelConfig config, ResolveModel(text));
  return CheckConfig(config);
}

std::vector<std::string> ModelTextSeeds() {
  return {"gpt2", "llama3.1-70b", "gpt:layers=2,hidden=12,heads=4,vocab=50,ffn=7,kv_heads=2",
          "llama:layers=2,hidden=16,heads=4,head_dim=2,positions=64,activation=relu,"
          "norm=layer_norm"};
}

// The bytes are a whole file: entries must lie in it, one after the other, as large as they say.
Status ParseTensorFile(std::string_view bytes) {
  const int64_t size = static_cast<int64_t>(bytes.size());
  TL_ASSIGN_OR_RETURN(const TensorHeader header, ParseTensorHeader(bytes, size, "fuzz"));
  int64_t at = header.data_begin;
  for (const TensorHeader::Entry& entry : header.entries) {
    if (entry.begin < at || entry.end < entry.begin || entry.end > size) {
      return InternalError("tensor '" + entry.name + "' lies outside the file or on another");
    }
    at = entry.end;
  }
  return absl::OkStatus();
}

// The file format: length of the header, header, data.
std::string TensorFile(const std::string& header, size_t data_bytes) {
  std::string bytes;
  for (size_t i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(header.size() >> (8 * i)));
  return bytes + header + std::string(data_bytes, '\x3f');
}

std::vector<std::string> TensorFileSeeds() {
  return {TensorFile("{}", 0),
          TensorFile(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                     R"("__metadata__":{"format":"pt"},)"
                     R"("b":{"dtype":"BF16","shape":[],"data_offsets":[24,26]}}   )",
                     26)};
}

Status ParseBoth(std::string_view text) {
  const StatusOr<RowReduction> reduction = ParseReduction(text);
  const StatusOr<Equation> equation = ParseEquation(text);
  if (!equation.ok()) return reduction.ok() ? absl::OkStatus() : equation.status();
  for (const char letter : equation->c) {
    if (equation->a.find(letter) == std::string::npos &&
        equation->b.find(letter) == std::string::npos) {
      return InternalError("a letter of the result comes from nowhere");
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> EquationSeeds() {
  return {"bsk,kn->bsn", "bsk,kn,n->bsn", "bsad,btad->bast", "qbsn->qn"};
}

}  // namespace

std::vector<FuzzTarget> ModelTargets() {
  return {
      {.name = "cluster_text",
       .parse = ParseClusterText,
       .seeds = ClusterTextSeeds,
       .tokens = {"{", "}", ",", "=", "x ", "4x", "gpus=2", "memory=", "GiB", "GB/s",
                  "dgx-a100-80g", "emulated:", "nvlink_bandwidth=600GB/s"},
       .exit_codes = {2}},
      {.name = "cluster_json",
       .parse = ParseClusterJson,
       .seeds = ClusterJsonSeeds,
       .tokens = {"{", "}", "[", "]", "null", "\"base\": \"dgx-a100-40g\",", "\"nodes\": 7,", "-1",
                  "\"1GiB\"", "\"5us\"", "1e300", "\"GB/s\""}},
      {.name = "hf_config",
       .parse = ParseHfConfig,
       .seeds = HfConfigSeeds,
       .tokens = {"null", "true", "-1", "1e308", "[[[[", "{\"", "9223372036854775808", "\"yarn\"",
                  "\"rope_parameters\":", "\"head_dim\":", "\"sliding_window\": 4096"}},
      {.name = "model_text",
       .parse = ParseModelText,
       .seeds = ModelTextSeeds,
       .tokens = {",", "=", "layers=", "hidden=", "heads=", "gpt:", "llama:", "opt-", "{", "}"},
       .exit_codes = {2}},
      {.name = "safetensors",
       .parse = ParseTensorFile,
       .seeds = TensorFileSeeds,
       .tokens = {"\"F32\"", "\"BF16\"", "\"F16\"", "\"shape\":", "\"dtype\":", "\"data_offsets\":",
                  "__metadata__", "[0,0]", "9223372036854775807", std::string(7, '\0')}},
      {.name = "equation",
       .parse = ParseBoth,
       .seeds = EquationSeeds,
       .tokens = {",", "->", "a", "b", ",,"}},
  };
}

}  // namespace tideline

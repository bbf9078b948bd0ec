#include "tests/planner/lowering/fixture.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "models/cluster/cluster_text.h"

namespace tideline {

DecoderConfig TinyGpt() {
  DecoderConfig config;
  config.name = "tiny-gpt";
  config.layers = 4;
  config.hidden = 32;
  config.heads = config.kv_heads = 4;
  config.head_dim = 8;
  config.ffn = 128;
  config.vocab = 61;
  config.max_positions = 16;
  config.fused_qkv = config.attention_bias = config.output_bias = config.mlp_bias = true;
  config.tied_embedding = true;
  return config;
}

DecoderConfig TinyLlama() {
  DecoderConfig config = TinyGpt();
  config.name = "tiny-llama";
  config.kv_heads = 2;
  config.ffn = 48;
  config.norm = NormKind::kRmsNorm;
  config.activation = ActivationKind::kSwiGlu;
  config.position = PositionKind::kRotary;
  config.fused_qkv = config.attention_bias = config.output_bias = config.mlp_bias = false;
  config.tied_embedding = false;
  return config;
}

DecoderConfig TinyOpt() {
  DecoderConfig config = TinyGpt();
  config.name = "tiny-opt";
  config.activation = ActivationKind::kRelu;
  config.position_offset = 2;
  config.fused_qkv = false;
  return config;
}

ClusterSpec TestCluster(int32_t gpus) {
  const auto cluster = ParseCluster(absl::StrCat("emulated:", gpus, "x1GiB"));
  TL_CHECK(cluster.ok(), "the catalogue has emulated devices");
  return *cluster;
}

Workload TestWorkload(const DecoderConfig& model, int32_t gpus, int64_t global_batch) {
  WorkloadRequest request;
  request.seq = 8;
  request.global_batch = global_batch;
  const auto workload = MakeWorkload(model, TestCluster(gpus), request);
  TL_CHECK(workload.ok(), "test models fit their positions");
  return *workload;
}

Plan TestPlan(const DecoderConfig& model, TestMesh mesh) {
  Plan plan;
  plan.model = model;
  plan.cluster = TestCluster(mesh.dp * mesh.pp * mesh.tp);
  plan.seq = 8;
  plan.dtype = plan.grad_dtype = DType::kF32;
  plan.dp = mesh.dp;
  plan.pp = mesh.pp;
  plan.tp = mesh.tp;
  plan.micro_batch = 2;
  plan.global_batch = int64_t{4} * mesh.pp * mesh.dp;
  plan.padded_vocab = PaddedVocab(model.vocab, mesh.tp);
  const auto stages = DefaultStages(model.layers, mesh.pp, 1);
  TL_CHECK(stages.ok(), "test meshes divide the layers");
  plan.stages = *stages;
  const auto hash = ModelHash(plan.model, plan.seq, plan.dtype);
  TL_CHECK(hash.ok(), "test models build");
  plan.graph_hash = *hash;
  return plan;
}

Plan Interleaved(Plan plan, int32_t chunks) {
  plan.schedule = Schedule::kInterleaved;
  plan.chunks = chunks;
  const auto stages = DefaultStages(TraitsOf(plan.model).layers, plan.pp, chunks);
  TL_CHECK(stages.ok(), "chunks divide the layers");
  plan.stages = *stages;
  return plan;
}

}  // namespace tideline

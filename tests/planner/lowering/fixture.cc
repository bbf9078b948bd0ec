#include "tests/planner/lowering/fixture.h"

#include "base/check.h"
#include "planner/lowering/draft.h"

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
  ClusterSpec cluster;
  cluster.name = "test";
  cluster.node.gpus = gpus % 8 == 0 ? 8 : gpus;
  cluster.nodes = gpus / cluster.node.gpus;
  cluster.node.nvlink_bandwidth = 20e9;
  cluster.node.pcie_bandwidth = 10e9;
  cluster.node.nic_bandwidth = 5e9;
  cluster.node.host_memory_bytes = int64_t{8} << 30;
  cluster.device.name = "test";
  cluster.device.memory_bytes = int64_t{1} << 30;
  cluster.device.peak_fp32_flops = cluster.device.peak_16bit_flops = 1e12;
  cluster.device.memory_bandwidth = 100e9;
  cluster.device.kernel_overhead_s = 1e-6;
  cluster.host.kernel_launch_s = 1e-6;
  cluster.emulated = true;
  return cluster;
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
  const auto hash = ModelHash(plan);
  TL_CHECK(hash.ok(), "test models build");
  plan.graph_hash = *hash;
  return plan;
}

Plan Interleaved(Plan plan, int32_t chunks) {
  plan.schedule = Schedule::kInterleaved;
  plan.chunks = chunks;
  const auto stages = DefaultStages(plan.model.layers, plan.pp, chunks);
  TL_CHECK(stages.ok(), "chunks divide the layers");
  plan.stages = *stages;
  return plan;
}

}  // namespace tideline

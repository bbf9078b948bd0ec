#include "planner/plan/plan.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <span>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/text.h"
#include "planner/plan/message_json.h"
#include "planner/plan/plan.pb.h"
#include "planner/plan/validate.h"

namespace tideline {
namespace {

constexpr int32_t kSchemaVersion = 1;

// ---- Words ----

template <typename Value>
using Words = std::span<const std::pair<std::string_view, Value>>;

constexpr std::pair<std::string_view, Schedule> kSchedules[] = {
    {"gpipe", Schedule::kGPipe},
    {"1f1b", Schedule::k1F1B},
    {"interleaved", Schedule::kInterleaved}};
constexpr std::pair<std::string_view, Recompute> kRecomputes[] = {
    {"none", Recompute::kNone}, {"selective", Recompute::kSelective}, {"full", Recompute::kFull}};
constexpr std::pair<std::string_view, AttentionForm> kAttentionForms[] = {
    {"unfused", AttentionForm::kUnfused}, {"fused", AttentionForm::kFused}};
constexpr std::pair<std::string_view, GradientReduction> kReductions[] = {
    {"once", GradientReduction::kOnce}, {"each_micro_batch", GradientReduction::kEachMicroBatch}};
constexpr std::pair<std::string_view, NormKind> kNorms[] = {{"layer_norm", NormKind::kLayerNorm},
                                                            {"rms_norm", NormKind::kRmsNorm}};
constexpr std::pair<std::string_view, ActivationKind> kActivations[] = {
    {"gelu", ActivationKind::kGelu},
    {"relu", ActivationKind::kRelu},
    {"swiglu", ActivationKind::kSwiGlu}};
constexpr std::pair<std::string_view, PositionKind> kPositions[] = {
    {"learned", PositionKind::kLearned}, {"rotary", PositionKind::kRotary}};
constexpr std::pair<std::string_view, ConvNetKind> kConvNetKinds[] = {
    {"resnet", ConvNetKind::kResNet}, {"densenet", ConvNetKind::kDenseNet}};
constexpr std::pair<std::string_view, ResidualBlock> kResidualBlocks[] = {
    {"basic", ResidualBlock::kBasic}, {"bottleneck", ResidualBlock::kBottleneck}};
constexpr std::pair<std::string_view, ImageStem> kImageStems[] = {
    {"standard", ImageStem::kStandard}, {"small", ImageStem::kSmall}};
constexpr std::pair<std::string_view, Interconnect> kInterconnects[] = {
    {"switch", Interconnect::kSwitch},
    {"mesh", Interconnect::kMesh},
    {"pcie", Interconnect::kPcie}};
constexpr std::pair<std::string_view, DType> kDTypes[] = {
    {"fp32", DType::kF32}, {"bf16", DType::kBF16}, {"fp16", DType::kF16}};
constexpr std::pair<std::string_view, Axis> kAxisNames[] = {
    {"dp", Axis::kData}, {"pp", Axis::kPipeline}, {"tp", Axis::kTensor}};
constexpr std::pair<std::string_view, CollectiveAlgorithm> kAlgorithms[] = {
    {"ring", CollectiveAlgorithm::kRing},
    {"tree", CollectiveAlgorithm::kTree},
    {"halving_doubling", CollectiveAlgorithm::kHalvingDoubling}};
constexpr std::pair<std::string_view, RateSchedule> kRateSchedules[] = {
    {"constant", RateSchedule::kConstant},
    {"linear", RateSchedule::kLinear},
    {"cosine", RateSchedule::kCosine}};
constexpr std::pair<std::string_view, ReductionOrder> kOrders[] = {
    {"rank", ReductionOrder::kRank},
    {"ring", ReductionOrder::kRing},
    {"tree", ReductionOrder::kTree},
    {"halving_doubling", ReductionOrder::kHalvingDoubling}};

template <typename Value, size_t size>
std::string_view Word(const std::pair<std::string_view, Value> (&words)[size], Value value) {
  for (const auto& [word, candidate] : words) {
    if (candidate == value) return word;
  }
  return "?";
}

// The value of `word`; an empty word leaves `value` at its default when `optional`.
template <typename Value, size_t size>
Status ReadWord(const std::pair<std::string_view, Value> (&words)[size], const std::string& word,
                const std::string& where, std::string_view field, bool optional, Value* value) {
  if (word.empty() && optional) return absl::OkStatus();
  std::vector<std::string> valid;
  for (const auto& [candidate, its_value] : words) {
    if (candidate == word) {
      *value = its_value;
      return absl::OkStatus();
    }
    valid.emplace_back(candidate);
  }
  const std::string name(field);
  return InputError(
      absl::StrCat(where, ": field '", name, "': ", UnknownName("value", word, valid)));
}

// ---- Fields that mean the same in both forms ----

// clang-format off
#define TL_MODEL_FIELDS(F)                                                                  \
  F(name) F(layers) F(hidden) F(heads) F(kv_heads) F(head_dim) F(ffn) F(vocab)              \
  F(max_positions) F(position_offset) F(fused_qkv) F(attention_bias) F(output_bias)         \
  F(mlp_bias) F(tied_embedding) F(norm_epsilon) F(dropout)
#define TL_CONVNET_FIELDS(F)                                                                \
  F(name) F(width) F(growth) F(image) F(channels) F(classes) F(norm_epsilon) F(norm_momentum)
#define TL_ROTARY_FIELDS(F) \
  F(theta) F(factor) F(low_frequency_factor) F(high_frequency_factor) F(original_positions)
#define TL_DEVICE_FIELDS(F)                                                                 \
  F(name) F(memory_bytes) F(runtime_reserve_bytes) F(peak_fp32_flops) F(peak_16bit_flops)   \
  F(memory_bandwidth) F(kernel_overhead_s) F(gemm_efficiency) F(half_m) F(half_n) F(half_k) \
  F(bandwidth_efficiency) F(calibrated)
#define TL_HOST_FIELDS(F) \
  F(name) F(kernel_launch_s) F(collective_launch_s) F(copy_launch_s) F(host_task_s) F(step_s)
#define TL_NODE_FIELDS(F)                                                                   \
  F(gpus) F(nvlink_bandwidth) F(nvlink_latency_s) F(pcie_bandwidth) F(pcie_latency_s)       \
  F(nics) F(nic_bandwidth) F(nic_latency_s) F(host_memory_bytes) F(host_cores)              \
  F(dram_bandwidth)
#define TL_OPTIMIZER_FIELDS(F) F(learning_rate) F(beta1) F(beta2) F(epsilon) F(decay)
#define TL_SCHEDULE_FIELDS(F) F(warmup_steps) F(decay_steps) F(least_learning_rate)
// clang-format on
#define TL_TO_FILE(name) to->set_##name(from.name);
#define TL_FROM_FILE(name) to->name = from.name();
#define TL_FROM_OPTIONAL(name) \
  if (from.has_##name()) to->name = from.name();

void ToFile(const DecoderConfig& from, plan_file::Plan* plan) {
  plan_file::Model* to = plan->mutable_model();
  TL_MODEL_FIELDS(TL_TO_FILE)
  to->set_norm(std::string(Word(kNorms, from.norm)));
  to->set_activation(std::string(Word(kActivations, from.activation)));
  to->set_position(std::string(Word(kPositions, from.position)));
  const RotaryScaling& rotary = from.rotary;
  [](const RotaryScaling& from, plan_file::Rotary* to) { TL_ROTARY_FIELDS(TL_TO_FILE) }(
      rotary, to->mutable_rotary());
}

Status FromFile(const plan_file::Model& from, const std::string& where, DecoderConfig* to) {
  TL_MODEL_FIELDS(TL_FROM_FILE)
  TL_RETURN_IF_ERROR(ReadWord(kNorms, from.norm(), where, "model.norm", false, &to->norm));
  TL_RETURN_IF_ERROR(
      ReadWord(kActivations, from.activation(), where, "model.activation", false, &to->activation));
  TL_RETURN_IF_ERROR(
      ReadWord(kPositions, from.position(), where, "model.position", false, &to->position));
  if (from.has_rotary()) {
    [](const plan_file::Rotary& from, RotaryScaling* to) { TL_ROTARY_FIELDS(TL_FROM_OPTIONAL) }(
        from.rotary(), &to->rotary);
  }
  return absl::OkStatus();
}

void ToFile(const ConvNetConfig& from, plan_file::Plan* plan) {
  plan_file::ConvNet* to = plan->mutable_convnet();
  TL_CONVNET_FIELDS(TL_TO_FILE)
  to->set_kind(std::string(Word(kConvNetKinds, from.kind)));
  to->set_block(std::string(Word(kResidualBlocks, from.block)));
  to->set_stem(std::string(Word(kImageStems, from.stem)));
  for (const int64_t blocks : from.stages) to->add_stages(blocks);
}

Status FromFile(const plan_file::ConvNet& from, const std::string& where, ConvNetConfig* to) {
  TL_CONVNET_FIELDS(TL_FROM_FILE)
  to->stages.assign(from.stages().begin(), from.stages().end());
  TL_RETURN_IF_ERROR(ReadWord(kConvNetKinds, from.kind(), where, "convnet.kind", false, &to->kind));
  TL_RETURN_IF_ERROR(
      ReadWord(kResidualBlocks, from.block(), where, "convnet.block", false, &to->block));
  return ReadWord(kImageStems, from.stem(), where, "convnet.stem", false, &to->stem);
}

// The model of whichever family the file has.
Status ReadModel(const plan_file::Plan& file, const std::string& where, ModelConfig* model) {
  switch (file.any_model_case()) {
    case plan_file::Plan::kModel:
      return FromFile(file.model(), where, &model->emplace<DecoderConfig>());
    case plan_file::Plan::kConvnet:
      return FromFile(file.convnet(), where, &model->emplace<ConvNetConfig>());
    case plan_file::Plan::ANY_MODEL_NOT_SET:
      break;
  }
  return InputError(absl::StrCat(where,
                                 ": field 'model' (or 'convnet') is missing; a plan says which "
                                 "model it is for, as `tideline plan -o` writes it"));
}

void ToFile(const ClusterSpec& spec, plan_file::Cluster* file) {
  file->set_name(spec.name);
  file->set_nodes(spec.nodes);
  file->set_emulated(spec.emulated);
  [](const DeviceSpec& from, plan_file::Device* to) { TL_DEVICE_FIELDS(TL_TO_FILE) }(
      spec.device, file->mutable_device());
  [](const HostProfile& from, plan_file::Host* to) { TL_HOST_FIELDS(TL_TO_FILE) }(
      spec.host, file->mutable_host());
  [](const NodeSpec& from, plan_file::Node* to) { TL_NODE_FIELDS(TL_TO_FILE) }(
      spec.node, file->mutable_node());
  for (const auto& [op, efficiency] : spec.device.op_efficiency) {
    plan_file::OpEfficiency* entry = file->mutable_device()->add_op_efficiency();
    entry->set_op(op);
    entry->set_efficiency(efficiency);
  }
  plan_file::Node* node = file->mutable_node();
  node->set_core_efficiency(spec.node.core_efficiency);
  node->set_interconnect(std::string(Word(kInterconnects, spec.node.interconnect)));
  for (const std::vector<int32_t>& row : spec.node.links_between) {
    plan_file::LinkRow* out = node->add_links_between();
    for (const int32_t links : row) out->add_links(links);
  }
  plan_file::Fabric* fabric = file->mutable_fabric();
  for (const int32_t size : spec.fabric.leaf_sizes) fabric->add_leaf_sizes(size);
  fabric->set_leaf_uplink_bandwidth(spec.fabric.leaf_uplink_bandwidth);
  fabric->set_spine_latency_s(spec.fabric.spine_latency_s);
}

Status FromFile(const plan_file::Cluster& file, const std::string& where, ClusterSpec* spec) {
  spec->name = file.name();
  spec->nodes = file.nodes();
  spec->emulated = file.emulated();
  [](const plan_file::Device& from, DeviceSpec* to) { TL_DEVICE_FIELDS(TL_FROM_FILE) }(
      file.device(), &spec->device);
  [](const plan_file::Host& from, HostProfile* to) { TL_HOST_FIELDS(TL_FROM_FILE) }(file.host(),
                                                                                    &spec->host);
  [](const plan_file::Node& from, NodeSpec* to) { TL_NODE_FIELDS(TL_FROM_FILE) }(file.node(),
                                                                                 &spec->node);
  TL_RETURN_IF_ERROR(ReadWord(kInterconnects, file.node().interconnect(), where,
                              "cluster.node.interconnect", false, &spec->node.interconnect));
  spec->device.op_efficiency.clear();
  for (const plan_file::OpEfficiency& entry : file.device().op_efficiency()) {
    if (!spec->device.op_efficiency.emplace(entry.op(), entry.efficiency()).second) {
      return InputError(absl::StrCat(where, ": field 'cluster.device.op_efficiency': op ",
                                     Quoted(entry.op()), " is there twice; keep one of them"));
    }
  }
  if (file.node().has_core_efficiency()) {
    spec->node.core_efficiency = file.node().core_efficiency();
  }
  spec->node.links_between.clear();
  for (const plan_file::LinkRow& row : file.node().links_between()) {
    spec->node.links_between.emplace_back(row.links().begin(), row.links().end());
  }
  const plan_file::Fabric& fabric = file.fabric();
  spec->fabric.leaf_sizes.assign(fabric.leaf_sizes().begin(), fabric.leaf_sizes().end());
  spec->fabric.leaf_uplink_bandwidth = fabric.leaf_uplink_bandwidth();
  spec->fabric.spine_latency_s = fabric.spine_latency_s();
  return absl::OkStatus();
}

void ToFile(const AdamSettings& from, plan_file::Optimizer* to) {
  TL_OPTIMIZER_FIELDS(TL_TO_FILE)
  to->set_schedule(std::string(Word(kRateSchedules, from.schedule)));
  TL_SCHEDULE_FIELDS(TL_TO_FILE)
}

Status FromFile(const plan_file::Optimizer& from, const std::string& where, AdamSettings* to) {
  TL_OPTIMIZER_FIELDS(TL_FROM_OPTIONAL)
  TL_RETURN_IF_ERROR(
      ReadWord(kRateSchedules, from.schedule(), where, "optimizer.schedule", true, &to->schedule));
  TL_SCHEDULE_FIELDS(TL_FROM_FILE)
  return absl::OkStatus();
}

void ToFile(const GradientControl& from, plan_file::Optimizer* to) {
  to->set_clip_norm(from.clip_norm);
  to->set_loss_scale(from.initial_loss_scale);
  to->set_loss_scale_steps(from.growth_steps);
}

GradientControl FromFile(const plan_file::Optimizer& from, DType dtype) {
  GradientControl to;
  to.clip_norm = from.clip_norm();
  to.initial_loss_scale = from.has_loss_scale() ? from.loss_scale() : DefaultLossScale(dtype);
  if (from.has_loss_scale_steps()) to.growth_steps = from.loss_scale_steps();
  return to;
}

void ToFile(const Plan& plan, plan_file::Plan* file) {
  file->set_schema_version(kSchemaVersion);
  file->set_graph_hash(plan.graph_hash);
  std::visit([&](const auto& model) { ToFile(model, file); }, plan.model);
  ToFile(plan.cluster, file->mutable_cluster());
  file->set_seq(plan.seq);
  file->set_global_batch(plan.global_batch);
  file->set_dtype(std::string(Word(kDTypes, plan.dtype)));
  file->set_grad_dtype(std::string(Word(kDTypes, plan.grad_dtype)));
  ToFile(plan.optimizer, file->mutable_optimizer());
  ToFile(plan.gradients, file->mutable_optimizer());
  plan_file::Mesh* mesh = file->mutable_mesh();
  mesh->set_dp(plan.dp);
  mesh->set_pp(plan.pp);
  mesh->set_tp(plan.tp);
  for (const Axis axis : plan.mesh_order) mesh->add_order(std::string(Word(kAxisNames, axis)));
  file->mutable_sharding()->set_sequence_parallel(plan.sequence_parallel);
  file->mutable_sharding()->set_padded_vocab(plan.padded_vocab);
  for (const StageChunk& chunk : plan.stages) {
    plan_file::Chunk* out = file->add_stages();
    out->set_stage(chunk.stage);
    out->set_first_block(chunk.first_block);
    out->set_blocks(chunk.blocks);
  }
  file->mutable_order()->set_schedule(std::string(Name(plan.schedule)));
  file->mutable_order()->set_chunks(plan.chunks);
  file->set_micro_batch(plan.micro_batch);
  file->mutable_buckets()->set_bytes(plan.bucket_bytes);
  file->mutable_buckets()->set_reduce(std::string(Name(plan.reduce)));
  file->set_recompute(std::string(Name(plan.recompute)));
  file->set_attention(std::string(Name(plan.attention)));
  file->set_zero(plan.zero);
  file->mutable_collectives()->set_algorithm(
      std::string(Word(kAlgorithms, plan.collective_algorithm)));
  file->mutable_collectives()->set_order(std::string(Word(kOrders, plan.reduction_order)));
}

Status ReadMesh(const plan_file::Mesh& mesh, const std::string& where, Plan* plan) {
  plan->dp = mesh.dp();
  plan->pp = mesh.pp();
  plan->tp = mesh.tp();
  if (mesh.order().empty()) return absl::OkStatus();
  if (mesh.order_size() != kAxes) {
    return InputError(absl::StrCat(where, ": field 'mesh.order' has ", mesh.order_size(),
                                   " axes; write each of dp, pp, tp once"));
  }
  for (int i = 0; i < kAxes; ++i) {
    TL_RETURN_IF_ERROR(
        ReadWord(kAxisNames, mesh.order(i), where, "mesh.order", false, &plan->mesh_order[i]));
  }
  return absl::OkStatus();
}

// Fields whose absence means something else than zero.
void FillDefaults(const ModelTraits& model, Plan* plan) {
  if (plan->chunks == 0) plan->chunks = 1;
  if (plan->bucket_bytes == 0) plan->bucket_bytes = kDefaultBucketBytes;
  if (plan->padded_vocab == 0 && plan->tp > 0 && model.classes <= INT32_MAX) {
    plan->padded_vocab = PaddedVocab(model.classes, plan->tp);
  }
}

StatusOr<Plan> FromFile(const plan_file::Plan& file, const std::string& where) {
  if (file.schema_version() != kSchemaVersion) {
    return InputError(absl::StrCat(where, ": field 'schema_version' is ", file.schema_version(),
                                   "; this program reads ", kSchemaVersion));
  }
  Plan plan;
  plan.graph_hash = file.graph_hash();
  TL_RETURN_IF_ERROR(ReadModel(file, where, &plan.model));
  const ModelTraits model = TraitsOf(plan.model);
  TL_RETURN_IF_ERROR(FromFile(file.cluster(), where, &plan.cluster));
  plan.seq = file.seq();
  plan.global_batch = file.global_batch();
  TL_RETURN_IF_ERROR(ReadWord(kDTypes, file.dtype(), where, "dtype", false, &plan.dtype));
  TL_RETURN_IF_ERROR(
      ReadWord(kDTypes, file.grad_dtype(), where, "grad_dtype", true, &plan.grad_dtype));
  TL_RETURN_IF_ERROR(ReadMesh(file.mesh(), where, &plan));
  plan.sequence_parallel = file.sharding().sequence_parallel();
  plan.padded_vocab = file.sharding().padded_vocab();
  TL_RETURN_IF_ERROR(
      ReadWord(kSchedules, file.order().schedule(), where, "order.schedule", true, &plan.schedule));
  plan.chunks = file.order().chunks();
  plan.micro_batch = file.micro_batch();
  plan.bucket_bytes = file.buckets().bytes();
  TL_RETURN_IF_ERROR(
      ReadWord(kReductions, file.buckets().reduce(), where, "buckets.reduce", true, &plan.reduce));
  TL_RETURN_IF_ERROR(
      ReadWord(kRecomputes, file.recompute(), where, "recompute", true, &plan.recompute));
  TL_RETURN_IF_ERROR(
      ReadWord(kAttentionForms, file.attention(), where, "attention", true, &plan.attention));
  plan.zero = file.zero();
  TL_RETURN_IF_ERROR(ReadWord(kAlgorithms, file.collectives().algorithm(), where,
                              "collectives.algorithm", true, &plan.collective_algorithm));
  TL_RETURN_IF_ERROR(ReadWord(kOrders, file.collectives().order(), where, "collectives.order", true,
                              &plan.reduction_order));
  TL_RETURN_IF_ERROR(FromFile(file.optimizer(), where, &plan.optimizer));
  plan.gradients = FromFile(file.optimizer(), plan.dtype);
  FillDefaults(model, &plan);
  for (const plan_file::Chunk& chunk : file.stages()) {
    plan.stages.push_back({chunk.stage(), chunk.first_block(), chunk.blocks()});
  }
  if (plan.stages.empty()) {
    TL_RETURN_IF_ERROR(Annotate(ValidateModel(plan.model), where));
    TL_ASSIGN_OR_RETURN(const std::vector<double> costs, BlockCosts(plan.model));
    auto stages = DefaultStages(model, costs, plan.pp, plan.chunks);
    if (!stages.ok()) return Annotate(stages.status(), where);
    plan.stages = *std::move(stages);
  }
  return plan;
}

// Without the name of the message type, which means nothing to a user.
std::string InOurWords(const std::string& message) {
  constexpr std::string_view kUnknown = " has no field named ";
  const size_t unknown = message.find(kUnknown);
  if (message.rfind("Message type ", 0) != 0 || unknown == std::string::npos) return message;
  return absl::StrCat("there is no field ", message.substr(unknown + kUnknown.size()));
}

// Collects the first error of protobuf's text parser.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!text_.empty()) return;
    text_ = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ",
                         Quoted(InOurWords(message), 1000));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::string_view Name(Schedule schedule) { return Word(kSchedules, schedule); }
std::string_view Name(RateSchedule schedule) { return Word(kRateSchedules, schedule); }
std::string_view Name(AttentionForm attention) { return Word(kAttentionForms, attention); }
std::string_view Name(Recompute recompute) { return Word(kRecomputes, recompute); }
std::string_view Name(GradientReduction reduction) { return Word(kReductions, reduction); }

int64_t PaddedVocab(int64_t vocab, int32_t tp) { return (vocab + tp - 1) / tp * tp; }

std::string PlanToJson(const Plan& plan) {
  plan_file::Plan file;
  ToFile(plan, &file);
  return MessageToJson(file);
}

std::string PlanToText(const Plan& plan) {
  plan_file::Plan file;
  ToFile(plan, &file);
  std::string text;
  google::protobuf::TextFormat::PrintToString(file, &text);
  return text;
}

StatusOr<Plan> ParsePlan(std::string_view content, const std::string& where) {
  plan_file::Plan file;
  const std::string_view trimmed = Trim(content);
  if (!trimmed.empty() && trimmed.front() == '{') {
    TL_RETURN_IF_ERROR(MessageFromJson(content, where, &file));
    return FromFile(file, where);
  }
  if (trimmed.empty()) {
    return InputError(
        absl::StrCat(where, ": it is empty; give a plan as `tideline plan -o` writes it"));
  }
  if (trimmed.starts_with("TLRUN")) {
    return InputError(absl::StrCat(where,
                                   ": it is a Run file, no plan; give a plan as `tideline plan "
                                   "-o` writes it"));
  }
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(32);
  if (!parser.ParseFromString(std::string(content), &file)) {
    return InputError(absl::StrCat(
        where, ": neither JSON (which starts with \"{\") nor a plan in text form: ", error.text()));
  }
  // Through JSON, so that both forms hold the same values (names are UTF-8).
  plan_file::Plan same;
  TL_RETURN_IF_ERROR(MessageFromJson(MessageToJson(file), where, &same));
  return FromFile(same, where);
}

StatusOr<Plan> ReadPlan(const std::string& path) {
  TL_ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  TL_ASSIGN_OR_RETURN(Plan plan, ParsePlan(content, path));
  const Status status = Validate(plan);
  if (!status.ok()) return Annotate(status, path);
  return plan;
}

Status WritePlan(const Plan& plan, const std::string& path) {
  return WriteFileAtomically(path, PlanToJson(plan));
}

}  // namespace tideline

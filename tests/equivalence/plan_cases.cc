#include "tests/equivalence/plan_cases.h"

#include <functional>
#include <utility>

#include "base/check.h"
#include "models/cluster/cluster_text.h"
#include "planner/plan/validate.h"
#include "planner/plan/workload.h"
#include "tests/reference/test_models.h"

namespace tideline::equivalence {
namespace {

constexpr int64_t kSequence = 16;
constexpr int64_t kGlobalBatch = 16;

using Change = std::function<void(Plan&)>;

class Cases {
 public:
  // A case of `model` on the mesh; `change` makes the other decisions.
  void Add(const DecoderConfig& model, const std::string& name, int32_t dp, int32_t pp, int32_t tp,
           int64_t micro_batch, const Change& change = {}) {
    Plan plan;
    plan.model = model;
    const auto cluster = ParseCluster("emulated:" + std::to_string(dp * pp * tp) + "x64MiB");
    TL_CHECK(cluster.ok(), "emulated clusters of up to 8 devices exist");
    plan.cluster = *cluster;
    plan.seq = kSequence;
    plan.global_batch = kGlobalBatch;
    plan.dtype = plan.grad_dtype = DType::kF32;
    plan.dp = dp;
    plan.pp = pp;
    plan.tp = tp;
    plan.micro_batch = micro_batch;
    plan.padded_vocab = PaddedVocab(model.vocab, tp);
    if (change) change(plan);
    if (plan.stages.empty()) {
      const auto stages = DefaultStages(model.layers, pp, plan.chunks);
      TL_CHECK(stages.ok(), "the cases divide the layers");
      plan.stages = *stages;
    }
    const auto hash = ModelHash(plan.model, plan.seq, plan.dtype);
    TL_CHECK(hash.ok(), "the models build");
    plan.graph_hash = *hash;
    TL_CHECK(Validate(plan).ok(), "the cases are valid plans");
    const bool exact = tp == 1 && model.dropout == 0 && plan.attention == AttentionForm::kUnfused &&
                       plan.reduce == GradientReduction::kOnce &&
                       (dp == 1 || plan.reduction_order == ReductionOrder::kRank);
    cases_.push_back({model.name.substr(5) + "_" + name, std::move(plan), exact});
  }

  std::vector<PlanCase> Take() { return std::move(cases_); }

 private:
  std::vector<PlanCase> cases_;
};

Change Zero(int32_t stage) {
  return [stage](Plan& plan) { plan.zero = stage; };
}
Change Order(Schedule schedule, int32_t chunks = 1) {
  return [schedule, chunks](Plan& plan) {
    plan.schedule = schedule;
    plan.chunks = chunks;
  };
}
Change Replay(Recompute recompute) {
  return [recompute](Plan& plan) { plan.recompute = recompute; };
}
Change Sequence() {
  return [](Plan& plan) { plan.sequence_parallel = true; };
}
Change Adding(ReductionOrder order) {
  return [order](Plan& plan) { plan.reduction_order = order; };
}
Change Both(Change first, Change second) {
  return [first = std::move(first), second = std::move(second)](Plan& plan) {
    first(plan);
    second(plan);
  };
}

Change Fused() {
  return [](Plan& plan) { plan.attention = AttentionForm::kFused; };
}

void AddGpt(Cases& cases) {
  const DecoderConfig gpt = reference::TinyGpt(4, 32, 4);
  cases.Add(gpt, "plain", 1, 1, 1, 2);
  cases.Add(gpt, "whole_batch", 1, 1, 1, 16);
  cases.Add(gpt, "dp2", 2, 1, 1, 2);
  cases.Add(gpt, "dp8", 8, 1, 1, 1);
  cases.Add(gpt, "dp4_ring", 4, 1, 1, 2, Adding(ReductionOrder::kRing));
  cases.Add(gpt, "dp4_tree", 4, 1, 1, 2, Adding(ReductionOrder::kTree));
  cases.Add(gpt, "dp4_halving", 4, 1, 1, 2, Adding(ReductionOrder::kHalvingDoubling));
  cases.Add(gpt, "dp2_buckets", 2, 1, 1, 2, [](Plan& plan) { plan.bucket_bytes = 8192; });
  cases.Add(gpt, "dp2_zero1", 2, 1, 1, 2, Zero(1));
  cases.Add(gpt, "dp2_zero2", 2, 1, 1, 2, Zero(2));
  cases.Add(gpt, "dp2_zero3", 2, 1, 1, 2, Zero(3));
  cases.Add(gpt, "dp4_zero3_buckets", 4, 1, 1, 2,
            Both(Zero(3), [](Plan& plan) { plan.bucket_bytes = 4096; }));
  cases.Add(gpt, "dp2_zero2_each", 2, 1, 1, 2,
            Both(Zero(2), [](Plan& plan) { plan.reduce = GradientReduction::kEachMicroBatch; }));
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::k1F1B}) {
    const std::string name = "dp2_pp2_zero3_each_" + std::string(Name(schedule));
    cases.Add(gpt, name, 2, 2, 1, 2, Both(Order(schedule), Both(Zero(3), [](Plan& plan) {
                                            plan.reduce = GradientReduction::kEachMicroBatch;
                                          })));
  }
  cases.Add(gpt, "tp2", 1, 1, 2, 2);
  cases.Add(gpt, "tp4", 1, 1, 4, 2);
  cases.Add(gpt, "tp2_sequence", 1, 1, 2, 2, Sequence());
  cases.Add(gpt, "tp4_sequence", 1, 1, 4, 2, Sequence());
  cases.Add(gpt, "pp2_gpipe", 1, 2, 1, 2, Order(Schedule::kGPipe));
  cases.Add(gpt, "pp4_gpipe", 1, 4, 1, 2, Order(Schedule::kGPipe));
  cases.Add(gpt, "pp2_1f1b", 1, 2, 1, 2, Order(Schedule::k1F1B));
  cases.Add(gpt, "pp4_1f1b", 1, 4, 1, 2, Order(Schedule::k1F1B));
  cases.Add(gpt, "pp2_interleaved", 1, 2, 1, 2, Order(Schedule::kInterleaved, 2));
  cases.Add(gpt, "pp2_uneven", 1, 2, 1, 2, [](Plan& plan) {
    plan.stages = {{0, 0, 2}, {1, 2, 4}};
  });
  cases.Add(gpt, "selective", 1, 1, 1, 2, Replay(Recompute::kSelective));
  cases.Add(gpt, "full", 1, 1, 1, 2, Replay(Recompute::kFull));
  cases.Add(gpt, "dp2_pp2_full_zero1", 2, 2, 1, 2, Both(Zero(1), Replay(Recompute::kFull)));
  cases.Add(gpt, "dp2_pp4_zero2", 2, 4, 1, 1, Zero(2));
  cases.Add(gpt, "pp4_tp2_sequence_full", 1, 4, 2, 2, Both(Sequence(), Replay(Recompute::kFull)));
  cases.Add(gpt, "dp2_tp4_sequence_zero3", 2, 1, 4, 2, Both(Sequence(), Zero(3)));
  cases.Add(gpt, "dp2_pp2_tp2_selective_zero1", 2, 2, 2, 2,
            Both(Zero(1), Replay(Recompute::kSelective)));
  cases.Add(gpt, "dp2_pp2_tp2_interleaved_sequence_zero3", 2, 2, 2, 2,
            Both(Both(Sequence(), Zero(3)), Order(Schedule::kInterleaved, 2)));
  cases.Add(gpt, "dp2_pp2_tp2_other_mesh_order", 2, 2, 2, 2, [](Plan& plan) {
    plan.mesh_order = {Axis::kTensor, Axis::kPipeline, Axis::kData};
  });
}

void AddLlama(Cases& cases) {
  const DecoderConfig llama = reference::TinyLlama(4, 32, 4, 2);
  cases.Add(llama, "plain", 1, 1, 1, 2);
  cases.Add(llama, "dp2_zero2", 2, 1, 1, 2, Zero(2));
  cases.Add(llama, "dp2_zero3", 2, 1, 1, 2, Zero(3));
  cases.Add(llama, "tp2", 1, 1, 2, 2);
  cases.Add(llama, "tp2_sequence", 1, 1, 2, 2, Sequence());
  cases.Add(llama, "pp4_1f1b", 1, 4, 1, 2);
  cases.Add(llama, "selective", 1, 1, 1, 2, Replay(Recompute::kSelective));
  cases.Add(llama, "pp2_interleaved_full", 1, 2, 1, 2,
            Both(Order(Schedule::kInterleaved, 2), Replay(Recompute::kFull)));
  cases.Add(llama, "dp2_pp2_tp2_sequence_zero2", 2, 2, 2, 2, Both(Sequence(), Zero(2)));
}

void AddOpt(Cases& cases) {
  const DecoderConfig opt = reference::TinyOpt(4, 32, 4);
  cases.Add(opt, "plain", 1, 1, 1, 2);
  cases.Add(opt, "tp2", 1, 1, 2, 2);
  cases.Add(opt, "dp4_zero1", 4, 1, 1, 2, Zero(1));
  cases.Add(opt, "pp4_1f1b_selective", 1, 4, 1, 2, Replay(Recompute::kSelective));
  cases.Add(opt, "dp2_tp4_sequence_full", 2, 1, 4, 2, Both(Sequence(), Replay(Recompute::kFull)));
}

// The first of each replica count is what the others of it are compared with.
void AddFused(Cases& cases, const DecoderConfig& model, const std::string& family) {
  const auto add = [&](const std::string& name, int32_t dp, int32_t pp, int32_t tp,
                       int64_t micro_batch, const Change& change = {}) {
    cases.Add(model, family + "_" + name, dp, pp, tp, micro_batch,
              change ? Both(Fused(), change) : Fused());
  };
  add("plain", 1, 1, 1, 2);
  add("whole_batch", 1, 1, 1, 16);
  add("full", 1, 1, 1, 2, Replay(Recompute::kFull));
  add("pp4_1f1b", 1, 4, 1, 2, Order(Schedule::k1F1B));
  add("tp2", 1, 1, 2, 2);
  add("dp2", 2, 1, 1, 2);
  add("dp2_zero3", 2, 1, 1, 2, Zero(3));
  add("dp2_pp2_tp2_interleaved_sequence_zero2", 2, 2, 2, 2,
      Both(Both(Sequence(), Zero(2)), Order(Schedule::kInterleaved, 2)));
}

// Dropout, unfused and fused.
void AddDropout(Cases& cases, DecoderConfig model) {
  model.dropout = 0.1;
  cases.Add(model, "dropout_plain", 1, 1, 1, 2);
  cases.Add(model, "dropout_micro_batch_1", 1, 1, 1, 1);
  cases.Add(model, "dropout_selective", 1, 1, 1, 2, Replay(Recompute::kSelective));
  cases.Add(model, "dropout_pp2_full", 1, 2, 1, 2, Replay(Recompute::kFull));
  cases.Add(model, "dropout_tp2_sequence", 1, 1, 2, 2, Sequence());
  cases.Add(model, "dropout_dp4", 4, 1, 1, 2);
  cases.Add(model, "dropout_dp4_zero3_full", 4, 1, 1, 1, Both(Zero(3), Replay(Recompute::kFull)));
  AddFused(cases, model, "dropout_fused");
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const PlanCase& plan_case) {
  return out << plan_case.name;
}

std::vector<PlanCase> PlanCases() {
  Cases cases;
  AddGpt(cases);
  AddLlama(cases);
  AddOpt(cases);
  const DecoderConfig gpt = reference::TinyGpt(4, 32, 4);
  const DecoderConfig llama = reference::TinyLlama(4, 32, 4, 2);
  AddFused(cases, gpt, "fused");
  AddFused(cases, llama, "fused");
  AddDropout(cases, gpt);
  AddDropout(cases, llama);
  return cases.Take();
}

Plan InFormat(Plan plan, DType dtype, DType grad_dtype) {
  plan.dtype = dtype;
  plan.grad_dtype = grad_dtype;
  const auto hash = ModelHash(plan.model, plan.seq, dtype);
  TL_CHECK(hash.ok(), "the models build in every format");
  plan.graph_hash = *hash;
  TL_CHECK(Validate(plan).ok(), "the cases are valid plans in every format");
  return plan;
}

std::vector<PlanCase> PlanCases(const std::string& prefix) {
  std::vector<PlanCase> chosen;
  for (PlanCase& plan_case : PlanCases()) {
    if (plan_case.name.starts_with(prefix)) chosen.push_back(std::move(plan_case));
  }
  return chosen;
}

}  // namespace tideline::equivalence

#include "planner/plan/plan.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "models/zoo/zoo.h"
#include "planner/plan/validate.h"
#include "planner/plan/workload.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// The plan that `text` holds, or the error's text.
std::string ErrorOf(const std::string& text) {
  StatusOr<Plan> plan = ParsePlan(text, "plan.json");
  Status status = plan.ok() ? Validate(*plan) : plan.status();
  EXPECT_FALSE(status.ok()) << text;
  EXPECT_EQ(ExitCode(status), 5);
  return std::string(status.message());
}

Plan UnusualPlan() {
  Plan plan = Interleaved(TestPlan(TinyLlama(), {.dp = 2, .pp = 2, .tp = 2}), 2);
  plan.optimizer.learning_rate = 3e-4f;
  plan.optimizer.beta2 = 0.95f;
  plan.optimizer.schedule = RateSchedule::kCosine;
  plan.optimizer.warmup_steps = 100;
  plan.optimizer.decay_steps = 1000;
  plan.optimizer.least_learning_rate = 1e-5f;
  plan.gradients = {.clip_norm = 1.0 / 3.0, .initial_loss_scale = 1024, .growth_steps = 77};
  plan.dtype = DType::kBF16;
  plan.sequence_parallel = true;
  plan.padded_vocab = 128;
  plan.recompute = Recompute::kSelective;
  plan.zero = 2;
  plan.bucket_bytes = (int64_t{1} << 53) + 1;  // not a double
  plan.mesh_order = {Axis::kPipeline, Axis::kData, Axis::kTensor};
  plan.collective_algorithm = CollectiveAlgorithm::kTree;
  plan.reduction_order = ReductionOrder::kHalvingDoubling;
  plan.cluster.node.interconnect = Interconnect::kMesh;
  plan.cluster.node.links_between.assign(8, std::vector<int32_t>(8, 1));
  for (size_t gpu = 0; gpu < 8; ++gpu) plan.cluster.node.links_between[gpu][gpu] = 0;
  plan.cluster.fabric.leaf_sizes = {1};
  plan.cluster.fabric.leaf_uplink_bandwidth = 1e10;
  std::get<DecoderConfig>(plan.model).rotary.theta = 1.0 / 3.0;
  return plan;
}

TEST(PlanTest, BothFormsRoundTrip) {
  Plan each = TestPlan(TinyGpt(), {.dp = 2});
  each.zero = 2;
  each.reduce = GradientReduction::kEachMicroBatch;
  Plan fused = TestPlan(TinyGpt());
  fused.attention = AttentionForm::kFused;
  std::get<DecoderConfig>(fused.model).dropout = 0.1;
  for (const Plan& plan : {TestPlan(TinyGpt()), UnusualPlan(), each, fused}) {
    ASSERT_TRUE(Validate(plan).ok()) << Validate(plan);
    const std::string json = PlanToJson(plan);
    const StatusOr<Plan> from_json = ParsePlan(json, "plan.json");
    ASSERT_TRUE(from_json.ok()) << from_json.status();
    EXPECT_EQ(PlanToJson(*from_json), json);
    EXPECT_EQ(from_json->attention, plan.attention);
    EXPECT_EQ(from_json->model, plan.model);
    const StatusOr<Plan> from_text = ParsePlan(PlanToText(plan), "plan.textproto");
    ASSERT_TRUE(from_text.ok()) << from_text.status();
    EXPECT_EQ(PlanToJson(*from_text), json);
  }
}

TEST(PlanTest, JsonIsForPeople) {
  const std::string json = PlanToJson(UnusualPlan());
  EXPECT_NE(json.find("\"learning_rate\": 3e-04,"), std::string::npos);
  EXPECT_NE(json.find("\"least_learning_rate\": 1e-05,"), std::string::npos) << json;
  EXPECT_NE(json.find("\"schedule\": \"cosine\""), std::string::npos);
  EXPECT_NE(json.find("\"bytes\": 9007199254740993"), std::string::npos);
  EXPECT_NE(json.find("\"schedule\": \"interleaved\""), std::string::npos);
  EXPECT_NE(json.find("\"order\": [\"pp\", \"dp\", \"tp\"]"), std::string::npos);
}

TEST(PlanTest, AbsentFieldsHaveTheirDefaults) {
  const Plan plan = TestPlan(TinyGpt(), {.pp = 2});
  std::string json = PlanToJson(plan);
  for (const std::string field : {"\"stages\"", "\"order\": {", "\"buckets\"", "\"optimizer\""}) {
    const size_t begin = json.find("  " + field);
    ASSERT_NE(begin, std::string::npos) << field;
    const size_t end = json.find("\n  }", begin) < json.find("\n  ]", begin)
                           ? json.find("\n  }", begin)
                           : json.find("\n  ]", begin);
    json.erase(begin, json.find('\n', end + 1) + 1 - begin);
  }
  const StatusOr<Plan> read = ParsePlan(json, "plan.json");
  ASSERT_TRUE(read.ok()) << read.status() << json;
  EXPECT_EQ(PlanToJson(*read), PlanToJson(plan));
}

TEST(PlanTest, WrongFieldsAreNamed) {
  const std::string json = PlanToJson(TestPlan(TinyGpt()));
  EXPECT_NE(ErrorOf(Replaced(json, "\"zero\"", "\"zeros\"")).find("did you mean `zero`"),
            std::string::npos);
  EXPECT_NE(ErrorOf(Replaced(json, "\"hidden\": 32", "\"hidden\": 32.5")).find("model.hidden"),
            std::string::npos);
  EXPECT_NE(ErrorOf(Replaced(json, "\"hidden\": 32", "\"hidden\": \"32\"")).find("model.hidden"),
            std::string::npos);
  EXPECT_NE(ErrorOf(Replaced(json, "\"zero\": 0", "\"zero\": 3000000000")).find("zero"),
            std::string::npos);
  EXPECT_NE(ErrorOf(Replaced(json, "\"1f1b\"", "\"1f2b\"")).find("1f1b"), std::string::npos);
  EXPECT_NE(ErrorOf(Replaced(json, "\"constant\"", "\"cosin\"")).find("optimizer.schedule"),
            std::string::npos);
  EXPECT_NE(ErrorOf(Replaced(json, "\"schema_version\": 1", "\"schema_version\": 2"))
                .find("schema_version"),
            std::string::npos);
  ErrorOf("");
  ErrorOf("{");
  ErrorOf("[]");
  ErrorOf("nonsense: 1");
}

Plan ConvNetPlan(const std::string& model, int32_t dp, int32_t pp) {
  WorkloadRequest request;
  request.global_batch = 4 * dp;
  const auto workload = MakeWorkload(*ResolveModel(model), TestCluster(dp * pp), request);
  EXPECT_TRUE(workload.ok()) << workload.status();
  Pins pins;
  pins.dp = dp;
  pins.pp = pp;
  const auto plan = PlanOf(*workload, pins);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

TEST(PlanTest, ConvolutionalNetworksHaveAMessageOfTheirOwn) {
  for (const char* model : {"resnet50:image=64,classes=10", "densenet121"}) {
    const Plan plan = ConvNetPlan(model, 2, 4);
    EXPECT_EQ(plan.seq, 1);
    const std::string json = PlanToJson(plan);
    EXPECT_NE(json.find("\"convnet\": {"), std::string::npos);
    EXPECT_EQ(json.find("\"model\""), std::string::npos);
    const StatusOr<Plan> read = ParsePlan(json, "plan.json");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(read->model == plan.model);
    EXPECT_EQ(PlanToJson(*read), json);
    const StatusOr<Plan> from_text = ParsePlan(PlanToText(plan), "plan.textproto");
    ASSERT_TRUE(from_text.ok()) << from_text.status();
    EXPECT_EQ(PlanToJson(*from_text), json);
  }
}

TEST(PlanTest, APlanIsForOneModel) {
  const std::string decoder = PlanToJson(TestPlan(TinyGpt()));
  const std::string convnet = PlanToJson(ConvNetPlan("resnet18", 1, 1));
  const size_t begin = convnet.find("  \"convnet\"");
  const std::string message = convnet.substr(begin, convnet.find("\n  }", begin) + 5 - begin);
  const std::string both = Replaced(decoder, "  \"cluster\"", message + "\n  \"cluster\"");
  EXPECT_NE(ErrorOf(both).find("'model'"), std::string::npos) << ErrorOf(both);
  EXPECT_NE(ErrorOf("{\"schema_version\": 1}").find("'model' (or 'convnet') is missing"),
            std::string::npos);
}

// Stem and head are cheap, the four stages cost about the same per block: the largest part is the
// least one that any cut has, by enumeration.
TEST(PlanTest, UnequalLayersAreCutByTheirCost) {
  const auto model = ResolveModel("resnet18");
  const ModelTraits traits = TraitsOf(*model);
  const std::vector<double> costs = *BlockCosts(*model);
  ASSERT_EQ(costs.size(), 10u);
  for (const int32_t pp : {1, 2, 3, 8}) {
    const auto stages = DefaultStages(traits, costs, pp, 1);
    ASSERT_TRUE(stages.ok()) << stages.status();
    ASSERT_EQ(static_cast<int32_t>(stages->size()), pp);
    double largest = 0;
    int64_t next = 0;
    for (const StageChunk& chunk : *stages) {
      EXPECT_EQ(chunk.first_block, next);
      EXPECT_GE(chunk.blocks, 1);
      double sum = 0;
      for (int64_t i = 0; i < chunk.blocks; ++i) sum += costs[next++];
      largest = std::max(largest, sum);
    }
    EXPECT_EQ(next, 10);
    double best = INFINITY;
    for (uint32_t cuts = 0; cuts < 512; ++cuts) {  // bit i: a cut before block i + 1
      if (std::popcount(cuts) != pp - 1) continue;
      double most = 0, sum = 0;
      for (int block = 0; block < 10; ++block) {
        if (block > 0 && (cuts >> (block - 1) & 1)) sum = 0;
        sum += costs[block];
        most = std::max(most, sum);
      }
      best = std::min(best, most);
    }
    EXPECT_NEAR(largest / best, 1, 1e-9) << pp;
  }
  EXPECT_FALSE(DefaultStages(traits, costs, 9, 1).ok());
}

TEST(ValidateTest, ConvolutionalNetworksAreNotCutOverTp) {
  Plan plan = ConvNetPlan("resnet18", 2, 1);
  ASSERT_TRUE(Validate(plan).ok()) << Validate(plan);
  plan.tp = 2;
  plan.dp = 1;
  const Status status = Validate(plan);
  EXPECT_EQ(ExitCode(status), 5);
  EXPECT_NE(status.message().find("convolutions are not cut"), std::string::npos) << status;
  plan = ConvNetPlan("resnet18", 1, 1);
  plan.attention = AttentionForm::kFused;
  EXPECT_EQ(ExitCode(Validate(plan)), 5);
  EXPECT_NE(std::string(Validate(plan).message()).find("has no attention"), std::string::npos);
  plan = ConvNetPlan("resnet18", 1, 1);
  plan.seq = 2;
  EXPECT_NE(Validate(plan).message().find("'seq'"), std::string::npos);
  WorkloadRequest request;
  request.seq = 7;
  EXPECT_EQ(ExitCode(MakeWorkload(*ResolveModel("resnet18"), TestCluster(1), request).status()), 3);
}

TEST(PlanTest, DefaultStagesNameTheNumbers) {
  const StatusOr<std::vector<StageChunk>> stages = DefaultStages(30, 4, 1);
  ASSERT_FALSE(stages.ok());
  EXPECT_NE(stages.status().message().find("30"), std::string::npos);
  EXPECT_NE(stages.status().message().find("4"), std::string::npos);
  // 4 layers over 2 stages with 2 chunks: embedding + layer 1, layer 2, layer 3, layer 4 + head.
  const std::vector<StageChunk> expected = {{0, 0, 2}, {1, 2, 1}, {0, 3, 1}, {1, 4, 2}};
  EXPECT_EQ(*DefaultStages(4, 2, 2), expected);
}

// One violation each, against what the message must name.
TEST(ValidateTest, MirrorsTheComments) {
  struct Case {
    void (*spoil)(Plan& plan);
    const char* named;
  };
  const Case cases[] = {
      {[](Plan& plan) { plan.tp = 3; }, "mesh"},
      {[](Plan& plan) { plan.tp = 8, plan.dp = plan.pp = 1; }, "heads"},
      {[](Plan& plan) { plan.global_batch = 7; }, "global_batch"},
      {[](Plan& plan) { plan.micro_batch = 0; }, "micro_batch"},
      {[](Plan& plan) { plan.seq = 17; }, "seq"},
      {[](Plan& plan) { plan.seq = 7, plan.sequence_parallel = true; }, "tp"},
      {[](Plan& plan) { plan.padded_vocab = 61; }, "padded_vocab"},
      {[](Plan& plan) { plan.chunks = 2; }, "order.chunks"},
      {[](Plan& plan) { plan.stages[0].blocks = 2; }, "stages[1]"},
      {[](Plan& plan) { plan.stages[1].stage = 0; }, "stages[1]"},
      {[](Plan& plan) { plan.stages.pop_back(); }, "stages"},
      {[](Plan& plan) { plan.schedule = Schedule::kInterleaved, plan.global_batch = 12; },
       "order.schedule"},
      {[](Plan& plan) { plan.zero = 4; }, "zero"},
      {[](Plan& plan) { plan.reduce = GradientReduction::kEachMicroBatch; }, "buckets.reduce"},
      {[](Plan& plan) {
         plan = UnusualPlan();
         plan.reduce = GradientReduction::kEachMicroBatch;
       },
       "chunks = 1"},
      {[](Plan& plan) { plan.bucket_bytes = 0; }, "buckets.bytes"},
      {[](Plan& plan) { plan.grad_dtype = DType::kBF16; }, "grad_dtype"},
      {[](Plan& plan) { plan.optimizer.beta1 = 1; }, "optimizer.beta1"},
      {[](Plan& plan) { plan.optimizer.warmup_steps = -1; }, "optimizer.warmup_steps"},
      {[](Plan& plan) { plan.optimizer.decay_steps = 10; }, "linear or cosine"},
      {[](Plan& plan) { plan.optimizer.least_learning_rate = 1e-5f; }, "linear or cosine"},
      {[](Plan& plan) { plan.optimizer.schedule = RateSchedule::kLinear; },
       "optimizer.decay_steps"},
      {[](Plan& plan) {
         plan.optimizer.schedule = RateSchedule::kCosine;
         plan.optimizer.warmup_steps = plan.optimizer.decay_steps = 10;
       },
       "above warmup_steps = 10"},
      {[](Plan& plan) {
         plan.optimizer.schedule = RateSchedule::kCosine;
         plan.optimizer.decay_steps = 10;
         plan.optimizer.least_learning_rate = 0.5f;
       },
       "at most learning_rate = 0.001"},
      {[](Plan& plan) { plan.gradients.clip_norm = -1; }, "optimizer.clip_norm"},
      {[](Plan& plan) { plan.gradients.initial_loss_scale = 1000; }, "a power of two"},
      {[](Plan& plan) { plan.gradients.initial_loss_scale = 0.5; }, "optimizer.loss_scale"},
      {[](Plan& plan) { plan.gradients = {.initial_loss_scale = 2, .growth_steps = 0}; },
       "optimizer.loss_scale_steps"},
      {[](Plan& plan) { plan.mesh_order[0] = Axis::kTensor; }, "mesh.order"},
      {[](Plan& plan) { std::get<DecoderConfig>(plan.model).kv_heads = 3; }, "kv_heads"},
      {[](Plan& plan) { plan.cluster.device.memory_bytes = 0; }, "memory"},
      {[](Plan& plan) { plan.cluster.node.nic_bandwidth = -1; }, "nic_bandwidth"},
      {[](Plan& plan) { plan.graph_hash = "12"; }, "graph_hash"},
  };
  const Plan good = TestPlan(TinyGpt(), {.dp = 2, .pp = 2, .tp = 2});
  ASSERT_TRUE(Validate(good).ok()) << Validate(good);
  for (const Case& wrong : cases) {
    Plan plan = good;
    wrong.spoil(plan);
    const Status status = Validate(plan);
    EXPECT_EQ(ExitCode(status), 5) << wrong.named;
    EXPECT_NE(status.message().find(wrong.named), std::string::npos)
        << wrong.named << ": " << status;
  }
}

// Damaged plans give a plan or an error, never anything else; a plan that validates writes the same
// text again.
TEST(PlanTest, SurvivesMutations) {
  std::mt19937 random(1);
  const std::string seeds[] = {PlanToJson(UnusualPlan()), PlanToText(UnusualPlan())};
  int valid = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = seeds[round % 2];
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int edit = 0; edit < edits; ++edit) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 20);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 30));
          break;
        default:
          text.insert(at, "9999999999999999999");
      }
      if (text.empty()) text = "{";
    }
    const StatusOr<Plan> plan = ParsePlan(text, "plan");
    if (!plan.ok()) {
      EXPECT_EQ(ExitCode(plan.status()), 5);
    } else if (Validate(*plan).ok()) {
      ++valid;
      const std::string json = PlanToJson(*plan);
      EXPECT_EQ(PlanToJson(*ParsePlan(json, "again")), json);
    }
  }
  EXPECT_GT(valid, 0);
}

}  // namespace
}  // namespace tideline

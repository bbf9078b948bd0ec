#include "planner/lowering/lower.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "planner/lowering/emit.h"
#include "planner/lowering/parameter_layout.h"
#include "planner/plan/workload.h"
#include "planner/program/memory.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

struct NamedPlan {
  std::string name;
  Plan plan;
};

// Plans that between them use every technique, alone and together.
std::vector<NamedPlan> Plans() {
  std::vector<NamedPlan> plans;
  const auto add = [&](const std::string& name, Plan plan) {
    plan.graph_hash = *ModelHash(plan.model, plan.seq, plan.dtype);
    plans.push_back({name, std::move(plan)});
  };
  const auto with = [](Plan plan, auto change) {
    change(plan);
    return plan;
  };
  for (const DecoderConfig& model : {TinyGpt(), TinyLlama(), TinyOpt()}) {
    const std::string prefix = model.name + " ";
    add(prefix + "one rank", TestPlan(model));
    add(prefix + "gpipe one rank",
        with(TestPlan(model), [](Plan& p) { p.schedule = Schedule::kGPipe; }));
    add(prefix + "bf16", with(TestPlan(model), [](Plan& p) { p.dtype = DType::kBF16; }));
    for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
      add(prefix + std::string(Name(recompute)),
          with(TestPlan(model), [&](Plan& p) { p.recompute = recompute; }));
    }
    for (int32_t zero = 0; zero <= 3; ++zero) {
      add(prefix + "dp 2 zero " + std::to_string(zero),
          with(TestPlan(model, {.dp = 2}), [&](Plan& p) { p.zero = zero; }));
      add(prefix + "dp 3 bf16 small buckets zero " + std::to_string(zero),
          with(TestPlan(model, {.dp = 3}), [&](Plan& p) {
            p.zero = zero;
            p.dtype = DType::kBF16;
            p.bucket_bytes = 10000;
          }));
    }
    add(prefix + "dp 2 zero 2 each", with(TestPlan(model, {.dp = 2}), [](Plan& p) {
          p.zero = 2;
          p.reduce = GradientReduction::kEachMicroBatch;
        }));
    for (const bool sequence : {false, true}) {
      add(prefix + "tp 2" + (sequence ? " sequence" : ""),
          with(TestPlan(model, {.tp = 2}), [&](Plan& p) { p.sequence_parallel = sequence; }));
    }
    for (const Schedule schedule : {Schedule::kGPipe, Schedule::k1F1B}) {
      for (const int32_t pp : {2, 4}) {
        add(prefix + std::string(Name(schedule)) + " pp " + std::to_string(pp),
            with(TestPlan(model, {.pp = pp}), [&](Plan& p) { p.schedule = schedule; }));
      }
    }
    add(prefix + "interleaved", Interleaved(TestPlan(model, {.pp = 2}), 2));
    add(prefix + "interleaved one stage", Interleaved(TestPlan(model), 4));
    add(prefix + "one micro-batch",
        with(TestPlan(model, {.pp = 2}), [](Plan& p) { p.global_batch = p.micro_batch; }));
    add(prefix + "everything",
        with(Interleaved(TestPlan(model, {.dp = 2, .pp = 2, .tp = 2}), 2), [](Plan& p) {
          p.zero = 1;
          p.sequence_parallel = true;
          p.recompute = Recompute::kFull;
          p.dtype = DType::kBF16;
        }));
    add(prefix + "zero 3 with pipeline",
        with(TestPlan(model, {.dp = 2, .pp = 2, .tp = 2}), [](Plan& p) {
          p.zero = 3;
          p.recompute = Recompute::kSelective;
          p.reduce = GradientReduction::kEachMicroBatch;
        }));
    add(prefix + "uneven stages, other mesh order",
        with(TestPlan(model, {.dp = 2, .pp = 2}), [](Plan& p) {
          p.stages = {{0, 0, 1}, {1, 1, 5}};
          p.mesh_order = {Axis::kPipeline, Axis::kTensor, Axis::kData};
        }));
  }
  return plans;
}

TEST(LowerTest, EveryPlanIsSafeAfterEveryPass) {
  for (const NamedPlan& named : Plans()) {
    const StatusOr<Program> program = Lower(named.plan, {.verify_each_pass = true});
    EXPECT_TRUE(program.ok()) << named.name << ": " << program.status();
    if (!program.ok()) continue;
    EXPECT_EQ(static_cast<int64_t>(program->ranks.size()), named.plan.cluster.gpus());
  }
}

TEST(LowerTest, SamePlanSameProgram) {
  for (const NamedPlan& named : Plans()) {
    if (named.name.find("everything") == std::string::npos) continue;
    const Program a = *Lower(named.plan);
    const Program b = *Lower(named.plan);
    ASSERT_EQ(a.roles.size(), b.roles.size());
    EXPECT_EQ(a.names, b.names);
    for (size_t role = 0; role < a.roles.size(); ++role) {
      EXPECT_EQ(a.roles[role].extent, b.roles[role].extent);
      EXPECT_EQ(a.roles[role].bodies[0].waits, b.roles[role].bodies[0].waits);
    }
  }
}

TEST(LowerTest, AnotherGraphIsRefused) {
  Plan plan = TestPlan(TinyGpt());
  plan.graph_hash[0] = plan.graph_hash[0] == '0' ? '1' : '0';
  const StatusOr<Program> program = Lower(plan);
  EXPECT_EQ(ExitCode(program.status()), 5);
  EXPECT_NE(program.status().message().find(plan.graph_hash), std::string::npos);
}

// ---- What is communicated ----

std::map<std::string, int64_t> Collectives(const Program& program, size_t role) {
  std::map<std::string, int64_t> counts;
  const Role& r = program.roles[role];
  for (const Instruction& instruction : r.bodies[0].instructions) {
    if (instruction.kind != InstructionKind::kCollective) continue;
    const Collective& collective = program.collectives[instruction.what];
    ++counts[LaneName(program, r.lanes[instruction.lane]) + " " +
             std::string(Name(collective.kind))];
  }
  return counts;
}

TEST(LowerTest, DataParallelCollectives) {
  Plan plan = TestPlan(TinyLlama(), {.dp = 2});
  const StageParameters parameters = LayOutParameters(*DraftOf(plan), 0);
  const int64_t buckets = static_cast<int64_t>(parameters.buckets.size());
  using Counts = std::map<std::string, int64_t>;
  const auto counts = [&](int32_t zero) {
    plan.zero = zero;
    return Collectives(*Lower(plan), 0);
  };
  // One all-reduce is the loss's.
  EXPECT_EQ(counts(0), (Counts{{"group dp all_reduce", buckets + 1}}));
  const Counts sharded = {{"group dp all_reduce", 1},
                          {"group dp reduce_scatter", buckets},
                          {"group dp all_gather", buckets}};
  EXPECT_EQ(counts(1), sharded);
  EXPECT_EQ(counts(2), sharded);
  // ZeRO 3: every block is a bucket; each of 2 micro-batches gathers 6 blocks forward and, but for
  // the head's, which is still there, backward. So is the embedding's for the second forward.
  EXPECT_EQ(counts(3), (Counts{{"group dp all_reduce", 1},
                               {"group dp reduce_scatter", 6},
                               {"group dp all_gather", 2 * (6 + 5) - 1}}));
}

TEST(LowerTest, PipelineTransfers) {
  // 4 stages, 8 micro-batches of 2 samples, activations [2, 8, 32] fp32.
  const Plan plan = TestPlan(TinyLlama(), {.pp = 4});
  const Program program = *Lower(plan);
  for (size_t role = 0; role < program.roles.size(); ++role) {
    int64_t sends = 0, receives = 0;
    const Section& body = program.roles[role].bodies[0];
    for (const Instruction& instruction : body.instructions) {
      const bool sent = instruction.kind == InstructionKind::kSend;
      const bool received = instruction.kind == InstructionKind::kReceive;
      sends += sent;
      receives += received;
      if (!sent && !received) continue;
      EXPECT_EQ(body.Operands(instruction)[0].bytes, 2 * 8 * 32 * 4);
    }
    const int64_t ends = role == 0 || role == 3 ? 1 : 2;
    EXPECT_EQ(sends, ends * plan.micro_batches());
    EXPECT_EQ(receives, ends * plan.micro_batches());
  }
}

TEST(LowerTest, TiedEmbeddingsAreSummedOverFirstAndLastStage) {
  const Program program = *Lower(TestPlan(TinyGpt(), {.dp = 2, .pp = 4}));
  const std::string lane = "group pp{0,3} all_reduce";
  EXPECT_EQ(Collectives(program, 0)[lane], 1);
  EXPECT_EQ(Collectives(program, 1).count(lane), 0u);
  EXPECT_EQ(Collectives(program, 2).count(lane), 0u);
  EXPECT_EQ(Collectives(program, 3)[lane], 1);
}

// Full recomputation adds one all-reduce per layer and micro-batch: the attention output's. The
// MLP's output is not needed again.
TEST(LowerTest, RecomputationRepeatsItsCollectives) {
  Plan plan = TestPlan(TinyLlama(), {.tp = 2});
  const std::string lane = "group tp all_reduce";
  const int64_t plain = Collectives(*Lower(plan), 0)[lane];
  plan.recompute = Recompute::kSelective;
  EXPECT_EQ(Collectives(*Lower(plan), 0)[lane], plain);
  plan.recompute = Recompute::kFull;
  EXPECT_EQ(Collectives(*Lower(plan), 0)[lane],
            plain + TraitsOf(plan.model).layers * plan.micro_batches());
}

// ---- Memory ----

// ZeRO (Rajbhandari et al. 2020, figure 1): with 2-byte gradients and N = 8, per parameter DP 16,
// ZeRO 1 4 + 12/8, ZeRO 2 2 + 14/8, ZeRO 3 16/8 bytes. Sizes are multiples of 8 * 64, so nothing is
// padded.
TEST(LowerTest, StateBytesOfZero) {
  DecoderConfig model = TinyLlama();
  model.hidden = 512;
  model.head_dim = 128;
  model.ffn = 512;
  model.vocab = 64;
  Plan plan = TestPlan(model, {.dp = 8});
  plan.dtype = plan.grad_dtype = DType::kBF16;
  plan.graph_hash = *ModelHash(plan.model, plan.seq, plan.dtype);
  const int64_t parameters = ParameterCount(*ForwardGraph(plan));
  const int64_t eighths[] = {8 * 16, 8 * 4 + 12, 8 * 2 + 14, 16};
  for (int32_t zero = 0; zero <= 3; ++zero) {
    plan.zero = zero;
    EXPECT_EQ(*StateBytes(plan), parameters * eighths[zero] / 8) << zero;
  }
  plan.zero = 0;
  plan.grad_dtype = DType::kF32;
  EXPECT_EQ(*StateBytes(plan), parameters * 18);
}

// Persistent bytes of the Program are the state bytes.
TEST(LowerTest, PersistentBuffersAreTheState) {
  for (const NamedPlan& named : Plans()) {
    const Draft draft = *DraftOf(named.plan);
    const Program program = *Lower(named.plan);
    for (size_t role = 0; role < program.roles.size(); ++role) {
      const StateFigures state =
          StateOf(draft, LayOutParameters(draft, static_cast<int32_t>(role)));
      int64_t persistent = 0;
      for (const Buffer& buffer : program.roles[role].buffers) {
        if (buffer.persistent) persistent += buffer.bytes;
      }
      EXPECT_EQ(persistent, state.total()) << named.name;
    }
  }
}

// 1F1B holds min(p - k, m) micro-batches on stage k, GPipe all m; full recomputation one input per
// layer instead of everything. The ratio of activation peaks must show it.
TEST(LowerTest, SchedulesAndRecomputationBoundActivations) {
  const auto activations = [](const Plan& plan, size_t role) {
    const Program program = *Lower(plan);
    const MemoryFigures figures = MeasureMemory(program, program.roles[role], Space::kDevice);
    return figures.category_max[static_cast<size_t>(Category::kActivation)];
  };
  Plan plan = TestPlan(TinyLlama(), {.pp = 4});
  plan.global_batch = 32;
  plan.schedule = Schedule::kGPipe;
  const int64_t gpipe = activations(plan, 1);
  plan.schedule = Schedule::k1F1B;
  const int64_t one_f_one_b = activations(plan, 1);
  EXPECT_GT(gpipe, 4 * one_f_one_b);
  EXPECT_GT(activations(plan, 1), activations(plan, 2));
  plan.recompute = Recompute::kFull;
  EXPECT_LT(activations(plan, 1), one_f_one_b);
}

}  // namespace
}  // namespace tideline

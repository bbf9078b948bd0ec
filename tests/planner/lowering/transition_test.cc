#include "planner/lowering/transition.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "planner/lowering/lower.h"
#include "planner/program/memory.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

struct Case {
  TestMesh mesh;
  int32_t zero = 0;
  DType dtype = DType::kF32;
};

Program Lowered(const DecoderConfig& model, const Case& of) {
  Plan plan = TestPlan(model, of.mesh);
  plan.zero = of.zero;
  plan.dtype = of.dtype;
  plan.grad_dtype = DType::kF32;
  const auto hash = ModelHash(plan.model, plan.seq, plan.dtype);
  EXPECT_TRUE(hash.ok());
  plan.graph_hash = *hash;
  StatusOr<Program> program = Lower(plan);
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

int64_t BytesOf(const Role& role, const std::map<uint32_t, uint32_t>& buffers) {
  int64_t bytes = 0;
  for (const auto& [there, here] : buffers) bytes += role.buffers[here].bytes;
  return bytes;
}

// Old and new state and staging, each buffer rounded up to what addresses are aligned to.
void ExpectWithinMemory(const Transition& transition, int64_t staging) {
  for (size_t rank = 0; rank < transition.program.ranks.size(); ++rank) {
    const Role& role = transition.program.roles[rank];
    const int64_t state =
        BytesOf(role, transition.old_buffers[rank]) + BytesOf(role, transition.new_buffers[rank]);
    const int64_t rounding = kAlignment * std::ssize(role.buffers);
    EXPECT_LE(role.extent[0], state + staging + rounding) << rank;
    EXPECT_LE(MeasureMemory(transition.program, role, Space::kDevice).live_bound, state + staging);
    EXPECT_EQ(role.extent[1], 0);
  }
}

// The verifier has accepted each; every element moves once, and no rank holds more than it may.
TEST(TransitionTest, EveryPairIsSafeAndWithinItsMemory) {
  const std::vector<Case> cases = {{},
                                   {{.dp = 4}, 3},
                                   {{.tp = 2}},
                                   {{.pp = 4}},
                                   {{.dp = 3}, 1},
                                   {{.dp = 2, .tp = 2}, 2},
                                   {{.dp = 2, .pp = 2}, 1, DType::kBF16},
                                   {{.dp = 3}, 3, DType::kF16}};
  for (const DecoderConfig& model : {TinyGpt(), TinyLlama()}) {
    std::vector<Program> programs;
    for (const Case& of : cases) programs.push_back(Lowered(model, of));
    for (size_t from = 0; from < programs.size(); ++from) {
      for (size_t to = 0; to < programs.size(); ++to) {
        SCOPED_TRACE(testing::Message() << model.name << " " << from << " -> " << to);
        const int64_t staging = (from + to) % 2 == 0 ? 1024 : int64_t{64} << 20;
        const auto transition =
            LowerTransition(programs[from], programs[to], {.staging_bytes = staging});
        ASSERT_TRUE(transition.ok()) << transition.status();
        EXPECT_EQ(transition->program.ranks.size(),
                  std::max(programs[from].ranks.size(), programs[to].ranks.size()));
        ExpectWithinMemory(*transition, staging);
      }
    }
  }
}

int64_t BytesSent(const Transition& transition) {
  int64_t bytes = 0;
  for (const Role& role : transition.program.roles) {
    for (const Instruction& instruction : role.bodies[0].instructions) {
      if (instruction.kind != InstructionKind::kSend) continue;
      bytes += role.bodies[0].Operands(instruction)[0].bytes;
    }
  }
  return bytes;
}

// Nothing travels when nothing changes, and each new replica of 4 gets the whole state once.
TEST(TransitionTest, OnlyWhatIsNotThereTravels) {
  const Program one = Lowered(TinyGpt(), {}), four = Lowered(TinyGpt(), {{.dp = 4}});
  EXPECT_EQ(BytesSent(*LowerTransition(four, four)), 0);
  EXPECT_EQ(BytesSent(*LowerTransition(four, one)), 0);
  const auto grown = LowerTransition(one, four);
  ASSERT_TRUE(grown.ok());
  int64_t state = 0;
  for (const StatePiece& piece : grown->from.ranks[0].pieces) state += piece.bytes();
  EXPECT_EQ(BytesSent(*grown), 3 * state);
}

// A narrow copy is cast before it travels: 2 + 3 x 4 bytes per element of the state in bf16.
TEST(TransitionTest, NarrowCopiesTravelNarrow) {
  const Program one = Lowered(TinyGpt(), {{}, 0, DType::kBF16});
  const Program two = Lowered(TinyGpt(), {{.dp = 2}, 0, DType::kBF16});
  const auto transition = LowerTransition(one, two);
  ASSERT_TRUE(transition.ok());
  int64_t elements = 0;
  for (const StatePiece& piece : transition->to.ranks[1].pieces) {
    if (piece.primary) elements += piece.region.count();
  }
  EXPECT_EQ(BytesSent(*transition), elements / 3 * 2 + elements * 4);
}

// Some hundred MiB of state: messages of up to 16 MiB where they are packed.
TEST(TransitionTest, LargeSlicesKeepTheStagingSmall) {
  DecoderConfig model = TinyGpt();
  model.hidden = 512;
  model.heads = 8;
  model.kv_heads = 8;
  model.head_dim = 64;
  model.ffn = 2048;
  model.vocab = 50257;
  const Program from = Lowered(model, {{.tp = 4}});
  const Program to = Lowered(model, {{.dp = 2}, 1, DType::kBF16});
  const auto transition = LowerTransition(from, to);
  ASSERT_TRUE(transition.ok()) << transition.status();
  ExpectWithinMemory(*transition, int64_t{64} << 20);
  int64_t staged = 0;
  for (const Role& role : transition->program.roles) {
    for (const Buffer& buffer : role.buffers) {
      if (!buffer.persistent) staged = std::max(staged, buffer.bytes);
    }
  }
  EXPECT_GT(staged, int64_t{12} << 20) << "the bound was never near";
  EXPECT_LE(staged, int64_t{16} << 20);
}

TEST(TransitionTest, AnotherModelIsRefused) {
  const auto transition = LowerTransition(Lowered(TinyGpt(), {}), Lowered(TinyLlama(), {}));
  EXPECT_EQ(ExitCode(transition.status()), 5);
}

}  // namespace
}  // namespace tideline

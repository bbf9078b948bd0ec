#include "planner/program/state_map.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "models/ir/graph.h"
#include "planner/lowering/lower.h"
#include "planner/program/byte_set.h"
#include "planner/program/state_slices.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

struct Case {
  TestMesh mesh;
  int32_t zero = 0;
  DType dtype = DType::kF32;
};

std::ostream& operator<<(std::ostream& out, const Case& of) {
  return out << "dp " << of.mesh.dp << " pp " << of.mesh.pp << " tp " << of.mesh.tp << " zero "
             << of.zero << " " << Name(of.dtype);
}

const std::vector<Case>& Cases() {
  static const auto& cases = *new std::vector<Case>{Case{},
                                                    Case{{.dp = 2}},
                                                    Case{{.dp = 2}, 1},
                                                    Case{{.dp = 2}, 2},
                                                    Case{{.dp = 3}, 3},
                                                    Case{{.dp = 2, .pp = 2}, 3},
                                                    Case{{.dp = 2, .tp = 2}, 3},
                                                    Case{{.pp = 4}},
                                                    Case{{.tp = 2}},
                                                    Case{{}, 0, DType::kBF16},
                                                    Case{{.dp = 2}, 1, DType::kBF16},
                                                    Case{{.dp = 3}, 3, DType::kF16}};
  return cases;
}

Program Lowered(const Case& of) {
  Plan plan = TestPlan(TinyLlama(), of.mesh);
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

std::vector<int64_t> ElementsOf(const TensorRegion& region, const std::vector<int64_t>& shape) {
  std::vector<int64_t> elements;
  for (const CommonRun& run : CommonRuns(region, WholeTensor(shape), shape)) {
    for (int64_t i = 0; i < run.count; ++i) elements.push_back(run.right + i);
  }
  return elements;
}

// However a plan cuts them, the ranks together hold every element of every tensor; each piece lies
// in a persistent buffer, no two of a rank share bytes, and padding fills what is left of the
// buffers that hold a state.
TEST(StateMapTest, EveryElementIsHeldAndNoneTwiceByARank) {
  for (const Case& of : Cases()) {
    SCOPED_TRACE(testing::Message() << of);
    const Program program = Lowered(of);
    const auto state = MapState(program);
    ASSERT_TRUE(state.ok()) << state.status();
    ASSERT_EQ(state->tensors.size(), 3u * 39) << "4 layers of 9, embedding, last norm and head";
    std::vector<std::set<int64_t>> held(state->tensors.size());
    for (size_t rank = 0; rank < state->ranks.size(); ++rank) {
      const Role& role = program.roles[program.ranks[rank].role];
      std::map<uint32_t, ByteSet> bytes;
      const auto take = [&](uint32_t buffer, int64_t begin, int64_t end) {
        ASSERT_TRUE(role.buffers[buffer].persistent);
        ASSERT_GE(begin, 0);
        ASSERT_LE(end, role.buffers[buffer].bytes);
        EXPECT_EQ(bytes[buffer].Missing(begin, end).size(), 1u);
        EXPECT_EQ(bytes[buffer].Missing(begin, end).front(), std::pair(begin, end));
        bytes[buffer].Add(begin, end);
      };
      for (const StatePiece& piece : state->ranks[rank].pieces) {
        take(piece.buffer, piece.offset, piece.offset + piece.bytes());
        EXPECT_EQ(piece.primary, piece.dtype == DType::kF32);
        const std::vector<int64_t> elements =
            ElementsOf(piece.region, state->tensors[piece.tensor].shape);
        ASSERT_EQ(std::ssize(elements), piece.region.count());
        if (piece.primary) held[piece.tensor].insert(elements.begin(), elements.end());
      }
      for (const ZeroRange& zeros : state->ranks[rank].zeros) {
        take(zeros.buffer, zeros.begin, zeros.end);
      }
      for (uint32_t buffer = 0; buffer < role.buffers.size(); ++buffer) {
        const Category category = role.buffers[buffer].category;
        if (category != Category::kParameter && category != Category::kOptimizer) continue;
        EXPECT_TRUE(bytes[buffer].Contains(0, role.buffers[buffer].bytes)) << buffer;
      }
    }
    for (size_t tensor = 0; tensor < held.size(); ++tensor) {
      EXPECT_EQ(std::ssize(held[tensor]), Elements(state->tensors[tensor].shape))
          << Describe(state->tensors[tensor]);
    }
  }
}

// 3 replicas without ZeRO hold the same, so each saves about a third; with ZeRO 1 the moments are
// cut already.
TEST(StateMapTest, EachElementIsSavedOnceAndReplicasShareTheWork) {
  for (const Case& of : Cases()) {
    SCOPED_TRACE(testing::Message() << of);
    const Program program = Lowered(of);
    const auto state = MapState(program);
    ASSERT_TRUE(state.ok()) << state.status();
    const auto saved = EachElementOnce(*state);
    ASSERT_TRUE(saved.ok()) << saved.status();
    std::vector<std::vector<TensorRegion>> regions(state->tensors.size());
    int64_t most = 0, all = 0;
    for (const std::vector<StatePiece>& pieces : *saved) {
      int64_t bytes = 0;
      for (const StatePiece& piece : pieces) {
        bytes += piece.bytes();
        regions[piece.tensor].push_back(piece.region);
      }
      most = std::max(most, bytes);
      all += bytes;
    }
    int64_t expected = 0;
    for (size_t tensor = 0; tensor < regions.size(); ++tensor) {
      EXPECT_TRUE(CheckTiles(state->tensors[tensor].shape, regions[tensor]).ok());
      expected += 4 * Elements(state->tensors[tensor].shape);
    }
    EXPECT_EQ(all, expected);
    if (of.mesh.pp == 1) {
      EXPECT_LT(most * std::ssize(*saved), 2 * all);
    }
  }
}

TEST(StateMapTest, TilesMustFit) {
  const TensorRegion left{{0, 0}, {4, 3}, 0, 12}, right{{0, 3}, {4, 3}, 0, 12};
  EXPECT_TRUE(CheckTiles({4, 6}, {right, left}).ok());
  EXPECT_EQ(CheckTiles({4, 6}, {left}).message(), "element 3 of 24 is missing");
  EXPECT_EQ(CheckTiles({4, 6}, {left, right, {{3, 5}, {1, 1}, 0, 1}}).message(),
            "element 23 is there twice");
  TensorRegion cut = right;
  cut.end = 11;
  EXPECT_EQ(CheckTiles({4, 6}, {left, cut}).message(), "element 23 of 24 is missing");
}

// A counter that the prologue sets to 0 and each step adds to is no parameter: it must not get
// lost.
TEST(StateMapTest, WhatIsKeptWithoutANameIsRefused) {
  Program program = Lowered({});
  Role& role = program.roles[0];
  const uint32_t gradient = [&] {
    for (uint32_t buffer = 0; buffer < role.buffers.size(); ++buffer) {
      if (role.buffers[buffer].category == Category::kGradient) return buffer;
    }
    return kNoId;
  }();
  ASSERT_NE(gradient, kNoId);
  ASSERT_TRUE(MapState(program).ok());
  // The first instruction that writes the gradients now adds to them.
  for (Operand& operand : role.bodies[0].operands) {
    if (operand.buffer != gradient) continue;
    operand.access = Access::kReadWrite;
    break;
  }
  const auto state = MapState(program);
  ASSERT_FALSE(state.ok());
  EXPECT_NE(state.status().message().find("is kept from step to step"), std::string::npos)
      << state.status();
}

TEST(StateMapTest, ANonZeroFirstValueWithoutANameIsRefused) {
  Program program = Lowered({});
  for (Kernel& kernel : program.kernels) {
    if (kernel.op != Op::kFill || kernel.attributes.init.empty()) continue;
    kernel.attributes.init.clear();
    kernel.attributes.constant = 1.0f;
  }
  EXPECT_NE(MapState(program).status().message().find("begins with a value"), std::string::npos);
}

// ---- Slices ----

// Where each element lies: tensor and index by rank, buffer and byte.
using Contents = std::map<std::tuple<int32_t, uint32_t, int64_t>, std::pair<std::string, int64_t>>;

Contents ContentsOf(const ProgramState& state, bool only_primary) {
  Contents contents;
  for (size_t rank = 0; rank < state.ranks.size(); ++rank) {
    for (const StatePiece& piece : state.ranks[rank].pieces) {
      if (only_primary && !piece.primary) continue;
      const StateTensor& tensor = state.tensors[piece.tensor];
      const std::vector<int64_t> elements = ElementsOf(piece.region, tensor.shape);
      for (int64_t i = 0; i < std::ssize(elements); ++i) {
        contents[{rank, piece.buffer, piece.offset + i * SizeOf(piece.dtype)}] = {Describe(tensor),
                                                                                  elements[i]};
      }
    }
  }
  return contents;
}

TEST(StateSlicesTest, EveryElementComesFromWhereItLies) {
  for (const Case& of : Cases()) {
    const ProgramState from = *MapState(Lowered(of));
    const Contents sources = ContentsOf(from, true);
    for (const Case& to_case : {Cases()[1], Cases()[5], Cases()[6], Cases()[8], Cases()[11]}) {
      SCOPED_TRACE(testing::Message() << of << " -> " << to_case);
      const ProgramState to = *MapState(Lowered(to_case));
      const Contents expected = ContentsOf(to, false);
      SliceFinder finder(from);
      Contents filled;
      for (int32_t rank = 0; rank < std::ssize(to.ranks); ++rank) {
        const auto slices = finder.Fill(to, rank);
        ASSERT_TRUE(slices.ok()) << slices.status();
        for (const StateSlice& slice : *slices) {
          ASSERT_EQ(slice.destination_rank, rank);
          for (int64_t i = 0; i < slice.elements; ++i) {
            const auto source =
                sources.find({slice.source_rank, slice.source_buffer,
                              slice.source_offset + i * SizeOf(slice.source_dtype)});
            ASSERT_NE(source, sources.end());
            const bool is_new =
                filled
                    .insert({{rank, slice.destination_buffer,
                              slice.destination_offset + i * SizeOf(slice.destination_dtype)},
                             source->second})
                    .second;
            ASSERT_TRUE(is_new) << "written twice";
          }
        }
      }
      EXPECT_TRUE(filled == expected);
    }
  }
}

TEST(StateSlicesTest, WhatLiesOnTheRankComesFromThere) {
  const ProgramState state = *MapState(Lowered({{.dp = 2, .tp = 2}, 1}));
  SliceFinder finder(state);
  for (int32_t rank = 0; rank < 4; ++rank) {
    const auto slices = finder.Fill(state, rank);
    ASSERT_TRUE(slices.ok()) << slices.status();
    EXPECT_EQ(slices->size(), state.ranks[rank].pieces.size());
    for (const StateSlice& slice : *slices) {
      EXPECT_EQ(slice.source_rank, rank);
      EXPECT_EQ(slice.source_offset, slice.destination_offset);
      EXPECT_EQ(slice.source_buffer, slice.destination_buffer);
    }
  }
}

// 2 replicas give to 4 new ranks besides themselves: each about half.
TEST(StateSlicesTest, ReplicasShareTheLoad) {
  const ProgramState from = *MapState(Lowered({{.dp = 2}}));
  const ProgramState to = *MapState(Lowered({{.dp = 4}}));
  SliceFinder finder(from);
  std::map<int32_t, int64_t> given;
  for (const int32_t rank : {2, 3}) {
    const auto slices = finder.Fill(to, rank);
    ASSERT_TRUE(slices.ok()) << slices.status();
    for (const StateSlice& slice : *slices) {
      given[slice.source_rank] += slice.source_bytes();
    }
  }
  ASSERT_EQ(given.size(), 2u);
  EXPECT_LT(std::max(given[0], given[1]), 2 * std::min(given[0], given[1]));
}

TEST(StateSlicesTest, WhatIsMissingIsNamed) {
  const ProgramState whole = *MapState(Lowered({}));
  const auto message = [&](const ProgramState& from) {
    SliceFinder finder(from);
    const auto slices = finder.Fill(whole, 0);
    EXPECT_EQ(ExitCode(slices.status()), 5);
    return std::string(slices.status().message());
  };
  ProgramState less = whole;
  less.ranks[0].pieces.back().region.end -= 2;
  EXPECT_NE(message(less).find(Describe(whole.tensors[less.ranks[0].pieces.back().tensor]) +
                               " is not complete: 2 elements"),
            std::string::npos)
      << message(less);
  ProgramState renamed = whole;
  renamed.tensors[0].name += "x";
  EXPECT_NE(message(renamed).find("is missing"), std::string::npos);
  ProgramState reshaped = whole;
  reshaped.tensors[0].shape[0] += 1;
  EXPECT_NE(message(reshaped).find("has the shape"), std::string::npos);
}

}  // namespace
}  // namespace tideline

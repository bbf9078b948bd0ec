#include "exec/weights/parameter_parts.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "models/ir/graph.h"
#include "planner/lowering/lower.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

struct Case {
  TestMesh mesh;
  int32_t zero = 0;
  DType dtype = DType::kF32;
};

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

// Full index of every element that a part holds.
std::vector<int64_t> ElementsOf(const BoxPart& part) {
  std::vector<int64_t> elements, at;
  EachLine(part, [&](const LineRun& run) {
    LineCoordinates(part, run.line, at);
    at.back() += run.column;
    for (int64_t i = 0; i < run.count; ++i, ++at.back()) {
      int64_t index = 0;
      for (size_t d = 0; d < at.size(); ++d) index = index * part.box->full_shape[d] + at[d];
      elements.push_back(index);
    }
  });
  return elements;
}

// However a plan cuts them, the ranks together hold every element of every parameter, each part
// lies in a persistent buffer, and no two parts of a rank share bytes.
TEST(ParameterPartsTest, EveryElementIsHeldAndNoneTwiceByARank) {
  for (const Case& of :
       {Case{}, Case{{.dp = 2}, 1}, Case{{.dp = 2}, 2}, Case{{.dp = 3}, 3},
        Case{{.dp = 2, .pp = 2}, 3}, Case{{.dp = 2, .tp = 2}, 3}, Case{{.pp = 4}}, Case{{.tp = 2}},
        Case{{.dp = 2}, 1, DType::kBF16}, Case{{.dp = 3}, 3, DType::kBF16}}) {
    SCOPED_TRACE(testing::Message() << "dp " << of.mesh.dp << " pp " << of.mesh.pp << " tp "
                                    << of.mesh.tp << " zero " << of.zero);
    const Program program = Lowered(of);
    std::map<std::string, std::set<int64_t>> held;
    std::map<std::string, int64_t> whole;
    for (int32_t rank = 0; rank < static_cast<int32_t>(program.ranks.size()); ++rank) {
      const Role& role = program.roles[program.ranks[static_cast<size_t>(rank)].role];
      std::set<std::pair<uint32_t, int64_t>> places;
      for (const StoredPart& stored : ParameterParts(program, rank)) {
        ASSERT_TRUE(role.buffers[stored.buffer].persistent);
        EXPECT_EQ(stored.dtype, DType::kF32) << "the master where there is one";
        const std::string& name = stored.part.box->parameter;
        whole[name] = Elements(stored.part.box->full_shape);
        const std::vector<int64_t> elements = ElementsOf(stored.part);
        ASSERT_EQ(std::ssize(elements), stored.part.end - stored.part.begin);
        held[name].insert(elements.begin(), elements.end());
        for (int64_t i = 0; i < std::ssize(elements); ++i) {
          EXPECT_TRUE(places.insert({stored.buffer, stored.part.to + i}).second) << name;
          EXPECT_LE((stored.part.to + i + 1) * 4, role.buffers[stored.buffer].bytes);
        }
      }
    }
    EXPECT_EQ(held.size(), 39u) << "4 layers of 9, embedding, last norm and head";
    for (const auto& [name, elements] : held) {
      EXPECT_EQ(std::ssize(elements), whole[name]) << name;
    }
  }
}

// Under ZeRO 3 over 3 replicas each holds a third of a bucket, rounded up to what is aligned; the
// first replica's first part begins at element 0 of the first parameter it holds.
TEST(ParameterPartsTest, AShardBeginsWhereTheOneBeforeItEnds) {
  const Program program = Lowered({{.dp = 3}, 3});
  std::map<std::string, std::map<int64_t, int64_t>> runs;  // of each parameter: begin -> end
  for (int32_t rank = 0; rank < 3; ++rank) {
    for (const StoredPart& stored : ParameterParts(program, rank)) {
      const auto [place, is_new] =
          runs[stored.part.box->parameter].emplace(stored.part.begin, stored.part.end);
      EXPECT_TRUE(is_new) << "replicas hold different parts";
    }
  }
  bool cut = false;
  for (const auto& [name, parts] : runs) {
    int64_t done = 0;
    for (const auto& [begin, end] : parts) {
      EXPECT_EQ(begin, done) << name;
      done = end;
    }
    cut = cut || parts.size() > 1;
  }
  EXPECT_TRUE(cut) << "no parameter lies across two replicas, so this test says nothing";
}

}  // namespace
}  // namespace tideline

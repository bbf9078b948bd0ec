#include "tests/layering/layering.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tideline {
namespace {

std::vector<SourceFile> OurTree() {
  // The runfile is a link to the file in the tree.
  return ReadTree(std::filesystem::canonical("WORKSPACE").parent_path().string());
}

TEST(LayeringTest, TheTreeKeepsToTheTable) {
  const std::vector<SourceFile> files = OurTree();
  EXPECT_GT(files.size(), 40u) << "the tree was not found";
  for (const SourceFile& file : files) {
    for (const std::string& violation : CheckIncludes(file.path, file.content)) {
      ADD_FAILURE() << violation;
    }
  }
}

TEST(LayeringTest, NoFoldersIncludeEachOther) {
  for (const std::string& circle : FolderCircles(OurTree())) ADD_FAILURE() << circle;
}

TEST(LayeringTest, NoTwoTypesHaveOneName) {
  for (const std::string& repeated : RepeatedTypes(OurTree())) ADD_FAILURE() << repeated;
}

TEST(LayeringTest, PlantedCirclesAreFound) {
  const std::vector<SourceFile> files = {
      {"planner/plan/a.h", "#include \"planner/draft/b.h\"\n"},
      {"planner/draft/b.h", "#include <vector>\n#include \"planner/lowering/c.h\"\n"},
      {"planner/lowering/c.cc", "#include \"planner/plan/a.h\"\n#include \"base/d.h\"\n"},
      {"base/d.h", "#include \"base/e.h\"\n"},
      {"tests/planner/plan/f.cc", "#include \"tests/planner/draft/g.h\"\n"},
      {"tests/planner/draft/g.h", "#include \"tests/planner/plan/f.h\"\n"},
  };
  EXPECT_EQ(FolderCircles(files),
            std::vector<std::string>{
                "planner/draft -> planner/lowering -> planner/plan -> planner/draft"});
  EXPECT_TRUE(FolderCircles({files.begin() + 1, files.end()}).empty());
}

TEST(LayeringTest, PlantedNamesakesAreFound) {
  const auto inside = [](const std::string& space, const std::string& text) {
    return "namespace tideline {\n" + (space.empty() ? "" : "namespace " + space + "{\n") + text +
           (space.empty() ? "" : "}  // namespace " + space + "\n") + "}  // namespace tideline\n";
  };
  EXPECT_EQ(RepeatedTypes({{"sim/a.h", inside("", "struct Unit {\n  struct Part {\n")},
                           {"exec/b.h", inside("", "class Unit : public Base {\n")},
                           {"exec/c.cc", inside("", "class Part;\nenum class Kind : int {\n")}}),
            std::vector<std::string>{"tideline::Unit: exec/b.h, sim/a.h"});
  // Hidden in a file, or in a namespace of its own.
  EXPECT_TRUE(RepeatedTypes({{"sim/a.cc", inside("", "struct Unit {\n")},
                             {"exec/b.cc", "namespace {\nstruct Unit {\n}  // namespace\n"},
                             {"exec/c.h", inside("ops ", "struct Unit {\n")}})
                  .empty());
}

struct Planted {
  const char* path;
  const char* line;
  const char* expected;
};

TEST(LayeringTest, PlantedViolationsAreFound) {
  const Planted violations[] = {
      {"base/units.cc", "#include \"models/ir/graph.h\"", "base may include only base"},
      {"models/ir/graph.h", "#include \"models/zoo/decoder.h\"", "models/ir may include only"},
      {"models/zoo/decoder.cc", "#include \"planner/plan/plan.h\"", "models may include only"},
      {"traces/run/a.cc", "#include \"traces/tide/tide.h\"", "traces/run may include only"},
      {"planner/search/a.cc", "#include \"sim/simulate.h\"", "planner may include only"},
      {"planner/search/a.cc", "#include \"exec/ops/gemm.h\"", "planner may include only"},
      {"planner/techniques/zero/a.cc", "#include \"planner/techniques/pipeline/b.h\"",
       "rooms never include rooms"},
      {"sim/interpreter/a.cc", "#include \"exec/comm/a.h\"", "sim may include only"},
      {"exec/comm/a.cc", "#include \"sim/simulate.h\"", "exec may include only"},
      {"cli/a.cc", "#include \"gui/model/a.h\"", "cli may include only"},
      {"tests/reference/a.cc", "#include \"models/ops/autodiff.h\"", "tests/reference may include"},
      {"tests/reference/a.cc", "#include \"exec/ops/gemm.h\"", "tests/reference may include"},
      {"sim/interpreter/a.cc", "#include <simgrid/s4u.hpp>", "only sim/engine may"},
      {"sim/engine/a.h", "#include <simgrid/s4u.hpp>", "heavy header"},
      {"planner/plan/plan.h", "#include \"planner/plan/plan.pb.h\"", "generated protobuf headers"},
      {"planner/plan/plan.h", "#include <google/protobuf/message.h>", "heavy header"},
      {"exec/worker/a.cc", "#include <google/protobuf/message.h>", "only planner, traces, tests"},
      {"planner/plan/plan.cc", "#include <nlohmann/json.hpp>", "only base, traces, tests may"},
      {"cli/plan.cc", "#include <CLI/CLI.hpp>", "only cli/parse.cc may"},
      {"cli/plan.cc", "  #  include <QWidget>", "Qt is for gui only"},
      {"cli/plan.cc", "#include <QtCore/QObject>", "Qt is for gui only"},
      {"exec/ops/a.cu", "#include <cuda_runtime.h>", "only exec/cuda may"},
      {"exec/ops/a.cc", "#include <mpi.h>", "only exec/comm, exec/launch may"},
      {"base/a.cc", "#include <gtest/gtest.h>", "only tests may"},
      {"base/a.cc", "#include <fmt/format.h>", "stands in no rule"},
      {"newfolder/a.cc", "#include \"base/units.h\"", "stands in no rule"},
  };
  for (const Planted& planted : violations) {
    const std::vector<std::string> found =
        CheckIncludes(planted.path, std::string("// comment\n") + planted.line + "\n");
    ASSERT_EQ(found.size(), 1u) << planted.path << " " << planted.line;
    EXPECT_EQ(found[0].rfind(std::string(planted.path) + ":2: includes ", 0), 0u) << found[0];
    EXPECT_NE(found[0].find(planted.expected), std::string::npos) << found[0];
  }
}

TEST(LayeringTest, WhatIsAllowedIsNotReported) {
  for (const Planted& allowed : std::vector<Planted>{
           {"models/cluster/cost_model.h", "#include \"models/ops/op_table.h\"", ""},
           {"planner/techniques/zero/a.cc", "#include \"planner/techniques/zero/a.h\"", ""},
           {"planner/techniques/registry.cc", "#include \"planner/techniques/zero/a.h\"", ""},
           {"planner/plan/plan.cc", "#include \"planner/plan/plan.pb.h\"", ""},
           {"sim/engine/engine.cc", "#include <simgrid/s4u.hpp>", ""},
           {"cli/parse.cc", "#include <CLI/CLI.hpp>", ""},
           {"cli/execute.cc", "#include \"exec/launch/a.h\"", ""},
           {"gui/views/a.cc", "#include <QWidget>", ""},
           {"base/a.cc", "#include \"absl/strings/str_cat.h\"", ""},
           {"base/a.cc", "#include <sys/stat.h>", ""},
           {"base/a.cc", "int include = 1;  // #include \"sim/a.h\"", ""}}) {
    EXPECT_TRUE(CheckIncludes(allowed.path, allowed.line).empty())
        << allowed.path << " " << allowed.line;
  }
}

TEST(LayeringTest, TheTreeIsReadWithoutWhatIsBuilt) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(::testing::TempDir()) / "tree";
  fs::remove_all(root);
  fs::create_directories(root / "base");
  fs::create_directories(root / "bazel-out" / "base");
  std::ofstream(root / "base" / "b.cc") << "#include <vector>";
  std::ofstream(root / "base" / "a.cc") << "#include \"sim/simulate.h\"\n";
  std::ofstream(root / "base" / "notes.txt") << "none";
  std::ofstream(root / "bazel-out" / "base" / "c.cc") << "#include \"sim/simulate.h\"\n";
  const std::vector<SourceFile> files = ReadTree(root.string());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].path, "base/a.cc");
  EXPECT_EQ(files[0].content, "#include \"sim/simulate.h\"\n");
  EXPECT_EQ(files[1].path, "base/b.cc");
}

}  // namespace
}  // namespace tideline

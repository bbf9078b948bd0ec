// execute --dry-run: the figures of the plan, the exit codes and messages of the real run, and no
// trace left behind.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "tests/cli/run_program.h"

namespace tideline {
namespace {

constexpr const char* kModel = "gpt:layers=2,hidden=32,heads=4,vocab=256";

ProgramResult Tideline(std::vector<std::string> words) {
  words.insert(words.begin(), "cli/tideline");
  return RunProgram(words);
}

class DryRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/dry_run";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string MakePlan(const std::string& pins) const {
    std::string path = Path("plan.json");
    const ProgramResult planned = Tideline({"plan", kModel, "--seq", "16", "--cluster",
                                            "emulated:2x64MiB", "--pin", pins, "-o", path});
    EXPECT_EQ(planned.exit_code, 0) << planned.err;
    return path;
  }

  std::set<std::string> Files() const {
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      files.insert(entry.path().string());
    }
    return files;
  }

  std::string folder_;
};

// The object of a command's --json result. The document must live as long as the object.
JsonObject ObjectOf(const StatusOr<JsonDocument>& document) {
  EXPECT_TRUE(document.ok()) << document.status();
  return *document->root().AsObject();
}

TEST_F(DryRunTest, HasTheFiguresOfTheSimulationAndLeavesNothing) {
  const std::string plan = MakePlan("dp=2,zero=0,micro_batch=2");
  const std::set<std::string> before = Files();
  const ProgramResult dry = Tideline({"execute", plan, "--dry-run", "--json", "--steps", "7", "-o",
                                      Path("run.tlr"), "--tide", Path("tide.svg"), "--losses",
                                      Path("losses.csv"), "--checkpoint", Path("checkpoints")});
  ASSERT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_EQ(Files(), before);
  EXPECT_EQ(dry.err.find("wrote"), std::string::npos) << dry.err;

  const ProgramResult simulated = Tideline({"simulate", plan, "--json"});
  const ProgramResult profile = Tideline({"profile", kModel, "--seq", "16", "--json"});
  const auto dry_json = JsonDocument::Parse(dry.out, "dry");
  const auto simulated_json = JsonDocument::Parse(simulated.out, "simulate");
  const auto profile_json = JsonDocument::Parse(profile.out, "profile");
  JsonObject object = ObjectOf(dry_json), expected = ObjectOf(simulated_json);
  double step_time = 0, expected_step_time = 1;
  EXPECT_TRUE(object.Read("step_time_s", &step_time).ok());
  EXPECT_TRUE(expected.Read("step_time_s", &expected_step_time).ok());
  EXPECT_EQ(step_time, expected_step_time);
  int64_t parameters = 0, steps = 0;
  EXPECT_TRUE(ObjectOf(profile_json).Read("parameters", &parameters).ok());
  EXPECT_TRUE(object.Read("steps", &steps).ok());
  EXPECT_EQ(steps, 7);

  const auto work = object.Find("work")->AsArray();
  const auto ranks = object.Find("ranks")->AsArray();
  const auto expected_ranks = expected.Find("ranks")->AsArray();
  ASSERT_TRUE(work.ok() && ranks.ok() && expected_ranks.ok());
  ASSERT_EQ(work->size(), 2u);
  for (size_t rank = 0; rank < 2; ++rank) {
    JsonObject memory = *(*ranks)[rank].AsObject(), same = *(*expected_ranks)[rank].AsObject();
    for (const char* figure : {"peak_memory_bytes", "live_bound_bytes", "serial_peak_bytes"}) {
      int64_t bytes = 0, expected_bytes = -1;
      EXPECT_TRUE(memory.Read(figure, &bytes).ok());
      EXPECT_TRUE(same.Read(figure, &expected_bytes).ok());
      EXPECT_EQ(bytes, expected_bytes) << figure;
    }
    JsonObject does = *(*work)[rank].AsObject();
    int64_t instructions = 0, count = 0, bytes = 0;
    EXPECT_TRUE(does.Read("step_instructions", &instructions).ok());
    EXPECT_GT(instructions, 0);
    // Replicas reduce every fp32 gradient once a step, padding and the loss besides.
    JsonObject collectives = *does.Find("collectives")->AsObject();
    JsonObject all_reduce = *collectives.Find("all_reduce")->AsObject();
    EXPECT_TRUE(all_reduce.Read("count", &count).ok());
    EXPECT_TRUE(all_reduce.Read("bytes", &bytes).ok());
    EXPECT_GT(count, 0);
    EXPECT_GE(bytes, 4 * parameters);
    EXPECT_LE(bytes, 4 * parameters + 64 * 1024);
    JsonObject sends = *does.Find("sends")->AsObject();
    EXPECT_TRUE(sends.Read("count", &count).ok());
    EXPECT_EQ(count, 0);
  }
}

// Two stages: each sends once per micro-batch, [2, 16, 32] fp32 = 4096 bytes of activations or
// gradients; global batch 16, 8 micro-batches.
TEST_F(DryRunTest, CountsMessagesInTextToo) {
  const std::string plan = MakePlan("pp=2,tp=1,dp=1,micro_batch=2,schedule=1f1b");
  const ProgramResult text = Tideline({"execute", plan, "--dry-run"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("nothing is run or written"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("steps 0 to 9 would run"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("predicted step time"), std::string::npos) << text.out;
  const ProgramResult json = Tideline({"execute", plan, "--dry-run", "--json"});
  const auto document = JsonDocument::Parse(json.out, "dry");
  const auto work = ObjectOf(document).Find("work")->AsArray();
  ASSERT_TRUE(work.ok());
  for (const JsonValue& rank : *work) {
    JsonObject sends = *rank.AsObject()->Find("sends")->AsObject();
    int64_t count = 0, bytes = 0;
    EXPECT_TRUE(sends.Read("count", &count).ok());
    EXPECT_TRUE(sends.Read("bytes", &bytes).ok());
    EXPECT_EQ(count, 8);
    EXPECT_EQ(bytes, 8 * 4096);
  }
}

TEST_F(DryRunTest, SaysWhereAResumeWouldBegin) {
  const std::string plan = MakePlan("dp=2");
  const std::vector<std::string> execute = {"execute", plan, "--checkpoint", Path("checkpoints")};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), execute.begin(), execute.end());
    return Tideline(more);
  };
  ASSERT_EQ(with({"--steps", "3"}).exit_code, 0);
  const std::set<std::string> before = Files();
  const ProgramResult resumed = with({"--steps", "6", "--resume", "--dry-run"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("steps 3 to 5 would run"), std::string::npos) << resumed.out;
  EXPECT_NE(with({"--steps", "3", "--resume", "--dry-run"}).out.find("nothing is left"),
            std::string::npos);
  EXPECT_EQ(Files(), before);
}

// Where the real run fails before its first step, so does the dry one, in the same words.
TEST_F(DryRunTest, FailsAsTheRunWould) {
  const std::string plan = MakePlan("dp=2");
  std::string content = *ReadFile(plan);
  const std::string memory = "\"memory_bytes\": 67108864";
  const size_t at = content.find(memory);
  ASSERT_NE(at, std::string::npos) << content;
  content.replace(at, memory.size(), "\"memory_bytes\": 200000");
  ASSERT_TRUE(WriteFileAtomically(Path("small.json"), content).ok());
  ASSERT_TRUE(WriteFileAtomically(Path("short.txt"), "abc").ok());
  ASSERT_EQ(Tideline({"execute", plan, "--steps", "1", "--checkpoint", Path("used")}).exit_code, 0);
  const std::set<std::string> before = Files();
  const std::vector<std::pair<int, std::vector<std::string>>> cases = {
      {1, {"execute", Path("small.json")}},
      {5, {"execute", plan, "--data", Path("short.txt")}},
      {2, {"execute", plan, "--checkpoint", Path("used")}},
      {5, {"execute", plan, "--checkpoint", Path("used"), "--resume", "--seed", "1"}},
      {2, {"execute", plan, "--resume"}},
      {5, {"execute", Path("missing.json")}},
  };
  for (const auto& [exit_code, words] : cases) {
    const ProgramResult real = Tideline(words);
    std::vector<std::string> dry_words = words;
    dry_words.emplace_back("--dry-run");
    const ProgramResult dry = Tideline(dry_words);
    EXPECT_EQ(real.exit_code, exit_code) << real.err;
    EXPECT_EQ(dry.exit_code, exit_code) << dry.err;
    EXPECT_EQ(dry.err, real.err);
    EXPECT_EQ(dry.out, "");
  }
  EXPECT_EQ(Files(), before);
}

}  // namespace
}  // namespace tideline

// The main job as a user runs it: plan, simulate and execute, with the real programs, and what bad
// input gets.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "tests/cli/run_program.h"

namespace tideline {
namespace {

std::string Temporary(const std::string& name) {
  return std::string(std::getenv("TEST_TMPDIR")) + "/" + name;
}

ProgramResult Tideline(std::vector<std::string> words) {
  words.insert(words.begin(), "cli/tideline");
  return RunProgram(words);
}

JsonDocument Parse(const std::string& text) {
  auto document = JsonDocument::Parse(text, "stdout");
  EXPECT_TRUE(document.ok()) << document.status() << "\n" << text;
  return *std::move(document);
}

double Real(const JsonDocument& document, const std::string& key) {
  JsonObject object = *document.root().AsObject();
  return *object.Get(key)->AsReal();
}

std::vector<JsonValue> Array(JsonObject& object, const std::string& key) {
  return *object.Get(key)->AsArray();
}

// A small plan of two ranks; every test that needs one makes its own, in its own file.
ProgramResult PlanSmall(const std::string& path, const std::string& pins) {
  return Tideline({"plan", "gpt:layers=2,hidden=32,heads=4,vocab=256", "--seq", "16", "--cluster",
                   "emulated:2x64MiB", "--global-batch", "8", "--pin", pins, "-o", path, "--json"});
}

TEST(MainJobTest, SimulatedTimeIsTheCandidates) {
  const std::string path = Temporary("plan.json");
  const ProgramResult planned = PlanSmall(path, "dp=2,zero=1");
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  const ProgramResult simulated = Tideline({"simulate", path, "--json"});
  ASSERT_EQ(simulated.exit_code, 0) << simulated.err;
  const JsonDocument plan = Parse(planned.out);
  JsonObject object = *plan.root().AsObject();
  const std::vector<JsonValue> candidates = *object.Get("candidates")->AsArray();
  ASSERT_FALSE(candidates.empty());
  JsonObject best = *candidates[0].AsObject();
  EXPECT_EQ(*best.Get("step_time_s")->AsReal(), Real(Parse(simulated.out), "step_time_s"));
  EXPECT_EQ(*best.Get("peak_memory_bytes")->AsInteger(),
            static_cast<int64_t>(Real(Parse(simulated.out), "peak_memory_bytes")));
}

TEST(MainJobTest, CandidatePinGivesThePlanAgain) {
  const std::string first = Temporary("first.json");
  const ProgramResult planned = PlanSmall(first, "pp=2");
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  const JsonDocument document = Parse(planned.out);
  JsonObject object = *document.root().AsObject();
  JsonObject best = *(*object.Get("candidates")->AsArray())[0].AsObject();
  const std::string pin = *best.Get("pin")->AsString();
  const std::string second = Temporary("second.json");
  ASSERT_EQ(PlanSmall(second, pin).exit_code, 0);
  EXPECT_EQ(*ReadFile(first), *ReadFile(second));
}

TEST(MainJobTest, ExecutedMemoryIsWhatWasPredicted) {
  const std::string path = Temporary("executed.json");
  ASSERT_EQ(PlanSmall(path, "tp=2").exit_code, 0);
  const ProgramResult executed = Tideline({"execute", path, "--steps", "2", "--allocator", "eager",
                                           "--schedule", "serial", "--check", "kernels", "--json"});
  ASSERT_EQ(executed.exit_code, 0) << executed.err;
  const JsonDocument document = Parse(executed.out);
  JsonObject object = *document.root().AsObject();
  EXPECT_EQ(object.Get("losses")->AsArray()->size(), 2u);
  EXPECT_TRUE(object.Get("resumed_from_step")->IsNull());
  const std::vector<JsonValue> ranks = *object.Get("ranks")->AsArray();
  ASSERT_EQ(ranks.size(), 2u);
  for (const JsonValue& rank : ranks) {
    JsonObject figures = *rank.AsObject();
    EXPECT_EQ(*figures.Get("observed_peak_bytes")->AsInteger(),
              *figures.Get("serial_peak_bytes")->AsInteger());
  }
  const std::vector<JsonValue> ops = Array(object, "touched");
  EXPECT_GE(ops.size(), 20u);
  for (const JsonValue& op : ops) {
    JsonObject bytes = *op.AsObject();
    const double declared = *bytes.Get("declared_bytes")->AsReal();
    const double touched = *bytes.Get("touched_bytes")->AsReal();
    const bool partial = !bytes.Get("why")->IsNull();
    EXPECT_GE(touched, (partial ? 0.25 : 0.99) * declared) << *bytes.Get("op")->AsString();
  }
}

TEST(MainJobTest, ResumeGivesTheLossesOfAnUnbrokenRun) {
  const std::string path = Temporary("resumed.json");
  ASSERT_EQ(PlanSmall(path, "dp=2").exit_code, 0);
  const ProgramResult unbroken = Tideline({"execute", path, "--steps", "6", "--json"});
  const std::string folder = Temporary("checkpoints");
  ASSERT_EQ(Tideline({"execute", path, "--steps", "3", "--checkpoint", folder}).exit_code, 0);
  const ProgramResult resumed =
      Tideline({"execute", path, "--steps", "6", "--checkpoint", folder, "--resume", "--json"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(Real(Parse(resumed.out), "resumed_from_step"), 3);
  const auto losses = [](const std::string& text) {
    const JsonDocument document = Parse(text);
    JsonObject object = *document.root().AsObject();
    std::vector<double> values;
    const std::vector<JsonValue> items = Array(object, "losses");
    for (const JsonValue& value : items) values.push_back(*value.AsReal());
    return values;
  };
  EXPECT_EQ(losses(resumed.out), losses(unbroken.out));
}

// Plans with one replica each add in the same order, so the change of plan does not show in the
// losses; it is said.
TEST(MainJobTest, ResumeUnderAnotherPlan) {
  const std::string one = Temporary("one.json"), two = Temporary("two.json");
  ASSERT_EQ(PlanSmall(two, "dp=1,pp=2,tp=1,micro_batch=1").exit_code, 0);
  ASSERT_EQ(
      Tideline({"plan", "gpt:layers=2,hidden=32,heads=4,vocab=256", "--seq", "16", "--cluster",
                "emulated:1x64MiB", "--global-batch", "8", "--pin", "micro_batch=1", "-o", one})
          .exit_code,
      0);
  const ProgramResult unbroken = Tideline({"execute", one, "--steps", "4", "--json"});
  const std::string folder = Temporary("changed");
  ASSERT_EQ(Tideline({"execute", one, "--steps", "2", "--checkpoint", folder}).exit_code, 0);
  const std::vector<std::string> resume = {"execute",      two,    "--steps",  "4",
                                           "--checkpoint", folder, "--resume", "--json"};
  std::vector<std::string> dry = resume;
  dry.push_back("--dry-run");
  EXPECT_NE(Tideline(dry).err.find("written under another plan"), std::string::npos);
  const ProgramResult resumed = Tideline(resume);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("written under another plan"), std::string::npos) << resumed.err;
  EXPECT_NE(resumed.err.find("1 rank;"), std::string::npos) << resumed.err;
  const auto losses = [](const std::string& text) {
    const JsonDocument document = Parse(text);
    JsonObject object = *document.root().AsObject();
    std::vector<double> values;
    const std::vector<JsonValue> items = Array(object, "losses");
    for (const JsonValue& value : items) values.push_back(*value.AsReal());
    return values;
  };
  EXPECT_EQ(losses(resumed.out), losses(unbroken.out));
}

TEST(MainJobTest, InfeasibleGivesTheShortfallAndTheDocument) {
  const ProgramResult result = Tideline({"plan", "opt-30b", "--cluster", "dgx-a100-40g{gpus=1}",
                                         "--pin", "recompute=full", "--json"});
  EXPECT_EQ(result.exit_code, 3);
  const JsonDocument document = Parse(result.out);
  EXPECT_EQ(Real(document, "least_peak_bytes") - Real(document, "memory_limit_bytes"),
            Real(document, "shortfall_bytes"));
  // 18 bytes a parameter alone (DEFINITIONS 9, 11).
  EXPECT_GT(Real(document, "least_peak_bytes"), 18.0 * 29974540288.0);
}

TEST(MainJobTest, CompareRefusesDamagedRuns) {
  const std::string plan = Temporary("compared.json");
  ASSERT_EQ(PlanSmall(plan, "dp=2").exit_code, 0);
  const std::string whole = Temporary("whole.tlr");
  ASSERT_EQ(Tideline({"simulate", plan, "-o", whole}).exit_code, 0);
  EXPECT_EQ(Tideline({"compare", plan, whole}).exit_code, 0);
  const std::string bytes = *ReadFile(whole);
  const std::string damaged = Temporary("damaged.tlr");
  for (const size_t size : {size_t{6}, size_t{100}, bytes.size() / 2, bytes.size() - 1}) {
    ASSERT_TRUE(WriteFileAtomically(damaged, bytes.substr(0, size)).ok());
    EXPECT_EQ(Tideline({"compare", damaged, whole}).exit_code, 5) << size << " bytes";
  }
  for (const size_t share : {3, 5, 7}) {
    std::string flipped = bytes;
    flipped[bytes.size() * share / 10] ^= 4;
    ASSERT_TRUE(WriteFileAtomically(damaged, flipped).ok());
    EXPECT_EQ(Tideline({"compare", damaged, whole}).exit_code, 5) << "bit at " << share << "/10";
  }
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(MainJobTest, EveryFileIsNotedAndTidesAreDrawnOnce) {
  const std::string plan = Temporary("tides.json");
  EXPECT_NE(PlanSmall(plan, "dp=2").err.find("wrote " + plan + " ("), std::string::npos);
  const std::vector<std::string> files = {Temporary("noted.tlr"), Temporary("noted.trace.json"),
                                          Temporary("noted.svg")};
  const auto written = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"-o", files[0], "--perfetto", files[1], "--tide", files[2]});
    const ProgramResult result = Tideline(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    for (const std::string& file : files) {
      EXPECT_NE(result.err.find("wrote " + file + " ("), std::string::npos) << result.err;
    }
    return *ReadFile(files[2]);
  };
  // Two replicas do the same at the same time: one panel, unless all are asked for.
  const std::string distinct = written({"simulate", plan});
  EXPECT_EQ(Count(distinct, ">peak "), 1u);
  EXPECT_NE(distinct.find(">stage 0, ranks 0, 1<"), std::string::npos);
  EXPECT_EQ(Count(written({"simulate", plan, "--tide-ranks", "all"}), ">peak "), 2u);
  const std::string chosen = written({"simulate", plan, "--tide-ranks", "1"});
  EXPECT_EQ(Count(chosen, ">peak "), 1u);
  EXPECT_NE(chosen.find(">rank 1, stage 0<"), std::string::npos);
  EXPECT_GE(Count(written({"execute", plan, "--steps", "2"}), ">peak "), 1u);
}

// A share of a nominal peak and times of emulated GPUs say what they are.
TEST(MainJobTest, NominalSpeedsAreCalledSo) {
  const std::string plan = Temporary("nominal.json");
  ASSERT_EQ(PlanSmall(plan, "dp=2").exit_code, 0);
  const std::string simulated = Tideline({"simulate", plan}).out;
  EXPECT_NE(simulated.find("nominal speeds (20 GFLOP/s a GPU, not calibrated)"), std::string::npos)
      << simulated;
  EXPECT_NE(simulated.find("% of the nominal 20 GFLOP/s)"), std::string::npos) << simulated;
  const std::string executed = Tideline({"execute", plan, "--steps", "2"}).out;
  EXPECT_NE(executed.find("times are of this machine's cores"), std::string::npos) << executed;
  EXPECT_NE(executed.find("% of the nominal 20 GFLOP/s)"), std::string::npos) << executed;
  const std::string real = Tideline({"plan", "gpt2", "--cluster", "dgx-a100-40g{gpus=1}", "--pin",
                                     "recompute=none,micro_batch=1"})
                               .out;
  EXPECT_EQ(real.find("nominal"), std::string::npos) << real;
  EXPECT_NE(Tideline({"plan", "gpt2", "--cluster", "dgx-v100-32g{gpus=1}", "--pin",
                      "recompute=none,micro_batch=1"})
                .out.find("speeds from data sheets, not calibrated"),
            std::string::npos);
}

TEST(MainJobTest, CompareIsInHumanUnits) {
  const std::string plan = Temporary("units.json");
  const std::string run = Temporary("units.tlr");
  ASSERT_EQ(PlanSmall(plan, "dp=2").exit_code, 0);
  ASSERT_EQ(Tideline({"execute", plan, "--steps", "3", "-o", run}).exit_code, 0);
  for (const std::string& other : {run, plan}) {
    const std::string text = Tideline({"compare", plan, other}).out;
    EXPECT_EQ(text.find("e-"), std::string::npos) << text;
    EXPECT_EQ(text.find("e+"), std::string::npos) << text;
    EXPECT_NE(text.find("FLOP/s  "), std::string::npos) << text;
    EXPECT_EQ(text.find("this machine's cores") != std::string::npos, other == run) << text;
  }
  // A plan against itself: no difference, without signs.
  EXPECT_EQ(Tideline({"compare", plan, plan}).out.find("+0"), std::string::npos);
}

struct BadCase {
  std::vector<std::string> words;
  int exit_code;
  std::string in_message;
};

TEST(MainJobTest, BadInputIsNamed) {
  const std::string good = Temporary("good.json");
  ASSERT_EQ(PlanSmall(good, "dp=2").exit_code, 0);
  std::string text = *ReadFile(good);
  const size_t hash = text.find("\"graph_hash\": \"") + 15;
  ASSERT_NE(hash, std::string::npos + 15);
  text[hash] = text[hash] == '0' ? '1' : '0';
  const std::string other_graph = Temporary("other_graph.json");
  ASSERT_TRUE(WriteFileAtomically(other_graph, text).ok());
  const std::string cut = Temporary("cut.json");
  ASSERT_TRUE(WriteFileAtomically(cut, text.substr(0, text.size() / 2)).ok());
  std::vector<BadCase> cases = {
      {{"plan", "gpt-2", "--cluster", "emulated:2x64MiB"}, 2, "gpt2"},
      {{"plan", "gpt2", "--cluster", "dgx-a100-90g"}, 2, "dgx-a100-80g"},
      {{"plan", "gpt2", "--cluster", "4x dgx-a100-80g", "--pin", "tp=5"}, 3, "5"},
      {{"plan", "gpt2", "--cluster", "dgx-a100-80g", "--pin", "tq=8"}, 2, "tp"},
      {{"plan", "gpt2"}, 2, "--cluster"},
      {{"simulate", Temporary("absent.json")}, 5, "absent.json"},
      {{"simulate", cut}, 5, "cut.json"},
      {{"simulate", other_graph}, 5, "graph_hash"},
      {{"simulate", good, "--slow", "rank=9:1.2"}, 2, "ranks 0 to 1"},
      {{"simulate", good, "--tide", Temporary("t.svg"), "--tide-ranks", "2"}, 2, "from 0 to 1"},
      {{"simulate", good, "--tide-ranks", "1"}, 2, "--tide FILE"},
      {{"simulate", good, "-o", "-"}, 2, "name of a file"},
      {{"execute", good, "--perfetto", "-"}, 2, "name of a file"},
      {{"execute", good, "--resume"}, 2, "--checkpoint"},
      {{"execute", good, "--schedule", "dice"}, 2, "seed:N"},
      {{"execute", good, "--numerics", "tf32"}, 2, "--device cuda"},
      {{"execute", good, "--comm", "nccl"}, 2, "emulated"},
      {{"execute", good, "--device", "cuda", "--comm", "emulated"}, 2, "nccl"},
      {{"execute", good, "--data", Temporary("absent.txt")}, 5, "absent.txt"},
  };
  // The CUDA worker is built where the toolkit is; without a GPU it names what it looked for.
  if (!std::filesystem::exists("/dev/nvidia0")) {
    cases.push_back({{"execute", good, "--device", "cuda"}, 6, "--device cuda"});
  }
  for (const BadCase& bad : cases) {
    const ProgramResult result = Tideline(bad.words);
    EXPECT_EQ(result.exit_code, bad.exit_code) << bad.words[0] << " " << bad.words[1] << result.err;
    EXPECT_NE(result.err.find(bad.in_message), std::string::npos) << result.err;
    if (bad.exit_code != 3) {
      EXPECT_EQ(result.out, "");
    }
  }
}

}  // namespace
}  // namespace tideline

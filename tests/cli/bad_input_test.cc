// What somebody who tries to break the program meets: hostile files and values, outputs that
// cannot be written, runs that diverge. Every case has its exit code and says which file or option
// is meant.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "tests/cli/run_program.h"

namespace tideline {
namespace {

namespace fs = std::filesystem;

std::string Temporary(const std::string& name) {
  return std::string(std::getenv("TEST_TMPDIR")) + "/" + name;
}

ProgramResult Tideline(std::vector<std::string> words) {
  words.insert(words.begin(), "cli/tideline");
  return RunProgram(words);
}

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = Temporary(name);
  EXPECT_TRUE(WriteFileAtomically(path, bytes).ok());
  return path;
}

// The text of a plan of two ranks.
const std::string& SmallPlan() {
  static const std::string* const kPlan = [] {
    const std::string path = Temporary("small.json");
    const ProgramResult planned =
        Tideline({"plan", "gpt:layers=2,hidden=32,heads=4,vocab=256", "--seq", "16", "--cluster",
                  "emulated:2x64MiB", "--global-batch", "8", "--pin", "dp=2", "-o", path});
    EXPECT_EQ(planned.exit_code, 0) << planned.err;
    return new std::string(*ReadFile(path));
  }();
  return *kPlan;
}

// The plan with the number of `key` replaced.
std::string With(const std::string& key, const std::string& value) {
  std::string text = SmallPlan();
  const size_t begin = text.find("\"" + key + "\": ");
  EXPECT_NE(begin, std::string::npos) << key;
  const size_t number = begin + key.size() + 4;
  const size_t end = text.find_first_of(",\n}", number);
  return text.replace(number, end - number, value);
}

void ExpectError(const ProgramResult& result, int exit_code,
                 const std::vector<std::string>& parts) {
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  for (const std::string& part : parts) {
    EXPECT_NE(result.err.find(part), std::string::npos) << part << " not in: " << result.err;
  }
  EXPECT_EQ(result.err.find("tideline.plan"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("internal error"), std::string::npos) << result.err;
}

TEST(BadInputTest, OutputsAreRefusedBeforeTheWork) {
  const std::string plan = Write("outputs.json", SmallPlan());
  const std::string folder = Temporary("outputs");
  fs::create_directories(folder);
  const std::string nowhere = folder + "/none/x";
  const std::vector<std::vector<std::string>> commands = {
      {"doctor", "-o", nowhere},
      {"profile", "gpt2", "-o", folder},
      {"compare", plan, plan, "-o", nowhere},
      {"plan", "gpt2", "--cluster", "dgx-a100-80g", "-o", nowhere},
      {"simulate", plan, "-o", nowhere},
      {"simulate", plan, "--perfetto", nowhere},
      {"simulate", plan, "--tide", folder},
      {"execute", plan, "-o", nowhere},
      {"execute", plan, "--perfetto", folder},
      {"execute", plan, "--checkpoint", plan + "/x"},
      {"quickstart", "--folder", "/dev/null"},
  };
  for (const std::vector<std::string>& words : commands) {
    const ProgramResult result = Tideline(words);
    ExpectError(result, 1, {words.back()});
    EXPECT_EQ(result.out, "");
    // Nothing but the error: no work was begun.
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  }
  EXPECT_TRUE(fs::is_empty(folder));
  ExpectError(Tideline({"simulate", plan, "-o", plan}), 2, {"-o", "PLAN"});
  ExpectError(Tideline({"simulate", plan, "-o", "-"}), 2, {"-o", "stdout"});
  EXPECT_EQ(*ReadFile(plan), SmallPlan());
}

TEST(BadInputTest, FilesThatAreNoPlan) {
  const std::string plan = Write("plan.json", SmallPlan());
  const std::string folder = Temporary("folder");
  fs::create_directories(folder);
  const std::vector<std::pair<std::string, std::string>> files = {
      {Write("empty", ""), "it is empty"},
      {Write("one", "T"), ""},
      {Write("words", "hello there"), "no field \"hello\""},
      {Write("zeros.json", SmallPlan() + std::string(3, '\0')), "is zero"},
      {Write("trailing.json", SmallPlan() + "x"), "no valid JSON"},
      {Write("cut.json", SmallPlan().substr(0, SmallPlan().size() / 2)), "no valid JSON"},
      {folder, "it is a folder"},
      {Temporary("none"), "No such file"},
      {"/dev/zero", "it is a device"},
      {"/dev/null", "it is a device"},
  };
  for (const auto& [path, why] : files) {
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"simulate", path}, {"execute", path}, {"compare", path, plan}}) {
      ExpectError(Tideline(words), 5, {path, why});
    }
  }
  const std::string config = R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2,
                                 "n_positions": 8, "vocab_size": 9})";
  EXPECT_EQ(Tideline({"profile", Write("config.json", config)}).exit_code, 0);
  for (const std::string& more : {std::string(1, '\0'), std::string("\0x", 2), std::string("x"),
                                  std::string("{}"), std::string("]")}) {
    const std::string path = Write("bad_config.json", config + more);
    ExpectError(Tideline({"profile", path}), 5, {path});
  }
}

// A Run file, cut anywhere in its first bytes: never taken for a plan, never an internal error.
TEST(BadInputTest, ComparesOnlyWholeRuns) {
  const std::string plan = Write("compared.json", SmallPlan());
  const std::string run = Temporary("run.tlr");
  ASSERT_EQ(Tideline({"simulate", plan, "-o", run}).exit_code, 0);
  const std::string bytes = *ReadFile(run);
  for (const size_t size : {size_t{1}, size_t{4}, size_t{5}, size_t{16}, bytes.size() - 1}) {
    const std::string cut = Write("cut.tlr", bytes.substr(0, size));
    ExpectError(Tideline({"compare", cut, plan}), 5, {cut});
  }
  ExpectError(Tideline({"simulate", run}), 5, {run, "Run file"});
  // A pipe can be read once only; that is enough.
  const ProgramResult piped = RunProgram(
      {"/bin/sh", "-c", "cat '" + run + "' | cli/tideline compare /dev/stdin '" + plan + "'"});
  EXPECT_EQ(piped.exit_code, 0) << piped.err;
}

TEST(BadInputTest, CountsHaveBounds) {
  struct Change {
    std::string key;
    std::string value;
    std::string named;  // what the message says
  };
  const std::vector<Change> changes = {
      {"global_batch", "1000000000", "global_batch"},
      {"global_batch", "1048576", "16384"},
      {"micro_batch", "9000000000", "micro_batch"},
      {"padded_vocab", "1073741824", "sharding.padded_vocab"},
      {"layers", "16385", "layers"},
      {"vocab", "300000000", "vocab"},
      {"tp", "1048576", "mesh.tp"},
      {"nodes", "65536", "mesh"},
      {"peak_fp32_flops", "1e-300", "peak_fp32"},
      {"memory_bandwidth", "1e-300", "memory_bandwidth"},
      {"gemm_efficiency", "1e-300", "gemm_efficiency"},
      {"learning_rate", "-1", "optimizer.learning_rate"},
      {"seq", "17", "seq"},
      {"hidden", "64", "graph_hash"},
  };
  for (const Change& change : changes) {
    const std::string path = Write("counts.json", With(change.key, change.value));
    for (const char* verb : {"simulate", "execute"}) {
      ExpectError(Tideline({verb, path}), 5, {path, change.named});
    }
  }
  const std::string model = "gpt:layers=2,hidden=32,heads=4,vocab=256";
  const auto plan = [&](const std::string& of, const std::string& cluster,
                        const std::string& batch) {
    return Tideline({"plan", of, "--cluster", cluster, "--global-batch", batch, "--seq", "16"});
  };
  ExpectError(plan(model, "emulated:2x64MiB", "1000000000"), 2, {"--global-batch", "1048576"});
  ExpectError(plan(model, "emulated:1x64MiB", "1048576"), 2, {"--global-batch", "16384"});
  ExpectError(plan(model, "65536x dgx-a100-80g", "8"), 2, {"65536x dgx-a100-80g", "131072"});
  ExpectError(plan(model, "99999999x dgx-a100-80g", "8"), 2, {"65536"});
}

// A size beyond its limit: the same limit and words wherever the model comes from.
TEST(BadInputTest, ALimitIsTheSameForEveryKindOfModel) {
  const std::string said = "is out of range; write a whole number from 1 to 16384";
  ExpectError(Tideline({"profile", "gpt:layers=16385,hidden=64,heads=4"}), 2, {"layers", said});
  ExpectError(Tideline({"profile", "gpt:layers=99999999999999999999,hidden=64,heads=4"}), 2,
              {"layers", said});
  const std::string config = Write("layers.json", R"({"model_type": "gpt2", "n_layer": 16385,
      "n_embd": 8, "n_head": 2, "n_positions": 8, "vocab_size": 9})");
  ExpectError(Tideline({"profile", config}), 5, {config, "n_layer", said});
  const std::string plan = Write("layers_plan.json", With("layers", "16385"));
  ExpectError(Tideline({"simulate", plan}), 5, {plan, "layers", said});
}

TEST(BadInputTest, ADivergedRunStopsAndKeepsWhatItHas) {
  const std::string plan = Write("diverging.json", With("learning_rate", "1e30"));
  const std::string run = Temporary("diverged.tlr");
  const ProgramResult result = Tideline({"execute", plan, "--steps", "8", "--json", "-o", run});
  ExpectError(result, 4, {"step ", "nan", "rank ", "learning_rate"});
  const auto document = JsonDocument::Parse(result.out, "stdout");
  ASSERT_TRUE(document.ok()) << document.status();
  JsonObject object = *document->root().AsObject();
  const std::vector<JsonValue> losses = *object.Get("losses")->AsArray();
  ASSERT_GE(losses.size(), 2u);
  EXPECT_LT(losses.size(), 8u);
  EXPECT_TRUE(losses[0].AsReal().ok());
  EXPECT_TRUE(losses.back().IsNull());
  EXPECT_NE(object.Get("finding")->AsString()->find("diverged"), std::string::npos);
  EXPECT_EQ(Tideline({"compare", run, run}).exit_code, 0);
}

TEST(BadInputTest, AResumeIsOfTheSameRun) {
  const std::string plan = Write("resumed.json", SmallPlan());
  const std::string folder = Temporary("made/for/checkpoints");
  const auto execute = [&](const std::string& steps, std::vector<std::string> more) {
    std::vector<std::string> words = {"execute", plan,           "--steps", steps,
                                      "--json",  "--checkpoint", folder};
    words.insert(words.end(), more.begin(), more.end());
    return Tideline(words);
  };
  const std::string text = Write("text", std::string(1000, 'a'));
  ASSERT_EQ(execute("3", {"--seed", "5", "--data", text}).exit_code, 0);
  ExpectError(execute("5", {"--resume", "--data", text}), 5, {"--seed", "5", "0", "--checkpoint"});
  ExpectError(execute("5", {"--resume", "--seed", "5"}), 5, {"--data", text, "built-in text"});
  const std::string moved = Write("moved", std::string(1000, 'a'));
  const std::string run = Temporary("nothing.tlr");
  for (const char* steps : {"3", "2"}) {
    const ProgramResult nothing =
        execute(steps, {"--resume", "--seed", "5", "--data", moved, "-o", run});
    ASSERT_EQ(nothing.exit_code, 0) << nothing.err;
    const auto document = JsonDocument::Parse(nothing.out, "stdout");
    JsonObject object = *document->root().AsObject();
    EXPECT_TRUE(object.Get("peak_memory_bytes")->IsNull());
    EXPECT_TRUE(object.Get("ranks")->AsArray()->empty());
    EXPECT_EQ(object.Get("losses")->AsArray()->size(), 3u);
    EXPECT_FALSE(fs::exists(run));
  }
  const ProgramResult shown = Tideline({"execute", plan, "--steps", "3", "--checkpoint", folder,
                                        "--resume", "--seed", "5", "--data", moved});
  EXPECT_NE(shown.out.find("nothing was left to run"), std::string::npos) << shown.out;
  EXPECT_EQ(shown.out.find("memory"), std::string::npos) << shown.out;
}

TEST(BadInputTest, DataThatNeverEndsOrIsTheWorkersOwn) {
  const std::string plan = Write("data.json", SmallPlan());
  ExpectError(Tideline({"execute", plan, "--data", "/dev/zero"}), 5, {"/dev/zero", "device"});
  // The data is opened by the worker, whose descriptors are others than the program's.
  for (const char* own : {"-", "/dev/stdin", "//dev/./stdin", "/dev/stdout", "/dev/stderr",
                          "/dev/fd/3", "/proc/self/fd/1", "/proc/thread-self/fd/0"}) {
    ExpectError(Tideline({"execute", plan, "--data", own}), 2, {"--data", own, "another process"});
  }
  ExpectError(Tideline({"execute", plan, "--data", Write("short", "x")}), 5, {"short", "17"});
  ExpectError(Tideline({"execute", plan, "--checkpoint", plan}), 2, {"--checkpoint"});
  ExpectError(Tideline({"simulate", plan, "--slow", "rank=0:2", "--slow", "rank=0:3"}), 2,
              {"--slow", "twice"});
  ExpectError(Tideline({"simulate", plan, "--cluster", "dgx-a100-80g"}), 2,
              {"--cluster dgx-a100-80g", "8"});
}

}  // namespace
}  // namespace tideline

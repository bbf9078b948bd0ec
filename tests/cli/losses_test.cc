// execute --losses: the lines are those of the run, over resumes too.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "tests/cli/run_program.h"

namespace tideline {
namespace {

std::string Path(const std::string& name) { return ::testing::TempDir() + "/" + name; }

ProgramResult Tideline(std::vector<std::string> words) {
  words.insert(words.begin(), "cli/tideline");
  return RunProgram(words);
}

// The fields of each line after the heading.
std::vector<std::vector<std::string>> Lines(const std::string& path) {
  std::vector<std::vector<std::string>> lines;
  const StatusOr<std::string> content = ReadFile(path);
  EXPECT_TRUE(content.ok()) << content.status();
  std::istringstream input(content.ok() ? *content : "");
  std::string line;
  std::getline(input, line);
  EXPECT_EQ(line, "step,loss,learning_rate,seconds");
  while (std::getline(input, line)) {
    std::istringstream fields(line);
    std::vector<std::string>& row = lines.emplace_back();
    for (std::string field; std::getline(fields, field, ',');) row.push_back(field);
    EXPECT_EQ(row.size(), 4u) << line;
  }
  return lines;
}

std::vector<std::string> Losses(const std::string& json) {
  std::vector<std::string> losses;
  const auto document = JsonDocument::Parse(json, "execute");
  EXPECT_TRUE(document.ok()) << document.status();
  auto object = *document->root().AsObject();
  const auto values = object.Find("losses")->AsArray();
  EXPECT_TRUE(values.ok()) << values.status();
  for (const JsonValue& loss : *values) {
    losses.push_back(ShortestReal(*loss.AsReal()));
  }
  return losses;
}

TEST(LossesTest, AreTheRunsAlsoOverAResume) {
  const std::string plan = Path("plan.json"), log = Path("losses.csv"), folder = Path("ckpt");
  std::filesystem::remove_all(folder);
  const ProgramResult planned =
      Tideline({"plan", "gpt:layers=2,hidden=32,heads=4,vocab=256", "--seq", "16", "--cluster",
                "emulated:2x64MiB", "--lr", "2e-3", "--lr-schedule", "linear:warmup=2,steps=6",
                "--pin", "dp=2", "-o", plan});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  const std::vector<std::string> execute = {
      "execute",      plan,   "--losses",           log, "--json",
      "--checkpoint", folder, "--checkpoint-every", "3"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), execute.begin(), execute.end());
    const ProgramResult result = Tideline(more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.err.find("wrote " + log), std::string::npos) << result.err;
    return Losses(result.out);
  };
  run({"--steps", "3"});
  ASSERT_EQ(Lines(log).size(), 3u);
  // As if a killed run had come further than its last checkpoint, and half a line.
  std::string content = *ReadFile(log);
  ASSERT_TRUE(WriteFileAtomically(log, content + "3,9,9,9\n4,9,9,9\n5,9").ok());
  const std::vector<std::string> losses = run({"--steps", "6", "--resume"});
  const auto lines = Lines(log);
  ASSERT_EQ(lines.size(), 6u);
  // 2e-3 (s + 1) / 2, then down from step 2 to 0 at step 6.
  const std::vector<std::string> rates = {"0.001", "0.002", "0.002", "0.0015", "0.001", "5e-04"};
  for (size_t step = 0; step < 6; ++step) {
    EXPECT_EQ(lines[step][0], std::to_string(step));
    EXPECT_EQ(lines[step][1], losses[step]);
    EXPECT_EQ(lines[step][2], rates[step]);
    EXPECT_GT(*ParseReal(lines[step][3], 0, 1e6), 0);
  }
  // Nothing is left to run: the file stays.
  content = *ReadFile(log);
  run({"--steps", "6", "--resume"});
  EXPECT_EQ(*ReadFile(log), content);
  // Another file is not written over by a resume, and the run does not begin.
  ASSERT_TRUE(WriteFileAtomically(log, "my notes\n").ok());
  std::vector<std::string> words = execute;
  words.insert(words.end(), {"--steps", "9", "--resume"});
  const ProgramResult refused = Tideline(words);
  EXPECT_EQ(refused.exit_code, 5);
  EXPECT_NE(refused.err.find(log), std::string::npos) << refused.err;
  EXPECT_EQ(*ReadFile(log), "my notes\n");
  EXPECT_EQ(Tideline({"execute", plan, "--losses", "-"}).exit_code, 2);
}

}  // namespace
}  // namespace tideline

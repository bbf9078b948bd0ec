// Every command line that help pages and documents print: it parses, and those of the help pages
// run as printed, in a folder that holds the files they name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/parse.h"
#include "tests/cli/run_program.h"

namespace tideline {
namespace {

constexpr const char* kSmallModel = "gpt:layers=2,hidden=32,heads=4,vocab=256";

std::vector<CommandInfo> Verbs() {
  std::vector<CommandInfo> infos;
  for (const auto& command : MakeCommands()) infos.push_back(command->Info());
  return infos;
}

// Words of a command line without its program; words in single quotes keep their spaces.
std::vector<std::string> Words(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  for (const char character : line + " ") {
    if (character == '\'') {
      quoted = !quoted;
    } else if (character != ' ' || quoted) {
      word += character;
    } else if (!word.empty()) {
      words.push_back(word);
      word.clear();
    }
  }
  EXPECT_FALSE(quoted) << line;
  words.erase(words.begin());
  return words;
}

// The command lines of a text: those that begin with `program`, up to a comment.
std::vector<std::string> CommandLines(const std::string& text, const std::string& program) {
  std::vector<std::string> lines;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    start = end + 1;
    line.erase(0, line.find_first_not_of(' '));
    if (line.rfind(program + " ", 0) != 0) continue;
    line.erase(std::min(line.find("  "), line.size()));
    lines.push_back(line);
  }
  return lines;
}

void ExpectParses(const std::string& line) {
  const auto invocation = ParseCommandLine(Words(line), Verbs());
  EXPECT_TRUE(invocation.ok()) << line << "\n" << invocation.status().message();
}

TEST(ExamplesTest, HelpPagesParse) {
  size_t examples = 0;
  for (const CommandInfo& verb : Verbs()) {
    for (const std::string& example : verb.examples) {
      EXPECT_EQ(example.rfind("tideline " + verb.name, 0), 0u) << example;
      ExpectParses(example);
      ++examples;
    }
  }
  EXPECT_GE(examples, 20u);
}

TEST(ExamplesTest, DocumentsParse) {
  size_t examples = 0;
  for (const char* document : {"README.md", "docs/reference.md"}) {
    for (const std::string& line : CommandLines(*ReadFile(document), "./tideline")) {
      if (line.rfind("./tideline test", 0) == 0) continue;  // the script's own
      ExpectParses(line);
      ++examples;
    }
  }
  EXPECT_GE(examples, 12u);
}

// Runs the lines of a verb in a folder of its own, in their order.
class RunExamplesTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    program_ = std::filesystem::absolute("cli/tideline");
    folder_ = std::string(std::getenv("TEST_TMPDIR")) + "/" + GetParam();
    std::filesystem::create_directories(folder_ + "/path/to");
    Write("book.txt", std::string(40000, 'a') + "lice");
    Write("path/to/config.json",
          R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 128,
              "vocab_size": 1000})");
    for (const char* pins : {"dp=2", "pp=2"}) {
      ASSERT_EQ(Shell("tideline plan gpt:layers=4,hidden=96,heads=4,vocab=256 --seq 96 --cluster "
                      "emulated:4x256MiB --pin " +
                      std::string(pins) + " -o plan.json")
                    .exit_code,
                0);
      if (pins == std::string("dp=2")) Copy("plan.json", "other.json");
    }
    ASSERT_EQ(Shell(std::string("tideline plan ") + kSmallModel +
                    " --seq 16 --cluster emulated:2x64MiB -o tiny.json")
                  .exit_code,
              0);
    ASSERT_EQ(Shell("tideline execute tiny.json --steps 2 -o run.tlr").exit_code, 0);
    Copy("run.tlr", "before.tlr");
    Copy("run.tlr", "after.tlr");
  }

  ProgramResult Shell(const std::string& line) const {
    return RunProgram(
        {"/bin/sh", "-c",
         "tideline() { '" + program_ + "' \"$@\"; }; cd '" + folder_ + "' && " + line});
  }

 private:
  void Write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(WriteFileAtomically(folder_ + "/" + name, text).ok());
  }
  void Copy(const std::string& from, const std::string& to) const {
    std::filesystem::copy_file(folder_ + "/" + from, folder_ + "/" + to);
  }

  std::string program_;
  std::string folder_;
};

TEST_P(RunExamplesTest, AsPrinted) {
  std::vector<std::string> lines;
  for (const CommandInfo& verb : Verbs()) {
    if (verb.name == GetParam()) lines = verb.examples;
  }
  // The page of the whole program.
  if (GetParam() == "program") lines = CommandLines(ProgramHelp(Verbs()), "tideline");
  ASSERT_FALSE(lines.empty());
  for (const std::string& line : lines) {
    // The one example of a model that does not fit.
    const int expected = line.find("plan opt-30b") == std::string::npos ? 0 : 3;
    const ProgramResult result = Shell(line);
    EXPECT_EQ(result.exit_code, expected) << line << "\n" << result.err;
    EXPECT_NE(result.out, "") << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Verbs, RunExamplesTest,
                         ::testing::Values("program", "quickstart", "profile", "plan", "simulate",
                                           "execute", "compare", "calibrate", "doctor"),
                         [](const auto& verb) { return verb.param; });

// No verb is left out above.
TEST(ExamplesTest, EveryVerbIsRun) {
  EXPECT_EQ(Verbs().size(), 8u) << "add the new verb to the list above";
}

}  // namespace
}  // namespace tideline

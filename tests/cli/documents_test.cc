// The documents against the program: every word that a table prints is in the glossary, every name
// that a command line takes is in the reference, with its figure.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/command.h"
#include "cli/names.h"
#include "models/profile/profile.h"
#include "models/zoo/zoo.h"
#include "tests/cli/run_program.h"

namespace tideline {
namespace {

// The terms of the glossary: what stands between ** and **, and what such a line adds after it.
std::set<std::string> Terms() {
  std::set<std::string> terms;
  const std::string text = *ReadFile("docs/glossary.md");
  for (size_t begin = text.find("**"); begin != std::string::npos;) {
    const size_t end = text.find("**", begin + 2);
    if (end == std::string::npos) break;
    std::string list = text.substr(begin + 2, end - begin - 2) + ", ";
    for (size_t comma = list.find(", "); comma != std::string::npos; comma = list.find(", ")) {
      terms.insert(list.substr(0, comma));
      list.erase(0, comma + 2);
    }
    // "**bubble**, pipeline bubble |": the other names of the term.
    if (text.compare(end, 4, "**, ") == 0 && text[end + 4] != '*') {
      const size_t bar = text.find_first_of("|*\n", end + 4);
      terms.insert(text.substr(end + 4, bar - end - 5));
    }
    begin = text.find("**", end + 2);
  }
  return terms;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

// The cells of a table's line: two spaces stand between them.
std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells;
  size_t start = line.find_first_not_of(' ');
  while (start != std::string::npos && start < line.size()) {
    const size_t end = std::min(line.find("  ", start), line.size());
    cells.push_back(line.substr(start, end - start));
    start = line.find_first_not_of(' ', end);
  }
  return cells;
}

class GlossaryTest : public ::testing::Test {
 protected:
  static std::string Temporary(const std::string& name) {
    return std::string(std::getenv("TEST_TMPDIR")) + "/" + name;
  }

  static std::vector<std::string> Print(std::vector<std::string> words) {
    words.insert(words.begin(), "cli/tideline");
    const ProgramResult result = RunProgram(words);
    EXPECT_EQ(result.exit_code, 0) << words[1] << "\n" << result.err;
    return Lines(result.out);
  }

  static std::vector<std::string> Plan(const std::string& path) {
    return Print({"plan", "gpt:layers=2,hidden=32,heads=4,vocab=256", "--seq", "16", "--cluster",
                  "emulated:2x64MiB", "--top", "1", "-o", path});
  }

  void ExpectTerm(const std::string& word) {
    EXPECT_TRUE(terms_.contains(word)) << "docs/glossary.md lacks **" << word << "**";
    ++words_;
  }

  // Lines "  name   value" of a step's figures.
  void ExpectFigures(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      if (line.rfind("  ", 0) != 0 || line.rfind("  step ", 0) == 0) continue;
      const std::vector<std::string> cells = Cells(line);
      if (cells.size() > 1) ExpectTerm(cells[0]);
    }
  }

  const std::set<std::string> terms_ = Terms();
  int words_ = 0;
};

TEST_F(GlossaryTest, HasTheWordsOfPlan) {
  for (const std::string& line : Plan(Temporary("plan.json"))) {
    const std::vector<std::string> cells = Cells(line);
    if (cells.size() < 4 || (cells[0] != "plan" && cells[0] != "family")) continue;
    for (const std::string& cell : cells) ExpectTerm(cell);
  }
  EXPECT_EQ(words_, 11);
}

TEST_F(GlossaryTest, HasTheWordsOfSimulateExecuteAndCompare) {
  const std::string plan = Temporary("step.json");
  const std::string run = Temporary("run.tlr");
  Plan(plan);
  ExpectFigures(Print({"simulate", plan}));
  EXPECT_GE(words_, 15);
  ExpectFigures(Print({"execute", plan, "--steps", "2", "--allocator", "eager", "-o", run}));
  EXPECT_GE(words_, 31);
  for (const std::string& line : Print({"compare", plan, run})) {
    const std::vector<std::string> cells = Cells(line);
    if (cells.size() >= 4) ExpectTerm(cells[0]);
  }
  EXPECT_GE(words_, 41);
}

TEST_F(GlossaryTest, HasTheWordsOfProfile) {
  const std::vector<std::string> lines = Print({"profile", "gpt2", "--by-module", "--by-op"});
  for (const std::string& line : lines) {
    const std::vector<std::string> cells = Cells(line);
    if (cells.empty() || cells[0] == "model") continue;
    if (cells[0] == "module" || cells[0] == "operator") {
      for (const std::string& cell : cells) ExpectTerm(cell);
    } else if (cells.size() == 2) {
      ExpectTerm(cells[0]);
    }
  }
  EXPECT_GE(words_, 20);
}

std::string Thousands(int64_t number) {
  std::string text = std::to_string(number);
  for (int place = static_cast<int>(text.size()) - 3; place > 0; place -= 3) {
    text.insert(static_cast<size_t>(place), ",");
  }
  return text;
}

TEST(ReferenceTest, HasEveryModelWithItsParameters) {
  const std::string text = *ReadFile("docs/reference.md");
  for (const std::string& name : ZooNames()) {
    const auto model = ResolveModel(name);
    const int64_t sequence = std::min<int64_t>(128, TraitsOf(*model).longest_sequence);
    const auto profile = ProfileModel(*model, {.batch = 1, .sequence = sequence});
    ASSERT_TRUE(profile.ok()) << name;
    const std::string row = "| `" + name + "` | " + Thousands(profile->parameters) + " |";
    EXPECT_NE(text.find(row), std::string::npos) << row;
  }
}

TEST(ReferenceTest, HasEveryClusterAndPin) {
  const std::string text = *ReadFile("docs/reference.md");
  for (const auto& [name, sentence] : ClusterSection().rows) {
    // Names, not the patterns for counts, overrides and files.
    if (!std::islower(static_cast<unsigned char>(name[0])) || name.find('/') != name.npos) continue;
    EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
  }
  for (const auto& [pins, sentence] : PinSection().rows) {
    const std::string name = pins.substr(0, pins.find('='));
    EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
  }
}

// Options that a verb has are in the help page by construction; the reference has their defaults.
TEST(ReferenceTest, HasTheDefaultsOfExecute) {
  const std::string text = *ReadFile("docs/reference.md");
  for (const auto& command : MakeCommands()) {
    if (command->Info().name != "execute") continue;
    for (const OptionRecord& option : command->Info().options) {
      if (option.default_text.empty() || option.choices.size() == 1) continue;
      EXPECT_NE(text.find("--" + option.name), std::string::npos) << option.name;
      EXPECT_NE(text.find(option.default_text), std::string::npos) << option.name;
    }
  }
}

}  // namespace
}  // namespace tideline

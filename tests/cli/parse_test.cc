#include "cli/parse.h"

#include <gtest/gtest.h>

namespace tideline {
namespace {

std::vector<CommandInfo> Commands() {
  return {{.name = "simulate",
           .summary = "Plays a plan",
           .description = "",
           .examples = {"tideline simulate p.json"},
           .arguments = {{.name = "PLAN", .sentence = "The plan."},
                         {.name = "OTHER", .sentence = "Another.", .required = false}},
           .options = {{.name = "steps",
                        .kind = OptionKind::kInteger,
                        .value_name = "N",
                        .sentence = "Steps.",
                        .default_text = "10",
                        .least = 1,
                        .most = 100},
                       {.name = "slow",
                        .kind = OptionKind::kText,
                        .value_name = "RULE",
                        .sentence = "Slows down.",
                        .repeated = true},
                       {.name = "no-fold", .kind = OptionKind::kFlag, .sentence = "Unfolded."}}},
          {.name = "compare",
           .summary = "Compares",
           .description = "",
           .examples = {},
           .arguments = {{.name = "FILE", .sentence = "Files.", .repeated = true}}}};
}

StatusOr<Invocation> Parse(const std::vector<std::string>& words) {
  return ParseCommandLine(words, Commands());
}

TEST(ParseTest, ValuesFlagsAndDefaults) {
  const auto invocation = Parse({"simulate", "p.json", "--no-fold", "--slow", "rank=3:1.2",
                                 "--slow", "rank=4:2", "-o", "run.tlr", "--json"});
  ASSERT_TRUE(invocation.ok()) << invocation.status().message();
  const CommandContext& context = invocation->context;
  EXPECT_EQ(invocation->command, 0u);
  EXPECT_EQ(context.arguments, std::vector<std::string>{"p.json"});
  EXPECT_EQ(context.options.Integer("steps"), 10);
  EXPECT_EQ(context.options.Texts("slow"), (std::vector<std::string>{"rank=3:1.2", "rank=4:2"}));
  EXPECT_TRUE(context.options.Flag("no-fold"));
  EXPECT_EQ(context.output, "run.tlr");
  EXPECT_TRUE(context.json);
  EXPECT_FALSE(context.quiet);
}

TEST(ParseTest, OptionsMayStandAnywhere) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--quiet", "--color", "never", "-o", "f", "simulate", "--steps=7",
                                 "p.json"},
        std::vector<std::string>{"simulate", "--steps", "7", "p.json", "-q", "--color=never",
                                 "--output=f"},
        std::vector<std::string>{"-q", "simulate", "--steps", "7", "--output", "f", "--color",
                                 "never", "--", "p.json"}}) {
    const auto invocation = Parse(words);
    ASSERT_TRUE(invocation.ok()) << invocation.status().message();
    EXPECT_EQ(invocation->context.arguments, std::vector<std::string>{"p.json"});
    EXPECT_EQ(invocation->context.options.Integer("steps"), 7);
    EXPECT_EQ(invocation->context.output, "f");
    EXPECT_EQ(invocation->context.color, "never");
    EXPECT_TRUE(invocation->context.quiet);
  }
}

TEST(ParseTest, VerbosityCounts) {
  EXPECT_EQ(Parse({"simulate", "p", "-v", "-v"})->context.verbosity, 2);
  EXPECT_EQ(Parse({"simulate", "p", "-vv"})->context.verbosity, 2);
  EXPECT_EQ(Parse({"simulate", "p"})->context.verbosity, 0);
}

TEST(ParseTest, WordsAfterTheSeparatorAreArguments) {
  EXPECT_EQ(Parse({"compare", "--", "--odd-name", "-h"})->context.arguments,
            (std::vector<std::string>{"--odd-name", "-h"}));
}

struct BadLine {
  std::vector<std::string> words;
  const char* expected;
};

TEST(ParseTest, ErrorsSayWhatToWrite) {
  const BadLine cases[] = {
      {{"-q"}, "the verb is missing before `-q`; valid: simulate, compare"},
      {{"simulat"}, "unknown verb `simulat`; did you mean `simulate`? valid: simulate, compare"},
      {{"--json"}, "the verb is missing"},
      {{"simulate"}, "PLAN is missing: The plan."},
      {{"compare"}, "FILE is missing"},
      {{"simulate", "a", "b", "c"}, "one argument too many: `c`"},
      {{"simulate", "p", "--stpes", "5"}, "unknown option `--stpes`; did you mean `--steps`?"},
      {{"simulate", "p", "--stpes=5"}, "unknown option `--stpes`"},
      {{"simulate", "p", "-x"}, "unknown option `-x`"},
      {{"simulate", "p", "--steps", "0"}, "--steps: `0` is out of range"},
      {{"simulate", "p", "--steps"}, "--steps"},
      {{"simulate", "p", "--steps", "5", "--steps", "6"}, "--steps: it is given twice"},
      {{"simulate", "p", "--color", "blue"}, "--color: unknown value `blue`"},
      {{"simulate", "p", "--output", ""}, "--output"},
  };
  for (const BadLine& bad : cases) {
    const auto invocation = Parse(bad.words);
    ASSERT_FALSE(invocation.ok()) << bad.expected;
    EXPECT_EQ(ExitCode(invocation.status()), 2);
    EXPECT_NE(invocation.status().message().find(bad.expected), absl::string_view::npos)
        << invocation.status().message();
    EXPECT_NE(invocation.status().message().find("--help)"), absl::string_view::npos)
        << invocation.status().message();
  }
}

TEST(HelpTest, PagesListWhatIsDeclared) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--help"}, std::vector<std::string>{"-h"},
        std::vector<std::string>{"help"}}) {
    const std::string page = Parse(words)->page;
    EXPECT_NE(page.find("simulate  Plays a plan"), std::string::npos) << page;
    EXPECT_NE(page.find("--color WHEN"), std::string::npos);
  }
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"simulate", "--help"},
        std::vector<std::string>{"help", "simulate"},
        std::vector<std::string>{"--help", "simulate"},
        std::vector<std::string>{"simulate", "--bad", "-h"}}) {
    const std::string page = Parse(words)->page;
    EXPECT_EQ(page.rfind("Usage: tideline simulate PLAN [OTHER] [options]", 0), 0u) << page;
    EXPECT_NE(page.find("--steps N"), std::string::npos);
    EXPECT_NE(page.find("Default 10."), std::string::npos);
    EXPECT_NE(page.find("-o, --output FILE"), std::string::npos);
    EXPECT_NE(page.find("  tideline simulate p.json\n"), std::string::npos);
  }
  EXPECT_EQ(Parse({"--version"})->page.rfind("tideline ", 0), 0u);
}

TEST(HelpTest, LinesFitTheTerminal) {
  std::vector<CommandInfo> commands = Commands();
  for (int times = 0; times < 40; ++times) commands[0].description += "a sentence that goes on ";
  commands[0].options[0].sentence = commands[0].description;
  const std::string page = ParseCommandLine({"simulate", "--help"}, commands)->page;
  size_t start = 0;
  while (start < page.size()) {
    const size_t end = page.find('\n', start);
    EXPECT_LE(end - start, 100u);
    start = end + 1;
  }
}

}  // namespace
}  // namespace tideline

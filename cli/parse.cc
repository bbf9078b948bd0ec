#include "cli/parse.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "cli/help.h"
#include "cli/version.h"

namespace tideline {
namespace {

OptionRecord OutputOption(const CommandInfo& command) {
  return {.name = "output",
          .kind = OptionKind::kText,
          .value_name = "FILE",
          .sentence = command.output_sentence,
          .short_name = 'o'};
}

// What CLI11 collects for one option record.
struct Collected {
  OptionRecord record;
  std::vector<std::string> values;
  int64_t times = 0;  // of a flag
};

// The flags of one CLI11 application; a deque, since CLI11 keeps addresses.
class Collector {
 public:
  void Declare(CLI::App* app, const std::vector<OptionRecord>& records) {
    for (const OptionRecord& record : records) {
      Collected& collected = collected_.emplace_back(Collected{record, {}, 0});
      std::string flags = absl::StrCat("--", record.name);
      if (record.short_name != 0) {
        absl::StrAppend(&flags, ",-", std::string(1, record.short_name));
      }
      if (record.kind == OptionKind::kFlag) {
        app->add_flag(flags, collected.times);
      } else {
        // One value each time; a flag given twice is OptionValues' business.
        app->add_option(flags, collected.values)->expected(1)->allow_extra_args(false)->take_all();
      }
    }
  }

  Status Fill(OptionValues* values) const {
    for (const Collected& collected : collected_) {
      for (int64_t time = 0; time < collected.times; ++time) {
        TL_RETURN_IF_ERROR(values->Add(collected.record, ""));
      }
      for (const std::string& value : collected.values) {
        TL_RETURN_IF_ERROR(values->Add(collected.record, value));
      }
    }
    return absl::OkStatus();
  }

 private:
  std::deque<Collected> collected_;
};

std::vector<std::string> OptionNames(const CommandInfo& command) {
  std::vector<std::string> names;
  for (const OptionRecord& option : command.options) names.push_back("--" + option.name);
  for (const OptionRecord& option : GlobalOptions()) names.push_back("--" + option.name);
  names.emplace_back("--output");
  names.emplace_back("--help");
  return names;
}

Status UnknownOption(const std::string& word, const CommandInfo& command) {
  const std::string name = word.substr(0, word.find('='));
  return UsageError(UnknownName("option", name, OptionNames(command)));
}

Status CheckArguments(const CommandInfo& command, const std::vector<std::string>& given) {
  size_t required = 0;
  bool open_ended = false;
  for (const ArgumentRecord& argument : command.arguments) {
    if (argument.required) ++required;
    open_ended = open_ended || argument.repeated;
  }
  if (given.size() < required) {
    const ArgumentRecord& missing = command.arguments[given.size()];
    return UsageError(absl::StrCat(missing.name, " is missing: ", missing.sentence));
  }
  if (!open_ended && given.size() > command.arguments.size()) {
    return UsageError(absl::StrCat(
        "one argument too many: ", Quoted(given[command.arguments.size()]), "; leave it out"));
  }
  return absl::OkStatus();
}

// CLI11 over the words after the verb.
StatusOr<CommandContext> ParseVerb(const std::vector<std::string>& words,
                                   const CommandInfo& command) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  Collector collector;
  std::vector<OptionRecord> records = command.options;
  records.push_back(OutputOption(command));
  for (OptionRecord& record : GlobalOptions()) records.push_back(std::move(record));
  collector.Declare(&app, records);
  try {
    // CLI11 takes the words in reverse.
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(reversed);
  } catch (const CLI::Error& error) {
    return UsageError(error.what());
  }
  CommandContext context;
  // Unknown words: options are errors, unless they stand after "--"; the rest are the arguments.
  const auto separator = std::find(words.begin(), words.end(), "--");
  for (const std::string& word : app.remaining()) {
    const bool after_separator = std::find(separator, words.end(), word) != words.end();
    if (word == "--") continue;
    if (!after_separator && word.size() > 1 && word[0] == '-') return UnknownOption(word, command);
    context.arguments.push_back(word);
  }
  TL_RETURN_IF_ERROR(collector.Fill(&context.options));
  TL_RETURN_IF_ERROR(CheckArguments(command, context.arguments));
  TL_RETURN_IF_ERROR(context.options.FillDefaults(records));
  const OptionValues& options = context.options;
  context.json = options.Flag("json");
  context.quiet = options.Flag("quiet");
  if (options.Has("verbose")) {
    context.verbosity = static_cast<int>(options.Texts("verbose").size());
  }
  context.color = options.Text("color");
  if (options.Has("output")) context.output = options.Text("output");
  return context;
}

// Splits the words into those before the verb (which must be global options), the verb, and the
// rest; global options may stand on both sides.
struct SplitWords {
  std::string verb;
  std::vector<std::string> others;
};
SplitWords SplitAtVerb(const std::vector<std::string>& words) {
  SplitWords split;
  bool value_follows = false;
  for (const std::string& word : words) {
    const bool is_verb = split.verb.empty() && !value_follows && (word.empty() || word[0] != '-');
    value_follows = word == "--color" || word == "-o" || word == "--output";
    if (is_verb) {
      split.verb = word;
    } else {
      split.others.push_back(word);
    }
  }
  return split;
}

bool AsksForHelp(const std::vector<std::string>& words) {
  const auto separator = std::find(words.begin(), words.end(), "--");
  return std::any_of(words.begin(), separator,
                     [](const std::string& word) { return word == "--help" || word == "-h"; });
}

std::optional<size_t> FindCommand(const std::string& name,
                                  const std::vector<CommandInfo>& commands) {
  for (size_t index = 0; index < commands.size(); ++index) {
    if (commands[index].name == name) return index;
  }
  return std::nullopt;
}

}  // namespace

StatusOr<Invocation> ParseCommandLine(const std::vector<std::string>& words,
                                      const std::vector<CommandInfo>& commands) {
  Invocation invocation;
  SplitWords split = SplitAtVerb(words);
  // `tideline help VERB` is `tideline VERB --help`.
  if (split.verb == "help") {
    split = SplitAtVerb(split.others);
    split.others.emplace_back("--help");
  }
  std::vector<std::string> names;
  for (const CommandInfo& command : commands) names.push_back(command.name);
  if (split.verb.empty()) {
    if (AsksForHelp(split.others)) {
      invocation.page = ProgramHelp(commands);
      return invocation;
    }
    if (split.others == std::vector<std::string>{"--version"}) {
      invocation.page = absl::StrCat("tideline ", kVersion, "\n");
      return invocation;
    }
    for (const std::string& word : split.others) {
      if (word != "--version") {
        return UsageError(absl::StrCat("the verb is missing before ", Quoted(word),
                                       "; valid: ", JoinNames(names), " (see tideline --help)"));
      }
    }
    return UsageError(absl::StrCat("the verb is missing\n\n", ProgramHelp(commands)));
  }
  const std::optional<size_t> index = FindCommand(split.verb, commands);
  if (!index.has_value()) {
    return UsageError(
        absl::StrCat(UnknownName("verb", split.verb, names), " (see tideline --help)"));
  }
  const CommandInfo& command = commands[*index];
  invocation.command = *index;
  if (AsksForHelp(split.others)) {
    invocation.page = CommandHelp(command);
    return invocation;
  }
  StatusOr<CommandContext> context = ParseVerb(split.others, command);
  if (!context.ok()) {
    return UsageError(absl::StrCat(std::string(context.status().message()), " (see tideline ",
                                   command.name, " --help)"));
  }
  invocation.context = *std::move(context);
  return invocation;
}

}  // namespace tideline

#include "cli/help.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

constexpr size_t kLineWidth = 96;

using Rows = std::vector<std::pair<std::string, std::string>>;

// Appends `text` broken at spaces; lines after the first start with `indent` spaces. `column` is
// where the first line begins.
void AppendWrapped(const std::string& text, size_t column, size_t indent, std::string* out) {
  size_t start = 0;
  while (start < text.size()) {
    size_t end = text.find(' ', start);
    if (end == std::string::npos) end = text.size();
    const size_t length = end - start;
    const bool first_word = start == 0;
    if (!first_word && column + 1 + length > kLineWidth) {
      *out += '\n';
      out->append(indent, ' ');
      column = indent;
    } else if (!first_word) {
      *out += ' ';
      ++column;
    }
    out->append(text, start, length);
    column += length;
    start = end + 1;
  }
  *out += '\n';
}

void AppendRows(const std::string& title, const Rows& rows, std::string* out) {
  if (rows.empty()) return;
  constexpr size_t kWidestName = 28;
  size_t width = 0;
  for (const auto& [name, text] : rows) {
    if (name.size() <= kWidestName) width = std::max(width, name.size());
  }
  absl::StrAppend(out, "\n", title, ":\n");
  for (const auto& [name, text] : rows) {
    absl::StrAppend(out, "  ", name);
    if (name.size() > width) {
      *out += '\n';
      out->append(width + 4, ' ');
    } else {
      out->append(width + 2 - name.size(), ' ');
    }
    AppendWrapped(text, width + 4, width + 4, out);
  }
}

std::string OptionName(const OptionRecord& option) {
  std::string name;
  if (option.short_name != 0) name = absl::StrCat("-", std::string(1, option.short_name), ", ");
  absl::StrAppend(&name, "--", option.name);
  if (option.kind != OptionKind::kFlag) absl::StrAppend(&name, " ", option.value_name);
  return name;
}

std::string OptionText(const OptionRecord& option) {
  std::string text = option.sentence;
  if (option.kind == OptionKind::kChoice) absl::StrAppend(&text, " ", DescribeRange(option), ".");
  if (option.required) text += " Required.";
  if (option.repeated) text += " May be repeated.";
  if (!option.default_text.empty()) absl::StrAppend(&text, " Default ", option.default_text, ".");
  return text;
}

Rows OptionRows(const std::vector<OptionRecord>& options) {
  Rows rows;
  for (const OptionRecord& option : options) {
    rows.emplace_back(OptionName(option), OptionText(option));
  }
  return rows;
}

std::string UsageLine(const CommandInfo& command) {
  std::string line = absl::StrCat("Usage: tideline ", command.name);
  for (const ArgumentRecord& argument : command.arguments) {
    const std::string name = absl::StrCat(argument.name, argument.repeated ? "..." : "");
    absl::StrAppend(&line, " ", argument.required ? name : absl::StrCat("[", name, "]"));
  }
  for (const OptionRecord& option : command.options) {
    if (option.required) absl::StrAppend(&line, " --", option.name, " ", option.value_name);
  }
  return line + " [options]\n";
}

}  // namespace

std::vector<OptionRecord> GlobalOptions() {
  return {
      {.name = "json",
       .kind = OptionKind::kFlag,
       .sentence = "Prints one JSON document in place of text."},
      {.name = "quiet",
       .kind = OptionKind::kFlag,
       .sentence = "No progress and no notes on stderr.",
       .short_name = 'q'},
      {.name = "verbose",
       .kind = OptionKind::kFlag,
       .sentence = "More notes on stderr, as each training step.",
       .short_name = 'v',
       .repeated = true},
      {.name = "color",
       .kind = OptionKind::kChoice,
       .value_name = "WHEN",
       .sentence = "When to use colors on a terminal:",
       .default_text = "auto",
       .choices = {"auto", "always", "never"}},
  };
}

std::string ProgramHelp(const std::vector<CommandInfo>& commands) {
  std::string help =
      "Tideline plans, simulates and runs large-model training on GPU clusters.\n\n"
      "Usage: tideline VERB [arguments] [options]\n";
  Rows rows;
  for (const CommandInfo& command : commands) rows.emplace_back(command.name, command.summary);
  AppendRows("Verbs", rows, &help);
  Rows options = {{"-h, --help", "Shows this page, after a verb its own."},
                  {"--version", "Shows the version; without a verb."},
                  {"-o, --output FILE", "Writes a file; each verb's page says which."}};
  const Rows global = OptionRows(GlobalOptions());
  options.insert(options.end(), global.begin(), global.end());
  AppendRows("Options", options, &help);
  AppendRows("Exit codes",
             {{"0", "ok"},
              {"1", "the run failed"},
              {"2", "bad command line"},
              {"3", "no feasible plan"},
              {"4", "a check or comparison failed"},
              {"5", "input unreadable or invalid"},
              {"6", "backend not available"},
              {"70", "internal error"},
              {"128+n", "stopped by signal n"}},
             &help);
  help +=
      "\nExamples:\n"
      "  tideline quickstart                           the whole job on a small model\n"
      "  tideline plan gpt2 --cluster 'dgx-a100-40g{gpus=4}' -o plan.json\n"
      "  tideline simulate plan.json --tide tide.svg\n"
      "\n`tideline VERB --help` shows a verb's options, what they may hold, and examples;\n"
      "docs/glossary.md explains every term that a verb prints.\n";
  return help;
}

std::string CommandHelp(const CommandInfo& command) {
  std::string help = absl::StrCat(UsageLine(command), "\n");
  AppendWrapped(absl::StrCat(command.summary, "."), 0, 0, &help);
  if (!command.description.empty()) {
    help += '\n';
    AppendWrapped(command.description, 0, 0, &help);
  }
  Rows arguments;
  for (const ArgumentRecord& argument : command.arguments) {
    arguments.emplace_back(argument.name, argument.sentence);
  }
  AppendRows("Arguments", arguments, &help);
  AppendRows("Options", OptionRows(command.options), &help);
  for (const HelpSection& section : command.sections) {
    AppendRows(section.title, section.rows, &help);
  }
  Rows general = {{"-o, --output FILE", command.output_sentence},
                  {"-h, --help", "Shows this page."}};
  const Rows global = OptionRows(GlobalOptions());
  general.insert(general.end(), global.begin(), global.end());
  AppendRows("General options", general, &help);
  if (!command.examples.empty()) help += "\nExamples:\n";
  for (const std::string& example : command.examples) absl::StrAppend(&help, "  ", example, "\n");
  return help;
}

}  // namespace tideline

// Command: what a verb of the command line declares, and what it is handed when it runs.
//
// A verb is one class in one file: it says its name, help, arguments and options as data, and does
// its work in Run(). Parsing, checks, help pages, exit codes and writing the result are the same
// for all verbs (cli/parse.h, cli/help.h, cli/main.cc).
#ifndef TIDELINE_CLI_COMMAND_H_
#define TIDELINE_CLI_COMMAND_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/options.h"
#include "base/progress.h"
#include "base/status.h"

namespace tideline {

// A positional argument. Only the last may be repeated; optional ones follow required ones.
struct ArgumentRecord {
  std::string name;      // "MODEL"
  std::string sentence;  // one sentence, ending in a full stop
  bool required = true;
  bool repeated = false;
  PathUse path_use = PathUse::kNone;
};

// A titled list of a help page: names with a sentence or a few words each.
struct HelpSection {
  std::string title;  // "Clusters"
  std::vector<std::pair<std::string, std::string>> rows;
};

struct CommandInfo {
  std::string name;                   // "profile"
  std::string summary;                // one line for the list of verbs, without a full stop
  std::string description;            // paragraphs for the verb's own help page
  std::vector<std::string> examples;  // whole command lines, starting with "tideline"
  std::vector<ArgumentRecord> arguments = {};
  std::vector<OptionRecord> options = {};
  std::vector<HelpSection> sections = {};  // what arguments and options may hold
  // What -o writes, as a sentence. A verb that sets `writes_output_itself` reads
  // CommandContext::output; for all others -o receives the result in place of stdout.
  std::string output_sentence = "Writes the result to FILE in place of stdout; - is stdout.";
  bool writes_output_itself = false;
};

// What a run gets. The result is collected and printed only when Run() succeeds, or ends with exit
// code 3 or 4, so that stdout is empty on failure.
struct CommandContext {
  std::vector<std::string> arguments;
  OptionValues options;
  bool json = false;
  bool quiet = false;
  int verbosity = 0;           // how often -v was given
  std::string color = "auto";  // auto, always, never
  std::string output;          // -o; empty when not given, "-" is stdout
  std::string program;         // path of the running program, to find the workers beside it

  void Print(std::string_view text) { result += text; }
  // A line on stderr, unless quiet.
  void Note(std::string_view text) const;
  // "wrote PATH (SIZE)": said of every file a verb has written.
  void NoteWritten(const std::string& path) const;
  ProgressOptions progress() const { return StderrProgress(quiet, color); }

  std::string result;
};

class Command {
 public:
  virtual ~Command() = default;
  virtual CommandInfo Info() const = 0;
  virtual Status Run(CommandContext* context) const = 0;
};

// Every verb, in the order of the help page. The one list of verbs there is.
std::vector<std::unique_ptr<Command>> MakeCommands();

}  // namespace tideline

#endif  // TIDELINE_CLI_COMMAND_H_

// The program `tideline`: finds the verb, runs it, prints its result, ends with its exit code.
//
// Signals keep their default action, so Ctrl+C ends the program at once and the shell sees 128+n.
// Whether results can be written is checked before the work. Result files are replaced atomically,
// so nothing half-written is left under a result's name; workers die with this process.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/outputs.h"
#include "cli/parse.h"

namespace tideline {
namespace {

void PrintError(const std::string& what, const Status& status, const std::string& color) {
  const bool use_color = UseColor(color, STDERR_FILENO);
  std::fprintf(stderr, "%s%s:%s %s\n", use_color ? "\x1b[1;31m" : "", what.c_str(),
               use_color ? "\x1b[0m" : "", std::string(status.message()).c_str());
}

Status PrintResult(const std::string& text) {
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (whole && std::fflush(stdout) == 0) return absl::OkStatus();
  return RunError(absl::StrCat("cannot write to stdout: ", std::strerror(errno)));
}

Status DeliverResult(const CommandInfo& info, const CommandContext& context) {
  const bool to_file =
      !info.writes_output_itself && !context.output.empty() && context.output != "-";
  if (to_file) {
    TL_RETURN_IF_ERROR(WriteFileAtomically(context.output, context.result));
    context.NoteWritten(context.output);
    return absl::OkStatus();
  }
  return PrintResult(context.result);
}

// The result is delivered when there is one to look at: success, and exit codes 3 and 4.
bool HasResult(const Status& status) {
  const int code = ExitCode(status);
  return code == 0 || code == 3 || code == 4;
}

int Main(const std::vector<std::string>& words) {
  const std::vector<std::unique_ptr<Command>> commands = MakeCommands();
  std::vector<CommandInfo> infos;
  for (const std::unique_ptr<Command>& command : commands) infos.push_back(command->Info());
  StatusOr<Invocation> invocation = ParseCommandLine(words, infos);
  if (!invocation.ok()) {
    PrintError("tideline", invocation.status(), "auto");
    return ExitCode(invocation.status());
  }
  if (!invocation->page.empty()) {
    const Status printed = PrintResult(invocation->page);
    if (!printed.ok()) PrintError("tideline", printed, "auto");
    return ExitCode(printed);
  }
  const CommandInfo& info = infos[invocation->command];
  CommandContext& context = invocation->context;
  Status status = CheckOutputs(info, context);
  if (status.ok()) status = commands[invocation->command]->Run(&context);
  if (HasResult(status)) {
    const Status delivered = DeliverResult(info, context);
    if (status.ok()) status = delivered;
  }
  if (!status.ok()) PrintError(absl::StrCat("tideline ", info.name), status, context.color);
  return ExitCode(status);
}

}  // namespace
}  // namespace tideline

int main(int argc, char** argv) {
  try {
    return tideline::Main(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::bad_alloc&) {
    std::fputs(
        "tideline: this machine's memory does not hold the work; give a smaller global batch, "
        "fewer micro-batches or a smaller model\n",
        stderr);
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tideline: internal error: %s\n", error.what());
    return 70;
  }
}

#include "base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace tideline {
namespace {

constexpr double kLineEverySeconds = 10;
constexpr double kBarEverySeconds = 0.1;
constexpr int kBarCells = 30;

bool DumbTerminal() {
  const char* term = std::getenv("TERM");
  return term == nullptr || std::string_view(term) == "dumb";
}

}  // namespace

bool UseColor(std::string_view color, int file_descriptor) {
  if (color == "always") return true;
  if (color == "never" || std::getenv("NO_COLOR") != nullptr || DumbTerminal()) return false;
  return isatty(file_descriptor) == 1;
}

ProgressOptions StderrProgress(bool quiet, std::string_view color) {
  ProgressOptions options;
  options.quiet = quiet;
  options.terminal = isatty(STDERR_FILENO) == 1 && !DumbTerminal();
  options.color = UseColor(color, STDERR_FILENO);
  options.write = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  };
  options.now_s = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  return options;
}

Progress::Progress(std::string label, int64_t total, ProgressOptions options)
    : label_(std::move(label)), total_(total), options_(std::move(options)) {
  if (options_.quiet) return;
  start_s_ = last_s_ = options_.now_s();
}

Progress::~Progress() { Finish(); }

void Progress::Update(int64_t done, std::string_view note) {
  done_ = done;
  if (options_.quiet || finished_) return;
  const double now_s = options_.now_s();
  if (now_s - last_s_ < (options_.terminal ? kBarEverySeconds : kLineEverySeconds)) return;
  last_s_ = now_s;
  if (options_.terminal) {
    DrawBar(now_s - start_s_, note);
  } else {
    PrintLine(now_s - start_s_, note);
  }
}

void Progress::DrawBar(double elapsed_s, std::string_view note) {
  std::string line = absl::StrCat("\r", label_, " ");
  if (total_ > 0) {
    const double share =
        std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0., 1.);
    const int full = static_cast<int>(share * kBarCells);
    line += options_.color ? "[\x1b[36m" : "[";
    line.append(static_cast<size_t>(full), '#');
    line += options_.color ? "\x1b[0m" : "";
    line.append(static_cast<size_t>(kBarCells - full), '.');
    absl::StrAppend(&line, "] ", done_, "/", total_);
  } else {
    absl::StrAppend(&line, done_);
  }
  absl::StrAppend(&line, "  ", HumanSeconds(elapsed_s), note.empty() ? "" : "  ", std::string(note),
                  "\x1b[K");
  options_.write(line);
  bar_visible_ = true;
}

void Progress::PrintLine(double elapsed_s, std::string_view note) {
  std::string line = absl::StrCat(label_, ": ", done_);
  if (total_ > 0) absl::StrAppend(&line, " of ", total_);
  absl::StrAppend(&line, " after ", HumanSeconds(elapsed_s), note.empty() ? "" : ", ",
                  std::string(note), "\n");
  options_.write(line);
}

void Progress::Finish() {
  if (finished_) return;
  finished_ = true;
  if (bar_visible_) options_.write("\r\x1b[K");
}

}  // namespace tideline

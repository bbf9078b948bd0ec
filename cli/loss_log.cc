#include "cli/loss_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "models/ir/learning_rate.h"

namespace tideline {
namespace {

constexpr std::string_view kHeading = "step,loss,learning_rate,seconds\n";
constexpr std::string_view kGatedHeading =
    "step,loss,learning_rate,seconds,gradient_norm,loss_scale\n";
constexpr int64_t kMostBytes = int64_t{1} << 40;

bool IsRegular(const std::string& path) {
  struct stat information {};
  return stat(path.c_str(), &information) == 0 && S_ISREG(information.st_mode);
}

// How many bytes of `content` to keep: the heading and whole lines of ascending steps below `step`.
StatusOr<size_t> KeptBytes(const std::string& path, std::string_view heading,
                           std::string_view content, int64_t step) {
  const auto damaged = [&](int64_t line, std::string_view text) {
    return InputError(absl::StrCat("--losses ", path, ": line ", line, ", ", Quoted(text),
                                   ", is not of a loss log (", std::string(Trim(heading)),
                                   "), so this run cannot go on with it; name another file"));
  };
  if (heading.starts_with(content)) return 0;  // not there, empty or cut off
  if (!content.starts_with(heading)) return damaged(1, content.substr(0, content.find('\n')));
  size_t kept = heading.size();
  int64_t last = -1;
  for (int64_t line = 2; kept < content.size(); ++line) {
    const size_t end = content.find('\n', kept);
    if (end == content.npos) break;
    const std::string_view text = content.substr(kept, end - kept);
    int64_t number = -1;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool comma = read.ptr != text.data() + text.size() && *read.ptr == ',';
    if (read.ec != std::errc() || !comma || number <= last) return damaged(line, text);
    if (number >= step) break;
    last = number;
    kept = end + 1;
  }
  return kept;
}

}  // namespace

LossLog::LossLog(std::string path, const AdamSettings& adam, bool gated)
    : path_(std::move(path)), adam_(adam), heading_(gated ? kGatedHeading : kHeading) {}

LossLog::~LossLog() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status LossLog::CheckContinues() const {
  if (!IsRegular(path_)) return absl::OkStatus();
  TL_ASSIGN_OR_RETURN(const std::string content, ReadFile(path_, kMostBytes));
  return KeptBytes(path_, heading_, content, INT64_MAX).status();
}

Status LossLog::Begin(int64_t step) {
  const auto failure = [this] {
    return RunError(absl::StrCat("--losses ", path_, ": ", std::strerror(errno),
                                 "; name a file in a writable folder"));
  };
  size_t kept = 0;
  if (step > 0 && IsRegular(path_)) {
    TL_ASSIGN_OR_RETURN(const std::string content, ReadFile(path_, kMostBytes));
    TL_ASSIGN_OR_RETURN(kept, KeptBytes(path_, heading_, content, step));
  }
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) return failure();
  if (IsRegular(path_) && ftruncate(descriptor_, static_cast<off_t>(kept)) != 0) return failure();
  return kept == 0 ? Write(heading_) : absl::OkStatus();
}

Status LossLog::Append(int64_t step, double loss, std::optional<double> seconds,
                       const std::optional<StepGradients>& gradients) {
  const auto rate = static_cast<float>(LearningRateAt(adam_, step));
  char shortest[32];
  const auto end = std::to_chars(std::begin(shortest), std::end(shortest), rate).ptr;
  std::string line = absl::StrCat(step, ",", ShortestReal(loss), ",",
                                  std::string(shortest, static_cast<size_t>(end - shortest)), ",",
                                  seconds.has_value() ? absl::StrFormat("%.6f", *seconds) : "");
  if (heading_ == kGatedHeading) {
    const bool known = gradients.has_value() && gradients->norm.has_value();
    absl::StrAppend(&line, ",", known ? ShortestReal(*gradients->norm) : "", ",",
                    known ? ShortestReal(gradients->loss_scale) : "");
  }
  return Write(line + "\n");
}

Status LossLog::Write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t written = write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return RunError(absl::StrCat("--losses ", path_, ": ", std::strerror(errno),
                                   "; the lines before stay, later ones are lost"));
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

void LossLogger::OnStep(const StepResult& result) {
  next_->OnStep(result);
  if (!status_.ok()) return;
  if (!log_->begun()) status_ = log_->Begin(result.step);
  if (status_.ok()) {
    status_ = log_->Append(result.step, result.loss, result.seconds, result.gradients);
  }
  if (!status_.ok()) next_->OnNote(std::string(status_.message()));
}

Status LossLogger::Finish(const RunReport& run) {
  TL_RETURN_IF_ERROR(status_);
  const auto steps = static_cast<int64_t>(run.losses.size());
  const bool diverged = !run.finding.empty() && steps > 0;
  if (!log_->begun()) TL_RETURN_IF_ERROR(log_->Begin(diverged ? steps - 1 : steps));
  if (!diverged) return absl::OkStatus();
  std::optional<StepGradients> gradients;
  if (!run.gradients.empty()) gradients = run.gradients.back();
  return log_->Append(steps - 1, run.losses.back(), std::nullopt, gradients);
}

}  // namespace tideline

// Progress of a long task on stderr: a bar while stderr is a terminal, else one line every ten
// seconds without carriage returns; nothing when quiet. Results go to stdout, never through here.
#ifndef TIDELINE_BASE_PROGRESS_H_
#define TIDELINE_BASE_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tideline {

struct ProgressOptions {
  bool quiet = false;
  bool terminal = false;  // stderr is one, and TERM is not "dumb"
  bool color = false;
  // Where text goes and what the time is (seconds, monotonic); replaced by tests.
  std::function<void(std::string_view)> write;
  std::function<double()> now_s;
};

// The options for this process' stderr. NO_COLOR (any value) and TERM=dumb turn color off; so does
// `color` "never"; "always" turns it on.
ProgressOptions StderrProgress(bool quiet, std::string_view color);

// True when text for a file descriptor may carry colors under `color` (auto, always, never).
bool UseColor(std::string_view color, int file_descriptor);

// One task. Not thread-safe.
//
//   Progress progress("simulating", steps, options);
//   for (...) progress.Update(step);
//   progress.Finish();
class Progress {
 public:
  // `total` 0: unknown, only the count is shown.
  Progress(std::string label, int64_t total, ProgressOptions options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Cheap: reads the clock and returns unless a line is due.
  void Update(int64_t done, std::string_view note = "");
  // Clears the bar. Called by the destructor when forgotten.
  void Finish();

 private:
  void DrawBar(double elapsed_s, std::string_view note);
  void PrintLine(double elapsed_s, std::string_view note);

  std::string label_;
  int64_t total_;
  ProgressOptions options_;
  double start_s_ = 0;
  double last_s_ = 0;
  int64_t done_ = 0;
  bool bar_visible_ = false;
  bool finished_ = false;
};

}  // namespace tideline

#endif  // TIDELINE_BASE_PROGRESS_H_

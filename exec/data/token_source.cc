#include "exec/data/token_source.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file.h"
#include "base/sha256.h"
#include "exec/data/builtin_text.h"

namespace tideline {
namespace {

constexpr int64_t kLargestTextBytes = int64_t{4} << 30;

}  // namespace

StatusOr<TokenSource> TokenSource::Make(std::string_view text, std::string_view origin,
                                        int64_t sequence, int64_t global_batch) {
  TL_CHECK(sequence >= 1 && global_batch >= 1, "a plan has sequences and a batch");
  const int64_t size = static_cast<int64_t>(text.size());
  if (size < sequence + 1) {
    return InputError(absl::StrCat("data '", std::string(origin), "' has ", size,
                                   " bytes, but one sequence of ", sequence,
                                   " tokens and its last target need ", sequence + 1,
                                   "; give a longer file or plan a shorter --seq"));
  }
  TokenSource source;
  source.text_ = std::string(text);
  source.origin_ = std::string(origin);
  source.hash_ = Sha256Hex(text);
  source.sequence_ = sequence;
  source.global_batch_ = global_batch;
  source.count_ = (size - 1) / sequence;
  return source;
}

StatusOr<TokenSource> TokenSource::Open(const std::string& path, int64_t sequence,
                                        int64_t global_batch) {
  if (path.empty()) return Make(BuiltinText(), "built-in text", sequence, global_batch);
  TL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kLargestTextBytes));
  return Make(text, path, sequence, global_batch);
}

void TokenSource::Load(int64_t step, int64_t first, std::span<int32_t> ids,
                       std::span<int32_t> targets) const {
  TL_CHECK(ids.size() == targets.size() && ids.size() % sequence_ == 0, "whole samples");
  const int64_t samples = static_cast<int64_t>(ids.size()) / sequence_;
  for (int64_t sample = 0; sample < samples; ++sample) {
    const int64_t begin = (step * global_batch_ + first + sample) % count_ * sequence_;
    for (int64_t i = 0; i < sequence_; ++i) {
      ids[sample * sequence_ + i] = static_cast<unsigned char>(text_[begin + i]);
      targets[sample * sequence_ + i] = static_cast<unsigned char>(text_[begin + i + 1]);
    }
  }
}

}  // namespace tideline

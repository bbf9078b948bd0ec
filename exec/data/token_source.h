// TokenSource: text as training samples; a token is a byte.
//
// The text is cut into sequences of `sequence` tokens without overlap; the target of a token is the
// byte after it, so the last target of a sequence is the first token of the next one. Sample j of
// step t is sequence (t * global_batch + j) mod count (DEFINITIONS 8), which makes data a pure
// function of the step: a resumed run reads what an unbroken one would have read.
#ifndef TIDELINE_EXEC_DATA_TOKEN_SOURCE_H_
#define TIDELINE_EXEC_DATA_TOKEN_SOURCE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tideline {

inline constexpr int64_t kByteVocabulary = 256;

class TokenSource {
 public:
  // Copies the text. Errors (exit 5) name `origin` when the text is shorter than one sequence and
  // its last target.
  static StatusOr<TokenSource> Make(std::string_view text, std::string_view origin,
                                    int64_t sequence, int64_t global_batch);
  // Reads a file of at most 4 GiB, or a pipe of at most 256 MiB; the empty path is the built-in
  // text.
  static StatusOr<TokenSource> Open(const std::string& path, int64_t sequence,
                                    int64_t global_batch);

  int64_t count() const { return count_; }
  // Where the text came from, and its SHA-256 in hexadecimal digits: which text it is.
  const std::string& origin() const { return origin_; }
  const std::string& hash() const { return hash_; }

  // Fills ids and targets, both [samples, sequence], with samples first .. of `step`.
  // Precondition: both spans have a multiple of `sequence` elements, the same number.
  void Load(int64_t step, int64_t first, std::span<int32_t> ids, std::span<int32_t> targets) const;

 private:
  std::string text_;
  std::string origin_;
  std::string hash_;
  int64_t sequence_ = 0;
  int64_t global_batch_ = 0;
  int64_t count_ = 0;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_DATA_TOKEN_SOURCE_H_

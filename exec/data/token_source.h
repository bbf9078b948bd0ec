// TokenSource: tokens as training samples.
//
// The tokens are cut into sequences of `sequence` without overlap; the target of a token is the one
// after it, so the last target of a sequence is the first token of the next one. Sample j of step t
// is sequence (t * global_batch + j) mod count (DEFINITIONS 8), which makes data a pure function of
// the step: a resumed run reads what an unbroken one would have read.
//
// Opening looks at the tokens themselves: at all of up to 16 Mi, of more at 256 blocks of 16 Ki,
// spread evenly, first and last included. So a vocabulary that is too small is found before the
// first step wherever that is cheap, and elsewhere when the token is loaded, and what a file of any
// size is can be told in constant time.
#ifndef TIDELINE_EXEC_DATA_TOKEN_SOURCE_H_
#define TIDELINE_EXEC_DATA_TOKEN_SOURCE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "exec/data/sample_source.h"
#include "exec/data/token_stream.h"

namespace tideline {

class TokenSource final : public SampleSource {
 public:
  // The bytes of `text`. Errors (exit 5) name `origin` when it is shorter than one sequence and its
  // last target.
  static StatusOr<TokenSource> Make(std::string_view text, std::string_view origin,
                                    int64_t sequence, int64_t global_batch);
  // What `--data` names (exec/data/data_name.h): files of any size, which are never held in memory,
  // or a pipe of at most 256 MiB; the empty text is the built-in one. Errors: exit 5, or 2 for a
  // format without a path.
  static StatusOr<TokenSource> Open(const std::string& data, int64_t sequence,
                                    int64_t global_batch);

  int64_t count() const { return count_; }
  // Where the tokens came from, and which they are: the SHA-256, in hexadecimal digits, of their
  // number and of those that opening looked at, whatever the format.
  const std::string& origin() const override { return origin_; }
  const std::string& hash() const override { return hash_; }

  // Whether a model of this vocabulary (0: of any) can take the tokens, as far as can be told
  // without loading them: bytes need 256 rows whatever the text, others the largest token that
  // opening saw. Error: exit 5.
  Status CheckVocabulary(int64_t vocabulary) const override;

  // Fills ids and targets, both [samples, sequence], with samples first .. of `step`. Errors
  // (exit 5): a token outside `vocabulary` (0: any), with its position; a file that was cut off
  // meanwhile. Threads: any number at once.
  // Precondition: both spans have a multiple of `sequence` elements, the same number.
  Status Load(int64_t step, int64_t first, int64_t vocabulary, std::span<int32_t> ids,
              std::span<int32_t> targets) const;
  Status Load(const HostTask& task, int64_t step, int64_t first, int64_t vocabulary,
              std::span<const std::span<std::byte>> operands) const override;

 private:
  TokenSource(TokenStream tokens, std::string_view origin, bool bytes);
  static StatusOr<TokenSource> Cut(TokenSource source, int64_t sequence, int64_t global_batch);
  Status LookAtTokens();
  Status CheckToken(int64_t token, int64_t position, int64_t vocabulary) const;

  TokenStream tokens_;
  std::string origin_;
  std::string hash_;
  bool bytes_;                    // a token is a byte of a text
  int64_t largest_ = 0;           // token that was seen
  int64_t largest_position_ = 0;  // where
  int64_t sequence_ = 0;
  int64_t global_batch_ = 0;
  int64_t count_ = 0;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_DATA_TOKEN_SOURCE_H_

#include "exec/data/token_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/sha256.h"
#include "exec/data/builtin_text.h"

namespace tideline {
namespace {

constexpr int64_t kByteVocabulary = 256;
constexpr int64_t kAnyVocabulary = int64_t{1} << 31;  // what an int32 holds
constexpr int64_t kBlockTokens = int64_t{1} << 14;
constexpr int64_t kWholeTokens = int64_t{1} << 24;
constexpr int64_t kSampledBlocks = 256;

// Where the blocks that opening looks at begin.
std::vector<int64_t> BlocksOf(int64_t count) {
  std::vector<int64_t> blocks;
  if (count <= kWholeTokens) {
    for (int64_t begin = 0; begin < count; begin += kBlockTokens) blocks.push_back(begin);
    return blocks;
  }
  const int64_t distance = (count - kBlockTokens) / (kSampledBlocks - 1);
  for (int64_t block = 0; block + 1 < kSampledBlocks; ++block) blocks.push_back(block * distance);
  blocks.push_back(count - kBlockTokens);
  return blocks;
}

}  // namespace

TokenSource::TokenSource(TokenStream tokens, std::string_view origin, bool bytes)
    : tokens_(std::move(tokens)), origin_(origin), bytes_(bytes) {}

StatusOr<TokenSource> TokenSource::Make(std::string_view text, std::string_view origin,
                                        int64_t sequence, int64_t global_batch) {
  ByteFile file = ByteFile::FromMemory(std::string(text), std::string(origin));
  TokenStream tokens(std::move(file), TokenType::kUint8, {{0, 0}},
                     static_cast<int64_t>(text.size()));
  return Cut(TokenSource(std::move(tokens), origin, true), sequence, global_batch);
}

StatusOr<TokenSource> TokenSource::Open(const std::string& data, int64_t sequence,
                                        int64_t global_batch) {
  if (data.empty()) return Make(BuiltinText(), "built-in text", sequence, global_batch);
  TL_ASSIGN_OR_RETURN(const DataName name, ParseDataName(data));
  TL_ASSIGN_OR_RETURN(TokenStream tokens, TokenStream::Open(name));
  const bool bytes = name.format == DataFormat::kBytes;
  return Cut(TokenSource(std::move(tokens), data, bytes), sequence, global_batch);
}

StatusOr<TokenSource> TokenSource::Cut(TokenSource source, int64_t sequence, int64_t global_batch) {
  TL_CHECK(sequence >= 1 && global_batch >= 1, "a plan has sequences and a batch");
  const int64_t size = source.tokens_.count();
  if (size < sequence + 1) {
    return InputError(absl::StrCat("data '", source.origin_, "' has ", size,
                                   source.bytes_ ? " bytes" : " tokens", ", but one sequence of ",
                                   sequence, " tokens and its last target need ", sequence + 1,
                                   "; give a longer file or plan a shorter --seq"));
  }
  source.sequence_ = sequence;
  source.global_batch_ = global_batch;
  source.count_ = (size - 1) / sequence;
  TL_RETURN_IF_ERROR(source.LookAtTokens());
  return source;
}

Status TokenSource::LookAtTokens() {
  Sha256 hash;
  hash.Update(absl::StrCat(tokens_.count(), " tokens\n"));
  std::vector<int64_t> block;
  std::vector<int32_t> hashed;
  for (const int64_t begin : BlocksOf(tokens_.count())) {
    block.resize(static_cast<size_t>(std::min(kBlockTokens, tokens_.count() - begin)));
    TL_RETURN_IF_ERROR(tokens_.Read(begin, block));
    hashed.clear();
    for (size_t i = 0; i < block.size(); ++i) {
      const int64_t position = begin + static_cast<int64_t>(i);
      TL_RETURN_IF_ERROR(CheckToken(block[i], position, kAnyVocabulary));
      hashed.push_back(static_cast<int32_t>(block[i]));
      if (block[i] <= largest_) continue;
      largest_ = block[i];
      largest_position_ = position;
    }
    hash.Update({reinterpret_cast<const char*>(hashed.data()), hashed.size() * sizeof(int32_t)});
  }
  hash_ = hash.HexDigest();
  return absl::OkStatus();
}

Status TokenSource::CheckToken(int64_t token, int64_t position, int64_t vocabulary) const {
  if (token >= 0 && token < vocabulary) return absl::OkStatus();
  const std::string where =
      absl::StrCat("data '", origin_, "': token ", token, " at position ", position);
  if (token < 0 || token >= kAnyVocabulary) {
    return InputError(absl::StrCat(where, " is no number of a token, which is 0 to ",
                                   kAnyVocabulary - 1,
                                   "; give the file in the format that it was written in"));
  }
  return InputError(absl::StrCat(where, " is outside the model's vocabulary of ", vocabulary,
                                 "; give data of the model's tokenizer, in the format that it was "
                                 "written in, or build the model with vocab=",
                                 token + 1, " or more"));
}

Status TokenSource::CheckVocabulary(int64_t vocabulary) const {
  if (vocabulary <= 0) return absl::OkStatus();
  if (!bytes_) return CheckToken(largest_, largest_position_, vocabulary);
  if (vocabulary >= kByteVocabulary) return absl::OkStatus();
  return InputError(absl::StrCat("data '", origin_, "': the model's vocabulary of ", vocabulary,
                                 " is too small: a token is a byte of text, so it needs at least ",
                                 kByteVocabulary, "; build the model with vocab=256 or more"));
}

Status TokenSource::Load(int64_t step, int64_t first, int64_t vocabulary, std::span<int32_t> ids,
                         std::span<int32_t> targets) const {
  TL_CHECK(ids.size() == targets.size() && ids.size() % sequence_ == 0, "whole samples");
  const int64_t bound = vocabulary > 0 ? std::min(vocabulary, kAnyVocabulary) : kAnyVocabulary;
  const int64_t samples = static_cast<int64_t>(ids.size()) / sequence_;
  std::vector<int64_t> tokens(static_cast<size_t>(sequence_ + 1));
  for (int64_t sample = 0; sample < samples; ++sample) {
    const int64_t begin = (step * global_batch_ + first + sample) % count_ * sequence_;
    TL_RETURN_IF_ERROR(tokens_.Read(begin, tokens));
    for (int64_t i = 0; i <= sequence_; ++i) {
      TL_RETURN_IF_ERROR(CheckToken(tokens[i], begin + i, bound));
      const auto token = static_cast<int32_t>(tokens[i]);
      if (i < sequence_) ids[sample * sequence_ + i] = token;
      if (i > 0) targets[sample * sequence_ + i - 1] = token;
    }
  }
  return absl::OkStatus();
}

Status TokenSource::Load(const HostTask& task, int64_t step, int64_t first, int64_t vocabulary,
                         std::span<const std::span<std::byte>> operands) const {
  TL_CHECK(task.kind == HostTaskKind::kLoadTokens && operands.size() == 2,
           "tokens are loaded from tokens");
  const size_t count = static_cast<size_t>(task.samples * task.sequence);
  return Load(step, first, vocabulary, {reinterpret_cast<int32_t*>(operands[0].data()), count},
              {reinterpret_cast<int32_t*>(operands[1].data()), count});
}

}  // namespace tideline

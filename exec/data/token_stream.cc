#include "exec/data/token_stream.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file.h"
#include "exec/data/megatron_index.h"

namespace tideline {
namespace {

template <typename Number>
void Decode(std::span<const char> bytes, std::span<int64_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    Number number;
    std::memcpy(&number, bytes.data() + i * sizeof number, sizeof number);
    tokens[i] = number;
  }
}

void DecodeAs(TokenType type, std::span<const char> bytes, std::span<int64_t> tokens) {
  switch (type) {
    case TokenType::kUint8:
      return Decode<uint8_t>(bytes, tokens);
    case TokenType::kInt8:
      return Decode<int8_t>(bytes, tokens);
    case TokenType::kInt16:
      return Decode<int16_t>(bytes, tokens);
    case TokenType::kInt32:
      return Decode<int32_t>(bytes, tokens);
    case TokenType::kInt64:
      return Decode<int64_t>(bytes, tokens);
    case TokenType::kUint16:
      return Decode<uint16_t>(bytes, tokens);
    case TokenType::kUint32:
      return Decode<uint32_t>(bytes, tokens);
  }
}

// A file on disk is read where it lies; a pipe can be read once only, and what the system makes up
// when it is read (/proc) has no size.
StatusOr<ByteFile> OpenBytes(const std::string& path) {
  struct stat information {};
  if (stat(path.c_str(), &information) == 0 && S_ISREG(information.st_mode) &&
      information.st_size > 0) {
    return ByteFile::Open(path);
  }
  TL_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, kPipeLimitBytes));
  return ByteFile::FromMemory(std::move(bytes), path);
}

StatusOr<TokenStream> OpenRaw(const std::string& path, TokenType type) {
  TL_ASSIGN_OR_RETURN(ByteFile file, ByteFile::Open(path));
  const int64_t width = BytesOf(type);
  if (file.size() % width != 0) {
    return InputError(absl::StrCat(path, ": its ", file.size(), " bytes are no whole number of ",
                                   width,
                                   "-byte tokens; it was cut off, or holds tokens of "
                                   "another width"));
  }
  const int64_t count = file.size() / width;
  return TokenStream(std::move(file), type, {{0, 0}}, count);
}

StatusOr<TokenStream> OpenMegatron(const DataName& name) {
  const std::vector<std::string> files = FilesOf(name);
  TL_ASSIGN_OR_RETURN(ByteFile data, ByteFile::Open(files[0]));
  TL_ASSIGN_OR_RETURN(const ByteFile index, ByteFile::Open(files[1]));
  TL_ASSIGN_OR_RETURN(MegatronIndex parsed, ReadMegatronIndex(index, data.name(), data.size()));
  return TokenStream(std::move(data), parsed.type, std::move(parsed.runs), parsed.tokens);
}

}  // namespace

int64_t BytesOf(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
    case TokenType::kInt8:
      return 1;
    case TokenType::kInt16:
    case TokenType::kUint16:
      return 2;
    case TokenType::kInt32:
    case TokenType::kUint32:
      return 4;
    case TokenType::kInt64:
      return 8;
  }
  return 1;
}

TokenStream::TokenStream(ByteFile file, TokenType type, std::vector<TokenRun> runs, int64_t count)
    : file_(std::move(file)), type_(type), runs_(std::move(runs)), count_(count) {
  TL_CHECK(count_ == 0 || (!runs_.empty() && runs_[0].first == 0), "tokens lie in runs");
}

StatusOr<TokenStream> TokenStream::Open(const DataName& name) {
  switch (name.format) {
    case DataFormat::kUint16:
      return OpenRaw(name.path, TokenType::kUint16);
    case DataFormat::kUint32:
      return OpenRaw(name.path, TokenType::kUint32);
    case DataFormat::kMegatron:
      return OpenMegatron(name);
    case DataFormat::kBytes:
      break;
  }
  TL_ASSIGN_OR_RETURN(ByteFile file, OpenBytes(name.path));
  const int64_t count = file.size();
  return TokenStream(std::move(file), TokenType::kUint8, {{0, 0}}, count);
}

Status TokenStream::Read(int64_t first, std::span<int64_t> tokens) const {
  TL_CHECK(first >= 0 && static_cast<int64_t>(tokens.size()) <= count_ - first, "tokens there are");
  if (tokens.empty()) return absl::OkStatus();
  auto next =
      std::upper_bound(runs_.begin(), runs_.end(), first,
                       [](int64_t token, const TokenRun& run) { return token < run.first; });
  const int64_t width = BytesOf(type_);
  std::vector<char> bytes(tokens.size() * static_cast<size_t>(width));
  while (!tokens.empty()) {
    const TokenRun& run = *(next - 1);
    const int64_t end = next == runs_.end() ? count_ : next->first;
    const size_t now = std::min(tokens.size(), static_cast<size_t>(end - first));
    const std::span<char> part(bytes.data(), now * static_cast<size_t>(width));
    TL_RETURN_IF_ERROR(file_.Read(run.offset + (first - run.first) * width, part));
    DecodeAs(type_, part, tokens.first(now));
    tokens = tokens.subspan(now);
    first += static_cast<int64_t>(now);
    if (next != runs_.end()) ++next;
  }
  return absl::OkStatus();
}

}  // namespace tideline

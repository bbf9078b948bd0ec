// TokenStream: tokens at any place of a long sequence of them that lies in a file.
//
// The tokens are numbers of one type, and the file's bytes are those of runs: from token `first` of
// a run on they follow each other from byte `offset` on, up to the next run. Bytes and raw token
// files are one run; so are Megatron datasets as their tools write them, whatever the number of
// sequences. A read of n tokens costs one pread for each run it touches.
// Numbers are little-endian, as the machines are. Threads: Read may be called from any number.
#ifndef TIDELINE_EXEC_DATA_TOKEN_STREAM_H_
#define TIDELINE_EXEC_DATA_TOKEN_STREAM_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/byte_file.h"
#include "base/status.h"
#include "exec/data/data_name.h"

namespace tideline {

enum class TokenType : uint8_t { kUint8, kInt8, kInt16, kInt32, kInt64, kUint16, kUint32 };

int64_t BytesOf(TokenType type);

struct TokenRun {
  int64_t first = 0;   // token
  int64_t offset = 0;  // byte of the file
  bool operator==(const TokenRun&) const = default;
};

class TokenStream {
 public:
  // Precondition: unless count is 0 the first run begins at token 0, the others ascend and begin
  // below `count`.
  TokenStream(ByteFile file, TokenType type, std::vector<TokenRun> runs, int64_t count);

  // Errors (exit 5) name file and field: unreadable files, a size that is no whole number of
  // tokens, an index that does not fit.
  static StatusOr<TokenStream> Open(const DataName& name);

  int64_t count() const { return count_; }

  // Fills `tokens` from token `first` on. Precondition: 0 <= first, first + |tokens| <= count().
  Status Read(int64_t first, std::span<int64_t> tokens) const;

 private:
  ByteFile file_;
  TokenType type_;
  std::vector<TokenRun> runs_;
  int64_t count_;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_DATA_TOKEN_STREAM_H_

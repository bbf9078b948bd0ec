// What the value of `--data` means: which files hold the tokens, and in which format.
//
//   PATH              the bytes of a file, each a token
//   bytes:PATH        the same, whatever the path looks like
//   u16:PATH u32:PATH unsigned little-endian numbers without a header, each a token
//   megatron:PREFIX   a Megatron-LM indexed dataset, PREFIX.bin with PREFIX.idx
//   PATH.bin PATH.idx the same, when both files are there
//
// A .bin file alone may hold bytes or numbers of any width, and trained on as the wrong ones it
// would give losses that look right; so it is refused until a format is said.
#ifndef TIDELINE_EXEC_DATA_DATA_NAME_H_
#define TIDELINE_EXEC_DATA_DATA_NAME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace tideline {

enum class DataFormat : uint8_t { kBytes, kUint16, kUint32, kMegatron };

struct DataName {
  DataFormat format = DataFormat::kBytes;
  std::string path;  // of kMegatron the prefix, without .bin and .idx
};

// Looks at which files exist, opens none. Errors: exit 2 for a format without a path, exit 5 for a
// .bin or .idx whose other half is missing and for an unknown format.
StatusOr<DataName> ParseDataName(const std::string& text);

// The files that are read.
std::vector<std::string> FilesOf(const DataName& name);

}  // namespace tideline

#endif  // TIDELINE_EXEC_DATA_DATA_NAME_H_

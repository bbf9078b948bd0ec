// The .idx file of a Megatron-LM indexed dataset: where the sequences of the .bin file lie.
//
// Format (Megatron-LM, megatron/core/datasets/indexed_dataset.py), little-endian: "MMIDIDX\0\0",
// uint64 version 1, uint8 type of a token, uint64 number of sequences n, uint64 number of document
// indices d, int32 lengths[n] in tokens, int64 pointers[n] in bytes, int64 document indices[d].
// Types: 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 8 uint16; 6 and 7 are floating-point numbers,
// which no token is.
//
// The tokens of the dataset are those of its sequences, one after the other; where a sequence
// begins and documents end is not needed for training on the whole stream. Sequences that follow
// each other in the .bin too are joined, so the index that stays in memory is one entry for each
// jump. O(n) time; the file is read in pieces and never held as a whole.
#ifndef TIDELINE_EXEC_DATA_MEGATRON_INDEX_H_
#define TIDELINE_EXEC_DATA_MEGATRON_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/byte_file.h"
#include "base/status.h"
#include "exec/data/token_stream.h"

namespace tideline {

struct MegatronIndex {
  TokenType type = TokenType::kUint8;
  int64_t sequences = 0;
  int64_t tokens = 0;
  std::vector<TokenRun> runs;
};

// `data_name` and `data_bytes` are the name and size of the .bin file. Errors (exit 5) name file,
// field and place: wrong magic, version or type, a size that does not fit the counts, lengths below
// zero, pointers outside the .bin or between its tokens, document indices that descend or pass the
// last sequence, bytes of the .bin that lie behind every sequence.
StatusOr<MegatronIndex> ReadMegatronIndex(const ByteFile& index, const std::string& data_name,
                                          int64_t data_bytes);

}  // namespace tideline

#endif  // TIDELINE_EXEC_DATA_MEGATRON_INDEX_H_

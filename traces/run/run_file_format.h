// The Run file's bytes; shared by writer and reader, of no interest to anyone else.
//
//   file    = FileHeader block* [trailer]
//   block   = BlockHeader payload         kinds below; each payload has its own checksum
//   trailer = offset of the index block (8 bytes) and kTrailerMagic
//
// The index block comes last and lists the blocks before it. A file whose writer was killed has no
// index: it is read block by block to the last whole one. Numbers are little-endian.
//
//   kNames     count names: length (4 bytes), bytes. Ids count up over the whole file.
//   kLanes     columns rank, lane, name id
//   kEvents    first start (8 bytes), columns in the order of EncodeEvents
//   kSamples   first time (8 bytes), columns in the order of EncodeSamples
//   kMetadata  one JSON document; the last one counts
//   kIndex     count IndexEntry records
#ifndef TIDELINE_TRACES_RUN_RUN_FILE_FORMAT_H_
#define TIDELINE_TRACES_RUN_RUN_FILE_FORMAT_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace tideline::run_file {

inline constexpr std::array<char, 8> kFileMagic = {'T', 'L', 'R', 'U', 'N', '\r', '\n', '\x1a'};
inline constexpr std::array<char, 8> kTrailerMagic = {'T', 'L', 'R', 'U', 'N', 'E', 'N', 'D'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kBlockMagic = 0x4b4c4254;  // "TBLK"
inline constexpr size_t kBlockRecords = 64 * 1024;   // most records in a block

enum class BlockKind : uint32_t {
  kNames = 1,
  kLanes = 2,
  kEvents = 3,
  kSamples = 4,
  kMetadata = 5,
  kIndex = 6,
};

struct FileHeader {
  std::array<char, 8> magic = kFileMagic;
  uint32_t version = kVersion;
  uint32_t reserved = 0;
};
static_assert(sizeof(FileHeader) == 16);

struct BlockHeader {
  uint32_t magic = kBlockMagic;
  uint32_t kind = 0;
  uint32_t count = 0;
  uint32_t payload_crc = 0;
  uint64_t payload_bytes = 0;
  uint32_t reserved = 0;
  uint32_t header_crc = 0;  // of the bytes before it
};
static_assert(sizeof(BlockHeader) == 32);

struct IndexEntry {
  uint64_t offset = 0;  // of the block's header in the file
  uint32_t kind = 0;
  uint32_t count = 0;
  int64_t first_ns = 0;  // smallest start (time) in the block; 0 in other kinds
  int64_t last_ns = 0;   // largest end (time)
};
static_assert(sizeof(IndexEntry) == 32);

struct Trailer {
  uint64_t index_offset = 0;
  std::array<char, 8> magic = kTrailerMagic;
};
static_assert(sizeof(Trailer) == 16);

}  // namespace tideline::run_file

#endif  // TIDELINE_TRACES_RUN_RUN_FILE_FORMAT_H_

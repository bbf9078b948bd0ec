// Shard: the file in which one rank leaves its part of a checkpoint.
//
// Magic, step, rank, bytes of the payload (8 bytes each, little-endian), the payload, SHA-256 of
// everything before. Written beside its final name, fsynced and renamed. Functions may be called
// from any number of threads or processes at once, one per file.
#ifndef TIDELINE_EXEC_MEMORY_SHARD_H_
#define TIDELINE_EXEC_MEMORY_SHARD_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/byte_file.h"
#include "base/status.h"
#include "exec/memory/manifest.h"

namespace tideline {

// Bytes [offset, offset + size) of a persistent buffer of the rank; called in order.
using ReadState = std::function<Status(uint32_t buffer, int64_t offset, std::span<char> bytes)>;

// Writes the pieces one after the other. Errors: those of `read`; exit 1 naming the path.
Status WriteShard(const std::string& path, int64_t step, int32_t rank,
                  const std::vector<StatePiece>& pieces, const ReadState& read);

// Bytes and digest of a shard that was just written, from its ends only. Errors (exit 5): it is not
// there, or does not say that it is this rank's of this step.
StatusOr<ShardRecord> RecordOfShard(const std::string& folder, int64_t step, int32_t rank);

// OK when the file is what the record says, to the last byte.
Status CheckShardFile(const std::string& folder, int64_t step, int32_t rank,
                      const ShardRecord& record);

}  // namespace tideline

#endif  // TIDELINE_EXEC_MEMORY_SHARD_H_

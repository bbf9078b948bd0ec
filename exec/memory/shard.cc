#include "exec/memory/shard.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/sha256.h"
#include "exec/wire/bytes.h"

namespace tideline {
namespace {

constexpr std::string_view kMagic = "TLSHARD1";
constexpr int64_t kChunkBytes = int64_t{1} << 20;

std::string HeaderOf(int64_t step, int32_t rank, int64_t payload) {
  ByteWriter writer;
  writer.Put<int64_t>(step);
  writer.Put<int64_t>(rank);
  writer.Put<int64_t>(payload);
  return absl::StrCat(std::string(kMagic), writer.bytes());
}

std::string Hexadecimal(std::string_view bytes) {
  return absl::BytesToHexString({bytes.data(), bytes.size()});
}

// Opens a shard and holds its first bytes against what they must be.
StatusOr<ByteFile> OpenShard(const std::string& folder, int64_t step, int32_t rank) {
  TL_ASSIGN_OR_RETURN(ByteFile file, ByteFile::Open(absl::StrCat(folder, "/", ShardName(rank))));
  std::string header(kShardHeaderBytes, '\0');
  TL_RETURN_IF_ERROR(file.Read(0, header));
  if (!header.starts_with(kMagic)) {
    return InputError(absl::StrCat(ShardName(rank), ": it does not begin as a shard does"));
  }
  int64_t stored[3];  // step, rank, bytes of the payload
  std::memcpy(stored, header.data() + kMagic.size(), sizeof stored);
  if (stored[0] != step || stored[1] != rank) {
    return InputError(absl::StrCat(ShardName(rank), ": it is the shard of rank ", stored[1],
                                   " of step ", stored[0], ", not of rank ", rank, " of step ",
                                   step));
  }
  if (stored[2] != file.size() - kShardHeaderBytes - kDigestBytes) {
    return InputError(absl::StrCat(ShardName(rank), ": it is cut off or too long"));
  }
  return file;
}

}  // namespace

Status WriteShard(const std::string& path, int64_t step, int32_t rank,
                  const std::vector<StatePiece>& pieces, const ReadState& read) {
  TL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  Sha256 hash;
  const auto append = [&](std::string_view bytes) {
    hash.Update(bytes);
    return file.Append(bytes);
  };
  int64_t payload = 0;
  for (const StatePiece& piece : pieces) payload += piece.bytes();
  TL_RETURN_IF_ERROR(append(HeaderOf(step, rank, payload)));
  std::string chunk(kChunkBytes, '\0');
  for (const StatePiece& piece : pieces) {
    for (int64_t done = 0; done < piece.bytes();) {
      const size_t now = static_cast<size_t>(std::min(piece.bytes() - done, kChunkBytes));
      TL_RETURN_IF_ERROR(read(piece.buffer, piece.offset + done, {chunk.data(), now}));
      TL_RETURN_IF_ERROR(append({chunk.data(), now}));
      done += static_cast<int64_t>(now);
    }
  }
  const auto digest = hash.Digest();
  TL_RETURN_IF_ERROR(file.Append({reinterpret_cast<const char*>(digest.data()), digest.size()}));
  return file.Commit();
}

StatusOr<ShardRecord> RecordOfShard(const std::string& folder, int64_t step, int32_t rank) {
  TL_ASSIGN_OR_RETURN(const ByteFile file, OpenShard(folder, step, rank));
  std::string digest(kDigestBytes, '\0');
  TL_RETURN_IF_ERROR(file.Read(file.size() - kDigestBytes, digest));
  return ShardRecord{ShardName(rank), file.size(), Hexadecimal(digest), {}};
}

Status CheckShardFile(const std::string& folder, int64_t step, int32_t rank,
                      const ShardRecord& record) {
  TL_ASSIGN_OR_RETURN(const ByteFile file, OpenShard(folder, step, rank));
  if (file.size() != record.bytes) {
    return InputError(absl::StrCat(record.file, ": it has ", file.size(), " bytes, not the ",
                                   record.bytes, " of the manifest"));
  }
  Sha256 hash;
  std::string chunk(kChunkBytes, '\0');
  const int64_t covered = file.size() - kDigestBytes;
  for (int64_t done = 0; done < covered;) {
    const size_t now = static_cast<size_t>(std::min(covered - done, kChunkBytes));
    TL_RETURN_IF_ERROR(file.Read(done, {chunk.data(), now}));
    hash.Update({chunk.data(), now});
    done += static_cast<int64_t>(now);
  }
  const std::string digest = hash.HexDigest();
  std::string stored(kDigestBytes, '\0');
  TL_RETURN_IF_ERROR(file.Read(covered, stored));
  if (digest == record.sha256 && digest == Hexadecimal(stored)) return absl::OkStatus();
  return InputError(absl::StrCat(record.file, ": its checksum is wrong"));
}

}  // namespace tideline

#include "exec/memory/restore.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/byte_file.h"
#include "exec/comm/element.h"

namespace tideline {
namespace {

constexpr int64_t kStagingBytes = int64_t{1} << 20;

// Joins pieces that lie one after the other in a buffer, so that few large writes are made.
class StagedWriter {
 public:
  explicit StagedWriter(const WriteState& write)
      : write_(write), staging_(static_cast<size_t>(kStagingBytes), '\0') {}

  // Room for up to `bytes` bytes at an offset of a buffer: at least one element.
  StatusOr<std::span<char>> Reserve(uint32_t buffer, int64_t offset, int64_t bytes) {
    const bool joins = buffer == buffer_ && offset == begin_ + used_;
    if (!joins || used_ == kStagingBytes) {
      TL_RETURN_IF_ERROR(Flush());
      buffer_ = buffer;
      begin_ = offset;
    }
    const int64_t room = std::min(bytes, kStagingBytes - used_);
    const std::span<char> reserved(staging_.data() + used_, static_cast<size_t>(room));
    used_ += room;
    return reserved;
  }

  Status Flush() {
    if (used_ == 0) return absl::OkStatus();
    const std::string_view bytes(staging_.data(), static_cast<size_t>(used_));
    used_ = 0;
    return write_(buffer_, begin_, bytes);
  }

 private:
  const WriteState& write_;
  std::string staging_;
  uint32_t buffer_ = 0;
  int64_t begin_ = 0;
  int64_t used_ = 0;
};

// The shards that a rank reads from, opened when they are first needed.
class OpenFiles {
 public:
  explicit OpenFiles(const std::vector<std::string>& paths) : paths_(paths) {}

  StatusOr<const ByteFile*> Get(int32_t shard) {
    const auto found = files_.find(shard);
    if (found != files_.end()) return &found->second;
    TL_ASSIGN_OR_RETURN(ByteFile file, ByteFile::Open(paths_[static_cast<size_t>(shard)]));
    return &files_.emplace(shard, std::move(file)).first->second;
  }

 private:
  const std::vector<std::string>& paths_;
  std::map<int32_t, ByteFile> files_;
};

Status CopySlice(const StateSlice& slice, const ByteFile& file, StagedWriter& writer,
                 std::string& wide) {
  const int64_t from_size = SizeOf(slice.source_dtype);
  const int64_t to_size = SizeOf(slice.destination_dtype);
  for (int64_t done = 0; done < slice.elements;) {
    TL_ASSIGN_OR_RETURN(
        const std::span<char> room,
        writer.Reserve(slice.destination_buffer, slice.destination_offset + done * to_size,
                       (slice.elements - done) * to_size));
    const int64_t count = static_cast<int64_t>(room.size()) / to_size;
    const int64_t source = slice.source_offset + done * from_size;
    if (slice.source_dtype == slice.destination_dtype) {
      TL_RETURN_IF_ERROR(file.Read(source, room));
    } else {
      wide.resize(static_cast<size_t>(count * from_size));
      TL_RETURN_IF_ERROR(file.Read(source, wide));
      for (int64_t i = 0; i < count; ++i) {
        StoreElement(room.data(), i, slice.destination_dtype,
                     LoadElement(wide.data(), i, slice.source_dtype));
      }
    }
    done += count;
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<StateRestorer> StateRestorer::Make(const CheckpointFolder::Found& found,
                                            const ProgramState& state) {
  StateRestorer restorer;
  restorer.path_ = found.path;
  restorer.tensors_ = state.tensors;
  for (const ShardRecord& shard : found.manifest.shards) {
    restorer.files_.push_back(absl::StrCat(found.path, "/", shard.file));
  }
  const std::string where = absl::StrCat("checkpoint '", found.path, "'");
  std::set<std::pair<std::string, StateKind>> known;
  for (const StateTensor& tensor : state.tensors) known.insert({tensor.name, tensor.kind});
  for (const StateTensor& tensor : found.manifest.tensors) {
    if (known.contains({tensor.name, tensor.kind})) continue;
    return InputError(absl::StrCat(where, ": this plan has no place for ", Describe(tensor)));
  }
  const ProgramState stored = StateInShards(found.manifest);
  SliceFinder finder(stored);
  for (size_t rank = 0; rank < state.ranks.size(); ++rank) {
    StatusOr<std::vector<StateSlice>> slices = finder.Fill(state, static_cast<int32_t>(rank));
    if (!slices.ok()) return Annotate(slices.status(), where);
    restorer.slices_.push_back(*std::move(slices));
    restorer.zeros_.push_back(state.ranks[rank].zeros);
  }
  return restorer;
}

Status StateRestorer::Restore(int32_t rank, const WriteState& write) const {
  StagedWriter writer(write);
  for (const ZeroRange& zeros : zeros_[static_cast<size_t>(rank)]) {
    for (int64_t at = zeros.begin; at < zeros.end;) {
      TL_ASSIGN_OR_RETURN(const std::span<char> room,
                          writer.Reserve(zeros.buffer, at, zeros.end - at));
      std::fill(room.begin(), room.end(), '\0');
      at += static_cast<int64_t>(room.size());
    }
  }
  OpenFiles files(files_);
  std::string wide;
  for (const StateSlice& slice : slices_[static_cast<size_t>(rank)]) {
    TL_ASSIGN_OR_RETURN(const ByteFile* file, files.Get(slice.source_rank));
    const Status copied = CopySlice(slice, *file, writer, wide);
    if (!copied.ok()) {
      return Annotate(copied,
                      absl::StrCat("checkpoint '", path_, "', ", Describe(tensors_[slice.tensor])));
    }
  }
  return writer.Flush();
}

}  // namespace tideline

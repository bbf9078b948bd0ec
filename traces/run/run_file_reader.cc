#include "traces/run/run_file_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "traces/run/packed_columns.h"
#include "traces/run/record_codec.h"
#include "traces/run/run_file_format.h"

namespace tideline {
namespace {

using run_file::BlockHeader;
using run_file::BlockKind;
using run_file::IndexEntry;

// The file's bytes: a mapping, or a string for bytes that are in memory already.
class FileBytes {
 public:
  FileBytes() = default;
  explicit FileBytes(std::string bytes) : owned_(std::move(bytes)) {}
  FileBytes(void* mapping, size_t size) : mapping_(mapping), size_(size) {}
  FileBytes(FileBytes&& other) noexcept
      : owned_(std::move(other.owned_)),
        mapping_(std::exchange(other.mapping_, nullptr)),
        size_(other.size_) {}
  FileBytes& operator=(FileBytes&&) = delete;
  ~FileBytes() {
    if (mapping_ != nullptr) munmap(mapping_, size_);
  }
  std::string_view view() const {
    return mapping_ == nullptr ? std::string_view(owned_)
                               : std::string_view(static_cast<const char*>(mapping_), size_);
  }

 private:
  std::string owned_;
  void* mapping_ = nullptr;
  size_t size_ = 0;
};

StatusOr<FileBytes> MapFile(const std::string& path) {
  const auto error = [&] {
    return InputError(absl::StrCat("run file ", path, ": cannot be read: ", std::strerror(errno)));
  };
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return error();
  struct stat status {};
  if (fstat(file, &status) != 0) {
    const Status result = error();
    close(file);
    return result;
  }
  if (!S_ISREG(status.st_mode) || status.st_size == 0) {
    close(file);
    return InputError(absl::StrCat("run file ", path, ": is empty or not a regular file"));
  }
  const auto size = static_cast<size_t>(status.st_size);
  void* mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  const Status result = mapping == MAP_FAILED ? error() : absl::OkStatus();
  close(file);
  TL_RETURN_IF_ERROR(result);
  return FileBytes(mapping, size);
}

template <class Value>
Value Load(std::string_view bytes, size_t offset) {
  Value value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

class Reader : public RunFileReader {
 public:
  Reader(FileBytes bytes, std::string name) : bytes_(std::move(bytes)), name_(std::move(name)) {}

  Status Load() {
    const std::string_view bytes = bytes_.view();
    if (bytes.size() < sizeof(run_file::FileHeader)) {
      return Damaged(0, "is too short to be a Run file");
    }
    const auto header = tideline::Load<run_file::FileHeader>(bytes, 0);
    if (header.magic != run_file::kFileMagic) {
      return Damaged(0, "does not begin as a Run file does; was it written by tideline?");
    }
    if (header.version != run_file::kVersion) {
      return Damaged(8, absl::StrCat("has version ", header.version, ", this program reads ",
                                     run_file::kVersion));
    }
    if (const std::optional<uint64_t> index = IndexOffset()) {
      complete_ = true;
      TL_RETURN_IF_ERROR(LoadIndex(*index));
    } else {
      TL_RETURN_IF_ERROR(ScanBlocks());
    }
    return LoadTables();
  }

  bool complete() const override { return complete_; }
  const RunMetadata& metadata() const override { return metadata_; }
  const std::vector<std::string>& names() const override { return names_; }
  const std::vector<RunLane>& lanes() const override { return lanes_; }
  uint64_t event_count() const override { return event_count_; }
  uint64_t sample_count() const override { return sample_count_; }

  std::vector<EventBlock> event_blocks() const override {
    std::vector<EventBlock> blocks;
    for (const IndexEntry& entry : events_) {
      blocks.push_back({entry.count, entry.first_ns, entry.last_ns});
    }
    return blocks;
  }

  StatusOr<std::vector<RunEvent>> ReadEvents(size_t block) const override {
    if (block >= events_.size()) {
      return InputError(absl::StrCat("run file ", name_, ": has no event block ", block));
    }
    const IndexEntry& entry = events_[block];
    TL_ASSIGN_OR_RETURN(const std::string_view payload, Payload(entry));
    auto events = DecodeEvents(payload, entry.count, names_.size());
    if (!events.ok()) return Damaged(entry.offset, std::string(events.status().message()));
    return events;
  }

  Status VisitEvents(
      const std::function<Status(std::span<const RunEvent>)>& visitor) const override {
    for (size_t block = 0; block < events_.size(); ++block) {
      TL_ASSIGN_OR_RETURN(const std::vector<RunEvent> events, ReadEvents(block));
      TL_RETURN_IF_ERROR(visitor(events));
    }
    return absl::OkStatus();
  }

  Status VisitSamples(
      const std::function<Status(std::span<const MemorySample>)>& visitor) const override {
    for (const IndexEntry& entry : samples_) {
      TL_ASSIGN_OR_RETURN(const std::string_view payload, Payload(entry));
      const auto samples = DecodeSamples(payload, entry.count);
      if (!samples.ok()) return Damaged(entry.offset, std::string(samples.status().message()));
      TL_RETURN_IF_ERROR(visitor(*samples));
    }
    return absl::OkStatus();
  }

 private:
  Status Damaged(uint64_t offset, std::string_view what) const {
    return InputError(
        absl::StrCat("run file ", name_, ": at byte ", offset, ": ", std::string(what)));
  }

  std::optional<uint64_t> IndexOffset() const {
    const std::string_view bytes = bytes_.view();
    if (bytes.size() < sizeof(run_file::FileHeader) + sizeof(run_file::Trailer)) return {};
    const auto trailer =
        tideline::Load<run_file::Trailer>(bytes, bytes.size() - sizeof(run_file::Trailer));
    if (trailer.magic != run_file::kTrailerMagic) return {};
    return trailer.index_offset;
  }

  // Bytes that blocks may occupy, i.e. without the trailer.
  uint64_t End() const {
    return bytes_.view().size() - (complete_ ? sizeof(run_file::Trailer) : 0);
  }

  // The header at `offset`, whole and with its payload inside the file.
  StatusOr<BlockHeader> Header(uint64_t offset) const {
    const uint64_t end = End();
    if (offset > end || end - offset < sizeof(BlockHeader)) {
      return Damaged(offset, "a block begins beyond the end of the file");
    }
    const auto header = tideline::Load<BlockHeader>(bytes_.view(), offset);
    const std::string_view checked =
        bytes_.view().substr(offset, offsetof(BlockHeader, header_crc));
    if (header.magic != run_file::kBlockMagic || header.header_crc != Crc32c(checked)) {
      return Damaged(offset, "the block header is damaged");
    }
    if (header.payload_bytes > end - offset - sizeof(BlockHeader)) {
      return Damaged(offset, "the block is longer than the file");
    }
    if (header.count > run_file::kBlockRecords &&
        header.kind != static_cast<uint32_t>(BlockKind::kIndex)) {
      return Damaged(offset, absl::StrCat("the block claims ", header.count, " records, more than ",
                                          run_file::kBlockRecords));
    }
    return header;
  }

  // The checked payload of a block that the index or the scan named.
  StatusOr<std::string_view> Payload(const IndexEntry& entry) const {
    TL_ASSIGN_OR_RETURN(const BlockHeader header, Header(entry.offset));
    if (header.kind != entry.kind || header.count != entry.count) {
      return Damaged(entry.offset, "the block is not the one the index speaks of");
    }
    const std::string_view payload =
        bytes_.view().substr(entry.offset + sizeof(BlockHeader), header.payload_bytes);
    if (Crc32c(payload) != header.payload_crc) {
      return Damaged(entry.offset, "the block's checksum does not match its bytes");
    }
    return payload;
  }

  Status LoadIndex(uint64_t offset) {
    TL_ASSIGN_OR_RETURN(const BlockHeader header, Header(offset));
    if (header.kind != static_cast<uint32_t>(BlockKind::kIndex)) {
      return Damaged(offset, "the trailer points at a block that is not the index");
    }
    TL_ASSIGN_OR_RETURN(const std::string_view payload,
                        Payload({offset, header.kind, header.count, 0, 0}));
    if (payload.size() != uint64_t{header.count} * sizeof(IndexEntry)) {
      return Damaged(offset, absl::StrCat("the index claims ", header.count, " blocks in ",
                                          payload.size(), " bytes"));
    }
    for (uint32_t i = 0; i < header.count; ++i) {
      TL_RETURN_IF_ERROR(Sort(tideline::Load<IndexEntry>(payload, i * sizeof(IndexEntry))));
    }
    return absl::OkStatus();
  }

  Status ScanBlocks() {
    uint64_t offset = sizeof(run_file::FileHeader);
    const uint64_t end = End();
    while (end - offset >= sizeof(BlockHeader)) {
      const auto header = Header(offset);
      if (!header.ok()) {
        // The block that was being written when the writer died reaches beyond the end.
        const auto raw = tideline::Load<BlockHeader>(bytes_.view(), offset);
        const std::string_view checked =
            bytes_.view().substr(offset, offsetof(BlockHeader, header_crc));
        if (raw.magic == run_file::kBlockMagic && raw.header_crc == Crc32c(checked) &&
            raw.payload_bytes > end - offset - sizeof(BlockHeader)) {
          return absl::OkStatus();
        }
        return header.status();
      }
      const IndexEntry entry{offset, header->kind, header->count, INT64_MIN, INT64_MAX};
      TL_RETURN_IF_ERROR(Payload(entry).status());
      TL_RETURN_IF_ERROR(Sort(entry));
      offset += sizeof(BlockHeader) + header->payload_bytes;
    }
    return absl::OkStatus();
  }

  Status Sort(const IndexEntry& entry) {
    switch (static_cast<BlockKind>(entry.kind)) {
      case BlockKind::kEvents:
        events_.push_back(entry);
        event_count_ += entry.count;
        return absl::OkStatus();
      case BlockKind::kSamples:
        samples_.push_back(entry);
        sample_count_ += entry.count;
        return absl::OkStatus();
      case BlockKind::kNames:
      case BlockKind::kLanes:
      case BlockKind::kMetadata:
        tables_.push_back(entry);
        return absl::OkStatus();
      case BlockKind::kIndex:
        return absl::OkStatus();
    }
    return Damaged(entry.offset, absl::StrCat("unknown kind of block ", entry.kind));
  }

  Status LoadTables() {
    for (const IndexEntry& entry : tables_) {
      TL_ASSIGN_OR_RETURN(const std::string_view payload, Payload(entry));
      if (entry.kind == static_cast<uint32_t>(BlockKind::kNames)) {
        TL_RETURN_IF_ERROR(LoadNames(entry, payload));
      } else if (entry.kind == static_cast<uint32_t>(BlockKind::kLanes)) {
        TL_RETURN_IF_ERROR(LoadLanes(entry, payload));
      } else {
        auto metadata = ParseRunMetadata(payload);
        if (!metadata.ok()) return Damaged(entry.offset, std::string(metadata.status().message()));
        metadata_ = *std::move(metadata);
      }
    }
    return absl::OkStatus();
  }

  Status LoadNames(const IndexEntry& entry, std::string_view payload) {
    for (uint32_t i = 0; i < entry.count; ++i) {
      if (payload.size() < 4) return Damaged(entry.offset, "the table of names ends early");
      const auto length = tideline::Load<uint32_t>(payload, 0);
      if (payload.size() - 4 < length) {
        return Damaged(entry.offset, absl::StrCat("name ", i, " claims ", length, " bytes"));
      }
      names_.emplace_back(payload.substr(4, length));
      payload.remove_prefix(4 + size_t{length});
    }
    if (!payload.empty()) return Damaged(entry.offset, "bytes are left over after the names");
    return absl::OkStatus();
  }

  Status LoadLanes(const IndexEntry& entry, std::string_view payload) {
    ColumnReader columns(payload);
    std::vector<uint64_t> rank, lane, name;
    for (std::vector<uint64_t>* column : {&rank, &lane, &name}) {
      if (const Status status = columns.Read(entry.count, *column); !status.ok()) {
        return Damaged(entry.offset, std::string(status.message()));
      }
    }
    for (uint32_t i = 0; i < entry.count; ++i) {
      if (rank[i] > INT32_MAX || lane[i] > UINT16_MAX || name[i] >= names_.size()) {
        return Damaged(entry.offset, absl::StrCat("lane ", i, " has a rank, number or name that ",
                                                  "does not exist"));
      }
      lanes_.push_back({static_cast<int32_t>(rank[i]), static_cast<uint16_t>(lane[i]),
                        static_cast<uint32_t>(name[i])});
    }
    return absl::OkStatus();
  }

  FileBytes bytes_;
  std::string name_;
  bool complete_ = false;
  std::vector<IndexEntry> events_, samples_, tables_;
  uint64_t event_count_ = 0;
  uint64_t sample_count_ = 0;
  RunMetadata metadata_;
  std::vector<std::string> names_;
  std::vector<RunLane> lanes_;
};

StatusOr<std::unique_ptr<RunFileReader>> Read(FileBytes bytes, std::string name) {
  auto reader = std::make_unique<Reader>(std::move(bytes), std::move(name));
  TL_RETURN_IF_ERROR(reader->Load());
  return std::unique_ptr<RunFileReader>(std::move(reader));
}

}  // namespace

StatusOr<std::unique_ptr<RunFileReader>> RunFileReader::Open(const std::string& path) {
  TL_ASSIGN_OR_RETURN(FileBytes bytes, MapFile(path));
  return Read(std::move(bytes), path);
}

StatusOr<std::unique_ptr<RunFileReader>> RunFileReader::FromBytes(std::string bytes,
                                                                  std::string name) {
  return Read(FileBytes(std::move(bytes)), std::move(name));
}

}  // namespace tideline

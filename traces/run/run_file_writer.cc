#include "traces/run/run_file_writer.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "traces/run/packed_columns.h"
#include "traces/run/record_codec.h"
#include "traces/run/run_file_format.h"

namespace tideline {
namespace {

using run_file::BlockHeader;
using run_file::BlockKind;
using run_file::IndexEntry;

template <class Value>
std::string_view BytesOf(const Value& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

class Writer : public RunFileWriter {
 public:
  explicit Writer(AtomicFile file) : file_(std::move(file)) {
    events_.reserve(run_file::kBlockRecords);
    Put(BytesOf(run_file::FileHeader{}));
  }

  uint32_t Intern(std::string_view name) override {
    const auto [found, added] =
        ids_.try_emplace(std::string(name), static_cast<uint32_t>(ids_.size()));
    if (added) {
      const auto length = static_cast<uint32_t>(name.size());
      names_.append(BytesOf(length));
      names_.append(name);
      if (++pending_names_ == run_file::kBlockRecords) FlushNames();
    }
    return found->second;
  }

  void DeclareLane(int32_t rank, uint16_t lane, std::string_view name) override {
    lanes_.push_back({static_cast<uint64_t>(rank), lane, Intern(name)});
    if (lanes_.size() == run_file::kBlockRecords) FlushLanes();
  }

  void Add(const RunEvent& event) override {
    events_.push_back(event);
    if (events_.size() == run_file::kBlockRecords) FlushEvents();
  }

  void Add(const MemorySample& sample) override {
    samples_.push_back(sample);
    if (samples_.size() == run_file::kBlockRecords) FlushSamples();
  }

  void SetMetadata(const RunMetadata& metadata) override {
    WriteBlock(BlockKind::kMetadata, 1, ToJson(metadata));
  }

  Status Finish() override {
    TL_CHECK(!finished_, "Finish is called once");
    finished_ = true;
    FlushNames();
    FlushLanes();
    FlushEvents();
    FlushSamples();
    run_file::Trailer trailer;
    trailer.index_offset = offset_;
    std::string index;
    for (const IndexEntry& entry : index_) index.append(BytesOf(entry));
    WriteBlock(BlockKind::kIndex, static_cast<uint32_t>(index_.size()), index);
    Put(BytesOf(trailer));
    TL_RETURN_IF_ERROR(status_);
    return file_.Commit();
  }

 private:
  struct LaneRecord {
    uint64_t rank, lane, name;
  };

  void Put(std::string_view bytes) {
    offset_ += bytes.size();
    if (status_.ok()) status_ = file_.Append(bytes);
  }

  void WriteBlock(BlockKind kind, uint32_t count, std::string_view payload, int64_t first_ns = 0,
                  int64_t last_ns = 0) {
    BlockHeader header;
    header.kind = static_cast<uint32_t>(kind);
    header.count = count;
    header.payload_bytes = payload.size();
    header.payload_crc = Crc32c(payload);
    header.header_crc = Crc32c(BytesOf(header).substr(0, offsetof(BlockHeader, header_crc)));
    index_.push_back({offset_, header.kind, count, first_ns, last_ns});
    Put(BytesOf(header));
    Put(payload);
  }

  void FlushNames() {
    if (pending_names_ == 0) return;
    WriteBlock(BlockKind::kNames, pending_names_, names_);
    names_.clear();
    pending_names_ = 0;
  }

  void FlushLanes() {
    if (lanes_.empty()) return;
    FlushNames();
    std::string payload;
    std::vector<uint64_t> column(lanes_.size());
    for (uint64_t LaneRecord::*field : {&LaneRecord::rank, &LaneRecord::lane, &LaneRecord::name}) {
      for (size_t i = 0; i < lanes_.size(); ++i) column[i] = lanes_[i].*field;
      AppendColumn(column, payload);
    }
    WriteBlock(BlockKind::kLanes, static_cast<uint32_t>(lanes_.size()), payload);
    lanes_.clear();
  }

  void FlushEvents() {
    if (events_.empty()) return;
    FlushNames();
    FlushLanes();
    int64_t first = events_[0].start_ns;
    int64_t last = events_[0].end_ns;
    for (const RunEvent& event : events_) {
      first = std::min(first, event.start_ns);
      last = std::max(last, event.end_ns);
    }
    WriteBlock(BlockKind::kEvents, static_cast<uint32_t>(events_.size()), EncodeEvents(events_),
               first, last);
    events_.clear();
  }

  void FlushSamples() {
    if (samples_.empty()) return;
    int64_t first = samples_[0].time_ns;
    int64_t last = first;
    for (const MemorySample& sample : samples_) {
      first = std::min(first, sample.time_ns);
      last = std::max(last, sample.time_ns);
    }
    WriteBlock(BlockKind::kSamples, static_cast<uint32_t>(samples_.size()), EncodeSamples(samples_),
               first, last);
    samples_.clear();
  }

  AtomicFile file_;
  bool finished_ = false;
  Status status_;
  uint64_t offset_ = 0;
  std::vector<IndexEntry> index_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::string names_;
  uint32_t pending_names_ = 0;
  std::vector<LaneRecord> lanes_;
  std::vector<RunEvent> events_;
  std::vector<MemorySample> samples_;
};

}  // namespace

StatusOr<std::unique_ptr<RunFileWriter>> RunFileWriter::Create(const std::string& path) {
  StatusOr<AtomicFile> file = AtomicFile::Create(path);
  if (!file.ok()) return Annotate(file.status(), "run file");
  return std::unique_ptr<RunFileWriter>(std::make_unique<Writer>(*std::move(file)));
}

}  // namespace tideline

#include "traces/run/record_codec.h"

#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "traces/run/packed_columns.h"

namespace tideline {
namespace {

// Differences wrap, so that any two times can stand next to each other.
uint64_t Difference(int64_t value, int64_t before) {
  return ZigZag(static_cast<int64_t>(static_cast<uint64_t>(value) - static_cast<uint64_t>(before)));
}
int64_t Continue(int64_t before, uint64_t difference) {
  return static_cast<int64_t>(static_cast<uint64_t>(before) +
                              static_cast<uint64_t>(UnZigZag(difference)));
}

template <class Record, class Field>
void AppendField(std::span<const Record> records, const Field& field,
                 std::vector<uint64_t>& scratch, std::string& out) {
  scratch.resize(records.size());
  for (size_t i = 0; i < records.size(); ++i) scratch[i] = field(records[i]);
  AppendColumn(scratch, out);
}

template <class Record, class Time>
void AppendTimes(std::span<const Record> records, const Time& time, std::vector<uint64_t>& scratch,
                 std::string& out) {
  int64_t before = records.empty() ? 0 : time(records[0]);
  out.append(reinterpret_cast<const char*>(&before), sizeof(before));
  scratch.resize(records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    scratch[i] = Difference(time(records[i]), before);
    before = time(records[i]);
  }
  AppendColumn(scratch, out);
}

// Reads one column after the other into a field of every record.
template <class Record>
class FieldReader {
 public:
  FieldReader(std::string_view payload, size_t count)
      : first_bytes_(payload.substr(0, 8)), columns_(payload.substr(first_bytes_.size())) {
    records_.reserve(count);  // count is at most kBlockRecords, checked by the caller
    records_.resize(count);
  }

  template <class Time>
  Status ReadTimes(const Time& time) {
    if (first_bytes_.size() < 8) return InputError("block ends before its first time");
    int64_t before = 0;
    std::memcpy(&before, first_bytes_.data(), 8);
    TL_RETURN_IF_ERROR(columns_.Read(records_.size(), values_));
    for (size_t i = 0; i < records_.size(); ++i) {
      before = Continue(before, values_[i]);
      time(records_[i]) = before;
    }
    return absl::OkStatus();
  }

  // An unsigned field, at most `limit`.
  template <class Field>
  Status ReadUnsigned(const char* name, uint64_t limit, const Field& field) {
    TL_RETURN_IF_ERROR(columns_.Read(records_.size(), values_));
    for (size_t i = 0; i < records_.size(); ++i) {
      if (values_[i] > limit) {
        return InputError(absl::StrCat("record ", i, " of the block: ", name, " is ", values_[i],
                                       ", above ", limit));
      }
      using Value = std::remove_reference_t<decltype(field(records_[i]))>;
      field(records_[i]) = static_cast<Value>(values_[i]);
    }
    return absl::OkStatus();
  }

  // A 32-bit signed field, not below -1.
  template <class Field>
  Status ReadIndex(const char* name, const Field& field) {
    TL_RETURN_IF_ERROR(columns_.Read(records_.size(), values_));
    for (size_t i = 0; i < records_.size(); ++i) {
      const int64_t value = UnZigZag(values_[i]);
      if (value < -1 || value > std::numeric_limits<int32_t>::max()) {
        return InputError(absl::StrCat("record ", i, " of the block: ", name, " is ", value,
                                       ", outside -1 to 2^31 - 1"));
      }
      field(records_[i]) = static_cast<int32_t>(value);
    }
    return absl::OkStatus();
  }

  StatusOr<std::vector<Record>> Finish() {
    if (!columns_.at_end()) return InputError("bytes are left over after the block's last column");
    return std::move(records_);
  }

  std::vector<Record>& records() { return records_; }

 private:
  std::string_view first_bytes_;
  ColumnReader columns_;
  std::vector<Record> records_;
  std::vector<uint64_t> values_;
};

constexpr uint64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr uint64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

}  // namespace

std::string EncodeEvents(std::span<const RunEvent> events) {
  std::string out;
  std::vector<uint64_t> scratch;
  AppendTimes(
      events, [](const RunEvent& event) { return event.start_ns; }, scratch, out);
  const auto append = [&](const auto& field) { AppendField(events, field, scratch, out); };
  append([](const RunEvent& event) {
    return static_cast<uint64_t>(event.end_ns) - static_cast<uint64_t>(event.start_ns);
  });
  append([](const RunEvent& event) { return static_cast<uint64_t>(event.rank); });
  append([](const RunEvent& event) { return ZigZag(event.step); });
  append([](const RunEvent& event) { return uint64_t{event.instruction}; });
  append([](const RunEvent& event) { return uint64_t{event.lane}; });
  append([](const RunEvent& event) { return uint64_t{event.kind}; });
  append([](const RunEvent& event) { return uint64_t{event.phase}; });
  append([](const RunEvent& event) { return uint64_t{event.name}; });
  append([](const RunEvent& event) { return ZigZag(event.layer); });
  append([](const RunEvent& event) { return ZigZag(event.micro_batch); });
  append([](const RunEvent& event) { return static_cast<uint64_t>(event.bytes); });
  return out;
}

StatusOr<std::vector<RunEvent>> DecodeEvents(std::string_view payload, size_t count, size_t names) {
  FieldReader<RunEvent> in(payload, count);
  TL_RETURN_IF_ERROR(in.ReadTimes([](RunEvent& event) -> int64_t& { return event.start_ns; }));
  TL_RETURN_IF_ERROR(in.ReadUnsigned("duration", kMaxInt64,
                                     [](RunEvent& event) -> int64_t& { return event.end_ns; }));
  TL_RETURN_IF_ERROR(
      in.ReadUnsigned("rank", kMaxInt32, [](RunEvent& event) -> int32_t& { return event.rank; }));
  TL_RETURN_IF_ERROR(in.ReadIndex("step", [](RunEvent& event) -> int32_t& { return event.step; }));
  TL_RETURN_IF_ERROR(
      in.ReadUnsigned("instruction", std::numeric_limits<uint32_t>::max(),
                      [](RunEvent& event) -> uint32_t& { return event.instruction; }));
  TL_RETURN_IF_ERROR(in.ReadUnsigned("lane", std::numeric_limits<uint16_t>::max(),
                                     [](RunEvent& event) -> uint16_t& { return event.lane; }));
  TL_RETURN_IF_ERROR(in.ReadUnsigned("kind", std::numeric_limits<uint8_t>::max(),
                                     [](RunEvent& event) -> uint8_t& { return event.kind; }));
  TL_RETURN_IF_ERROR(in.ReadUnsigned("phase", std::numeric_limits<uint8_t>::max(),
                                     [](RunEvent& event) -> uint8_t& { return event.phase; }));
  if (names == 0 && count > 0) return InputError("events, but no names before them");
  TL_RETURN_IF_ERROR(in.ReadUnsigned("name", names == 0 ? 0 : names - 1,
                                     [](RunEvent& event) -> uint32_t& { return event.name; }));
  TL_RETURN_IF_ERROR(
      in.ReadIndex("layer", [](RunEvent& event) -> int32_t& { return event.layer; }));
  TL_RETURN_IF_ERROR(
      in.ReadIndex("micro_batch", [](RunEvent& event) -> int32_t& { return event.micro_batch; }));
  TL_RETURN_IF_ERROR(
      in.ReadUnsigned("bytes", kMaxInt64, [](RunEvent& event) -> int64_t& { return event.bytes; }));
  for (RunEvent& event : in.records()) {
    // end_ns holds the duration so far.
    if (event.start_ns > 0 && event.end_ns > static_cast<int64_t>(kMaxInt64) - event.start_ns) {
      return InputError("an event ends after the last time there is");
    }
    event.end_ns += event.start_ns;
  }
  return in.Finish();
}

std::string EncodeSamples(std::span<const MemorySample> samples) {
  std::string out;
  std::vector<uint64_t> scratch;
  AppendTimes(
      samples, [](const MemorySample& sample) { return sample.time_ns; }, scratch, out);
  const auto append = [&](const auto& field) { AppendField(samples, field, scratch, out); };
  append([](const MemorySample& sample) { return static_cast<uint64_t>(sample.rank); });
  append([](const MemorySample& sample) { return uint64_t{sample.space}; });
  append([](const MemorySample& sample) { return uint64_t{sample.category}; });
  append([](const MemorySample& sample) { return static_cast<uint64_t>(sample.live_bytes); });
  return out;
}

StatusOr<std::vector<MemorySample>> DecodeSamples(std::string_view payload, size_t count) {
  FieldReader<MemorySample> in(payload, count);
  TL_RETURN_IF_ERROR(in.ReadTimes([](MemorySample& sample) -> int64_t& { return sample.time_ns; }));
  TL_RETURN_IF_ERROR(in.ReadUnsigned("rank", kMaxInt32,
                                     [](MemorySample& sample) -> int32_t& { return sample.rank; }));
  TL_RETURN_IF_ERROR(
      in.ReadUnsigned("space", std::numeric_limits<uint8_t>::max(),
                      [](MemorySample& sample) -> uint8_t& { return sample.space; }));
  TL_RETURN_IF_ERROR(
      in.ReadUnsigned("category", std::numeric_limits<uint8_t>::max(),
                      [](MemorySample& sample) -> uint8_t& { return sample.category; }));
  TL_RETURN_IF_ERROR(in.ReadUnsigned(
      "live_bytes", kMaxInt64, [](MemorySample& sample) -> int64_t& { return sample.live_bytes; }));
  return in.Finish();
}

}  // namespace tideline

#include "traces/formats/chrome_trace.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

// Viewers take process 0 and thread 0 for the idle task, so both count from 1.
int64_t ProcessOf(int32_t rank) { return int64_t{rank} + 1; }
int64_t ThreadOf(uint16_t lane) { return int64_t{lane} + 1; }

// A JSON string, quotes included; bytes that are not UTF-8 become replacement characters.
std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// 1234567 ns -> "1234.567".
std::string Microseconds(int64_t ns) {
  const bool negative = ns < 0;
  const uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  std::array<char, 32> text;
  const int length = std::snprintf(text.data(), text.size(), "%s%llu.%03llu", negative ? "-" : "",
                                   static_cast<unsigned long long>(magnitude / 1000),
                                   static_cast<unsigned long long>(magnitude % 1000));
  return std::string(text.data(), static_cast<size_t>(length));
}

class Writer {
 public:
  Writer(const RunSource& run, const ChromeTraceOptions& options, std::ostream& out)
      : run_(run), options_(options), out_(out) {
    for (const std::string& name : run.names()) names_.push_back(Quoted(name));
  }

  Status Write() {
    const RunMetadata& metadata = run_.metadata();
    nlohmann::ordered_json other = {
        {"source", metadata.source}, {"plan_hash", metadata.plan_hash}, {"title", metadata.title}};
    for (const auto& [name, value] : metadata.metrics) other[name] = value;
    out_ << R"({"displayTimeUnit":"ns","otherData":)"
         << other.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
         << ",\"traceEvents\":[";
    TL_RETURN_IF_ERROR(run_.VisitEvents([&](std::span<const RunEvent> events) {
      for (const RunEvent& event : events) WriteEvent(event);
      return Written();
    }));
    if (options_.memory) {
      TL_RETURN_IF_ERROR(run_.VisitSamples([&](std::span<const MemorySample> samples) {
        for (const MemorySample& sample : samples) AddSample(sample);
        return Written();
      }));
      for (auto& [place, counter] : counters_) WriteCounter(place, counter);
    }
    WriteNames();
    out_ << "\n]}\n";
    out_.flush();
    return Written();
  }

 private:
  // The live bytes of one rank and space, and the time from which they hold.
  struct Counter {
    int64_t time_ns = 0;
    std::map<uint8_t, int64_t> live_bytes;  // by category
  };
  using Place = std::pair<int32_t, uint8_t>;  // rank, space

  Status Written() const {
    if (out_.good()) return absl::OkStatus();
    return RunError("perfetto trace: the output does not take more bytes; is the disk full?");
  }

  bool Wanted(int32_t rank, int64_t begin_ns, int64_t end_ns) const {
    if (begin_ns > options_.end_ns || end_ns < options_.begin_ns) return false;
    return options_.ranks.empty() || std::count(options_.ranks.begin(), options_.ranks.end(), rank);
  }

  void Begin() {
    out_ << (first_ ? "\n" : ",\n");
    first_ = false;
  }

  void WriteEvent(const RunEvent& event) {
    if (!Wanted(event.rank, event.start_ns, event.end_ns)) return;
    const RunMetadata& metadata = run_.metadata();
    used_.insert({event.rank, event.lane});
    Begin();
    line_.clear();
    absl::StrAppend(&line_, R"({"ph":"X","pid":)", ProcessOf(event.rank), R"(,"tid":)",
                    ThreadOf(event.lane), R"(,"ts":)", Microseconds(event.start_ns), R"(,"dur":)",
                    Microseconds(event.end_ns - event.start_ns), R"(,"name":)");
    if (event.name < names_.size()) {
      line_ += names_[event.name];
    } else {
      absl::StrAppend(&line_, "\"instruction ", event.instruction, "\"");
    }
    absl::StrAppend(&line_, R"(,"cat":)",
                    Quoted(NameOrNumber(metadata.kinds, event.kind, "kind") + "," +
                           NameOrNumber(metadata.phases, event.phase, "phase")),
                    R"(,"args":{"step":)", event.step, R"(,"instruction":)", event.instruction);
    if (event.layer >= 0) absl::StrAppend(&line_, R"(,"layer":)", event.layer);
    if (event.micro_batch >= 0) absl::StrAppend(&line_, R"(,"micro_batch":)", event.micro_batch);
    if (event.bytes > 0) absl::StrAppend(&line_, R"(,"bytes":)", event.bytes);
    line_ += "}}";
    out_ << line_;
  }

  // Samples of one instant become one counter event.
  void AddSample(const MemorySample& sample) {
    if (!Wanted(sample.rank, sample.time_ns, sample.time_ns)) return;
    const Place place{sample.rank, sample.space};
    const auto [found, added] = counters_.try_emplace(place);
    Counter& counter = found->second;
    if (!added && counter.time_ns != sample.time_ns) WriteCounter(place, counter);
    counter.time_ns = sample.time_ns;
    counter.live_bytes[sample.category] = sample.live_bytes;
  }

  void WriteCounter(const Place& place, const Counter& counter) {
    const RunMetadata& metadata = run_.metadata();
    counted_.insert(place.first);
    Begin();
    out_ << R"({"ph":"C","pid":)" << ProcessOf(place.first) << R"(,"tid":0,"ts":)"
         << Microseconds(counter.time_ns) << R"(,"name":)"
         << Quoted(NameOrNumber(metadata.spaces, place.second, "space") + " memory (bytes)")
         << R"(,"args":{)";
    bool first = true;
    for (const auto& [category, bytes] : counter.live_bytes) {
      if (!first) out_ << ",";
      first = false;
      out_ << Quoted(NameOrNumber(metadata.categories, category, "category")) << ":" << bytes;
    }
    out_ << "}}";
  }

  void WriteName(const char* what, int64_t process, int64_t thread, const char* key,
                 const std::string& value) {
    Begin();
    out_ << R"({"ph":"M","pid":)" << process << R"(,"tid":)" << thread << R"(,"name":")" << what
         << R"(","args":{")" << key << "\":" << value << "}}";
  }

  void WriteNames() {
    std::map<int32_t, std::string> processes;
    for (const auto& [rank, lane] : used_) processes[rank] = absl::StrCat("rank ", rank);
    for (const int32_t rank : counted_) processes[rank] = absl::StrCat("rank ", rank);
    for (const RunRank& rank : run_.metadata().ranks) {
      const auto found = processes.find(rank.rank);
      if (found == processes.end()) continue;
      for (const std::string& part : {rank.role, rank.coordinates}) {
        if (!part.empty()) absl::StrAppend(&found->second, " · ", part);
      }
      absl::StrAppend(&found->second, " · node ", rank.node);
    }
    for (const auto& [rank, name] : processes) {
      WriteName("process_name", ProcessOf(rank), 0, "name", Quoted(name));
      WriteName("process_sort_index", ProcessOf(rank), 0, "sort_index", std::to_string(rank));
    }
    std::map<std::pair<int32_t, uint16_t>, std::string> threads;
    for (const auto& [rank, lane] : used_) {
      threads[{rank, lane}] = Quoted(absl::StrCat("lane ", lane));
    }
    for (const RunLane& lane : run_.lanes()) {
      const auto found = threads.find({lane.rank, lane.lane});
      if (found != threads.end() && lane.name < names_.size()) found->second = names_[lane.name];
    }
    for (const auto& [place, name] : threads) {
      const int64_t process = ProcessOf(place.first);
      const int64_t thread = ThreadOf(place.second);
      WriteName("thread_name", process, thread, "name", name);
      WriteName("thread_sort_index", process, thread, "sort_index", std::to_string(thread));
    }
  }

  const RunSource& run_;
  const ChromeTraceOptions& options_;
  std::ostream& out_;
  bool first_ = true;
  std::string line_;
  std::vector<std::string> names_;  // quoted
  std::set<std::pair<int32_t, uint16_t>> used_;
  std::set<int32_t> counted_;
  std::map<Place, Counter> counters_;
};

}  // namespace

Status WriteChromeTrace(const RunSource& run, const ChromeTraceOptions& options,
                        std::ostream& out) {
  return Writer(run, options, out).Write();
}

}  // namespace tideline

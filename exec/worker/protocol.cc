#include "exec/worker/protocol.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "exec/wire/bytes.h"

namespace tideline {
namespace {

constexpr uint32_t kFrameMagic = 0x4b574c54;  // "TLWK"
constexpr size_t kHeaderBytes = 13;

Status Malformed(const char* what) {
  return InputError(absl::StrCat("the worker protocol's ", what,
                                 " is malformed; are both programs of one build?"));
}

void PutSplit(ByteWriter& writer, const TimeSplit<int64_t>& split) {
  for (const int64_t part :
       {split.compute, split.host, split.exposed_comm, split.bubble, split.stall}) {
    writer.Put<int64_t>(part);
  }
}

TimeSplit<int64_t> GetSplit(ByteReader& reader) {
  TimeSplit<int64_t> split;
  split.compute = reader.Get<int64_t>();
  split.host = reader.Get<int64_t>();
  split.exposed_comm = reader.Get<int64_t>();
  split.bubble = reader.Get<int64_t>();
  split.stall = reader.Get<int64_t>();
  return split;
}

void PutRank(ByteWriter& writer, const RankReport& rank) {
  for (int space = 0; space < kSpaces; ++space) {
    writer.Put<int64_t>(rank.extent[space]);
    writer.Put<int64_t>(rank.reserved_peak[space]);
    writer.Put<int64_t>(rank.live_peak[space]);
    writer.Put<bool>(rank.observed[space].has_value());
    if (!rank.observed[space]) continue;
    writer.Put<int64_t>(rank.observed[space]->peak);
    for (const int64_t bytes : rank.observed[space]->peak_by_category) writer.Put<int64_t>(bytes);
  }
  PutSplit(writer, rank.time_ns);
  writer.PutVector(rank.step_time_ns);
}

RankReport GetRank(ByteReader& reader) {
  RankReport rank;
  for (int space = 0; space < kSpaces; ++space) {
    rank.extent[space] = reader.Get<int64_t>();
    rank.reserved_peak[space] = reader.Get<int64_t>();
    rank.live_peak[space] = reader.Get<int64_t>();
    if (!reader.Get<bool>()) continue;
    ObservedMemory observed;
    observed.peak = reader.Get<int64_t>();
    for (int64_t& bytes : observed.peak_by_category) bytes = reader.Get<int64_t>();
    rank.observed[space] = observed;
  }
  rank.time_ns = GetSplit(reader);
  rank.step_time_ns = reader.GetVector<int64_t>();
  return rank;
}

// Reads exactly `size` bytes; fewer when the other side closed.
StatusOr<size_t> ReadAll(int descriptor, char* bytes, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = read(descriptor, bytes + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return RunError(absl::StrCat("the worker pipe: ", std::strerror(errno)));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

}  // namespace

// ---- Messages ----

std::string EncodeRequest(const WorkerRequest& request) {
  ByteWriter writer;
  writer.Put<uint32_t>(kWorkerProtocolVersion);
  writer.PutText(request.program);
  writer.PutText(request.data_path);
  writer.Put<int64_t>(request.steps);
  writer.PutText(request.checkpoint_folder);
  writer.Put<int64_t>(request.checkpoint_every);
  writer.Put<bool>(request.resume);
  writer.PutText(request.plan_hash);
  writer.Put<bool>(request.eager);
  writer.Put<bool>(request.fast_numerics);
  writer.Put<uint8_t>(static_cast<uint8_t>(request.check));
  writer.Put<uint8_t>(static_cast<uint8_t>(request.schedule));
  writer.Put<uint64_t>(request.schedule_seed);
  writer.Put<int32_t>(request.devices_per_node);
  writer.Put<int64_t>(request.device_memory_bytes);
  writer.Put<int64_t>(request.pinned_memory_bytes);
  writer.Put<bool>(request.record);
  return writer.Take();
}

StatusOr<WorkerRequest> DecodeRequest(std::string_view payload) {
  ByteReader reader(payload);
  const uint32_t version = reader.Get<uint32_t>();
  if (!reader.ok() || version != kWorkerProtocolVersion) {
    return InputError(absl::StrCat("the request is of protocol version ", version,
                                   ", this worker speaks ", kWorkerProtocolVersion,
                                   "; use programs of one build"));
  }
  WorkerRequest request;
  request.program = reader.GetText();
  request.data_path = reader.GetText();
  request.steps = reader.Get<int64_t>();
  request.checkpoint_folder = reader.GetText();
  request.checkpoint_every = reader.Get<int64_t>();
  request.resume = reader.Get<bool>();
  request.plan_hash = reader.GetText();
  request.eager = reader.Get<bool>();
  request.fast_numerics = reader.Get<bool>();
  request.check = reader.GetEnum(CheckLevel::kKernels);
  request.schedule = reader.GetEnum(SchedulePolicy::kSerial);
  request.schedule_seed = reader.Get<uint64_t>();
  request.devices_per_node = reader.Get<int32_t>();
  request.device_memory_bytes = reader.Get<int64_t>();
  request.pinned_memory_bytes = reader.Get<int64_t>();
  request.record = reader.Get<bool>();
  if (!reader.Finish()) return Malformed("request");
  return request;
}

std::string EncodeHello() {
  ByteWriter writer;
  writer.Put<uint32_t>(kWorkerProtocolVersion);
  return writer.Take();
}

Status CheckHello(std::string_view payload) {
  ByteReader reader(payload);
  const uint32_t version = reader.Get<uint32_t>();
  if (!reader.Finish()) return Malformed("hello");
  if (version != kWorkerProtocolVersion) {
    return InputError(absl::StrCat("the worker speaks protocol version ", version, ", not ",
                                   kWorkerProtocolVersion, "; use programs of one build"));
  }
  return absl::OkStatus();
}

std::string EncodeStep(const StepMessage& step) {
  ByteWriter writer;
  writer.Put<int64_t>(step.step);
  writer.Put<double>(step.loss);
  writer.Put<double>(step.seconds);
  return writer.Take();
}

StatusOr<StepMessage> DecodeStep(std::string_view payload) {
  ByteReader reader(payload);
  StepMessage step;
  step.step = reader.Get<int64_t>();
  step.loss = reader.Get<double>();
  step.seconds = reader.Get<double>();
  if (!reader.Finish() || step.step < 0) return Malformed("step");
  return step;
}

std::string EncodeLane(const LaneMessage& lane) {
  ByteWriter writer;
  writer.Put<int32_t>(lane.rank);
  writer.Put<uint16_t>(lane.lane);
  writer.PutText(lane.name);
  return writer.Take();
}

StatusOr<LaneMessage> DecodeLane(std::string_view payload) {
  ByteReader reader(payload);
  LaneMessage lane;
  lane.rank = reader.Get<int32_t>();
  lane.lane = reader.Get<uint16_t>();
  lane.name = reader.GetText();
  if (!reader.Finish() || lane.rank < 0) return Malformed("lane");
  return lane;
}

std::string EncodeEvents(const std::vector<RunEvent>& events) {
  ByteWriter writer;
  writer.Put<uint64_t>(events.size());
  for (const RunEvent& event : events) {
    writer.Put<int32_t>(event.rank);
    writer.Put<int32_t>(event.step);
    writer.Put<uint32_t>(event.instruction);
    writer.Put<uint16_t>(event.lane);
    writer.Put<uint8_t>(event.kind);
    writer.Put<uint8_t>(event.phase);
    writer.Put<uint32_t>(event.name);
    writer.Put<int32_t>(event.layer);
    writer.Put<int32_t>(event.micro_batch);
    writer.Put<int64_t>(event.start_ns);
    writer.Put<int64_t>(event.end_ns);
    writer.Put<int64_t>(event.bytes);
  }
  return writer.Take();
}

StatusOr<std::vector<RunEvent>> DecodeEvents(std::string_view payload) {
  constexpr uint64_t kEventBytes = 52;
  ByteReader reader(payload);
  std::vector<RunEvent> events(reader.GetCount(kEventBytes));
  for (RunEvent& event : events) {
    event.rank = reader.Get<int32_t>();
    event.step = reader.Get<int32_t>();
    event.instruction = reader.Get<uint32_t>();
    event.lane = reader.Get<uint16_t>();
    event.kind = reader.Get<uint8_t>();
    event.phase = reader.Get<uint8_t>();
    event.name = reader.Get<uint32_t>();
    event.layer = reader.Get<int32_t>();
    event.micro_batch = reader.Get<int32_t>();
    event.start_ns = reader.Get<int64_t>();
    event.end_ns = reader.Get<int64_t>();
    event.bytes = reader.Get<int64_t>();
    if (event.rank < 0 || event.end_ns < event.start_ns) return Malformed("event");
  }
  if (!reader.Finish()) return Malformed("block of events");
  return events;
}

std::string EncodeSamples(const std::vector<MemorySample>& samples) {
  ByteWriter writer;
  writer.Put<uint64_t>(samples.size());
  for (const MemorySample& sample : samples) {
    writer.Put<int32_t>(sample.rank);
    writer.Put<uint8_t>(sample.space);
    writer.Put<uint8_t>(sample.category);
    writer.Put<int64_t>(sample.time_ns);
    writer.Put<int64_t>(sample.live_bytes);
  }
  return writer.Take();
}

StatusOr<std::vector<MemorySample>> DecodeSamples(std::string_view payload) {
  constexpr uint64_t kSampleBytes = 22;
  ByteReader reader(payload);
  std::vector<MemorySample> samples(reader.GetCount(kSampleBytes));
  for (MemorySample& sample : samples) {
    sample.rank = reader.Get<int32_t>();
    sample.space = reader.Get<uint8_t>();
    sample.category = reader.Get<uint8_t>();
    sample.time_ns = reader.Get<int64_t>();
    sample.live_bytes = reader.Get<int64_t>();
    if (sample.rank < 0 || sample.space >= kSpaces || sample.category >= kCategories) {
      return Malformed("memory sample");
    }
  }
  if (!reader.Finish()) return Malformed("block of memory samples");
  return samples;
}

std::string EncodeReport(const RunReport& report) {
  ByteWriter writer;
  writer.PutVector(report.losses);
  writer.Put<int64_t>(report.resumed_from_step);
  writer.Put<int64_t>(report.counted_steps);
  writer.Put<uint64_t>(report.ranks.size());
  for (const RankReport& rank : report.ranks) PutRank(writer, rank);
  writer.Put<uint64_t>(report.touched.size());
  for (const TouchedOp& touched : report.touched) {
    writer.Put<uint8_t>(static_cast<uint8_t>(touched.op));
    writer.Put<int64_t>(touched.declared_bytes);
    writer.Put<int64_t>(touched.touched_bytes);
  }
  return writer.Take();
}

StatusOr<RunReport> DecodeReport(std::string_view payload) {
  constexpr uint64_t kLeastRankBytes = 98;
  constexpr uint64_t kTouchedBytes = 17;
  ByteReader reader(payload);
  RunReport report;
  report.losses = reader.GetVector<double>();
  report.resumed_from_step = reader.Get<int64_t>();
  report.counted_steps = reader.Get<int64_t>();
  report.ranks.resize(reader.GetCount(kLeastRankBytes));
  for (RankReport& rank : report.ranks) rank = GetRank(reader);
  report.touched.resize(reader.GetCount(kTouchedBytes));
  for (TouchedOp& touched : report.touched) {
    touched.op = reader.GetEnum(Op::kSlice);
    touched.declared_bytes = reader.Get<int64_t>();
    touched.touched_bytes = reader.Get<int64_t>();
  }
  if (!reader.Finish()) return Malformed("report");
  return report;
}

std::string EncodeFailure(const Status& status) {
  ByteWriter writer;
  writer.Put<int32_t>(status.raw_code());
  writer.PutText({status.message().data(), status.message().size()});
  return writer.Take();
}

Status DecodeFailure(std::string_view payload) {
  ByteReader reader(payload);
  const int32_t code = reader.Get<int32_t>();
  const std::string message = reader.GetText();
  const Status status(static_cast<absl::StatusCode>(code), message);
  if (!reader.Finish() || status.ok() || code < 0 || code > 16) return Malformed("failure");
  return status;
}

// ---- Frames ----

Status WriteFrame(int descriptor, FrameType type, std::string_view payload) {
  ByteWriter header;
  header.Put<uint32_t>(kFrameMagic);
  header.Put<uint8_t>(static_cast<uint8_t>(type));
  header.Put<uint64_t>(payload.size());
  for (std::string_view part : {std::string_view(header.bytes()), payload}) {
    while (!part.empty()) {
      const ssize_t written = write(descriptor, part.data(), part.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return RunError(absl::StrCat("the worker pipe: ", std::strerror(errno)));
      part.remove_prefix(static_cast<size_t>(written));
    }
  }
  return absl::OkStatus();
}

StatusOr<Frame> ReadFrame(int descriptor, bool* ended, uint64_t limit_bytes) {
  *ended = false;
  char header[kHeaderBytes];
  TL_ASSIGN_OR_RETURN(const size_t got, ReadAll(descriptor, header, sizeof header));
  if (got == 0) {
    *ended = true;
    return Frame();
  }
  if (got < sizeof header) return InputError("the worker pipe ended inside a frame");
  ByteReader reader({header, sizeof header});
  const uint32_t magic = reader.Get<uint32_t>();
  Frame frame;
  frame.type = reader.GetEnum(FrameType::kFailure);
  const uint64_t size = reader.Get<uint64_t>();
  if (magic != kFrameMagic || !reader.ok()) return Malformed("frame");
  if (size > limit_bytes) {
    return InputError(
        absl::StrCat("a frame of ", size, " bytes is longer than the limit of ", limit_bytes));
  }
  // Grown as the bytes come: a false length costs no memory.
  constexpr size_t kPiece = size_t{1} << 20;
  while (frame.payload.size() < size) {
    const size_t begin = frame.payload.size();
    const size_t now = std::min<size_t>(kPiece, static_cast<size_t>(size) - begin);
    frame.payload.resize(begin + now);
    TL_ASSIGN_OR_RETURN(const size_t more, ReadAll(descriptor, frame.payload.data() + begin, now));
    if (more < now) return InputError("the worker pipe ended inside a frame");
  }
  return frame;
}

}  // namespace tideline

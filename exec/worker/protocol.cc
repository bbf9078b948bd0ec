#include "exec/worker/protocol.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "exec/wire/bytes.h"
#include "exec/wire/fields.h"

namespace tideline {
namespace {

constexpr uint32_t kFrameMagic = 0x4b574c54;  // "TLWK"
constexpr size_t kHeaderBytes = 13;

Status Malformed(const char* what) {
  return InputError(absl::StrCat("the worker protocol's ", what,
                                 " is malformed; are both programs of one build?"));
}

// ---- Fields of each message, in wire order ----

constexpr uint64_t kLeastPartBytes = 48;
constexpr uint64_t kLeastParameterBytes = 24;

template <typename Wire, IsOrConst<WeightMap> Map>
void Fields(Wire& wire, Map& map) {
  wire.List(map.parameters, kLeastParameterBytes, [](auto& each, auto& parameter) {
    each(parameter.parameter, parameter.shape);
    each.List(parameter.parts, kLeastPartBytes, [](auto& one, auto& part) {
      one(part.tensor, part.tensor_shape, part.first, part.extent, part.offset, part.strides);
    });
  });
}

template <typename Wire, IsOrConst<WorkerRequest> Request>
void Fields(Wire& wire, Request& request) {
  wire(request.program, request.data_path, request.steps, request.checkpoint_folder,
       request.checkpoint_every, request.resume, request.dry_run, request.plan_hash, request.eager);
  wire.Choice(request.numerics, Numerics::kTf32);
  wire.Choice(request.collectives, CollectiveMethod::kCopy);
  wire.Choice(request.check, CheckLevel::kKernels);
  wire.Choice(request.schedule, SchedulePolicy::kSerial);
  wire(request.schedule_seed, request.devices_per_node, request.device_memory_bytes,
       request.pinned_memory_bytes, request.record, request.weights_path,
       request.save_weights_path);
  Fields(wire, request.weights);
  Fields(wire, request.save_weights);
}

template <typename Wire, IsOrConst<StepGradients> Gradients>
void Fields(Wire& wire, Gradients& gradients) {
  wire.Optional(gradients.norm, [](auto& each, auto& norm) { each(norm); });
  wire(gradients.loss_scale, gradients.skipped);
}

template <typename Wire, IsOrConst<StepResult> Step>
void Fields(Wire& wire, Step& step) {
  wire(step.step, step.loss, step.seconds);
  wire.Optional(step.gradients, [](auto& each, auto& gradients) { Fields(each, gradients); });
}

template <typename Wire, IsOrConst<LaneMessage> Lane>
void Fields(Wire& wire, Lane& lane) {
  wire(lane.rank, lane.lane, lane.name);
}

constexpr uint64_t kEventBytes = 52;

template <typename Wire, IsOrConst<RunEvent> Event>
void Fields(Wire& wire, Event& event) {
  wire(event.rank, event.step, event.instruction, event.lane, event.kind, event.phase, event.name,
       event.layer, event.micro_batch, event.start_ns, event.end_ns, event.bytes);
}

constexpr uint64_t kSampleBytes = 22;

template <typename Wire, IsOrConst<MemorySample> Sample>
void Fields(Wire& wire, Sample& sample) {
  wire(sample.rank, sample.space, sample.category, sample.time_ns, sample.live_bytes);
}

constexpr uint64_t kLeastRankBytes = 98;

template <typename Wire, IsOrConst<RankReport> Rank>
void Fields(Wire& wire, Rank& rank) {
  for (int space = 0; space < kSpaces; ++space) {
    wire(rank.extent[space], rank.reserved_peak[space], rank.live_peak[space]);
    wire.Optional(rank.observed[space], [](auto& each, auto& observed) {
      each(observed.peak, observed.peak_by_category);
    });
  }
  wire(rank.time_ns.compute, rank.time_ns.host, rank.time_ns.exposed_comm, rank.time_ns.bubble,
       rank.time_ns.stall, rank.step_time_ns);
}

constexpr uint64_t kLeastGradientsBytes = 10;
constexpr uint64_t kTouchedBytes = 17;
constexpr Op kLastOp = static_cast<Op>(static_cast<int>(Op::kCount) - 1);

template <typename Wire, IsOrConst<TouchedOp> Touched>
void Fields(Wire& wire, Touched& touched) {
  wire.Choice(touched.op, kLastOp);
  wire(touched.declared_bytes, touched.touched_bytes);
}

template <typename Wire, typename Items>
void ListFields(Wire& wire, Items& items, uint64_t least_bytes) {
  wire.List(items, least_bytes, [](auto& each, auto& item) { Fields(each, item); });
}

template <typename Wire, IsOrConst<RunReport> Report>
void Fields(Wire& wire, Report& report) {
  wire(report.losses, report.resumed_from_step, report.counted_steps);
  ListFields(wire, report.ranks, kLeastRankBytes);
  ListFields(wire, report.touched, kTouchedBytes);
  ListFields(wire, report.gradients, kLeastGradientsBytes);
  wire(report.finding);
}

template <typename Message>
std::string Encode(const Message& message) {
  FieldWriter writer;
  Fields(writer, message);
  return writer.Take();
}

template <typename Message>
StatusOr<Message> Decode(const char* what, std::string_view payload) {
  FieldReader reader(payload);
  Message message;
  Fields(reader, message);
  if (!reader.Finish()) return Malformed(what);
  return message;
}

template <typename Item>
std::string EncodeList(const std::vector<Item>& items, uint64_t item_bytes) {
  FieldWriter writer;
  ListFields(writer, items, item_bytes);
  return writer.Take();
}

template <typename Item>
StatusOr<std::vector<Item>> DecodeList(const char* what, std::string_view payload,
                                       uint64_t item_bytes) {
  FieldReader reader(payload);
  std::vector<Item> items;
  ListFields(reader, items, item_bytes);
  if (!reader.Finish()) return Malformed(what);
  return items;
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
  FieldWriter writer;
  writer(kWorkerProtocolVersion);
  Fields(writer, request);
  return writer.Take();
}

StatusOr<WorkerRequest> DecodeRequest(std::string_view payload) {
  FieldReader reader(payload);
  uint32_t version = 0;
  reader(version);
  if (!reader.ok() || version != kWorkerProtocolVersion) {
    return InputError(absl::StrCat("the request is of protocol version ", version,
                                   ", this worker speaks ", kWorkerProtocolVersion,
                                   "; use programs of one build"));
  }
  WorkerRequest request;
  Fields(reader, request);
  if (!reader.Finish()) return Malformed("request");
  return request;
}

std::string EncodeHello() {
  FieldWriter writer;
  writer(kWorkerProtocolVersion);
  return writer.Take();
}

Status CheckHello(std::string_view payload) {
  FieldReader reader(payload);
  uint32_t version = 0;
  reader(version);
  if (!reader.Finish()) return Malformed("hello");
  if (version != kWorkerProtocolVersion) {
    return InputError(absl::StrCat("the worker speaks protocol version ", version, ", not ",
                                   kWorkerProtocolVersion, "; use programs of one build"));
  }
  return absl::OkStatus();
}

std::string EncodeStep(const StepResult& step) { return Encode(step); }

StatusOr<StepResult> DecodeStep(std::string_view payload) {
  TL_ASSIGN_OR_RETURN(StepResult step, Decode<StepResult>("step", payload));
  if (step.step < 0) return Malformed("step");
  return step;
}

std::string EncodeLane(const LaneMessage& lane) { return Encode(lane); }

StatusOr<LaneMessage> DecodeLane(std::string_view payload) {
  TL_ASSIGN_OR_RETURN(LaneMessage lane, Decode<LaneMessage>("lane", payload));
  if (lane.rank < 0) return Malformed("lane");
  return lane;
}

std::string EncodeEvents(const std::vector<RunEvent>& events) {
  return EncodeList(events, kEventBytes);
}

StatusOr<std::vector<RunEvent>> DecodeEvents(std::string_view payload) {
  TL_ASSIGN_OR_RETURN(std::vector<RunEvent> events,
                      DecodeList<RunEvent>("block of events", payload, kEventBytes));
  for (const RunEvent& event : events) {
    if (event.rank < 0 || event.end_ns < event.start_ns) return Malformed("event");
  }
  return events;
}

std::string EncodeSamples(const std::vector<MemorySample>& samples) {
  return EncodeList(samples, kSampleBytes);
}

StatusOr<std::vector<MemorySample>> DecodeSamples(std::string_view payload) {
  TL_ASSIGN_OR_RETURN(std::vector<MemorySample> samples,
                      DecodeList<MemorySample>("block of memory samples", payload, kSampleBytes));
  for (const MemorySample& sample : samples) {
    if (sample.rank < 0 || sample.space >= kSpaces || sample.category >= kCategories) {
      return Malformed("memory sample");
    }
  }
  return samples;
}

std::string EncodeReport(const RunReport& report) { return Encode(report); }

StatusOr<RunReport> DecodeReport(std::string_view payload) {
  return Decode<RunReport>("report", payload);
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
  Status status(static_cast<absl::StatusCode>(code), message);
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

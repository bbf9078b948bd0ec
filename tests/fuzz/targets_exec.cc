// Parsers of exec/: token files, checkpoints, what workers say.
#include "exec/data/data_name.h"
#include "exec/data/megatron_index.h"
#include "exec/data/token_stream.h"
#include "exec/memory/manifest.h"
#include "exec/worker/protocol.h"
#include "models/ir/graph.h"
#include "tests/exec/data/dataset_files.h"
#include "tests/fuzz/target.h"

namespace tideline {
namespace {

constexpr int64_t kDataBytes = 64;

// Whatever is accepted must let every token be read, from inside the .bin.
Status ReadMegatron(std::string_view bytes) {
  const ByteFile file = ByteFile::FromMemory(std::string(bytes), "fuzz.idx");
  TL_ASSIGN_OR_RETURN(MegatronIndex index, ReadMegatronIndex(file, "fuzz.bin", kDataBytes));
  if (index.tokens < 0 || static_cast<int64_t>(index.runs.size()) > index.sequences) {
    return InternalError("more runs than sequences");
  }
  for (size_t i = 0; i < index.runs.size(); ++i) {
    const int64_t least = i == 0 ? 0 : index.runs[i - 1].first + 1;
    if (index.runs[i].first < least || index.runs[i].first >= index.tokens) {
      return InternalError("runs do not ascend");
    }
  }
  const TokenStream stream(ByteFile::FromMemory(std::string(kDataBytes, 'x'), "fuzz.bin"),
                           index.type, std::move(index.runs), index.tokens);
  std::vector<int64_t> tokens(static_cast<size_t>(index.tokens));
  const Status read = stream.Read(0, tokens);
  return read.ok() ? read : InternalError(std::string(read.message()));
}

std::vector<std::string> MegatronSeeds() {
  IndexFields shuffled = FieldsOf(8, 2, {16, 8, 8});
  shuffled.pointers = {32, 0, 16};
  return {IndexBytes(FieldsOf(8, 2, {20, 0, 12})), IndexBytes(FieldsOf(4, 4, {16})),
          IndexBytes(FieldsOf(1, 1, std::vector<int32_t>(32, 2))), IndexBytes(shuffled)};
}

// The fields of a checkpoint's manifest; its checksum is made to fit. What is accepted is written
// as it was read, and its pieces lie within their tensors.
Status ReadManifest(std::string_view bytes) {
  const std::string whole = FrameManifest(bytes);
  TL_ASSIGN_OR_RETURN(const CheckpointManifest manifest, DecodeManifest(whole));
  if (EncodeManifest(manifest) != whole) return InternalError("a manifest changes when written");
  int64_t elements = 0;
  for (const ShardRecord& shard : manifest.shards) {
    for (const StoredPiece& piece : shard.pieces) {
      const StateTensor& tensor = manifest.tensors.at(piece.tensor);
      const std::vector<int64_t>& shape = tensor.shape;
      if (piece.region.count() > Elements(shape)) return InternalError("a piece leaves its tensor");
      elements += piece.region.count();
    }
  }
  // Files have as many bytes as the manifest says before this is asked.
  constexpr int64_t kMost = 10000;
  if (elements > kMost) return absl::OkStatus();
  return CheckComplete(manifest);
}

std::vector<std::string> ManifestSeeds() {
  CheckpointManifest manifest;
  manifest.step = 2;
  manifest.graph_hash = "graph";
  manifest.optimizer = AdamSettings();
  manifest.losses = {1.5, 2.5};
  manifest.tensors = {{"w", StateKind::kParameter, {3, 4}}, {"b", StateKind::kMomentum, {5}}};
  const std::vector<std::vector<StoredPiece>> pieces = {
      {{0, {{0, 0}, {3, 2}, 0, 6}}},
      {{0, {{0, 2}, {3, 2}, 0, 6}}, {1, {{0}, {5}, 0, 3}}},
      {{1, {{0}, {5}, 3, 5}}}};
  for (int32_t rank = 0; rank < 3; ++rank) {
    ShardRecord& shard = manifest.shards.emplace_back();
    shard.file = ShardName(rank);
    shard.bytes = kShardHeaderBytes + kDigestBytes;
    shard.sha256 = std::string(64, 'a');
    shard.pieces = pieces[static_cast<size_t>(rank)];
    for (const StoredPiece& piece : shard.pieces) shard.bytes += piece.bytes();
  }
  const std::string whole = EncodeManifest(manifest);
  return {whole.substr(16, whole.size() - 16 - kDigestBytes)};
}

// The first byte says which message the others are.
constexpr char kRequest = 'q', kHello = 'h', kStep = 's', kLane = 'l', kEvents = 'e',
               kSamples = 'm', kReport = 'r', kFailure = 'f';

Status ReadMessage(std::string_view bytes) {
  if (bytes.empty()) return InputError("empty");
  const std::string_view payload = bytes.substr(1);
  switch (bytes.front()) {
    case kRequest: {
      TL_ASSIGN_OR_RETURN(const WorkerRequest request, DecodeRequest(payload));
      const StatusOr<WorkerRequest> again = DecodeRequest(EncodeRequest(request));
      return again.ok() ? absl::OkStatus() : InternalError("a request changes when written");
    }
    case kHello:
      return CheckHello(payload);
    case kStep:
      return DecodeStep(payload).status();
    case kLane:
      return DecodeLane(payload).status();
    case kEvents:
      return DecodeEvents(payload).status();
    case kSamples:
      return DecodeSamples(payload).status();
    case kReport:
      return DecodeReport(payload).status();
    case kFailure: {
      const Status failure = DecodeFailure(payload);
      if (failure.ok()) return InternalError("a failure that is none");
      // Its own exit code and message are the worker's, whatever they are.
      return ExitCode(failure) == 5 ? failure : absl::OkStatus();
    }
    default:
      return InputError("no such message");
  }
}

std::vector<std::string> MessageSeeds() {
  WorkerRequest request;
  request.program = "program";
  request.checkpoint_folder = "folder";
  RunReport report;
  report.losses = {1.5, 2.5};
  report.ranks.resize(2);
  report.ranks[0].step_time_ns = {5, 6};
  return {kRequest + EncodeRequest(request),
          kHello + EncodeHello(),
          kStep + EncodeStep({.step = 3, .loss = 0.5, .seconds = 1}),
          kLane + EncodeLane({.rank = 1, .lane = 2, .name = "compute"}),
          kEvents + EncodeEvents(std::vector<RunEvent>(3)),
          kSamples + EncodeSamples({MemorySample{0, 0, 1, 10, 256}}),
          kReport + EncodeReport(report),
          kFailure + EncodeFailure(RunError("rank 1 stopped"))};
}

}  // namespace

std::vector<FuzzTarget> ExecTargets() {
  return {
      {.name = "megatron_index",
       .parse = ReadMegatron,
       .seeds = MegatronSeeds,
       .tokens = {std::string("MMIDIDX\0\0", 9), std::string(8, '\xff'), std::string(8, '\0'),
                  std::string(7, '\0') + "\x80", std::string("\xff\xff\xff\x7f", 4)}},
      {.name = "checkpoint_manifest",
       .parse = ReadManifest,
       .seeds = ManifestSeeds,
       .tokens = {std::string(8, '\xff'), std::string(8, '\0'), std::string(7, '\0') + "\x80",
                  "rank-00001.shard", "../"}},
      {.name = "worker_message",
       .parse = ReadMessage,
       .seeds = MessageSeeds,
       .tokens = {std::string(8, '\xff'), std::string(8, '\0'), std::string(7, '\0') + "\x80"}},
  };
}

}  // namespace tideline

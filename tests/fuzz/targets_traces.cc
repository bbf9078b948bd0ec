// Run files: as they are, and with every checksum made right again, so that the decoders behind the
// checksums are reached.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "tests/fuzz/target.h"
#include "traces/run/packed_columns.h"
#include "traces/run/run_file_reader.h"
#include "traces/run/run_file_writer.h"
#include "traces/tide/tide.h"

namespace tideline {
namespace {

std::string RunFileBytes(int events) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("fuzz_seed_" + std::to_string(getpid()) + ".tlr");
  auto writer = RunFileWriter::Create(path);
  TL_CHECK(writer.ok(), "a seed must be valid");
  RunMetadata metadata;
  metadata.source = "simulated";
  metadata.categories = {"parameter", "gradient"};
  metadata.ranks = {{0, 0, "stage 0", "pp=0", 4096}};
  metadata.metrics = {{"step_time_s", 0.5}};
  (*writer)->SetMetadata(metadata);
  (*writer)->DeclareLane(0, 0, "host");
  for (int i = 0; i < events; ++i) {
    RunEvent event;
    event.name = (*writer)->Intern("kernel " + std::to_string(i % 5));
    event.start_ns = i * 1000;
    event.end_ns = i * 1000 + 900 + i;
    event.bytes = i % 3 == 0 ? 1 << 20 : 0;
    (*writer)->Add(event);
    (*writer)->Add(MemorySample{0, 0, static_cast<uint8_t>(i % 2), i * 1000, i * 256});
  }
  TL_CHECK((*writer)->Finish().ok(), "a seed must be valid");
  const std::string bytes = *ReadFile(path);
  std::filesystem::remove(path);
  return bytes;
}

// Whatever is accepted must be what the format promises, and must be usable.
Status ReadEverything(std::string bytes) {
  TL_ASSIGN_OR_RETURN(const auto run, RunFileReader::FromBytes(std::move(bytes), "fuzz.tlr"));
  uint64_t events = 0;
  TL_RETURN_IF_ERROR(run->VisitEvents([&](std::span<const RunEvent> block) -> Status {
    for (const RunEvent& event : block) {
      if (event.name >= run->names().size() || event.end_ns < event.start_ns || event.rank < 0 ||
          event.bytes < 0) {
        return InternalError("an event that cannot be was accepted");
      }
    }
    events += block.size();
    return absl::OkStatus();
  }));
  if (events != run->event_count()) return InternalError("events and event_count differ");
  TL_ASSIGN_OR_RETURN(const Tide tide, BuildTide(*run));
  for (const TideCurve& curve : tide.curves) {
    if (Resample(curve, 10).size() != 10) return InternalError("a curve lost points");
  }
  return absl::OkStatus();
}

// Walks the blocks by their own (mutated) lengths and corrects both checksums of each.
std::string Sealed(std::string bytes) {
  constexpr size_t kFileHeader = 16;
  constexpr size_t kBlockHeader = 32;
  size_t at = kFileHeader;
  while (at + kBlockHeader <= bytes.size()) {
    uint64_t payload = 0;
    std::memcpy(&payload, bytes.data() + at + 16, 8);
    if (payload > bytes.size() - at - kBlockHeader) break;
    const std::string_view view(bytes);
    const uint32_t payload_crc = Crc32c(view.substr(at + kBlockHeader, payload));
    std::memcpy(bytes.data() + at + 12, &payload_crc, 4);
    const uint32_t header_crc = Crc32c(view.substr(at, 28));
    std::memcpy(bytes.data() + at + 28, &header_crc, 4);
    at += kBlockHeader + payload;
  }
  return bytes;
}

Status ReadAsIs(std::string_view bytes) { return ReadEverything(std::string(bytes)); }
Status ReadSealed(std::string_view bytes) { return ReadEverything(Sealed(std::string(bytes))); }

std::vector<std::string> WholeAndCutOff() {
  const std::string whole = RunFileBytes(40);
  return {whole, RunFileBytes(0), whole.substr(0, whole.size() - 16)};
}
std::vector<std::string> Whole() { return {RunFileBytes(40), RunFileBytes(3)}; }

}  // namespace

std::vector<FuzzTarget> TraceTargets() {
  return {
      {.name = "run_file",
       .parse = ReadAsIs,
       .seeds = WholeAndCutOff,
       .tokens = {"TBLK", "TLRUNEND", std::string(8, '\0')}},
      {.name = "run_file_sealed",
       .parse = ReadSealed,
       .seeds = Whole,
       .tokens = {"TBLK", std::string(8, '\xff'), std::string("\x08", 1), "\"ranks\":[{\"rank\":"}},
  };
}

}  // namespace tideline

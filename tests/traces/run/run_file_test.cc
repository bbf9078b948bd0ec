#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "traces/run/packed_columns.h"
#include "traces/run/run_file_reader.h"
#include "traces/run/run_file_writer.h"
#include "traces/run/run_recorder.h"

namespace tideline {

bool operator==(const RunEvent& a, const RunEvent& b) {
  return a.rank == b.rank && a.step == b.step && a.instruction == b.instruction &&
         a.lane == b.lane && a.kind == b.kind && a.phase == b.phase && a.name == b.name &&
         a.layer == b.layer && a.micro_batch == b.micro_batch && a.start_ns == b.start_ns &&
         a.end_ns == b.end_ns && a.bytes == b.bytes;
}

bool operator==(const MemorySample& a, const MemorySample& b) {
  return a.rank == b.rank && a.space == b.space && a.category == b.category &&
         a.time_ns == b.time_ns && a.live_bytes == b.live_bytes;
}

namespace {

std::string TestPath(const std::string& name) { return testing::TempDir() + "/" + name; }

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

RunMetadata SomeMetadata() {
  RunMetadata metadata;
  metadata.source = "simulated";
  metadata.plan_hash = "abc";
  metadata.title = "tiny on 2 ranks";
  metadata.kinds = {"compute", "collective"};
  metadata.categories = {"parameter", "gradient"};
  metadata.ranks = {{0, 0, "stage 0", "dp=0", 1 << 20}, {1, 0, "stage 1", "dp=0", 1 << 20}};
  metadata.metrics = {{"step_time_s", 0.25}};
  return metadata;
}

// A run whose fields cover their ranges: prologue steps, no layer, long times, large bytes.
void Fill(RunSink& sink, int64_t events, uint32_t seed) {
  std::mt19937_64 random(seed);
  for (int32_t rank = 0; rank < 2; ++rank) {
    sink.DeclareLane(rank, 0, "host");
    sink.DeclareLane(rank, 1, "compute");
  }
  int64_t now = 1000;
  for (int64_t i = 0; i < events; ++i) {
    RunEvent event;
    event.rank = static_cast<int32_t>(random() % 2);
    event.step = static_cast<int32_t>(i / 100) - 1;
    event.instruction = static_cast<uint32_t>(i % 5000);
    event.lane = static_cast<uint16_t>(random() % 2);
    event.kind = static_cast<uint8_t>(random() % 7);
    event.phase = static_cast<uint8_t>(random() % 4);
    event.name = sink.Intern("kernel " + std::to_string(random() % 300));
    event.layer = static_cast<int32_t>(random() % 20) - 1;
    event.micro_batch = static_cast<int32_t>(random() % 9) - 1;
    now += static_cast<int64_t>(random() % 5000) - 1000;
    event.start_ns = now;
    event.end_ns = now + static_cast<int64_t>(random() % 100000);
    event.bytes = event.kind == 1 ? static_cast<int64_t>(random() >> 24) : 0;
    sink.Add(event);
    if (i % 3 == 0) {
      sink.Add(MemorySample{event.rank, static_cast<uint8_t>(random() % 2),
                            static_cast<uint8_t>(random() % 10), now,
                            static_cast<int64_t>(random() >> 30)});
    }
  }
}

// The same records through recorder and file.
struct Written {
  RunRecorder recorder;
  std::string path;
};

void Write(Written& written, const std::string& name, int64_t events) {
  written.path = TestPath(name);
  Fill(written.recorder, events, 7);
  auto writer = RunFileWriter::Create(written.path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  Fill(**writer, events, 7);
  (*writer)->SetMetadata(SomeMetadata());
  ASSERT_TRUE((*writer)->Finish().ok());
}

std::vector<RunEvent> Events(const RunSource& source, Status* status = nullptr) {
  std::vector<RunEvent> all;
  const Status visited = source.VisitEvents([&](std::span<const RunEvent> events) {
    all.insert(all.end(), events.begin(), events.end());
    return absl::OkStatus();
  });
  if (status != nullptr) *status = visited;
  return all;
}

std::vector<MemorySample> Samples(const RunSource& source, Status* status = nullptr) {
  std::vector<MemorySample> all;
  const Status visited = source.VisitSamples([&](std::span<const MemorySample> samples) {
    all.insert(all.end(), samples.begin(), samples.end());
    return absl::OkStatus();
  });
  if (status != nullptr) *status = visited;
  return all;
}

TEST(RunFile, GivesBackWhatWasWritten) {
  // None, one, a prime number, exactly one block, one more, several blocks.
  for (const int64_t events : {0, 1, 997, 65536, 65537, 150001}) {
    Written written;
    Write(written, "roundtrip.tlr", events);
    const auto reader = RunFileReader::Open(written.path);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_TRUE((*reader)->complete());
    EXPECT_EQ((*reader)->metadata(), SomeMetadata());
    EXPECT_EQ((*reader)->names(), written.recorder.names());
    EXPECT_EQ((*reader)->lanes(), written.recorder.lanes());
    EXPECT_EQ((*reader)->event_count(), static_cast<uint64_t>(events));
    EXPECT_EQ(Events(**reader), written.recorder.events());
    EXPECT_EQ(Samples(**reader), written.recorder.samples());
    size_t counted = 0;
    for (size_t block = 0; block < (*reader)->event_blocks().size(); ++block) {
      const auto info = (*reader)->event_blocks()[block];
      const auto records = (*reader)->ReadEvents(block);
      ASSERT_TRUE(records.ok());
      EXPECT_EQ(records->size(), info.count);
      counted += info.count;
      for (const RunEvent& event : *records) {
        EXPECT_LE(info.first_ns, event.start_ns);
        EXPECT_GE(info.last_ns, event.end_ns);
      }
    }
    EXPECT_EQ(counted, static_cast<size_t>(events));
    EXPECT_FALSE((*reader)->ReadEvents((*reader)->event_blocks().size()).ok());
    std::remove(written.path.c_str());
  }
}

TEST(RunFile, KeepsExtremeValues) {
  const std::string path = TestPath("extreme.tlr");
  auto writer = RunFileWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  RunEvent low;
  low.name = (*writer)->Intern("");
  low.start_ns = low.end_ns = std::numeric_limits<int64_t>::min();
  low.step = -1;
  RunEvent high;
  high.rank = high.step = high.layer = high.micro_batch = std::numeric_limits<int32_t>::max();
  high.instruction = std::numeric_limits<uint32_t>::max();
  high.lane = std::numeric_limits<uint16_t>::max();
  high.kind = high.phase = std::numeric_limits<uint8_t>::max();
  high.start_ns = high.end_ns = high.bytes = std::numeric_limits<int64_t>::max();
  (*writer)->Add(low);
  (*writer)->Add(high);
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto reader = RunFileReader::Open(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(Events(**reader), (std::vector<RunEvent>{low, high}));
}

TEST(RunFile, IsNotThereUntilItIsFinished) {
  const std::string folder = TestPath("unfinished");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/run.tlr";
  const auto entries = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      names.push_back(entry.path());
    }
    return names;
  };
  const std::string killed = TestPath("killed.tlr");
  {
    auto writer = RunFileWriter::Create(path);
    ASSERT_TRUE(writer.ok());
    Fill(**writer, 70000, 3);  // one block of events is out, 4464 events are not
    EXPECT_NE(access(path.c_str(), F_OK), 0);
    // What a kill now would leave.
    ASSERT_EQ(entries().size(), 1u);
    std::filesystem::copy_file(entries()[0], killed,
                               std::filesystem::copy_options::overwrite_existing);
    // A second writer of the same path is not disturbed by the first.
    auto second = RunFileWriter::Create(path);
    ASSERT_TRUE(second.ok());
    EXPECT_TRUE((*second)->Finish().ok());
    EXPECT_TRUE((*RunFileReader::Open(path))->complete());
    std::filesystem::remove(path);
  }
  EXPECT_TRUE(entries().empty());
  const auto reader = RunFileReader::Open(killed);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_FALSE((*reader)->complete());
  EXPECT_EQ((*reader)->event_count(), 65536u);
}

// Cut anywhere: it opens to its last whole block, or says that it is no Run file; what it gives is
// a prefix of what was written.
TEST(RunFile, OpensToItsLastWholeBlockWhereverItIsCut) {
  Written written;
  Write(written, "cut.tlr", 70000);
  const std::string bytes = ReadAll(written.path);
  std::mt19937_64 random(11);
  uint64_t most = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const size_t size = trial < 20 ? static_cast<size_t>(trial) : random() % bytes.size();
    const auto reader = RunFileReader::FromBytes(bytes.substr(0, size), "cut");
    if (size < 16) {
      EXPECT_EQ(ExitCode(reader.status()), 5);
      continue;
    }
    ASSERT_TRUE(reader.ok()) << size << " " << reader.status();
    EXPECT_FALSE((*reader)->complete());
    Status status;
    const std::vector<RunEvent> events = Events(**reader, &status);
    EXPECT_TRUE(status.ok()) << status;
    ASSERT_LE(events.size(), written.recorder.events().size());
    EXPECT_TRUE(std::equal(events.begin(), events.end(), written.recorder.events().begin()));
    most = std::max<uint64_t>(most, events.size());
  }
  EXPECT_GE(most, 65536u);
}

// Any flipped bit is found: on opening, or when the block is read. Only bytes that mean nothing
// (the file header's reserved word) and the trailer (without it the file is read block by block)
// may be lost without an error.
TEST(RunFile, FindsEveryFlippedBit) {
  Written written;
  Write(written, "flip.tlr", 300);
  const std::string bytes = ReadAll(written.path);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    const auto reader = RunFileReader::FromBytes(damaged, "flip");
    if (!reader.ok()) {
      EXPECT_EQ(ExitCode(reader.status()), 5);
      EXPECT_NE(reader.status().message().find("at byte "), std::string::npos) << reader.status();
      continue;
    }
    Status events_status;
    Status samples_status;
    const std::vector<RunEvent> events = Events(**reader, &events_status);
    const std::vector<MemorySample> samples = Samples(**reader, &samples_status);
    if (!events_status.ok() || !samples_status.ok()) continue;
    EXPECT_TRUE(at >= bytes.size() - 16 || (at >= 12 && at < 16)) << "byte " << at;
    EXPECT_EQ(events, written.recorder.events());
    EXPECT_EQ(samples, written.recorder.samples());
  }
}

// Structure-aware damage: bytes changed and all checksums made right again, so that the decoders
// themselves are asked. They may refuse or accept, but not crash (asan, ubsan) nor allocate wildly.
TEST(RunFile, SurvivesHostileBytesBehindRightChecksums) {
  Written written;
  Write(written, "hostile.tlr", 200);
  const std::string bytes = ReadAll(written.path);
  std::mt19937_64 random(5);
  int refused = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::string hostile = bytes;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int change = 0; change < changes; ++change) {
      const size_t at = 16 + random() % (hostile.size() - 16);
      constexpr unsigned char kNasty[] = {0x00, 0xff, 0x7f, 0x80, 0x08, 0x09};
      hostile[at] = static_cast<char>(random() % 2 == 0 ? kNasty[random() % 6] : random());
    }
    // Walk the original's blocks and seal them again.
    for (size_t at = 16; at + 32 <= bytes.size() - 16;) {
      uint64_t payload = 0;
      std::memcpy(&payload, bytes.data() + at + 16, 8);
      const uint32_t payload_crc = Crc32c(std::string_view(hostile).substr(at + 32, payload));
      std::memcpy(hostile.data() + at + 12, &payload_crc, 4);
      const uint32_t header_crc = Crc32c(std::string_view(hostile).substr(at, 28));
      std::memcpy(hostile.data() + at + 28, &header_crc, 4);
      at += 32 + payload;
    }
    const auto reader = RunFileReader::FromBytes(std::move(hostile), "hostile");
    if (!reader.ok()) {
      EXPECT_EQ(ExitCode(reader.status()), 5) << reader.status();
      ++refused;
      continue;
    }
    Status status;
    for (const RunEvent& event : Events(**reader, &status)) {
      ASSERT_LT(event.name, (*reader)->names().size());
      ASSERT_LE(event.start_ns, event.end_ns);
    }
    refused += !status.ok();
    Samples(**reader, &status);
  }
  EXPECT_GT(refused, 500);
}

TEST(RunFile, SaysWhatIsWrongWithOtherFiles) {
  EXPECT_EQ(ExitCode(RunFileReader::Open(TestPath("no such file")).status()), 5);
  EXPECT_EQ(ExitCode(RunFileReader::Open(testing::TempDir()).status()), 5);
  EXPECT_EQ(ExitCode(RunFileReader::FromBytes("", "empty").status()), 5);
  const Status text = RunFileReader::FromBytes(std::string(100, 'x'), "text").status();
  EXPECT_NE(text.message().find("run file text: at byte 0"), std::string::npos) << text;
  std::string future = "TLRUN\r\n\x1a";
  future += std::string("\x09\0\0\0\0\0\0\0", 8);
  EXPECT_NE(RunFileReader::FromBytes(future, "future").status().message().find("version 9"),
            std::string::npos);
  EXPECT_EQ(ExitCode(RunFileWriter::Create("/no/such/folder/run.tlr").status()), 1);
}

TEST(RunMetadata, NamesTheFieldThatIsWrong) {
  const auto parsed = ParseRunMetadata(ToJson(SomeMetadata()));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, SomeMetadata());
  for (const auto& [json, field] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "(document)"},
           {"{", "(document)"},
           {R"({"source": 3})", "source"},
           {R"({"kinds": "compute"})", "kinds"},
           {R"({"ranks": [{"rank": -1}]})", "rank"},
           {R"({"ranks": [{"rank": 3000000000}]})", "rank"},
           {R"({"metrics": {"mfu": "high"}})", "metrics.mfu"}}) {
    const Status status = ParseRunMetadata(json).status();
    EXPECT_EQ(ExitCode(status), 5) << json;
    EXPECT_NE(status.message().find("field " + field), std::string::npos) << status;
  }
  EXPECT_EQ(NameOrNumber({"a"}, 0, "kind"), "a");
  EXPECT_EQ(NameOrNumber({"a"}, 4, "kind"), "kind 4");
}

// {300, 302, 301}: smallest 300, range 2, one byte each: 9 + 3 bytes. The check value of CRC-32C
// over "123456789" is e3069283 (RFC 3720's polynomial).
TEST(PackedColumns, UseTheFewestBytes) {
  std::string out;
  const std::vector<uint64_t> values = {300, 302, 301};
  AppendColumn(values, out);
  EXPECT_EQ(out.size(), 12u);
  AppendColumn(std::vector<uint64_t>(1000, 5), out);
  EXPECT_EQ(out.size(), 21u);
  ColumnReader reader(out);
  std::vector<uint64_t> back;
  ASSERT_TRUE(reader.Read(3, back).ok());
  EXPECT_EQ(back, values);
  ASSERT_TRUE(reader.Read(1000, back).ok());
  EXPECT_EQ(back, std::vector<uint64_t>(1000, 5));
  EXPECT_TRUE(reader.at_end());
  EXPECT_FALSE(reader.Read(1, back).ok());
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  for (int width = 0; width <= 64; ++width) {
    const uint64_t top = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
    std::string bytes;
    AppendColumn(std::vector<uint64_t>{0, top, top / 3}, bytes);
    ColumnReader again(bytes);
    ASSERT_TRUE(again.Read(3, back).ok());
    EXPECT_EQ(back, (std::vector<uint64_t>{0, top, top / 3})) << width;
    EXPECT_EQ(bytes.size(), 9 + 3 * static_cast<size_t>((width + 7) / 8));
  }
  for (const int64_t value : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    EXPECT_EQ(UnZigZag(ZigZag(value)), value);
  }
}

// Renaming over one would take it away: a device, a dangling link or a folder stays what it is.
TEST(RunFileTest, RefusesToReplaceWhatIsNoRegularFile) {
  const std::string folder = testing::TempDir() + "/not_a_run";
  std::filesystem::create_directories(folder);
  const std::string link = testing::TempDir() + "/link.tlr";
  std::filesystem::remove(link);
  std::filesystem::create_symlink(folder + "/target", link);
  for (const std::string& path : {folder, link, std::string("/dev/null")}) {
    const auto writer = RunFileWriter::Create(path);
    ASSERT_FALSE(writer.ok()) << path;
    EXPECT_NE(std::string(writer.status().message()).find("give the path of a file"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace tideline

// Run file: bytes per event, events written and read per second.
#include <cstdio>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "traces/run/run_file_reader.h"
#include "traces/run/run_file_writer.h"

namespace tideline {
namespace {

constexpr const char* kPath = "/tmp/tideline_run_file_bench.tlr";

// Events as the simulator makes them: 64 ranks, forward and backward of 40 layers, 12 kernels each,
// 4 to 400 us long, in order of time; every 20th is a collective.
std::vector<RunEvent> MakeEvents(int64_t count) {
  std::vector<RunEvent> events(count);
  uint64_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    RunEvent& event = events[i];
    event.rank = static_cast<int32_t>(i % 64);
    const int64_t position = i / 64;
    event.step = static_cast<int32_t>(position / 8000);
    event.instruction = static_cast<uint32_t>(position % 8000);
    event.layer = static_cast<int32_t>(position / 12 % 40);
    event.micro_batch = static_cast<int32_t>(position / 960 % 8);
    event.phase = static_cast<uint8_t>(position / 480 % 2);
    event.lane = position % 20 == 0 ? 3 : 1;
    event.kind = position % 20 == 0 ? 1 : 0;
    event.bytes = position % 20 == 0 ? 50331648 : 0;
    event.name = static_cast<uint32_t>(position % 480);
    event.start_ns = position * 60000 + static_cast<int64_t>((state >> 40) % 30000);
    event.end_ns = event.start_ns + 4000 + static_cast<int64_t>((state >> 20) % 400000);
  }
  return events;
}

void WriteFile(const std::vector<RunEvent>& events) {
  auto writer = *RunFileWriter::Create(kPath);
  for (int name = 0; name < 480; ++name) writer->Intern("layers." + std::to_string(name));
  for (const RunEvent& event : events) writer->Add(event);
  if (!writer->Finish().ok()) std::abort();
}

void BM_Write(benchmark::State& state) {
  const std::vector<RunEvent> events = MakeEvents(state.range(0));
  for (auto _ : state) WriteFile(events);
  std::FILE* file = std::fopen(kPath, "rb");
  std::fseek(file, 0, SEEK_END);
  state.counters["bytes_per_event"] =
      static_cast<double>(std::ftell(file)) / static_cast<double>(events.size());
  std::fclose(file);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Write)->Arg(4'000'000)->Unit(benchmark::kMillisecond);

void BM_Read(benchmark::State& state) {
  WriteFile(MakeEvents(state.range(0)));
  for (auto _ : state) {
    const auto reader = *RunFileReader::Open(kPath);
    int64_t busy = 0;
    const Status status = reader->VisitEvents([&](std::span<const RunEvent> events) {
      for (const RunEvent& event : events) busy += event.end_ns - event.start_ns;
      return absl::OkStatus();
    });
    if (!status.ok()) std::abort();
    benchmark::DoNotOptimize(busy);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  std::remove(kPath);
}
BENCHMARK(BM_Read)->Arg(4'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tideline

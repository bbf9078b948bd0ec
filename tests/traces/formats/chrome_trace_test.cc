#include "traces/formats/chrome_trace.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "traces/run/run_recorder.h"

namespace tideline {
namespace {

using Json = nlohmann::json;

RunEvent Event(int32_t rank, uint16_t lane, int64_t start_ns, int64_t end_ns, uint32_t name) {
  RunEvent event;
  event.rank = rank;
  event.lane = lane;
  event.start_ns = start_ns;
  event.end_ns = end_ns;
  event.name = name;
  return event;
}

// Two ranks, two lanes each, back-to-back and touching events, an awkward name, two spaces.
RunRecorder SomeRun() {
  RunRecorder run;
  RunMetadata metadata;
  metadata.source = "simulated";
  metadata.title = "two ranks";
  metadata.kinds = {"compute", "collective"};
  metadata.phases = {"forward", "backward"};
  metadata.spaces = {"device", "pinned_host"};
  metadata.categories = {"parameter", "gradient", "optimizer", "activation"};
  metadata.ranks = {{0, 0, "stage 0", "pp=0", 1 << 20}, {1, 3, "stage 1", "pp=1", 1 << 20}};
  metadata.metrics = {{"step_time_s", 0.5}};
  run.SetMetadata(metadata);
  const uint32_t gemm = run.Intern("gemm");
  const uint32_t awkward = run.Intern("a \"quoted\"\\ name\n\xff");
  for (int32_t rank = 0; rank < 2; ++rank) {
    run.DeclareLane(rank, 0, "host");
    run.DeclareLane(rank, 1, "compute");
    for (int64_t i = 0; i < 50; ++i) {
      run.Add(Event(rank, 0, i * 1001, i * 1001 + 7, awkward));
      RunEvent event = Event(rank, 1, i * 1001 + 7, (i + 1) * 1001 + 7, gemm);
      event.kind = 1;
      event.phase = 1;
      event.step = 2;
      event.layer = 5;
      event.micro_batch = 0;
      event.bytes = 4096;
      run.Add(event);
      run.Add(MemorySample{rank, 0, 3, i * 1001, 100 + i});
      run.Add(MemorySample{rank, 0, 0, i * 1001, 50});
      run.Add(MemorySample{rank, 1, 3, i * 1001 + 1, 7});
    }
  }
  return run;
}

Json Parse(const RunRecorder& run, const ChromeTraceOptions& options = {}) {
  std::ostringstream out;
  const Status status = WriteChromeTrace(run, options, out);
  EXPECT_TRUE(status.ok()) << status;
  return Json::parse(out.str());
}

// Decimal microseconds as exact nanoseconds.
int64_t Nanoseconds(const Json& value) {
  return static_cast<int64_t>(std::llround(value.get<double>() * 1000.0));
}

TEST(ChromeTrace, SlicesOfAThreadNestAndAreComplete) {
  const RunRecorder run = SomeRun();
  const Json trace = Parse(run);
  std::map<std::pair<int64_t, int64_t>, std::vector<std::pair<int64_t, int64_t>>> slices;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const int64_t begin = Nanoseconds(event["ts"]);
    slices[{event["pid"], event["tid"]}].push_back({begin, begin + Nanoseconds(event["dur"])});
  }
  ASSERT_EQ(slices.size(), 4u);
  size_t count = 0;
  for (auto& [thread, spans] : slices) {
    EXPECT_GT(thread.first, 0);
    EXPECT_GT(thread.second, 0);
    count += spans.size();
    for (size_t i = 1; i < spans.size(); ++i) EXPECT_LE(spans[i - 1].second, spans[i].first);
  }
  EXPECT_EQ(count, run.events().size());
}

TEST(ChromeTrace, KeepsEveryNanosecondAndEveryField) {
  const RunRecorder run = SomeRun();
  const Json trace = Parse(run);
  size_t index = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const RunEvent& original = run.events()[index++];
    EXPECT_EQ(Nanoseconds(event["ts"]), original.start_ns);
    EXPECT_EQ(Nanoseconds(event["dur"]), original.end_ns - original.start_ns);
    EXPECT_EQ(event["args"]["step"], original.step);
    EXPECT_EQ(event["args"]["instruction"], original.instruction);
    if (original.kind == 1) {
      EXPECT_EQ(event["name"], "gemm");
      EXPECT_EQ(event["cat"], "collective,backward");
      EXPECT_EQ(event["args"]["layer"], 5);
      EXPECT_EQ(event["args"]["micro_batch"], 0);
      EXPECT_EQ(event["args"]["bytes"], 4096);
    } else {
      EXPECT_EQ(event["name"], "a \"quoted\"\\ name\n\xef\xbf\xbd");
      EXPECT_FALSE(event["args"].contains("layer"));
    }
  }
  EXPECT_EQ(trace["displayTimeUnit"], "ns");
  EXPECT_EQ(trace["otherData"]["source"], "simulated");
  EXPECT_EQ(trace["otherData"]["step_time_s"], 0.5);
}

TEST(ChromeTrace, NamesEveryProcessAndThread) {
  const Json trace = Parse(SomeRun());
  std::map<int64_t, std::string> processes;
  std::map<std::pair<int64_t, int64_t>, std::string> threads;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "M") continue;
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name") {
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
    }
  }
  EXPECT_EQ(processes, (std::map<int64_t, std::string>{{1, "rank 0 · stage 0 · pp=0 · node 0"},
                                                       {2, "rank 1 · stage 1 · pp=1 · node 3"}}));
  EXPECT_EQ(threads,
            (std::map<std::pair<int64_t, int64_t>, std::string>{
                {{1, 1}, "host"}, {{1, 2}, "compute"}, {{2, 1}, "host"}, {{2, 2}, "compute"}}));
}

// A counter shows every category of its rank and space at each of its instants, times ascending;
// the two samples of one instant are one event.
TEST(ChromeTrace, CountersStackCategoriesAndAscend) {
  const Json trace = Parse(SomeRun());
  std::map<std::pair<int64_t, std::string>, std::vector<Json>> counters;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "C") counters[{event["pid"], event["name"]}].push_back(event);
  }
  ASSERT_EQ(counters.size(), 4u);
  const std::vector<Json>& device = counters.at({1, "device memory (bytes)"});
  ASSERT_EQ(device.size(), 50u);
  for (size_t i = 0; i < device.size(); ++i) {
    EXPECT_EQ(Nanoseconds(device[i]["ts"]), static_cast<int64_t>(i) * 1001);
    EXPECT_EQ(device[i]["args"], (Json{{"parameter", 50}, {"activation", 100 + i}}));
  }
  EXPECT_EQ(counters.at({2, "pinned_host memory (bytes)"}).size(), 50u);
}

TEST(ChromeTrace, WritesOnlyTheWindowAndRanksAsked) {
  // Rank 1 from 10000 to 10020: host 10010..10017, compute 9016..10017 and 10017..11018.
  const Json trace =
      Parse(SomeRun(), {.begin_ns = 10000, .end_ns = 10020, .ranks = {1}, .memory = false});
  size_t slices = 0;
  for (const Json& event : trace["traceEvents"]) {
    EXPECT_EQ(event["pid"], 2);
    EXPECT_NE(event["ph"], "C");
    slices += event["ph"] == "X";
  }
  EXPECT_EQ(slices, 3u);
}

TEST(ChromeTrace, WritesAnEmptyRunAndReportsAFullDisk) {
  EXPECT_TRUE(Parse(RunRecorder())["traceEvents"].empty());
  std::ostringstream broken;
  broken.setstate(std::ios::badbit);
  EXPECT_EQ(ExitCode(WriteChromeTrace(SomeRun(), {}, broken)), 1);
}

}  // namespace
}  // namespace tideline

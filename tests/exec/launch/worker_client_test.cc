// A real worker process: what it reports, and what becomes of the parent when it dies.
#include "exec/launch/worker_client.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "gtest/gtest.h"
#include "planner/program/file.h"
#include "tests/exec/interpreter/example_program.h"

namespace tideline {
namespace {

constexpr int64_t kForever = 1000000;

std::string WorkerPath() {
  return std::string(std::getenv("TEST_SRCDIR")) + "/tideline/exec/worker/tideline-worker-emulated";
}

WorkerRequest RequestFor(const Program& program, int64_t steps) {
  WorkerRequest request;
  request.program = Serialize(program);
  request.steps = steps;
  request.device_memory_bytes = 1 << 20;
  request.pinned_memory_bytes = 1 << 20;
  return request;
}

class Observer : public RunObserver {
 public:
  void OnStep(const StepResult& result) override {
    losses.push_back(result.loss);
    if (on_step) on_step(result.step);
  }
  void OnNote(std::string_view text) override { notes.emplace_back(text); }

  std::function<void(int64_t)> on_step;
  std::vector<double> losses;
  std::vector<std::string> notes;
};

class Counter : public RunSink {
 public:
  uint32_t Intern(std::string_view) override { return names++; }
  void DeclareLane(int32_t, uint16_t, std::string_view) override { ++lanes; }
  void Add(const RunEvent& event) override {
    EXPECT_LT(event.name, names);
    EXPECT_GE(event.name, 100u);
    ++events;
  }
  void Add(const MemorySample&) override { ++samples; }

  uint32_t names = 100;  // this sink numbers names in its own way
  int lanes = 0, events = 0, samples = 0;
};

TEST(WorkerClientTest, RunsAndReports) {
  const Program program = ExampleProgram();
  WorkerRequest request = RequestFor(program, 3);
  request.record = true;
  Observer observer;
  Counter counter;
  const auto report =
      RunWorker(WorkerPath(), request, program, {.sink = &counter, .observer = &observer});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->losses.size(), 3u);
  EXPECT_EQ(report->losses, observer.losses);
  ASSERT_EQ(report->ranks.size(), 2u);
  EXPECT_EQ(report->ranks[0].reserved_peak[0], program.roles[0].extent[0]);
  EXPECT_EQ(counter.lanes, 14);
  EXPECT_GT(counter.events, 3 * 15);
  EXPECT_GT(counter.samples, 3 * 10);
}

TEST(WorkerClientTest, ItsFailuresKeepTheirExitCode) {
  const Program program = ExampleProgram();
  const auto exit_code = [&](auto change) {
    WorkerRequest request = RequestFor(program, 3);
    change(request);
    return ExitCode(RunWorker(WorkerPath(), request, program, {}).status());
  };
  EXPECT_EQ(exit_code([](WorkerRequest& r) { r.program = "not a program"; }), 5);
  EXPECT_EQ(exit_code([](WorkerRequest& r) { r.steps = 0; }), 2);
  EXPECT_EQ(exit_code([](WorkerRequest& r) { r.numerics = Numerics::kTf32; }), 2);
  EXPECT_EQ(exit_code([](WorkerRequest& r) { r.data_path = "/nonexistent"; }), 5);
  EXPECT_EQ(exit_code([](WorkerRequest& r) { r.devices_per_node = 0; }), 2);
  EXPECT_EQ(ExitCode(RunWorker("/nonexistent", RequestFor(program, 3), program, {}).status()), 6);
  EXPECT_EQ(ExitCode(FindWorker("no-such-worker").status()), 6);
}

TEST(WorkerClientTest, OutOfMemoryNamesTheBufferAndTheTide) {
  const Program program = ExampleProgram();
  WorkerRequest request = RequestFor(program, 3);
  request.device_memory_bytes = 1000;
  const Status status = RunWorker(WorkerPath(), request, program, {}).status();
  EXPECT_EQ(ExitCode(status), 1);
  EXPECT_NE(status.message().find("'table'"), std::string::npos) << status;
  EXPECT_NE(status.message().find("The tide then: parameter"), std::string::npos) << status;
}

TEST(WorkerClientTest, AKilledWorkerIsAStatusWithEveryRanksPosition) {
  const Program program = ExampleProgram();
  auto client = WorkerClient::Start(WorkerPath(), RequestFor(program, kForever), program);
  ASSERT_TRUE(client.ok()) << client.status();
  Observer observer;
  observer.on_step = [&](int64_t step) {
    if (step == 5) client->Kill();
  };
  const auto report = client->Wait({.sink = nullptr, .observer = &observer});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(ExitCode(report.status()), 1);
  for (const char* part : {"killed by signal 9", "\n  rank 0: step ", "\n  rank 1: step "}) {
    EXPECT_NE(report.status().message().find(part), std::string::npos) << report.status();
  }
}

TEST(WorkerClientTest, AKilledRunResumesToTheSameBits) {
  const Program program = ExampleProgram();
  const auto unbroken = RunWorker(WorkerPath(), RequestFor(program, 60), program, {});
  ASSERT_TRUE(unbroken.ok()) << unbroken.status();
  WorkerRequest request = RequestFor(program, 60);
  request.checkpoint_folder = ::testing::TempDir() + "/worker-kill";
  request.checkpoint_every = 3;
  std::filesystem::remove_all(request.checkpoint_folder);
  for (const int64_t kill_at : {7, 20, 33}) {
    auto client = WorkerClient::Start(WorkerPath(), request, program);
    ASSERT_TRUE(client.ok());
    Observer observer;
    observer.on_step = [&](int64_t step) {
      if (step == kill_at) client->Kill();
    };
    EXPECT_FALSE(client->Wait({.sink = nullptr, .observer = &observer}).ok());
    request.resume = true;
  }
  const auto resumed = RunWorker(WorkerPath(), request, program, {});
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_GE(resumed->resumed_from_step, 30);
  EXPECT_EQ(resumed->losses, unbroken->losses);
}

TEST(WorkerClientTest, SigtermEndsItWithoutAReport) {
  const Program program = ExampleProgram();
  auto client = WorkerClient::Start(WorkerPath(), RequestFor(program, kForever), program);
  ASSERT_TRUE(client.ok());
  Observer observer;
  observer.on_step = [&](int64_t step) {
    if (step == 2) kill(client->pid(), SIGTERM);
  };
  const auto report = client->Wait({.sink = nullptr, .observer = &observer});
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.status().message().find("exited with 143"), std::string::npos)
      << report.status();
}

// Whether a process is there and not just waiting to be reaped.
bool IsAlive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return static_cast<bool>(file >> number >> name >> state) && state != "Z" && state != "X";
}

TEST(WorkerClientTest, AWorkerDiesWithItsParent) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const Program program = ExampleProgram();
    auto client = WorkerClient::Start(WorkerPath(), RequestFor(program, kForever), program);
    const pid_t worker = client.ok() ? client->pid() : -1;
    if (write(ends[1], &worker, sizeof worker) < 0) _exit(1);
    if (client.ok()) (void)client->Wait({});
    _exit(0);
  }
  pid_t worker = -1;
  ASSERT_EQ(read(ends[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  ASSERT_GT(worker, 0);
  EXPECT_TRUE(IsAlive(worker));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  for (int i = 0; i < 1000 && IsAlive(worker); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(IsAlive(worker));
  close(ends[0]);
  close(ends[1]);
}

TEST(WorkerClientTest, StartedByHandItSaysWhatItIs) {
  const int result = std::system((WorkerPath() + " 2>/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(result), 2);
}

}  // namespace
}  // namespace tideline

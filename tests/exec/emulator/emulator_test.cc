// The facade on the emulator: order, checks, failures, schedules.
#include "exec/emulator/emulator.h"

#include <atomic>
#include <set>
#include <thread>

#include "gtest/gtest.h"

namespace tideline {
namespace {

constexpr Access kR = Access::kRead;
constexpr Access kW = Access::kWrite;

MachinePtr Open(EmulatorOptions options) {
  StatusOr<MachinePtr> machine = MakeEmulator(options);
  EXPECT_TRUE(machine.ok()) << machine.status();
  return *std::move(machine);
}

Operation Op(const char* name, uint64_t tag, std::initializer_list<Range> ranges,
             std::function<void()> run) {
  Operation operation;
  operation.name = name;
  operation.tag = tag;
  operation.ranges.assign(ranges.begin(), ranges.end());
  operation.run = std::move(run);
  return operation;
}

// Runs `body(rank, device)` on one host thread per device and returns each one's status.
template <typename Body>
std::vector<Status> OnEveryRank(Machine& machine, Body body) {
  const int ranks = DeviceCount(machine);
  std::vector<Status> statuses(ranks);
  BeginHosts(machine, ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      statuses[rank] = body(rank, GetDevice(machine, rank));
      EndHost(machine);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

float* Floats(Device device, int64_t count, const char* name = "floats") {
  const auto memory = Reserve(device, Space::kDevice, count * 4, name, Category::kActivation);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return static_cast<float*>(*memory);
}

TEST(EmulatorTest, StreamsKeepTheirOrderAndEventsOrderStreams) {
  for (const SchedulePolicy policy :
       {SchedulePolicy::kConcurrent, SchedulePolicy::kSeeded, SchedulePolicy::kSerial}) {
    MachinePtr machine = Open({.schedule = policy, .schedule_seed = 3});
    Device device = GetDevice(*machine, 0);
    Stream a = *CreateStream(device, "a"), b = *CreateStream(device, "b");
    Event made = *CreateEvent(device, "made");
    float* x = Floats(device, 1);
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(
          Enqueue(a, Op("count", i, {{x, 4, kW}}, [x, i] { *x = static_cast<float>(i); })).ok());
    }
    ASSERT_TRUE(RecordEvent(made, a).ok());
    ASSERT_TRUE(WaitEvent(b, made).ok());
    float seen = -1;
    ASSERT_TRUE(Enqueue(b, Op("use", 200, {{x, 4, kR}}, [x, &seen] { seen = *x; })).ok());
    ASSERT_TRUE(SynchronizeStream(b).ok());
    EXPECT_EQ(seen, 199);
    ASSERT_TRUE(SynchronizeDevice(device).ok());
    const std::vector<OperationTime> times = TakeTimes(device);
    ASSERT_EQ(times.size(), 201u);
    for (size_t i = 1; i < times.size(); ++i) {
      EXPECT_EQ(times[i].tag, i);
      EXPECT_GE(times[i].start_ns, times[i - 1].end_ns);
    }
  }
}

TEST(EmulatorTest, ARaceIsFoundUnderEverySchedule) {
  for (int seed = -1; seed < 20; ++seed) {
    MachinePtr machine =
        Open({.schedule = seed < 0 ? SchedulePolicy::kConcurrent : SchedulePolicy::kSeeded,
              .schedule_seed = static_cast<uint64_t>(seed)});
    Device device = GetDevice(*machine, 0);
    Stream a = *CreateStream(device, "a"), b = *CreateStream(device, "b");
    float* x = Floats(device, 2);
    ASSERT_TRUE(Enqueue(a, Op("make", 1, {{x, 8, kW}}, [x] { *x = 1; })).ok());
    const Status race = Enqueue(b, Op("use", 2, {{x + 1, 4, kR}}, [] {}));
    ASSERT_FALSE(race.ok());
    EXPECT_NE(race.message().find("'use' must wait for 'make'"), std::string::npos);
    EXPECT_FALSE(SynchronizeDevice(device).ok()) << "the run has failed for everyone";
  }
}

TEST(EmulatorTest, NoCheckNoReport) {
  MachinePtr machine = Open({.check = CheckLevel::kNone});
  Device device = GetDevice(*machine, 0);
  Stream a = *CreateStream(device, "a"), b = *CreateStream(device, "b");
  float* x = Floats(device, 1);
  EXPECT_TRUE(Enqueue(a, Op("make", 1, {{x, 4, kW}}, [] {})).ok());
  EXPECT_TRUE(Enqueue(b, Op("use", 2, {{x, 4, kR}}, [] {})).ok());
  EXPECT_TRUE(SynchronizeDevice(device).ok());
}

TEST(EmulatorTest, TheHostNeedsEventsToo) {
  MachinePtr machine = Open({});
  Device device = GetDevice(*machine, 0);
  Stream copy = *CreateStream(device, "h2d");
  Event loaded = *CreateEvent(device, "loaded");
  void* pinned = *Reserve(device, Space::kPinnedHost, 16, "ids", Category::kInput);
  float* x = Floats(device, 4);
  const Range range = {pinned, 16, kW};
  ASSERT_TRUE(HostAccess(device, "load", 1, {&range, 1}).ok());
  ASSERT_TRUE(RecordHostEvent(loaded).ok());
  // With the edge it is right; a second load without waiting for the copy is a race.
  ASSERT_TRUE(WaitEvent(copy, loaded).ok());
  ASSERT_TRUE(CopyAsync(copy, "copy", 2, x, pinned, 16).ok());
  EXPECT_FALSE(HostAccess(device, "load again", 3, {&range, 1}).ok());
}

// The order in which two streams of three operations each ran.
std::string Interleaving(uint64_t seed) {
  MachinePtr machine =
      Open({.devices = 2, .schedule = SchedulePolicy::kSeeded, .schedule_seed = seed});
  std::string order;
  const auto statuses = OnEveryRank(*machine, [&](int rank, Device device) -> Status {
    for (int stream = 0; stream < 2; ++stream) {
      TL_ASSIGN_OR_RETURN(Stream made, CreateStream(device, "s"));
      for (int i = 0; i < 3; ++i) {
        const char letter = static_cast<char>('a' + 2 * rank + stream);
        TL_RETURN_IF_ERROR(Enqueue(made, Op("op", i, {}, [&order, letter] { order += letter; })));
      }
    }
    return SynchronizeDevice(device);
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  return order;
}

TEST(EmulatorTest, SeededSchedulesRepeatAndDiffer) {
  std::set<std::string> orders;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const std::string order = Interleaving(seed);
    EXPECT_EQ(order.size(), 12u);
    for (int again = 0; again < 3; ++again) EXPECT_EQ(Interleaving(seed), order);
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 5u);
}

TEST(EmulatorTest, SerialRunsEachDeviceInTheOrderGiven) {
  MachinePtr machine = Open({.schedule = SchedulePolicy::kSerial});
  Device device = GetDevice(*machine, 0);
  Stream streams[] = {*CreateStream(device, "a"), *CreateStream(device, "b"),
                      *CreateStream(device, "c")};
  for (uint64_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(Enqueue(streams[i * 7 % 3], Op("op", i, {}, [] {})).ok());
  }
  ASSERT_TRUE(SynchronizeDevice(device).ok());
  const auto times = TakeTimes(device);
  for (uint64_t i = 0; i < 300; ++i) EXPECT_EQ(times[i].tag, i);
}

TEST(EmulatorTest, AllReduceAddsInTheDeclaredOrder) {
  constexpr int kRanks = 3;
  MachinePtr machine = Open({.devices = kRanks});
  const float values[] = {1e8f, 1.0f, -1e8f};
  std::vector<float> rank_order(kRanks), ring_order(kRanks);
  const auto statuses = OnEveryRank(*machine, [&](int rank, Device device) -> Status {
    const int32_t devices[] = {0, 1, 2};
    TL_ASSIGN_OR_RETURN(Communicator world, JoinCommunicator(device, "world", devices));
    TL_ASSIGN_OR_RETURN(Stream stream, CreateStream(device, "comm"));
    float* x = Floats(device, 2);
    const float value = values[rank];
    TL_RETURN_IF_ERROR(
        Enqueue(stream, Op("fill", 0, {{x, 8, kW}}, [x, value] { x[0] = x[1] = value; })));
    Collective sum;
    sum.block = 1;
    TL_RETURN_IF_ERROR(EnqueueCollective(world, stream, "sum", 1, sum, x, x));
    sum.order = ReductionOrder::kRing;
    sum.ring_start = 2;
    TL_RETURN_IF_ERROR(EnqueueCollective(world, stream, "ring", 2, sum, x + 1, x + 1));
    TL_RETURN_IF_ERROR(SynchronizeDevice(device));
    rank_order[rank] = x[0];
    ring_order[rank] = x[1];
    return absl::OkStatus();
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_TRUE(statuses[rank].ok()) << statuses[rank];
    EXPECT_EQ(rank_order[rank], 0.0f);  // (1e8 + 1) - 1e8: the 1 is lost
    EXPECT_EQ(ring_order[rank], 1.0f);  // (-1e8 + 1e8) + 1
  }
}

TEST(EmulatorTest, ScattersAndGathersInPlaceByPointer) {
  MachinePtr machine = Open({.devices = 2});
  const auto statuses = OnEveryRank(*machine, [&](int rank, Device device) -> Status {
    const int32_t devices[] = {0, 1};
    TL_ASSIGN_OR_RETURN(Communicator pair, JoinCommunicator(device, "pair", devices));
    TL_ASSIGN_OR_RETURN(Stream stream, CreateStream(device, "comm"));
    float* x = Floats(device, 4);
    TL_RETURN_IF_ERROR(Enqueue(stream, Op("fill", 0, {{x, 16, kW}}, [x, rank] {
                                 for (int i = 0; i < 4; ++i) x[i] = static_cast<float>(i + rank);
                               })));
    Collective call;
    call.kind = CollectiveKind::kReduceScatter;
    call.block = 2;
    float* own = x + 2 * rank;
    TL_RETURN_IF_ERROR(EnqueueCollective(pair, stream, "scatter", 1, call, x, own));
    call.kind = CollectiveKind::kAllGather;
    TL_RETURN_IF_ERROR(EnqueueCollective(pair, stream, "gather", 2, call, own, x));
    TL_RETURN_IF_ERROR(SynchronizeDevice(device));
    for (int i = 0; i < 4; ++i) {
      if (x[i] != static_cast<float>(2 * i + 1)) return InternalError("wrong sum");
    }
    return absl::OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

TEST(EmulatorTest, MismatchesAreToldToEveryRank) {
  struct Case {
    const char* name;
    void (*change)(Collective&);
  };
  const Case cases[] = {
      {"kind", [](Collective& c) { c.kind = CollectiveKind::kBroadcast; }},
      {"count", [](Collective& c) { c.block = 3; }},
      {"dtype", [](Collective& c) { c.dtype = DType::kBF16; }},
      {"order", [](Collective& c) { c.order = ReductionOrder::kTree; }},
      {"reduction", [](Collective& c) { c.reduction = Reduction::kMaximum; }},
  };
  for (const Case& mismatch : cases) {
    MachinePtr machine = Open({.devices = 3, .check = CheckLevel::kNone});
    const auto statuses = OnEveryRank(*machine, [&](int rank, Device device) -> Status {
      const int32_t devices[] = {0, 1, 2};
      TL_ASSIGN_OR_RETURN(Communicator world, JoinCommunicator(device, "world", devices));
      TL_ASSIGN_OR_RETURN(Stream stream, CreateStream(device, "comm"));
      float* x = Floats(device, 4);
      Collective call;
      call.block = 4;
      if (rank == 1) mismatch.change(call);
      TL_RETURN_IF_ERROR(EnqueueCollective(world, stream, "sync", 40 + rank, call, x, x));
      return SynchronizeDevice(device);
    });
    for (const Status& status : statuses) {
      ASSERT_FALSE(status.ok()) << mismatch.name;
      for (const char* part : {"rank 0: 'sync' (instruction 40) calls", "rank 1: 'sync'",
                               "rank 2: 'sync'", "'world'"}) {
        EXPECT_NE(status.message().find(part), std::string::npos) << status;
      }
    }
  }
}

TEST(EmulatorTest, AMissingMemberIsReportedAsStuck) {
  MachinePtr machine = Open({.devices = 2});
  const auto statuses = OnEveryRank(*machine, [&](int rank, Device device) -> Status {
    const int32_t devices[] = {0, 1};
    TL_ASSIGN_OR_RETURN(Communicator world, JoinCommunicator(device, "world", devices));
    TL_ASSIGN_OR_RETURN(Stream stream, CreateStream(device, "comm"));
    float* x = Floats(device, 1);
    TL_RETURN_IF_ERROR(Enqueue(stream, Op("fill", 0, {{x, 4, kW}}, [x] { *x = 1; })));
    Collective sum;
    sum.block = 1;
    if (rank == 0) TL_RETURN_IF_ERROR(EnqueueCollective(world, stream, "sum", 7, sum, x, x));
    return SynchronizeDevice(device);
  });
  ASSERT_FALSE(statuses[0].ok());
  EXPECT_NE(statuses[0].message().find("stuck"), std::string::npos);
  EXPECT_NE(statuses[0].message().find("'sum' (instruction 7), rank 1 has not come"),
            std::string::npos)
      << statuses[0];
}

TEST(EmulatorTest, CrossedMessagesAreStuckInOrderAndPassInAGroup) {
  for (const bool grouped : {false, true}) {
    MachinePtr machine = Open({.devices = 2});
    float received[2] = {};
    const auto statuses = OnEveryRank(*machine, [&](int rank, Device device) -> Status {
      const int32_t devices[] = {0, 1};
      TL_ASSIGN_OR_RETURN(Communicator pair, JoinCommunicator(device, "pair", devices));
      TL_ASSIGN_OR_RETURN(Stream stream, CreateStream(device, "comm"));
      float* x = Floats(device, 2);
      const float value = static_cast<float>(rank + 1);
      TL_RETURN_IF_ERROR(Enqueue(stream, Op("fill", 0, {{x, 4, kW}}, [x, value] { *x = value; })));
      if (grouped) TL_RETURN_IF_ERROR(GroupStart(stream));
      TL_RETURN_IF_ERROR(Send(pair, stream, "send", 1, 1 - rank, x, 4));
      TL_RETURN_IF_ERROR(Receive(pair, stream, "receive", 2, 1 - rank, x + 1, 4));
      if (grouped) TL_RETURN_IF_ERROR(GroupEnd(stream));
      TL_RETURN_IF_ERROR(SynchronizeDevice(device));
      received[rank] = x[1];
      return absl::OkStatus();
    });
    for (const Status& status : statuses) EXPECT_EQ(status.ok(), grouped) << status;
    if (grouped) {
      EXPECT_EQ(received[0], 2.0f);
      EXPECT_EQ(received[1], 1.0f);
    } else {
      EXPECT_NE(statuses[1].message().find("stream 'comm' waits for the partners of 'send'"),
                std::string::npos)
          << statuses[1];
    }
  }
}

TEST(EmulatorTest, MessageSizesMustAgree) {
  MachinePtr machine = Open({.devices = 2});
  const auto statuses = OnEveryRank(*machine, [&](int rank, Device device) -> Status {
    const int32_t devices[] = {0, 1};
    TL_ASSIGN_OR_RETURN(Communicator pair, JoinCommunicator(device, "pair", devices));
    TL_ASSIGN_OR_RETURN(Stream stream, CreateStream(device, "comm"));
    float* x = Floats(device, 2);
    TL_RETURN_IF_ERROR(Enqueue(stream, Op("fill", 0, {{x, 8, kW}}, [x] { x[0] = x[1] = 1; })));
    TL_RETURN_IF_ERROR(rank == 0 ? Send(pair, stream, "send", 1, 1, x, 8)
                                 : Receive(pair, stream, "receive", 1, 0, x, 4));
    return SynchronizeDevice(device);
  });
  for (const Status& status : statuses) {
    EXPECT_NE(status.message().find("send of 8 bytes to rank 1"), std::string::npos) << status;
    EXPECT_NE(status.message().find("receive of 4 bytes from rank 0"), std::string::npos);
  }
}

TEST(EmulatorTest, ABarrierHoldsUntilEveryRankComes) {
  constexpr int kRanks = 4;
  MachinePtr machine = Open({.devices = kRanks});
  std::atomic<int> before{0};
  const auto statuses = OnEveryRank(*machine, [&](int, Device device) -> Status {
    for (int round = 1; round <= 20; ++round) {
      ++before;
      TL_RETURN_IF_ERROR(HostBarrier(device, "round"));
      if (before < kRanks * round) return InternalError("a rank went through early");
      TL_RETURN_IF_ERROR(HostBarrier(device, "end of round"));
    }
    return absl::OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

TEST(EmulatorTest, AnOperationsFindingEndsTheRun) {
  MachinePtr machine = Open({});
  Device device = GetDevice(*machine, 0);
  Stream stream = *CreateStream(device, "s");
  ASSERT_TRUE(
      Enqueue(stream, Op("bad", 0, {}, [device] { Fail(device, RunError("out of bounds")); }))
          .ok());
  EXPECT_EQ(SynchronizeStream(stream).message(), "out of bounds");
  EXPECT_FALSE(Enqueue(stream, Op("next", 1, {}, [] {})).ok());
}

TEST(EmulatorTest, TheWitnessSeesCopiesCollectivesAndTheHost) {
  MachinePtr machine = Open({.limit_memory = false, .schedule = SchedulePolicy::kSerial});
  Device device = GetDevice(*machine, 0);
  Stream stream = *CreateStream(device, "s");
  const int32_t devices[] = {0};
  Communicator self = *JoinCommunicator(device, "self", devices);
  Event loaded = *CreateEvent(device, "loaded");
  void* pinned = *Reserve(device, Space::kPinnedHost, 64, "ids", Category::kInput);
  float* a = Floats(device, 16, "a");
  float* b = Floats(device, 16, "b");
  const Range range = {pinned, 64, kW};
  ASSERT_TRUE(HostAccess(device, "load", 0, {&range, 1}).ok());
  ASSERT_TRUE(RecordHostEvent(loaded).ok());
  ASSERT_TRUE(WaitEvent(stream, loaded).ok());
  ASSERT_TRUE(CopyAsync(stream, "copy", 1, a, pinned, 64).ok());
  Collective sum;
  sum.block = 16;
  ASSERT_TRUE(EnqueueCollective(self, stream, "sum", 2, sum, a, b).ok());
  ASSERT_TRUE(SynchronizeDevice(device).ok());
  EXPECT_EQ(Observed(device, Space::kPinnedHost)->peak, 64);
  EXPECT_EQ(Observed(device, Space::kDevice)->peak, 128);
}

}  // namespace
}  // namespace tideline

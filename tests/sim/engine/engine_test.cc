#include "sim/engine/engine.h"

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tideline {
namespace {

// Times are held to 1e-12 s and not to the last bit: SimGrid's clock runs on from one Engine of the
// process to the next.

// Records when flows end and timers come; tests hang their reactions on it.
class Recorder : public Engine::Listener {
 public:
  explicit Recorder(Engine* engine) : engine_(engine) {}
  void OnFlow(uint32_t id) override {
    flow_end[id] = engine_->Now();
    if (on_flow) on_flow(id);
  }
  void OnTimer(uint32_t id) override {
    timers.emplace_back(engine_->Now(), id);
    if (on_timer) on_timer(id);
  }
  std::map<uint32_t, double> flow_end;
  std::vector<std::pair<double, uint32_t>> timers;
  std::function<void(uint32_t)> on_flow, on_timer;

 private:
  Engine* engine_;
};

std::unique_ptr<Engine> NewEngine() {
  StatusOr<std::unique_ptr<Engine>> engine = Engine::Make();
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

uint32_t Source(Engine& engine, const std::vector<uint32_t>& links) {
  return engine.AddSource(links);
}
uint32_t Sink(Engine& engine, const std::vector<uint32_t>& links) { return engine.AddSink(links); }

// 1e9 B over two links of 1e9 B/s, 1e-5 s each paid before: 2e-5 + 1 s.
TEST(EngineTest, OneFlowTakesLatencyPlusBytesOverBandwidth) {
  const auto engine = NewEngine();
  const uint32_t from = Source(*engine, {engine->AddLink(1e9)});
  const uint32_t to = Sink(*engine, {engine->AddLink(1e9)});
  ASSERT_TRUE(engine->Seal().ok());
  Recorder recorder(engine.get());
  recorder.on_timer = [&](uint32_t) { engine->StartFlow(from, to, 1000000000, 3); };
  engine->SetTimer(2e-5, 0);
  ASSERT_TRUE(engine->Run(recorder).ok());
  EXPECT_NEAR(recorder.flow_end[3], 1.00002, 1e-12);
  EXPECT_EQ(engine->Activities(), 2);
}

// Fat links show a hidden TCP window: 64e9 B over 450e9 B/s after 1e-5 s: 0.142232222... s.
TEST(EngineTest, NoWindowCapsFastLinks) {
  const auto engine = NewEngine();
  const uint32_t from = Source(*engine, {engine->AddLink(450e9)});
  const uint32_t to = Sink(*engine, {engine->AddLink(450e9)});
  ASSERT_TRUE(engine->Seal().ok());
  Recorder recorder(engine.get());
  recorder.on_timer = [&](uint32_t) { engine->StartFlow(from, to, 64000000000, 0); };
  engine->SetTimer(1e-5, 0);
  ASSERT_TRUE(engine->Run(recorder).ok());
  EXPECT_NEAR(recorder.flow_end[0], 1e-5 + 64.0 / 450.0, 1e-12);
}

// Opposite directions have links of their own and do not disturb each other: 1 s each.
TEST(EngineTest, OppositeFlowsDoNotDisturbEachOther) {
  const auto engine = NewEngine();
  const uint32_t a_from = Source(*engine, {engine->AddLink(1e9)});
  const uint32_t a_to = Sink(*engine, {engine->AddLink(1e9)});
  const uint32_t b_from = Source(*engine, {engine->AddLink(1e9)});
  const uint32_t b_to = Sink(*engine, {engine->AddLink(1e9)});
  ASSERT_TRUE(engine->Seal().ok());
  Recorder recorder(engine.get());
  engine->StartFlow(a_from, b_to, 1000000000, 0);
  engine->StartFlow(b_from, a_to, 1000000000, 1);
  ASSERT_TRUE(engine->Run(recorder).ok());
  EXPECT_NEAR(recorder.flow_end[0], 1.0, 1e-12);
  EXPECT_NEAR(recorder.flow_end[1], 1.0, 1e-12);
}

// Two flows over a core of 1e9 B/s with private ports: 2 s when it is shared, 1 s when it is fat.
TEST(EngineTest, SharedLinksDivideAndFatOnesDoNot) {
  for (const auto& [sharing, seconds] :
       {std::pair(Engine::Sharing::kShared, 2.0), std::pair(Engine::Sharing::kFat, 1.0)}) {
    const auto engine = NewEngine();
    const uint32_t core = engine->AddLink(1e9, sharing);
    const uint32_t a = Source(*engine, {engine->AddLink(1e9), core});
    const uint32_t b = Source(*engine, {engine->AddLink(1e9), core});
    const uint32_t c = Sink(*engine, {engine->AddLink(1e9)});
    const uint32_t d = Sink(*engine, {engine->AddLink(1e9)});
    ASSERT_TRUE(engine->Seal().ok());
    Recorder recorder(engine.get());
    engine->StartFlow(a, c, 1000000000, 0);
    engine->StartFlow(b, d, 1000000000, 1);
    ASSERT_TRUE(engine->Run(recorder).ok());
    EXPECT_NEAR(recorder.flow_end[0], seconds, 1e-12);
    EXPECT_NEAR(recorder.flow_end[1], seconds, 1e-12);
  }
}

// Three flows of unequal length into one link: max-min shares. Sizes 1, 2, 3 GB at 3 GB/s: the
// first ends at 1 s (1 GB/s each), the second at 1 + 1/1.5, the third when all 6 GB are through.
TEST(EngineTest, SharesAreMaxMinFairWhateverTheLatencyPaidBefore) {
  const auto engine = NewEngine();
  const uint32_t into = Sink(*engine, {engine->AddLink(3e9)});
  std::vector<uint32_t> from;
  for (int i = 0; i < 3; ++i) from.push_back(Source(*engine, {engine->AddLink(10e9)}));
  ASSERT_TRUE(engine->Seal().ok());
  Recorder recorder(engine.get());
  for (uint32_t i = 0; i < 3; ++i) engine->StartFlow(from[i], into, (i + 1) * 1000000000LL, i);
  ASSERT_TRUE(engine->Run(recorder).ok());
  EXPECT_NEAR(recorder.flow_end[0], 1.0, 1e-9);
  EXPECT_NEAR(recorder.flow_end[1], 1.0 + 1.0 / 1.5, 1e-9);
  EXPECT_NEAR(recorder.flow_end[2], 2.0, 1e-9);
}

// A ring all-reduce by explicit steps: 2(p-1) steps of S/p bytes (whole bytes), each after 2e-6 s.
// p = 8, S = 1e9, 1e10 B/s: 14 * (2e-6 + 125e6/1e10) = 0.175028; p = 64 truncates S/p: 0.197127.
double RingByStepsSeconds(uint32_t ranks, int64_t bytes) {
  const auto engine = NewEngine();
  std::vector<uint32_t> from, to;
  for (uint32_t i = 0; i < ranks; ++i) {
    from.push_back(Source(*engine, {engine->AddLink(1e10)}));
    to.push_back(Sink(*engine, {engine->AddLink(1e10)}));
  }
  EXPECT_TRUE(engine->Seal().ok());
  Recorder recorder(engine.get());
  std::vector<uint32_t> received(ranks, 0);
  const uint32_t steps = 2 * (ranks - 1);
  double end = 0;
  recorder.on_timer = [&](uint32_t rank) {
    engine->StartFlow(from[rank], to[(rank + 1) % ranks], bytes / ranks, (rank + 1) % ranks);
  };
  recorder.on_flow = [&](uint32_t rank) {
    end = engine->Now();
    if (++received[rank] < steps) engine->SetTimer(engine->Now() + 2e-6, rank);
  };
  for (uint32_t rank = 0; rank < ranks; ++rank) engine->SetTimer(2e-6, rank);
  EXPECT_TRUE(engine->Run(recorder).ok());
  return end;
}

TEST(EngineTest, RingByStepsMeetsItsClosedForm) {
  EXPECT_NEAR(RingByStepsSeconds(8, 1000000000), 0.175028, 1e-11);
  EXPECT_NEAR(RingByStepsSeconds(64, 1000000000), 126 * (2e-6 + 15625000 / 1e10), 1e-10);
}

// Timer 1 s -> flow of 1 s -> timer 1 s later: 3 s.
TEST(EngineTest, ChainsOfTimersAndFlowsAddUp) {
  const auto engine = NewEngine();
  const uint32_t from = Source(*engine, {engine->AddLink(1e9)});
  const uint32_t to = Sink(*engine, {engine->AddLink(1e9)});
  ASSERT_TRUE(engine->Seal().ok());
  Recorder recorder(engine.get());
  recorder.on_timer = [&](uint32_t id) {
    if (id == 0) engine->StartFlow(from, to, 1000000000, 0);
  };
  recorder.on_flow = [&](uint32_t) { engine->SetTimer(engine->Now() + 1.0, 1); };
  engine->SetTimer(1.0, 0);
  ASSERT_TRUE(engine->Run(recorder).ok());
  ASSERT_EQ(recorder.timers.size(), 2u);
  EXPECT_NEAR(recorder.timers[1].first, 3.0, 1e-12);
}

// Bandwidth halved at half-time of a 1 s flow: 0.5 + 0.5 / 0.5 = 1.5 s.
TEST(EngineTest, BandwidthChangesReachRunningFlows) {
  const auto engine = NewEngine();
  const uint32_t up = engine->AddLink(1e9), down = engine->AddLink(4e9);
  const uint32_t from = Source(*engine, {up}), to = Sink(*engine, {down});
  ASSERT_TRUE(engine->Seal().ok());
  Recorder recorder(engine.get());
  recorder.on_timer = [&](uint32_t) { engine->SetBandwidth(up, 0.5e9); };
  engine->StartFlow(from, to, 1000000000, 0);
  engine->SetTimer(0.5, 0);
  ASSERT_TRUE(engine->Run(recorder).ok());
  EXPECT_NEAR(recorder.flow_end[0], 1.5, 1e-9);
}

// 2,000 flows of 1e7 B into one link of 1e10 B/s share exactly: all end at 2 s.
TEST(EngineTest, WideIncastSharesExactly) {
  const auto engine = NewEngine();
  const uint32_t into = Sink(*engine, {engine->AddLink(1e10)});
  std::vector<uint32_t> from;
  for (int i = 0; i < 2000; ++i) from.push_back(Source(*engine, {engine->AddLink(1e10)}));
  ASSERT_TRUE(engine->Seal().ok());
  Recorder recorder(engine.get());
  for (uint32_t i = 0; i < 2000; ++i) engine->StartFlow(from[i], into, 10000000, i);
  ASSERT_TRUE(engine->Run(recorder).ok());
  ASSERT_EQ(recorder.flow_end.size(), 2000u);
  for (const auto& [id, end] : recorder.flow_end) EXPECT_NEAR(end, 2.0, 1e-7) << id;
}

TEST(EngineTest, TimersComeInOrderOfDateAndEmptyFlowsAtOnce) {
  const auto engine = NewEngine();
  const uint32_t from = Source(*engine, {engine->AddLink(1e9)});
  const uint32_t to = Sink(*engine, {engine->AddLink(1e9)});
  ASSERT_TRUE(engine->Seal().ok());
  Recorder recorder(engine.get());
  engine->SetTimer(0.3, 30);
  engine->SetTimer(0.1, 10);
  engine->SetTimer(0.2, 20);
  engine->StartFlow(from, to, 0, 5);
  ASSERT_TRUE(engine->Run(recorder).ok());
  ASSERT_EQ(recorder.timers.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(recorder.timers[i].second, 10u * (i + 1));
    EXPECT_NEAR(recorder.timers[i].first, 0.1 * (i + 1), 1e-12);
  }
  EXPECT_NEAR(recorder.flow_end[5], 0.0, 1e-12);
}

TEST(EngineTest, StopEndsTheCallbacks) {
  const auto engine = NewEngine();
  const uint32_t from = Source(*engine, {engine->AddLink(1e9)});
  const uint32_t to = Sink(*engine, {engine->AddLink(1e9)});
  ASSERT_TRUE(engine->Seal().ok());
  Recorder recorder(engine.get());
  recorder.on_flow = [&](uint32_t) { engine->Stop(); };
  engine->StartFlow(from, to, 1000, 0);
  engine->StartFlow(from, to, 100000, 1);
  engine->SetTimer(5.0, 0);
  ASSERT_TRUE(engine->Run(recorder).ok());
  EXPECT_EQ(recorder.flow_end.size(), 1u);
  EXPECT_TRUE(recorder.timers.empty());
}

// A later Engine of the same process starts at 0 again and gives the same times.
TEST(EngineTest, OneEngineAfterAnother) {
  for (int run = 0; run < 3; ++run) EXPECT_NEAR(RingByStepsSeconds(8, 1000000000), 0.175028, 1e-11);
}

}  // namespace
}  // namespace tideline

// Engine speed: flows between ring neighbours, a fixed number running at any time.
// Bar: at least 300,000 activities/s with 64 concurrent neighbours.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "base/check.h"
#include "sim/engine/engine.h"

namespace tideline {
namespace {

// Every finished flow is followed by the next one on the same edge; sizes differ, so that flows end
// one at a time.
class Ring : public Engine::Listener {
 public:
  Ring(Engine* engine, uint32_t ranks, int64_t flows) : engine_(engine), left_(flows) {
    for (uint32_t i = 0; i < ranks; ++i) {
      const uint32_t up = engine->AddLink(1e9), down = engine->AddLink(1e9);
      sources_.push_back(engine->AddSource({&up, 1}));
      sinks_.push_back(engine->AddSink({&down, 1}));
    }
    TL_CHECK(engine->Seal().ok(), "the ring is a legal platform");
    for (uint32_t i = 0; i < ranks; ++i) OnFlow(i);
  }
  void OnFlow(uint32_t rank) override {
    if (left_-- <= 0) return;
    engine_->StartFlow(sources_[rank], sinks_[(rank + 1) % sinks_.size()],
                       1000000 + rank * 7919 % 1000, rank);
  }
  void OnTimer(uint32_t) override {}

 private:
  Engine* engine_;
  int64_t left_;
  std::vector<uint32_t> sources_, sinks_;
};

void RingNeighbours(benchmark::State& state) {
  constexpr int64_t kFlows = 200000;
  for (auto _ : state) {
    state.PauseTiming();
    std::unique_ptr<Engine> engine = *Engine::Make();
    Ring ring(engine.get(), static_cast<uint32_t>(state.range(0)), kFlows);
    state.ResumeTiming();
    TL_CHECK(engine->Run(ring).ok(), "the ring runs");
    state.PauseTiming();
    engine.reset();
    state.ResumeTiming();
  }
  state.counters["activities_per_second"] = benchmark::Counter(
      static_cast<double>(kFlows * state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(RingNeighbours)->Arg(8)->Arg(64)->Arg(256)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tideline

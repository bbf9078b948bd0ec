// Engine: the virtual clock and the shared network, a thin adapter over SimGrid 3.32.
//
// Why: only this folder knows SimGrid, so a port to another release touches nothing else. SimGrid
// does what it is good at, max-min fair sharing of links among concurrent flows, and owns the
// clock; fixed-duration work without contention needs no activity of its own and is expressed by
// timers.
//
// Model: CM02 without cross traffic and without the TCP window, so a flow moves at its max-min fair
// share of every link it crosses and nothing else. SimGrid weighs flows by the inverse of their
// path latency; here every link has latency 0, which gives all flows weight 1, and whoever starts a
// flow pays the true latency before (a timer), during which the flow takes no bandwidth: the same
// as SimGrid's own latency phase, exact, and one event instead of one per flow.
//
// Routes: a flow goes from a source to a sink; its route is the source's links followed by the
// sink's. That covers ports around a non-blocking core, direct links, NICs and leaf uplinks, with
// no table of pairs.
//
// Cost: one flow is about 2 us with 64 flows running (bench/sim_engine_bench.cc); a change of rates
// re-solves the connected component of links around it. Memory does not grow with finished flows.
// Times are seconds and start at 0 for every Engine; dates closer than 1e-12 s are merged.
//
// Limits: one Engine at a time in a process (SimGrid's clock and callbacks are static); a second
// one may follow when the first is gone, at less precision because SimGrid's clock runs on.
// Planners fork a child per simulation (sim/evaluator.h). One thread only. SimGrid aborts the
// process on violated internal assertions.
//
//   TL_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, Engine::Make());
//   const uint32_t up = engine->AddLink(1e9), down = engine->AddLink(1e9);
//   const uint32_t from = engine->AddSource({&up, 1}), to = engine->AddSink({&down, 1});
//   TL_RETURN_IF_ERROR(engine->Seal());
//   engine->StartFlow(from, to, 1000000, 7);   // listener.OnFlow(7) comes at 0.001 s
//   TL_RETURN_IF_ERROR(engine->Run(listener));
#ifndef TIDELINE_SIM_ENGINE_ENGINE_H_
#define TIDELINE_SIM_ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"

namespace tideline {

class Engine {
 public:
  // Told what happened. Both may start flows and set timers.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnFlow(uint32_t id) = 0;   // a flow's last byte has arrived
    virtual void OnTimer(uint32_t id) = 0;  // a timer's date has come
  };

  enum class Sharing : uint8_t {
    kShared,  // the flows on it divide the bandwidth
    kFat,     // every flow may have the whole bandwidth
  };

  // Precondition: no other Engine exists in this process.
  static StatusOr<std::unique_ptr<Engine>> Make();
  virtual ~Engine() = default;

  // Building, before Seal(). Ids count from 0 per kind. Precondition: bandwidth is positive and
  // finite, and no route (source plus sink) names a link twice.
  virtual uint32_t AddLink(double bytes_per_s, Sharing sharing = Sharing::kShared) = 0;
  virtual uint32_t AddSource(std::span<const uint32_t> links) = 0;
  virtual uint32_t AddSink(std::span<const uint32_t> links) = 0;
  virtual Status Seal() = 0;

  // Starts a flow now. Precondition: sealed, bytes >= 0, and the route has a link. Ids need not be
  // unique; they only come back in OnFlow.
  virtual void StartFlow(uint32_t source, uint32_t sink, int64_t bytes, uint32_t id) = 0;

  // Calls OnTimer(id) at `time_s`, or at once within Run() when that has passed.
  virtual void SetTimer(double time_s, uint32_t id) = 0;

  // From now on; running flows are re-shared at once.
  virtual void SetBandwidth(uint32_t link, double bytes_per_s) = 0;

  // Runs until neither a flow nor a timer is left, or Stop() was called. What SimGrid throws comes
  // back as an InternalError; after an error the Engine must be destroyed.
  virtual Status Run(Listener& listener) = 0;

  // No further callback comes; Run() lets what is still under way end and returns.
  virtual void Stop() = 0;

  virtual double Now() const = 0;          // s
  virtual int64_t Activities() const = 0;  // flows and timers started so far
};

}  // namespace tideline

#endif  // TIDELINE_SIM_ENGINE_ENGINE_H_

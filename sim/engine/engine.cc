#include "sim/engine/engine.h"

#include <cmath>
#include <exception>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace tideline {
namespace {

namespace s4u = simgrid::s4u;

class SimGridEngine;

// SimGrid's completion signal is static and cannot be disconnected: it is connected once per
// process and finds the living engine here.
SimGridEngine* living_engine = nullptr;

// A Comm must outlive its completion callback (the last release inside it crashes in 3.32), so
// finished ones wait here for a while.
constexpr size_t kGraveyardSize = 64;

class SimGridEngine final : public Engine {
 public:
  SimGridEngine() {
    living_engine = this;
    // Given as arguments because Engine::set_config refuses the model in a second Engine.
    std::vector<std::string> arguments = {"tideline",
                                          "--cfg=network/model:CM02",
                                          "--cfg=network/crosstraffic:0",
                                          "--cfg=network/TCP-gamma:0",
                                          "--cfg=network/optim:Lazy",
                                          "--cfg=surf/precision:1e-12",
                                          "--log=root.thres:critical"};
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    int count = static_cast<int>(pointers.size());
    pointers.push_back(nullptr);
    engine_ = std::make_unique<s4u::Engine>(&count, pointers.data());
    zone_ = s4u::create_star_zone("cluster");
    origin_s_ = s4u::Engine::get_clock();
  }

  ~SimGridEngine() override {
    running_.clear();
    graveyard_.clear();
    auto& timers = simgrid::kernel::timer::kernel_timers();
    while (!timers.empty()) {
      simgrid::kernel::timer::Timer* timer = timers.top().second;
      timers.pop();
      delete timer;
    }
    engine_.reset();
    living_engine = nullptr;
  }

  uint32_t AddLink(double bytes_per_s, Sharing sharing) override {
    TL_CHECK(!sealed_, "links are added before Seal()");
    TL_CHECK(std::isfinite(bytes_per_s) && bytes_per_s > 0, "bandwidth is positive and finite");
    s4u::Link* link = zone_->create_link(absl::StrCat("link", links_.size()), bytes_per_s);
    link->set_sharing_policy(sharing == Sharing::kShared ? s4u::Link::SharingPolicy::SHARED
                                                         : s4u::Link::SharingPolicy::FATPIPE);
    links_.push_back(link);
    return static_cast<uint32_t>(links_.size() - 1);
  }

  uint32_t AddSource(std::span<const uint32_t> links) override {
    s4u::Host* host = AddHost("source", sources_.size());
    zone_->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, LinksOf(links), false);
    sources_.push_back(host);
    return static_cast<uint32_t>(sources_.size() - 1);
  }

  uint32_t AddSink(std::span<const uint32_t> links) override {
    s4u::Host* host = AddHost("sink", sinks_.size());
    zone_->add_route(nullptr, host->get_netpoint(), nullptr, nullptr, LinksOf(links), false);
    sinks_.push_back(host);
    return static_cast<uint32_t>(sinks_.size() - 1);
  }

  Status Seal() override {
    TL_CHECK(!sealed_, "Seal() is called once");
    try {
      zone_->seal();
    } catch (const std::exception& error) {
      return InternalError(absl::StrCat("SimGrid refuses the platform: ", error.what()));
    }
    sealed_ = true;
    return absl::OkStatus();
  }

  void StartFlow(uint32_t source, uint32_t sink, int64_t bytes, uint32_t id) override {
    TL_CHECK(sealed_ && source < sources_.size() && sink < sinks_.size() && bytes >= 0,
             "a flow runs between known ends of a sealed platform");
    uint32_t slot;
    if (free_slots_.empty()) {
      slot = static_cast<uint32_t>(running_.size());
      running_.emplace_back();
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
    }
    s4u::CommPtr comm = s4u::Comm::sendto_init(sources_[source], sinks_[sink]);
    comm->set_payload_size(static_cast<uint64_t>(bytes));
    // The slot travels as a pointer that nobody follows. NOLINTNEXTLINE(performance-no-int-to-ptr)
    comm->set_data(reinterpret_cast<void*>(static_cast<uintptr_t>(slot) + 1));
    running_[slot] = {comm, id};
    ++activities_;
    comm->vetoable_start();
  }

  void SetTimer(double time_s, uint32_t id) override {
    ++activities_;
    simgrid::kernel::timer::Timer::set(origin_s_ + time_s, [this, id] {
      if (listener_ != nullptr) listener_->OnTimer(id);
    });
  }

  void SetBandwidth(uint32_t link, double bytes_per_s) override {
    links_[link]->set_bandwidth(bytes_per_s);
  }

  Status Run(Listener& listener) override {
    TL_CHECK(sealed_, "the platform is sealed before it runs");
    listener_ = &listener;
    try {
      engine_->run();
    } catch (const std::exception& error) {
      listener_ = nullptr;
      return InternalError(absl::StrCat("SimGrid failed at ", Now(), " s: ", error.what()));
    }
    listener_ = nullptr;
    if (running_.size() > free_slots_.size()) {
      return InternalError(absl::StrCat("SimGrid stopped at ", Now(), " s with ",
                                        running_.size() - free_slots_.size(), " flows unfinished"));
    }
    return absl::OkStatus();
  }

  void Stop() override { listener_ = nullptr; }

  double Now() const override { return s4u::Engine::get_clock() - origin_s_; }
  int64_t Activities() const override { return activities_; }

  void OnCompletion(const s4u::Activity& activity) {
    // get_data is not const in 3.32; 0 marks activities that are none of ours.
    const uintptr_t data =
        reinterpret_cast<uintptr_t>(const_cast<s4u::Activity&>(activity).get_data<void>());
    if (data == 0 || data > running_.size() || running_[data - 1].comm == nullptr) return;
    const uint32_t slot = static_cast<uint32_t>(data - 1);
    const uint32_t id = running_[slot].id;
    if (graveyard_.size() < kGraveyardSize) {
      graveyard_.push_back(std::move(running_[slot].comm));
    } else {
      graveyard_[next_grave_].swap(running_[slot].comm);
      next_grave_ = (next_grave_ + 1) % kGraveyardSize;
    }
    running_[slot].comm = nullptr;
    free_slots_.push_back(slot);
    if (listener_ != nullptr) listener_->OnFlow(id);
  }

 private:
  struct Running {
    s4u::CommPtr comm;
    uint32_t id = 0;
  };

  s4u::Host* AddHost(const char* kind, size_t number) {
    TL_CHECK(!sealed_, "endpoints are added before Seal()");
    return zone_->create_host(absl::StrCat(kind, number), 1.0);
  }

  std::vector<s4u::LinkInRoute> LinksOf(std::span<const uint32_t> ids) const {
    std::vector<s4u::LinkInRoute> route;
    for (const uint32_t id : ids) route.emplace_back(links_[id]);
    return route;
  }

  std::unique_ptr<s4u::Engine> engine_;
  s4u::NetZone* zone_ = nullptr;
  double origin_s_ = 0;
  bool sealed_ = false;
  Listener* listener_ = nullptr;
  int64_t activities_ = 0;
  std::vector<s4u::Link*> links_;
  std::vector<s4u::Host*> sources_, sinks_;
  std::vector<Running> running_;
  std::vector<uint32_t> free_slots_;
  std::vector<s4u::CommPtr> graveyard_;
  size_t next_grave_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<Engine>> Engine::Make() {
  TL_CHECK(living_engine == nullptr, "one Engine lives at a time: SimGrid's state is static");
  static const bool connected = [] {
    s4u::Activity::on_completion_cb([](const s4u::Activity& activity) {
      if (living_engine != nullptr) living_engine->OnCompletion(activity);
    });
    return true;
  }();
  TL_CHECK(connected, "the completion callback is connected once");
  try {
    return std::make_unique<SimGridEngine>();
  } catch (const std::exception& error) {
    return InternalError(absl::StrCat("SimGrid did not start: ", error.what()));
  }
}

}  // namespace tideline

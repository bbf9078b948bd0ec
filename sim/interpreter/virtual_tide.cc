#include "sim/interpreter/virtual_tide.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tideline {

VirtualTide::VirtualTide(const Role& role, int32_t rank, RunSink* sink)
    : role_(role), rank_(rank), sink_(sink) {
  for (const Buffer& buffer : role.buffers) {
    if (!buffer.persistent || buffer.category == Category::kRuntime) continue;
    const int space = static_cast<int>(buffer.space);
    live_[space] += buffer.bytes;
    by_category_[space][static_cast<int>(buffer.category)] += buffer.bytes;
  }
  peak_ = live_;
  if (sink_ == nullptr) return;
  for (int space = 0; space < kSpaces; ++space) {
    for (int category = 0; category < kCategories; ++category) {
      if (by_category_[space][category] != 0) Report(0, space, category);
    }
  }
}

void VirtualTide::EndSection() { Apply(std::numeric_limits<double>::infinity()); }

void VirtualTide::Apply(double before_s) {
  std::sort(others_.begin(), others_.end());
  auto compute = compute_.begin();
  auto other = others_.begin();
  const auto due = [&](const auto& next, const std::vector<Pending>& all) {
    return next != all.end() && next->time_s < before_s;
  };
  while (due(compute, compute_) || due(other, others_)) {
    const bool from_compute = due(compute, compute_) && !(due(other, others_) && *other < *compute);
    ApplyOne(from_compute ? *compute++ : *other++);
  }
  compute_.erase(compute_.begin(), compute);
  others_.erase(others_.begin(), other);
  next_batch_ = std::max(kBatch, 2 * (compute_.size() + others_.size()));
}

void VirtualTide::ApplyOne(const Pending& change) {
  const Buffer& buffer = role_.buffers[change.buffer];
  if (buffer.category == Category::kRuntime) return;
  const int space = static_cast<int>(buffer.space);
  const int category = static_cast<int>(buffer.category);
  const int64_t delta = change.alloc ? buffer.bytes : -buffer.bytes;
  live_[space] += delta;
  peak_[space] = std::max(peak_[space], live_[space]);
  if (sink_ == nullptr) return;
  by_category_[space][category] += delta;
  Report(change.time_s, space, category);
}

void VirtualTide::Report(double time_s, int space, int category) {
  sink_->Add(MemorySample{.rank = rank_,
                          .space = static_cast<uint8_t>(space),
                          .category = static_cast<uint8_t>(category),
                          .time_ns = std::llround(time_s * 1e9),
                          .live_bytes = by_category_[space][category]});
}

}  // namespace tideline

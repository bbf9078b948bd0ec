#include "models/ir/learning_rate.h"

#include "base/numerics.h"

namespace tideline {
namespace {

// What is left of (r - m) at x in [0, 1).
double RemainingShare(RateSchedule schedule, double x) {
  if (schedule == RateSchedule::kLinear) return 1.0 - x;
  // (1 + cos(pi x)) / 2 as a square keeps its digits near x = 1, where the sum cancels.
  constexpr double kHalfPi = 0x1.921fb54442d18p+0;
  const double cosine = Cos64(kHalfPi * x);
  return cosine * cosine;
}

}  // namespace

double LearningRateAt(const AdamSettings& settings, int64_t step) {
  const double rate = settings.learning_rate;
  const int64_t warmup = settings.warmup_steps;
  if (step < warmup) return rate * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (settings.schedule == RateSchedule::kConstant) return rate;
  const double least = settings.least_learning_rate;
  if (step >= settings.decay_steps) return least;
  const double x =
      static_cast<double>(step - warmup) / static_cast<double>(settings.decay_steps - warmup);
  return least + (rate - least) * RemainingShare(settings.schedule, x);
}

}  // namespace tideline

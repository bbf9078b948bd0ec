// Time of a symbolic profile: gpt3-175b at sequence 2048 must take at most 0.3 s.
#include <benchmark/benchmark.h>

#include "base/check.h"
#include "models/profile/profile.h"
#include "models/zoo/zoo.h"

namespace tideline {
namespace {

void ProfileOf(benchmark::State& state, const char* name) {
  for (auto _ : state) {
    const StatusOr<DecoderConfig> config = ResolveDecoder(name);
    TL_CHECK(config.ok(), "the zoo knows the model");
    StatusOr<Profile> profile =
        ProfileModel(*config, {.batch = 1, .sequence = 2048, .dtype = DType::kBF16});
    TL_CHECK(profile.ok(), "the zoo's models build");
    benchmark::DoNotOptimize(profile->flops_forward);
  }
}

BENCHMARK_CAPTURE(ProfileOf, gpt3_175b, "gpt3-175b")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ProfileOf, llama2_70b, "llama2-70b")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tideline

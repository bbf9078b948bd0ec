// tideline-reference MODEL SEQ GLOBAL_BATCH STEPS SEED: trains with the independent reference on
// the built-in text and prints the mean loss of each step, one per line, before the update.
// `tideline quickstart` holds its own losses against these.
#include <cstdio>
#include <string>
#include <vector>

#include "base/units.h"
#include "exec/data/builtin_text.h"
#include "models/zoo/zoo.h"
#include "tests/reference/reference_trainer.h"

namespace tideline {
namespace {

Status Run(const std::vector<std::string>& words) {
  if (words.size() != 5) {
    return UsageError("usage: tideline-reference MODEL SEQ GLOBAL_BATCH STEPS SEED");
  }
  reference::ReferenceOptions options;
  TL_ASSIGN_OR_RETURN(options.sequence, ParseInteger(words[1], 1, 1 << 20));
  TL_ASSIGN_OR_RETURN(options.global_batch, ParseInteger(words[2], 1, 1 << 20));
  TL_ASSIGN_OR_RETURN(const int64_t steps, ParseInteger(words[3], 1, 1 << 20));
  TL_ASSIGN_OR_RETURN(const int64_t seed, ParseInteger(words[4], 0, INT64_MAX));
  options.seed = static_cast<uint64_t>(seed);
  TL_ASSIGN_OR_RETURN(const DecoderConfig config, ResolveDecoder(words[0], options.sequence));
  reference::ReferenceTrainer<float> trainer(config, options);
  for (int64_t step = 0; step < steps; ++step) {
    const double loss = trainer.Step(
        reference::ReferenceBatch(BuiltinText(), options.sequence, options.global_batch, step));
    std::printf("%s\n", ShortestReal(loss).c_str());
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tideline

int main(int argc, char** argv) {
  const tideline::Status status = tideline::Run({argv + 1, argv + argc});
  if (!status.ok()) {
    std::fprintf(stderr, "tideline-reference: %s\n", std::string(status.message()).c_str());
  }
  return tideline::ExitCode(status);
}

// make_weights MODEL FILE [SEED]: random weights of a model under Hugging Face names.
#include <cstdlib>
#include <iostream>

#include "models/import/load_model.h"
#include "tests/models/import/random_weights.h"

int main(int count, char** arguments) {
  if (count < 3 || count > 4) {
    std::cerr << "usage: make_weights MODEL FILE [SEED], for example gpt2 /tmp/gpt2.safetensors\n";
    return 2;
  }
  const auto model = tideline::LoadModel(arguments[1]);
  tideline::Status status = model.status();
  if (status.ok() && tideline::DecoderOf(model->config) == nullptr) {
    status = tideline::UsageError(std::string(arguments[1]) + " is no decoder");
  }
  if (status.ok()) {
    const uint64_t seed = count == 4 ? std::strtoull(arguments[3], nullptr, 10) : 0;
    status = tideline::WriteRandomWeights(*tideline::DecoderOf(model->config), seed, arguments[2]);
  }
  if (status.ok()) return 0;
  std::cerr << "make_weights: " << status.message() << "\n";
  return tideline::ExitCode(status);
}

// Checkpoints with random weights under Hugging Face names, for models of any size.
#ifndef TIDELINE_TESTS_MODELS_IMPORT_RANDOM_WEIGHTS_H_
#define TIDELINE_TESTS_MODELS_IMPORT_RANDOM_WEIGHTS_H_

#include <cstdint>
#include <string>

#include "base/status.h"
#include "models/import/hf_weights.h"
#include "models/zoo/decoder_config.h"

namespace tideline {

// N(0, 0.02), each tensor from its name and `seed`; F32.
Status WriteRandomWeights(const DecoderConfig& config, uint64_t seed, const std::string& path);

// The same for tensors as a map names them.
Status WriteRandomWeights(const WeightMap& map, uint64_t seed, const std::string& path);

}  // namespace tideline

#endif  // TIDELINE_TESTS_MODELS_IMPORT_RANDOM_WEIGHTS_H_

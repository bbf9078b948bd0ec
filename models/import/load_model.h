// MODEL of the command line: a zoo name, "gpt:..." or "llama:...", or the path of a Hugging Face
// config.json.
#ifndef TIDELINE_MODELS_IMPORT_LOAD_MODEL_H_
#define TIDELINE_MODELS_IMPORT_LOAD_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/zoo/model.h"

namespace tideline {

struct LoadedModel {
  ModelConfig config;
  std::vector<std::string> warnings;  // whole sentences, for stderr
};

// A text that ends in ".json" or holds a '/' is a path; everything else is resolved by the zoo.
// `positions` as in ResolveModel. Errors: those of ResolveModel (exit 2), ReadFile and
// ImportHfConfig (exit 5).
StatusOr<LoadedModel> LoadModel(const std::string& model, int64_t positions = 0);

}  // namespace tideline

#endif  // TIDELINE_MODELS_IMPORT_LOAD_MODEL_H_

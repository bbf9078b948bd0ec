#include "models/import/load_model.h"

#include "base/file.h"
#include "models/import/hf_config.h"
#include "models/zoo/zoo.h"

namespace tideline {
namespace {

// A configuration is a few kilobytes.
constexpr int64_t kMostConfigBytes = int64_t{1} << 20;

}  // namespace

StatusOr<LoadedModel> LoadModel(const std::string& model, int64_t positions) {
  const bool is_path = model.ends_with(".json") || model.find('/') != std::string::npos;
  if (!is_path) {
    TL_ASSIGN_OR_RETURN(ModelConfig config, ResolveModel(model, positions));
    return LoadedModel{std::move(config), {}};
  }
  TL_ASSIGN_OR_RETURN(const std::string text, ReadFile(model, kMostConfigBytes));
  TL_ASSIGN_OR_RETURN(ImportedModel imported, ImportHfConfig(text, model));
  return LoadedModel{std::move(imported.config), std::move(imported.warnings)};
}

}  // namespace tideline

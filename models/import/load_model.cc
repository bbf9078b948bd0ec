#include "models/import/load_model.h"

#include "base/file.h"
#include "models/zoo/zoo.h"

namespace tideline {
namespace {

// A configuration is a few kilobytes.
constexpr int64_t kMostConfigBytes = int64_t{1} << 20;

}  // namespace

StatusOr<ImportedModel> LoadModel(const std::string& model, int64_t positions) {
  const bool is_path = model.ends_with(".json") || model.find('/') != std::string::npos;
  if (!is_path) {
    TL_ASSIGN_OR_RETURN(DecoderConfig config, ResolveModel(model, positions));
    return ImportedModel{std::move(config), {}};
  }
  TL_ASSIGN_OR_RETURN(const std::string text, ReadFile(model, kMostConfigBytes));
  return ImportHfConfig(text, model);
}

}  // namespace tideline

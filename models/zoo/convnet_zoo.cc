#include "models/zoo/convnet_zoo.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "base/units.h"
#include "models/zoo/convnet.h"
#include "models/zoo/decoder_config.h"

namespace tideline {
namespace {

struct Published {
  const char* name;
  ConvNetKind kind;
  ResidualBlock block;
  std::vector<int64_t> stages;
};

// He et al. 2016, table 1; Huang et al. 2017, table 1.
const std::vector<Published>& PublishedNetworks() {
  static const std::vector<Published> networks = {
      {"resnet18", ConvNetKind::kResNet, ResidualBlock::kBasic, {2, 2, 2, 2}},
      {"resnet34", ConvNetKind::kResNet, ResidualBlock::kBasic, {3, 4, 6, 3}},
      {"resnet50", ConvNetKind::kResNet, ResidualBlock::kBottleneck, {3, 4, 6, 3}},
      {"resnet101", ConvNetKind::kResNet, ResidualBlock::kBottleneck, {3, 4, 23, 3}},
      {"resnet152", ConvNetKind::kResNet, ResidualBlock::kBottleneck, {3, 8, 36, 3}},
      {"densenet121", ConvNetKind::kDenseNet, ResidualBlock::kBasic, {6, 12, 24, 16}},
  };
  return networks;
}

struct SpecKey {
  const char* name;
  std::function<Status(const std::string&, ConvNetConfig&)> read;
};

SpecKey IntegerKey(const char* name, int64_t most, int64_t ConvNetConfig::*field) {
  return {name, [name, most, field](const std::string& value, ConvNetConfig& config) {
            StatusOr<int64_t> number = ParseInteger(value, 1, most);
            if (!number.ok()) return Annotate(number.status(), name);
            config.*field = *number;
            return absl::OkStatus();
          }};
}

template <typename Choice>
SpecKey ChoiceKey(const char* name, std::vector<std::string> words, Choice ConvNetConfig::*field) {
  return {name, [name, words, field](const std::string& value, ConvNetConfig& config) -> Status {
            const auto found = std::find(words.begin(), words.end(), value);
            if (found == words.end()) return UsageError(UnknownName(name, value, words));
            config.*field = static_cast<Choice>(found - words.begin());
            return absl::OkStatus();
          }};
}

Status ReadStages(const std::string& value, ConvNetConfig& config) {
  config.stages.clear();
  for (const absl::string_view part : absl::StrSplit(value, '-')) {
    StatusOr<int64_t> blocks = ParseInteger(std::string(part), 1, kMostBlocksOfStage);
    if (!blocks.ok()) return Annotate(blocks.status(), "blocks");
    config.stages.push_back(*blocks);
  }
  return absl::OkStatus();
}

std::vector<SpecKey> SpecKeys(ConvNetKind kind) {
  std::vector<SpecKey> keys = {
      {"blocks", ReadStages},
      IntegerKey("width", kMostChannels, &ConvNetConfig::width),
      IntegerKey("image", kMostImageSide, &ConvNetConfig::image),
      IntegerKey("channels", kMostChannels, &ConvNetConfig::channels),
      IntegerKey("classes", kMostRows, &ConvNetConfig::classes),
      ChoiceKey<ImageStem>("stem", {"standard", "small"}, &ConvNetConfig::stem)};
  if (kind == ConvNetKind::kResNet) {
    keys.push_back(
        ChoiceKey<ResidualBlock>("block", {"basic", "bottleneck"}, &ConvNetConfig::block));
  } else {
    keys.push_back(IntegerKey("growth", kMostChannels, &ConvNetConfig::growth));
  }
  return keys;
}

Status ReadSpec(std::string_view list, ConvNetConfig& config) {
  const std::vector<SpecKey> keys = SpecKeys(config.kind);
  std::vector<std::string> names;
  for (const SpecKey& key : keys) names.push_back(key.name);
  TL_ASSIGN_OR_RETURN(const std::vector<KeyValue> entries, ParseKeyValues(list));
  for (const KeyValue& entry : entries) {
    const auto found = std::find(names.begin(), names.end(), entry.key);
    if (found == names.end()) return UsageError(UnknownName("key", entry.key, names));
    TL_RETURN_IF_ERROR(keys[found - names.begin()].read(entry.value, config));
  }
  if (!config.stages.empty()) return absl::OkStatus();
  return UsageError(
      "'blocks' is missing; write the blocks of each stage, as in resnet:blocks=2-2-2-2");
}

}  // namespace

std::vector<std::string> ConvNetNames() {
  std::vector<std::string> names;
  for (const Published& network : PublishedNetworks()) names.push_back(network.name);
  return names;
}

std::vector<std::string> ConvNetFamilies() { return {"resnet", "densenet"}; }

StatusOr<std::optional<ConvNetConfig>> ResolveConvNet(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view base = text.substr(0, colon);
  ConvNetConfig config;
  config.name = std::string(text);
  bool known = base == "resnet" || base == "densenet";
  if (base == "densenet") config.kind = ConvNetKind::kDenseNet;
  if (known && colon == std::string_view::npos) return std::optional<ConvNetConfig>();
  for (const Published& network : PublishedNetworks()) {
    if (network.name != base) continue;
    known = true;
    config.kind = network.kind;
    config.block = network.block;
    config.stages = network.stages;
  }
  if (!known) return std::optional<ConvNetConfig>();
  if (colon == std::string_view::npos) return std::optional(std::move(config));
  Status status = ReadSpec(text.substr(colon + 1), config);
  if (status.ok()) {
    const Status valid = ValidateConfig(config);
    if (!valid.ok()) status = UsageError(std::string(valid.message()));
  }
  if (!status.ok()) return Annotate(status, absl::StrCat("model ", Quoted(text, 200)));
  return std::optional(std::move(config));
}

}  // namespace tideline

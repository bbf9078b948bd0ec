// Convolutional networks by name; see models/zoo/zoo.h.
#ifndef TIDELINE_MODELS_ZOO_CONVNET_ZOO_H_
#define TIDELINE_MODELS_ZOO_CONVNET_ZOO_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/zoo/convnet_config.h"

namespace tideline {

// Names and families ("resnet", "densenet"), which sizes may follow after a colon.
std::vector<std::string> ConvNetNames();
std::vector<std::string> ConvNetFamilies();

// The configuration a text names; nothing when it names no convolutional network. Errors: exit 2.
StatusOr<std::optional<ConvNetConfig>> ResolveConvNet(std::string_view text);

}  // namespace tideline

#endif  // TIDELINE_MODELS_ZOO_CONVNET_ZOO_H_

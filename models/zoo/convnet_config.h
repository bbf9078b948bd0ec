// ConvNetConfig: a convolutional network that classifies images, as its authors publish it.
#ifndef TIDELINE_MODELS_ZOO_CONVNET_CONFIG_H_
#define TIDELINE_MODELS_ZOO_CONVNET_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tideline {

enum class ConvNetKind : uint8_t { kResNet, kDenseNet };
// kBasic: two 3x3 convolutions; kBottleneck: 1x1, 3x3, 1x1 to four times the width.
enum class ResidualBlock : uint8_t { kBasic, kBottleneck };
// kStandard: a 7x7 convolution of stride 2 and a 3x3 maximum of stride 2; kSmall: a 3x3
// convolution, for small images.
enum class ImageStem : uint8_t { kStandard, kSmall };

// Limits of sizes, for the same reason as those of decoders (models/zoo/decoder_config.h).
inline constexpr int64_t kMostChannels = int64_t{1} << 16;
inline constexpr int64_t kMostImageSide = int64_t{1} << 14;
inline constexpr int64_t kMostConvNetStages = 16;
inline constexpr int64_t kMostBlocksOfStage = 1024;

struct ConvNetConfig {
  std::string name;  // "resnet50"
  ConvNetKind kind = ConvNetKind::kResNet;
  // Residual blocks, or layers of the dense blocks, between one halving of the image and the next.
  std::vector<int64_t> stages;
  int64_t width = 64;  // channels after the stem
  ResidualBlock block = ResidualBlock::kBasic;
  int64_t growth = 32;  // channels that a dense layer adds
  ImageStem stem = ImageStem::kStandard;
  int64_t image = 224;  // height and width
  int64_t channels = 3;
  int64_t classes = 1000;
  double norm_epsilon = 1e-5;
  double norm_momentum = 0.1;  // the share of a new batch in the running statistics
  bool operator==(const ConvNetConfig&) const = default;
};

}  // namespace tideline

#endif  // TIDELINE_MODELS_ZOO_CONVNET_CONFIG_H_

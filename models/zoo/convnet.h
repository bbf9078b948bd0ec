// Builds the forward graph of a ResNet or a DenseNet with its loss: cross entropy over classes, one
// label per image.
//
// ResNet: He et al. 2016, with the stride of a bottleneck on its 3x3 convolution as the published
// weights of torchvision have it. DenseNet-BC: Huang et al. 2017 (1x1 convolutions to four times
// the growth, transitions that halve channels and image).
//
// Blocks (Node::layer): 0 the stem; 1..L the residual blocks, or the dense layers, the last of a
// stage with the transition after it; L + 1 the final pool, classifier and loss.
//
// Layout: activations [batch, channels, height, width]; logits [batch, 1, classes] and labels
// [batch, 1], so that a sample is a sequence of one. Batch norms have statistics over the
// micro-batch, shared between replicas (planner/techniques/data_parallel), and keep running ones as
// state. Convolutions begin as N(0, 2 / (outputs * window)) (He et al. 2015, fan out), the
// classifier as N(0, 0.01), norms as 1 and 0.
#ifndef TIDELINE_MODELS_ZOO_CONVNET_H_
#define TIDELINE_MODELS_ZOO_CONVNET_H_

#include "base/status.h"
#include "models/ir/graph.h"
#include "models/zoo/convnet_config.h"
#include "models/zoo/model_shape.h"

namespace tideline {

// Residual blocks, or dense layers, of all stages.
int64_t LayersOf(const ConvNetConfig& config);

// Checks a configuration by itself: sizes in range, an image that every stage can halve. Errors
// (exit 5) name the field, its value and what to write instead.
Status ValidateConfig(const ConvNetConfig& config);

// Errors: those of ValidateConfig; a batch below 1, a sequence other than 1 (exit 2).
StatusOr<Graph> BuildConvNet(const ConvNetConfig& config, const ModelShape& shape);

}  // namespace tideline

#endif  // TIDELINE_MODELS_ZOO_CONVNET_H_

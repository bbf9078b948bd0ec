#include "models/zoo/convnet.h"

#include <gtest/gtest.h>

#include <set>

#include "models/ops/op_table.h"
#include "models/zoo/zoo.h"

namespace tideline {
namespace {

Graph Build(const std::string& model, const ModelShape& shape = {.batch = 1, .sequence = 1}) {
  const auto config = ResolveModel(model);
  EXPECT_TRUE(config.ok()) << config.status();
  StatusOr<Graph> graph = BuildModel(*config, shape);
  EXPECT_TRUE(graph.ok()) << model << ": " << graph.status();
  return *std::move(graph);
}

double ForwardFlops(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes) {
    std::vector<OperandSpec> operands;
    for (const std::vector<TensorId>* tensors : {&node.inputs, &node.outputs}) {
      for (const TensorId id : *tensors) {
        operands.push_back({graph.tensors[id].shape, graph.tensors[id].dtype});
      }
    }
    flops += WorkOf(node.op, node.attributes, operands).model_flops;
  }
  return flops;
}

// As torchvision counts them; running statistics are none.
TEST(ConvNetTest, PublishedParameterCounts) {
  const std::pair<const char*, int64_t> counts[] = {
      {"resnet18", 11689512},  {"resnet34", 21797672},  {"resnet50", 25557032},
      {"resnet101", 44549160}, {"resnet152", 60192808}, {"densenet121", 7978856}};
  for (const auto& [model, parameters] : counts) {
    const Graph graph = Build(model);
    EXPECT_EQ(ParameterCount(graph), parameters) << model;
    EXPECT_TRUE(ValidateGraph(graph).ok());
  }
}

// ResNet-50 at 224, multiply-adds by hand.
//   stem: 64 x 112^2 x 147                                                       = 118,013,952
//   each block of stage k (width w = 64, 128, 256, 512; side a = 56, 28, 14, 7):
//     1x1 from 4w: 4 w^2 a^2, 3x3: 9 w^2 a^2, 1x1 to 4w: 4 w^2 a^2 = 17 w^2 a^2; w^2 a^2 is
//     64^2 56^2 = 12,845,056 for all stages                                  = 218,365,952
//   its first block differs: stage 1 has 64 channels in (w^2 a^2 for 4 w^2 a^2) and a shortcut
//     64 -> 256 (4 w^2 a^2): 18; later stages take 2w channels at twice the side: 2w w (2a)^2 =
//     8 w^2 a^2 for 4, and the shortcut 2w -> 4w is 8 w^2 a^2: 17 + 4 + 8 = 29
//   units of w^2 a^2: 18 + 2 x 17 + (29 + 3 x 17) + (29 + 5 x 17) + (29 + 2 x 17) = 309
//                                                             309 x 12,845,056 = 3,969,122,304
//   classifier: 2048 x 1000                                                      =   2,048,000
//   together                                                                     4,089,184,256
TEST(ConvNetTest, ResNet50HasTheFlopsOfPaper) {
  EXPECT_EQ(ForwardFlops(Build("resnet50")), 2.0 * 4089184256);
  EXPECT_EQ(ForwardFlops(Build("resnet50", {.batch = 3, .sequence = 1})), 6.0 * 4089184256);
}

// ResNet-18 at 224: stem 118,013,952; a basic block is 18 units of w^2 a^2 = 12,845,056; the first
// of a later stage has w/2 channels in at the same cost per output (4.5 for 9) and a shortcut
// w/2 -> w (0.5): 14; 2 x 18 + 3 x (14 + 18) = 132 units; classifier 512,000: 1,814,073,344.
TEST(ConvNetTest, ResNet18HasItsFlops) {
  EXPECT_EQ(ForwardFlops(Build("resnet18")), 2.0 * 1814073344);
}

TEST(ConvNetTest, GraphHasItsBlocksStatesAndShapes) {
  const Graph graph = Build("resnet50:image=64,classes=10", {.batch = 2, .sequence = 1});
  EXPECT_EQ(graph.blocks, 18);
  std::set<int32_t> layers;
  int64_t states = 0;
  for (const Node& node : graph.nodes) layers.insert(node.layer);
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role == TensorRole::kState) ++states;
    if (tensor.name == "images") {
      EXPECT_EQ(tensor.shape, (std::vector<int64_t>{2, 3, 64, 64}));
      EXPECT_EQ(tensor.batch_dim, 0);
    }
    if (tensor.name == "layers.15.relu") {
      EXPECT_EQ(tensor.shape, (std::vector<int64_t>{2, 2048, 2, 2}));
    }
  }
  EXPECT_EQ(layers.size(), 18u);
  EXPECT_EQ(states, 2 * 53);
  EXPECT_EQ(graph.tensors[graph.loss].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(GraphHash(graph), GraphHash(Build("resnet50:image=64,classes=10")));
  EXPECT_NE(GraphHash(graph), GraphHash(Build("resnet50:image=32,classes=10")));
}

TEST(ConvNetTest, SixteenBitNetworksTakeFloatImages) {
  const Graph graph = Build("resnet18", {.batch = 1, .sequence = 1, .dtype = DType::kBF16});
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.name == "images") {
      EXPECT_EQ(tensor.dtype, DType::kF32);
    }
    if (tensor.name == "stem.convolution") {
      EXPECT_EQ(tensor.dtype, DType::kBF16);
    }
    if (tensor.name == "stem.norm.moments") {
      EXPECT_EQ(tensor.dtype, DType::kF32);
    }
  }
}

TEST(ConvNetTest, TraitsSayWhatThePlannerNeeds) {
  const ModelTraits traits = TraitsOf(*ResolveModel("densenet121"));
  EXPECT_EQ(traits.layers, 58);
  EXPECT_FALSE(traits.equal_layers);
  EXPECT_EQ(traits.samples, SampleKind::kImages);
  EXPECT_EQ(traits.image, (std::array<int64_t, 3>{3, 224, 224}));
  EXPECT_EQ(traits.longest_sequence, 1);
  EXPECT_EQ(traits.classes, 1000);
  EXPECT_FALSE(traits.uncut.empty());
  EXPECT_EQ(DecoderOf(*ResolveModel("densenet121")), nullptr);
}

TEST(ConvNetTest, WrongSizesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"resnet:width=8", "blocks"},
      {"resnet:blocks=2-0", "blocks"},
      {"resnet:blocks=1,block=wide", "bottleneck"},
      {"resnet50:growth=3", "growth"},
      {"densenet:blocks=1-1-1,image=4,stem=standard", "image"},
      {"resnet:blocks=1,stem=tiny", "small"},
      {"resnet:blocks=1,image=20000", "image"},
      {"resnet51", "resnet50"},
  };
  for (const auto& [model, named] : cases) {
    const auto config = ResolveModel(model);
    ASSERT_FALSE(config.ok()) << model;
    EXPECT_EQ(ExitCode(config.status()), 2) << model;
    EXPECT_NE(config.status().message().find(named), std::string::npos) << config.status();
  }
  const auto config = ResolveModel("resnet18");
  EXPECT_FALSE(BuildModel(*config, {.batch = 1, .sequence = 2}).ok());
  EXPECT_FALSE(BuildModel(*config, {.batch = 0, .sequence = 1}).ok());
}

}  // namespace
}  // namespace tideline

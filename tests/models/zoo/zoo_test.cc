#include "models/zoo/zoo.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/zoo/decoder.h"

namespace tideline {
namespace {

int64_t Parameters(const std::string& name) {
  const StatusOr<ModelConfig> config = ResolveModel(name);
  EXPECT_TRUE(config.ok()) << config.status();
  const int64_t sequence = std::min<int64_t>(8, TraitsOf(*config).longest_sequence);
  const StatusOr<Graph> graph = BuildModel(*config, {.batch = 1, .sequence = sequence});
  EXPECT_TRUE(graph.ok()) << graph.status();
  return ParameterCount(*graph);
}

// DEFINITIONS 11; gpt3-175b by hand: 12Lh^2 + 13Lh + (V + P + 2)h with
// L = 96, h = 12288, V = 50257, P = 2048 is 173946175488 + 15335424 + 642748416 = 174604259328.
TEST(ZooTest, ParameterCountsAreThePublishedOnes) {
  EXPECT_EQ(Parameters("gpt2"), 124'439'808);
  EXPECT_EQ(Parameters("gpt2-xl"), 1'557'611'200);
  EXPECT_EQ(Parameters("gpt3-175b"), 174'604'259'328);
  EXPECT_EQ(Parameters("opt-30b"), 29'974'540'288);
  EXPECT_EQ(Parameters("llama2-7b"), 6'738'415'616);
  EXPECT_EQ(Parameters("llama2-70b"), 68'976'648'192);
  EXPECT_EQ(Parameters("llama3.1-70b"), 70'553'706'496);
  EXPECT_EQ(Parameters("llama3-8b"), 8'030'261'248);
}

// Within two per cent of the size a name carries (llama-30b is 32.5 billion, llama-7b 6.7, the
// smaller gpt3 and opt sizes are as rounded in their papers).
TEST(ZooTest, EveryModelBuildsAndIsAboutItsNominalSize) {
  for (const std::string& name : ZooNames()) {
    const size_t dash = name.rfind('-');
    const int64_t parameters = Parameters(name);
    if (dash == std::string::npos || !isdigit(name[dash + 1])) continue;
    const double unit = name.back() == 'b' ? 1e9 : 1e6;
    const double nominal = std::stod(name.substr(dash + 1)) * unit;
    EXPECT_NEAR(static_cast<double>(parameters) / nominal, 1.0, 0.16) << name;
  }
}

TEST(ZooTest, FamiliesDifferAsPublished) {
  const DecoderConfig gpt = ResolveDecoder("gpt2").value();
  EXPECT_TRUE(gpt.fused_qkv && gpt.tied_embedding && gpt.mlp_bias);
  EXPECT_EQ(gpt.activation, ActivationKind::kGelu);
  const DecoderConfig opt = ResolveDecoder("opt-125m").value();
  EXPECT_EQ(opt.activation, ActivationKind::kRelu);
  EXPECT_EQ(opt.position_offset, 2);
  EXPECT_EQ(opt.vocab, 50272);
  const DecoderConfig llama = ResolveDecoder("llama3.1-8b").value();
  EXPECT_EQ(llama.position, PositionKind::kRotary);
  EXPECT_EQ(llama.kv_heads, 8);
  EXPECT_EQ(llama.rotary.theta, 500000.0);
  EXPECT_EQ(llama.rotary.factor, 8.0);
  EXPECT_FALSE(llama.tied_embedding);
  EXPECT_EQ(ResolveDecoder("llama3-8b")->rotary.factor, 1.0);
  EXPECT_EQ(ResolveDecoder("llama-7b")->norm_epsilon, 1e-6);
}

TEST(ZooTest, GptTextsTakeDefaults) {
  const DecoderConfig config = ResolveDecoder("gpt:layers=24,hidden=1024,heads=16").value();
  EXPECT_EQ(config.vocab, 50257);
  EXPECT_EQ(config.ffn, 4096);
  EXPECT_EQ(config.kv_heads, 16);
  EXPECT_EQ(config.max_positions, 1024);
  EXPECT_EQ(ResolveDecoder("gpt:layers=1,hidden=8,heads=2", 4096)->max_positions, 4096);
  EXPECT_EQ(ResolveDecoder("gpt:layers=1,hidden=8,heads=2,positions=99", 4096)->max_positions, 99);
  const DecoderConfig full =
      ResolveDecoder(
          "gpt:layers=2,hidden=12,heads=4,vocab=256,ffn=20,kv_heads=2,positions=64,"
          "activation=swiglu,norm=rms_norm,head_dim=6,dropout=0.25")
          .value();
  EXPECT_EQ(full.ffn, 20);
  EXPECT_EQ(full.kv_heads, 2);
  EXPECT_EQ(full.head_dim, 6);
  EXPECT_EQ(full.activation, ActivationKind::kSwiGlu);
  EXPECT_EQ(full.norm, NormKind::kRmsNorm);
  EXPECT_EQ(full.dropout, 0.25);
  EXPECT_EQ(config.dropout, 0.0);
  EXPECT_FALSE(full.fused_qkv);
  EXPECT_TRUE(BuildDecoder(full, {.batch = 1, .sequence = 8}).ok());
}

TEST(ZooTest, LlamaTextsTakeDefaults) {
  const DecoderConfig config = ResolveDecoder("llama:layers=32,hidden=4096,heads=32").value();
  EXPECT_EQ(config.ffn, 11008);
  EXPECT_EQ(config.vocab, 32000);
  EXPECT_EQ(config.position, PositionKind::kRotary);
  // The same sizes under the published name.
  EXPECT_EQ(ResolveDecoder("llama:layers=40,hidden=5120,heads=40")->ffn, 13824);
}

TEST(ZooTest, ErrorsNameWhatIsWrongAndWhatIsValid) {
  const std::pair<std::string, std::string> cases[] = {
      {"gpt22", "did you mean `gpt2`"},
      {"lama2-7b", "llama2-7b"},
      {"", "valid"},
      {"opt-350m", "word_embed_proj_dim=512"},
      {"bert:layers=2", "model family"},
      {"gpt:layers=2,hidden=10,heads=3", "hidden = 10 is not divisible by heads = 3"},
      {"gpt:layers=2,hidden=12,heads=4,kv_heads=3", "heads = 4 is not divisible by kv_heads = 3"},
      {"gpt:hidden=12,heads=4", "'layers' is missing"},
      {"gpt:", "'layers' is missing"},
      {"gpt:layers=2,hidden=12,heads=4,width=3", "unknown key `width`"},
      {"gpt:layers=x,hidden=12,heads=4", "layers"},
      {"gpt:layers=-1,hidden=12,heads=4", "layers"},
      {"gpt:layers=99999999999999999999,hidden=12,heads=4", "layers"},
      {"gpt:layers=100000,hidden=12,heads=4", "from 1 to 16384"},
      {"gpt:layers=2,layers=3,hidden=12,heads=4", "layers"},
      {"gpt:layers=2,hidden=12,heads=4,activation=tanh", "gelu, relu, swiglu"},
      {"llama:layers=2,hidden=12,heads=4", "head_dim = 3 is odd"},
      {"gpt:layers=2,hidden=12,heads=4,dropout=1", "below 1"},
      {"gpt:layers=2,hidden=12,heads=4,dropout=-0.1", "dropout"},
  };
  for (const auto& [text, message] : cases) {
    const Status status = ResolveDecoder(text).status();
    EXPECT_EQ(ExitCode(status), 2) << text;
    EXPECT_NE(std::string(status.message()).find(message), std::string::npos)
        << text << ": " << status.message();
  }
}

}  // namespace
}  // namespace tideline

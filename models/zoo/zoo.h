// The zoo: models by name, as their authors publish them.
//
//   gpt2, gpt2-medium, gpt2-large, gpt2-xl                 Radford et al. 2019
//   gpt3-125m ... gpt3-175b                                Brown et al. 2020, table 2.1
//   opt-125m ... opt-175b                                  Zhang et al. 2022
//   llama-7b ... llama-65b, llama2-7b ... llama2-70b, llama3-8b, llama3-70b, llama3.1-8b,
//   llama3.1-70b                                           Touvron et al. 2023, Meta 2024
//   gpt:layers=24,hidden=1024,heads=16[,vocab=,ffn=,kv_heads=,head_dim=,positions=,activation=,norm=,
//       dropout=]
//   llama:...                                              the same keys
//   resnet18, resnet34, resnet50, resnet101, resnet152     He et al. 2016
//   densenet121                                            Huang et al. 2017
//   resnet50:image=64,classes=10                           a published one with other sizes
//   resnet:blocks=2-2-2[,width=,block=basic|bottleneck,stem=standard|small,image=,channels=,classes=]
//   densenet:blocks=6-12[,width=,growth=,stem=...]         blocks: of each stage
//
// Defaults of `gpt:`: vocab 50257, ffn 4 x hidden, gelu, LayerNorm, learned positions 1024 (or the
// sequence asked for), tied head, biases, fused projection. `llama:`: vocab 32000, ffn 8/3 x hidden
// rounded up to 256, swiglu, RMSNorm, rotary positions 2048, untied head, no biases. `resnet:` and
// `densenet:`: width 64, growth 32, basic blocks, standard stem, image 224, channels 3, classes
// 1000.
#ifndef TIDELINE_MODELS_ZOO_ZOO_H_
#define TIDELINE_MODELS_ZOO_ZOO_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/zoo/decoder_config.h"
#include "models/zoo/model.h"

namespace tideline {

// The configuration a text names. `positions` > 0 replaces the default number of positions of
// `gpt:` and `llama:` texts that do not give one (--seq; DEFINITIONS 13). Errors are usage errors
// (exit 2): an unknown name lists the valid ones and the nearest; a model that cannot be built is
// refused by the feature it needs; a malformed list names the entry; sizes that do not divide name
// both numbers.
StatusOr<ModelConfig> ResolveModel(std::string_view text, int64_t positions = 0);

// The same where only a decoder will do.
StatusOr<DecoderConfig> ResolveDecoder(std::string_view text, int64_t positions = 0);

// Every name ResolveModel knows, in the order above.
std::vector<std::string> ZooNames();

}  // namespace tideline

#endif  // TIDELINE_MODELS_ZOO_ZOO_H_

// Reads a Hugging Face config.json of a GPT-2, OPT or LLaMA (1, 2, 3) model.
//
// Defaults are those of the transformers library where a file leaves a key out, with its traps: the
// head is tied by default for gpt2 and opt, not for llama; OPT's position table has two extra rows;
// head_dim need not be hidden / heads. Sizes themselves must be in the file. What cannot be built
// is refused by the name of the key (post-norm, a projected embedding, rope types other than
// default and llama3, sliding windows, quantised weights, exact GELU); keys nobody knows give one
// warning. Any input is safe: errors are input errors (exit 5) naming file and field.
#ifndef TIDELINE_MODELS_IMPORT_HF_CONFIG_H_
#define TIDELINE_MODELS_IMPORT_HF_CONFIG_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/zoo/decoder_config.h"

namespace tideline {

struct ImportedModel {
  DecoderConfig config;
  std::vector<std::string> warnings;  // whole sentences, for stderr
};

// `file` serves messages and gives the model its name: its stem, or its folder's name when the stem
// is "config".
StatusOr<ImportedModel> ImportHfConfig(std::string_view text, const std::string& file);

}  // namespace tideline

#endif  // TIDELINE_MODELS_IMPORT_HF_CONFIG_H_

// Which tensor of a Hugging Face checkpoint holds which of our parameters, and how its elements lie
// there: GPT-2, OPT and LLaMA-like decoders, the families of models/zoo.
//
// GPT-2's matrices lie as ours ([in, out], "Conv1D"), its q, k and v side by side in one; the
// linear layers of the others lie transposed ([out, in]). A parameter is therefore described by
// strides, not copied in shapes of its own; one parameter may be put together from several tensors.
// A tied head may be stored a second time; constant buffers (causal masks, rotary frequencies) of
// old files are known and skipped.
//
//   TL_ASSIGN_OR_RETURN(const TensorFiles files, TensorFiles::Open(path));
//   TL_ASSIGN_OR_RETURN(const WeightMap map, MatchWeights(config, files));
#ifndef TIDELINE_MODELS_IMPORT_HF_WEIGHTS_H_
#define TIDELINE_MODELS_IMPORT_HF_WEIGHTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/import/safetensors.h"
#include "models/zoo/decoder_config.h"

namespace tideline {

// A parameter's elements with dimension 0 in [first, first + extent). Element (i0, i1, ...) of the
// parameter is element offset + (i0 - first) * strides[0] + i1 * strides[1] + ... of the tensor.
struct WeightPart {
  std::string tensor;
  std::vector<int64_t> tensor_shape = {};
  int64_t first = 0;
  int64_t extent = 0;
  int64_t offset = 0;
  std::vector<int64_t> strides = {};
  bool operator==(const WeightPart&) const = default;

  // Element of the tensor for the parameter's element at `index`, one number per dimension.
  // Precondition: Holds(index[0]).
  int64_t ElementAt(std::span<const int64_t> index) const {
    int64_t element = offset - first * strides[0];
    for (size_t d = 0; d < index.size(); ++d) element += index[d] * strides[d];
    return element;
  }
  bool Holds(int64_t row) const { return row >= first && row < first + extent; }
};

struct ParameterWeights {
  std::string parameter;       // its name in the graph (models/zoo/decoder.cc)
  std::vector<int64_t> shape;  // without padding
  std::vector<WeightPart> parts;
  bool operator==(const ParameterWeights&) const = default;
};

struct WeightMap {
  std::vector<ParameterWeights> parameters;  // in the order of the graph
};

// The tensors under the names that the transformers library saves them with. Precondition:
// ValidateConfig(config).
WeightMap HuggingFaceWeights(const DecoderConfig& config);

// The same for a given checkpoint, whose names may lack the outer model's prefix ("transformer.",
// "model."). Errors (exit 5), naming file and tensor: one is missing, has another shape or a type
// that is no floating point number, one is there that the model does not have, a stored tied head
// differs from the embedding.
StatusOr<WeightMap> MatchWeights(const DecoderConfig& config, const TensorFiles& files);

}  // namespace tideline

#endif  // TIDELINE_MODELS_IMPORT_HF_WEIGHTS_H_

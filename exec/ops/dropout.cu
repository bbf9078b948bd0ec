// Dropout of activations and of attention's probabilities.
#include <string>

#include "absl/strings/str_cat.h"
#include "exec/ops/dropout.h"
#include "exec/ops/formats.h"
#include "exec/ops/launchers.h"

namespace tideline::ops {
namespace {

// What the tensor [samples, parts, inner, rows, columns] is of its sample: parts are counted from
// `first_part`, rows from `first_row`; a head is a part and an inner index.
struct DropoutPlace {
  int64_t parts = 1, inner = 1, rows = 1, columns = 1;
  int64_t first_part = 0, first_row = 0;
};

// One block per row.
template <typename T>
struct DropoutKernel {
  static constexpr const char* kName = "dropout";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> x, Out<T, Mode> y,
                                       DropoutPlace place, DropoutMask mask) {
    const int64_t row = block.index() % place.rows;
    const int64_t head = block.index() / place.rows % (place.parts * place.inner);
    const int64_t sample = block.index() / (place.rows * place.parts * place.inner);
    const int64_t first = block.index() * place.columns;
    constexpr int kTogether = DropoutMask::kTogether;
    block.Each((place.columns + kTogether - 1) / kTogether, [&](int64_t group) {
      float factors[kTogether];
      mask.Factors(sample, place.first_part * place.inner + head, place.first_row + row, group,
                   factors);
      for (int i = 0; i < kTogether; ++i) {
        const int64_t column = group * kTogether + i;
        if (column < place.columns) {
          y[first + column] = static_cast<float>(x[first + column]) * factors[i];
        }
      }
    });
  }
};

}  // namespace

DropoutMask MaskOf(const OpCall& call, int64_t batch) {
  const Dropout& dropout = call.attributes().dropout;
  DropoutMask mask;
  if (dropout.rate == 0.0f) return mask;
  const LaunchContext& context = call.context();
  const std::string stream = absl::StrCat("dropout ", context.layer, " ", dropout.site);
  const PhiloxBlock key =
      BlockAt(MakeStreamKey(context.seed, stream), static_cast<uint64_t>(context.step));
  mask.key[0] = key.word[0];
  mask.key[1] = key.word[1];
  mask.threshold = static_cast<uint32_t>(static_cast<double>(dropout.rate) * 0x1p32);
  mask.kept = 1.0f / (1.0f - dropout.rate);
  mask.first_sample = call.At(dropout.first_sample) + context.micro_batch * batch;
  mask.active = true;
  return mask;
}

Status LaunchDropout(const OpCall& call) {
  const std::vector<int64_t>& shape = call.Shape(0);
  const size_t rank = shape.size();
  DropoutPlace place;
  place.rows = shape[rank - 2];
  place.columns = shape[rank - 1];
  if (rank > 3) {
    place.parts = shape[1];
    place.first_part = call.At(call.attributes().row_offset);
  }
  for (size_t d = 2; d + 2 < rank; ++d) place.inner *= shape[d];
  place.first_row = call.At(call.attributes().position_offset);
  const DropoutMask mask = MaskOf(call, rank > 2 ? shape[0] : 1);
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<DropoutKernel<T>>(call.target(), call.Rows(0), call.Read<T>(0), call.Write<T>(1),
                                    place, mask);
  });
}

}  // namespace tideline::ops

// How windows move over an image, and the geometry of convolutions.
//
// Along a side of `extent` elements with `padding` zeros at both ends there are
// (extent + 2 padding - size) / stride + 1 windows, rounded down; window p begins at
// p * stride - padding.
#ifndef TIDELINE_MODELS_OPS_WINDOWS_H_
#define TIDELINE_MODELS_OPS_WINDOWS_H_

#include <cstdint>
#include <vector>

#include "models/ir/attributes.h"

namespace tideline {

// Windows along one side; below 1 when not even one fits. Precondition: stride >= 1.
int64_t WindowsAlong(int64_t extent, int64_t size, int32_t stride, int32_t padding);

// The extents of a convolution y[n,o,p,q] = sum over i,r,s of x[n,i,.,.] weight[o,i,r,s], whichever
// of its three ops they are read off.
struct ConvolutionShape {
  int64_t n = 0;
  int64_t i = 0, h = 0, w = 0;  // channels, height, width of x
  int64_t o = 0, r = 0, s = 0;  // of the weight
  int64_t p = 0, q = 0;         // of y
  int32_t stride = 1, padding = 0;

  constexpr int64_t terms() const { return i * r * s; }  // of one sum
  constexpr int64_t positions() const { return p * q; }  // of y, per sample and channel
  // The image is its own column matrix.
  constexpr bool pointwise() const { return r == 1 && s == 1 && stride == 1 && padding == 0; }
};

// `shapes` are those of the operands, inputs then outputs, in the order of the op. Precondition: op
// is kConvolution, kConvolutionGrad or kConvolutionWeightGrad and its shapes have four dimensions.
ConvolutionShape ConvolutionOf(Op op, const Attributes& attributes,
                               const std::vector<std::vector<int64_t>>& shapes);

// The shape of the scratch of one of these ops: a tile of the column matrix, at most some 8 MiB
// where that is possible. Forward and the gradient of the weight gather `columns` positions of y at
// a time: [i r s, columns]. The gradient of x makes the columns of some channels of x for all
// positions: [channels r s, p q]. Empty: pointwise, none. Bits do not depend on the tile.
std::vector<int64_t> ConvolutionScratch(Op op, const ConvolutionShape& shape);

}  // namespace tideline

#endif  // TIDELINE_MODELS_OPS_WINDOWS_H_

// Reverse-mode differentiation of a forward graph by the gradient rules of the op table.
#ifndef TIDELINE_MODELS_OPS_AUTODIFF_H_
#define TIDELINE_MODELS_OPS_AUTODIFF_H_

#include <vector>

#include "base/status.h"
#include "models/ir/graph.h"

namespace tideline {

// Appends the backward nodes of `forward`, in reverse order of the forward nodes, as ordinary nodes
// with phase kBackward, named "grad:<forward node>:<what>". Conventions:
// - the seed is d(loss)/d(loss) = loss_scale for every token: kCrossEntropyGrad carries it in
//   attributes.loss_scale;
// - each *use* of a parameter has a gradient tensor of its own (role kParameterGradient, dtype
//   `gradient_dtype`), named "<parameter>.grad", or "<parameter>.grad.<use>" when there are several
//   (uses numbered from 0 in forward order); the node that makes it has attributes.accumulate =
//   true and may be told to overwrite for the first micro-batch by whoever lowers it (DEFINITIONS 6
//   and 8: uses are added once per step, in order of use);
// - several contributions to one activation's gradient are added pairwise with kAdd, in order of
//   the forward uses; the sum belongs to the block of the first use, so that a stage which begins
//   there sends one gradient;
// - gradients of slices (aliases) are slices of the gradient of the tensor they alias, written in
//   place; the gradient of an op that passes it on unchanged (kAdd) is the same tensor, no copy;
// - both products of a kEinsum's gradient take the output gradient as first operand, so their
//   contracted letters run in its order ("bsn,bsk->kn" sums over b, then s);
// - backward nodes read forward tensors directly; those are what a forward pass must save.
// Cost: linear in nodes. Errors: an op without a gradient rule, no loss or one that is no cross
// entropy, a tensor of which only some slices are used.
StatusOr<Graph> Differentiate(const Graph& forward, float loss_scale, DType gradient_dtype);

// Forward storages (activations and tokens, not parameters) that some backward node reads, each
// once, ascending.
std::vector<TensorId> SavedStorages(const Graph& training);

}  // namespace tideline

#endif  // TIDELINE_MODELS_OPS_AUTODIFF_H_

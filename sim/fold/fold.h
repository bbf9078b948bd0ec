// Folding: which nodes have to be simulated so that the others do the same thing at the same time.
//
// Nodes (never ranks or roles) are coloured and the colours refined until stable (Weisfeiler and
// Leman 1968): two nodes keep one colour when their GPUs play the same roles at the same speed and
// every transfer of every GPU, out and in, takes the same kind of route to the same local GPU of a
// node of the same colour. One node per colour is simulated, and the flows of the others are stood
// for by its own: a flow that leaves a representative goes out over its NIC and comes in over the
// NIC of the destination colour's representative (possibly the same node). Because max-min shares
// are unique and the colouring is equitable, every share, and so every time, is that of the
// unfolded cluster; folding ranks, replicas or roles instead misses the sharing of NICs and leafs.
// With contended leaf uplinks the unit is the whole leaf.
//
// Cost: O(rounds x transfers x log units), rounds at most the number of units and usually 2 or 3.
// Folded and unfolded agree to 1e-9 on random placements (tests/sim/fold/fold_test.cc).
#ifndef TIDELINE_SIM_FOLD_FOLD_H_
#define TIDELINE_SIM_FOLD_FOLD_H_

#include <cstdint>
#include <span>
#include <vector>

#include "models/cluster/cluster_spec.h"
#include "planner/program/program.h"
#include "sim/communication/communicators.h"

namespace tideline {

struct Folding {
  std::vector<int32_t> stands_for;  // per rank: the simulated rank that does the same; itself if so
  std::vector<int32_t> ranks;       // simulated, ascending
  std::vector<int32_t> nodes;       // built, ascending; their number is the node classes
};

// `slowdown` has a factor per rank. Precondition: the program's ranks fit the cluster, ids are in
// range, and ranks use only groups they are members of.
Folding Fold(const Program& program, const Communicators& communicators, const ClusterSpec& cluster,
             std::span<const double> slowdown);

// Every node that has a rank stands for itself.
Folding NoFold(const Program& program, const ClusterSpec& cluster);

}  // namespace tideline

#endif  // TIDELINE_SIM_FOLD_FOLD_H_

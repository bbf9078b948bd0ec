// How a collective moves its bytes: transfers between members, in steps.
//
//   ring, as one step (default): every ring edge carries all its bytes at once, 2(n-1)/n of the
//     tensor for an all-reduce, (n-1)/n for an all-gather or reduce-scatter, all of it for a
//     broadcast, and the latencies of the hops are paid before. The same time as the real steps
//     when nothing else contends, and contention is still seen; n flows instead of 2n(n-1).
//   ring, by steps: 2(n-1) or n-1 steps, each edge carries 1/n of the tensor in each.
//   tree (all-reduce): ceil(log2 n) levels up and as many down, the whole tensor on each edge.
//   halving-doubling (all-reduce): exchanges of S/2, S/4, ... and back, among the largest power of
//     two of the members; the others hand theirs in first and get the result last.
// Kinds other than all-reduce always use the ring (Collective::algorithm is about all-reduces).
// Steps are synchronous: the next begins when every transfer of the one before has ended.
//
// Sources: Patarasuk and Yuan 2009 (ring); Thakur, Rabenseifner and Gropp 2005 (the others).
#ifndef TIDELINE_SIM_COMMUNICATION_COLLECTIVE_STEPS_H_
#define TIDELINE_SIM_COMMUNICATION_COLLECTIVE_STEPS_H_

#include <cstdint>
#include <vector>

#include "planner/program/program.h"

namespace tideline {

// From member to member; positions in the group's order.
struct Transfer {
  int32_t from = 0;
  int32_t to = 0;
  int64_t bytes = 0;
  bool operator==(const Transfer&) const = default;
};

struct CollectiveStep {
  std::vector<Transfer> transfers;
  // How many edges in a row the latency of the step is paid for: 1, or the hops of a ring in one
  // step. A path of h hops pays h successive edges from wherever that is dearest.
  int64_t latency_hops = 1;
};

// Which members talk to which, without the bytes: what folding has to know. Collectives with equal
// patterns and members have equal edges.
enum class TransferPattern : uint8_t { kRing, kLine, kTree, kHalvingDoubling };

TransferPattern PatternOf(const Collective& collective);

// Bytes of the whole tensor: what every member has after an all-gather.
int64_t FullBytes(const Collective& collective, int64_t members);

// The steps among `members` ranks; none for one member. Costs O(transfers).
std::vector<CollectiveStep> StepsOf(const Collective& collective, int32_t members,
                                    bool explicit_steps);

}  // namespace tideline

#endif  // TIDELINE_SIM_COMMUNICATION_COLLECTIVE_STEPS_H_

// How a collective moves its bytes: transfers between members, in steps.
//
//   ring, as one step (default): every member sends all its bytes at once, 2(n-1)/n of the tensor
//     for an all-reduce, (n-1)/n for an all-gather or reduce-scatter, and the latencies of the hops
//     are paid before. The same time as the real steps when nothing else contends, and contention
//     is still seen; O(n) flows instead of 2n(n-1).
//   ring, by steps: 2(n-1) or n-1 steps of 1/n of the tensor per member.
//   Rings of w members on each of several nodes run as w rings at once, 1/w of the bytes each, the
//     r-th leaving every node through the r-th member, so that all NICs carry traffic (NCCL's
//     channels do the same). Member l of a node then sends (w-1)/w of its bytes to member l+1 of
//     its node and 1/w to member l+1 of the next one.
//   broadcast: the whole tensor down the line of members, as one step.
//   tree (all-reduce): ceil(log2 n) levels up and as many down, the whole tensor on each edge.
//   halving-doubling (all-reduce): exchanges of S/2, S/4, ... and back, among the largest power of
//     two of the members; the others hand theirs in first and get the result last.
// All-gathers and reduce-scatters always use the ring (Collective::algorithm is about all-reduces).
// Steps are synchronous: the next begins when every transfer of the one before has ended.
//
// Sources: Patarasuk and Yuan 2009 (ring); Thakur, Rabenseifner and Gropp 2005 (the others).
#ifndef TIDELINE_SIM_COMMUNICATION_COLLECTIVE_STEPS_H_
#define TIDELINE_SIM_COMMUNICATION_COLLECTIVE_STEPS_H_

#include <cstdint>
#include <span>
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

// Bytes that are read and written to do the collective in one memory, as emulated devices do: every
// input once, every output once.
double MovedBytes(const Collective& collective, int64_t members);

// w: how many of the group's members each node holds, in one run; 1 when nodes hold different
// numbers. `members` are ranks in the group's order, rank r being on node r / gpus_per_node.
int32_t RingWidth(std::span<const int32_t> members, int32_t gpus_per_node);

// The steps among `members` ranks, `width` on each node; none for one member. Costs O(transfers).
// Precondition: width divides members.
std::vector<CollectiveStep> StepsOf(const Collective& collective, int32_t members, int32_t width,
                                    bool explicit_steps);

}  // namespace tideline

#endif  // TIDELINE_SIM_COMMUNICATION_COLLECTIVE_STEPS_H_

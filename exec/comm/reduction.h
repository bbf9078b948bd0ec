// Reduction: the literal order in which a collective adds its members' values (DEFINITIONS 5).
//
// An order is a list of steps "row d = row d + row s" over the members' rows of values, the left
// operand kept in place; playing the list leaves the result in one row. All four orders become such
// a list, so one loop executes them and a test can read them. n members need n - 1 steps.
//
//   RANK              ((r0 + r1) + r2) + ...
//   RING(s)           chunk c of n: the same, starting at rank (s + c) mod n and ascending mod n;
//                     of `count` elements the first count mod n chunks have one more
//   TREE              balanced: sum(first half) + sum(second half), an odd one out in the first
//   halving-doubling  recursive halving (Thakur, Rabenseifner & Gropp, IJHPCA 2005, section 4):
//   with
//                     p the largest power of two <= n and e = n - p, ranks 2i and 2i + 1 (i < e)
//                     are added first and act as one; the p values then are added at distance p/2,
//                     p/4,
//                     ..., 1; the lower rank's value is the left operand
// Sums are in fp32 and rounded once to the element type. A maximum uses the same steps; it keeps a
// NaN. Safe from any thread.
#ifndef TIDELINE_EXEC_COMM_REDUCTION_H_
#define TIDELINE_EXEC_COMM_REDUCTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "planner/program/program.h"

namespace tideline {

struct ReductionStep {
  int32_t into = 0;
  int32_t from = 0;
  bool operator==(const ReductionStep&) const = default;
};

struct ReductionSteps {
  std::vector<ReductionStep> steps;
  int32_t result = 0;  // the row that holds the result
};

// The steps of `order` among `members` >= 1 rows; `first_rank` is where a ring starts for the chunk
// at hand and is ignored by the other orders.
ReductionSteps StepsOf(ReductionOrder order, int32_t members, int32_t first_rank);

// The ring chunk that begins at or holds element `index` of `count`: its number and its end.
struct RingChunk {
  int32_t number = 0;
  int64_t end = 0;
};
RingChunk RingChunkAt(int64_t index, int64_t count, int32_t members);

// Plays the steps on rows[member][0, count) and returns the row of the result.
const float* Reduce(const ReductionSteps& steps, Reduction reduction, std::span<float* const> rows,
                    int64_t count);

}  // namespace tideline

#endif  // TIDELINE_EXEC_COMM_REDUCTION_H_

// Mutants: Programs with one planted error, to measure who notices (verifier, emulator).
//
// A mutation kind is drawn uniformly, then a place where it applies, then the change. Some mutants
// do the same as the original, e.g. without a wait that others imply. SameBehaviour proves that by
// a criterion of its own, the transitive closure of lane order and waits in bit sets, so that such
// mutants can be left out; it shares no code with the verifier.
#ifndef TIDELINE_TESTS_PLANNER_PROGRAM_MUTANTS_H_
#define TIDELINE_TESTS_PLANNER_PROGRAM_MUTANTS_H_

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/program/program.h"

namespace tideline {

enum class Mutation : uint8_t {
  kDropWait,
  kDropAlloc,
  kDropFree,
  kAllocLater,    // past the next instruction of its lane
  kAllocEarlier,  // before the previous instruction of its lane
  kFreeLater,
  kFreeEarlier,
  kDropInstruction,  // one that does work
  kRepeatInstruction,
  kSwapOnLane,  // two neighbours on a lane that do work
  kShrinkOperand,
  kShiftOperand,
  kWrongBuffer,  // an operand names another buffer that is large enough
  kWrongAccess,  // a read becomes a write or the reverse
  kWrongPeer,
  kWrongLane,
  kShrinkBuffer,
  kOverlapAddress,  // a buffer moves onto another
  kCollectiveKind,
  kCollectiveCount,
  kCollectiveOrder,  // of the additions
  kRingStart,
  kCount,
};
std::string_view Name(Mutation mutation);

// Applies one mutation at a random place; says what it did, or returns "" and leaves the Program as
// it is when there is no place for it.
std::string Mutate(Program& program, Mutation mutation, std::mt19937_64& random);

struct Mutant {
  size_t original = 0;  // index of its Program
  Mutation mutation = Mutation::kDropWait;
  std::string change;
  Program program;
};

// `count` mutants of `originals`, kinds uniform, originals in turn; calls `visit` with each (they
// may be large). Fewer when hardly anything applies. Deterministic in the seed.
template <typename Visit>
void ForEachMutant(std::span<const Program> originals, size_t count, uint64_t seed, Visit visit) {
  std::mt19937_64 random(seed);
  const size_t most_draws = originals.empty() ? 0 : 1000 * count;
  for (size_t made = 0, draw = 0; made < count && draw < most_draws; ++draw) {
    Mutant mutant;
    mutant.original = made % originals.size();
    mutant.mutation = static_cast<Mutation>(random() % static_cast<size_t>(Mutation::kCount));
    mutant.program = originals[mutant.original];
    mutant.change = Mutate(mutant.program, mutant.mutation, random);
    if (mutant.change.empty()) continue;
    visit(mutant);
    ++made;
  }
}

// The mutant provably does what the original does: the same work on the same bytes, everything that
// touches a common byte (one of them writing) in the same order, buffers alive while used and alone
// on their addresses, communication in the same order. False when it does not or when this cannot
// be shown. O(n^2 / 64) per section.
bool SameBehaviour(const Program& original, const Program& mutant);

}  // namespace tideline

#endif  // TIDELINE_TESTS_PLANNER_PROGRAM_MUTANTS_H_

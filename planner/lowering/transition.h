// Transition: the Program that moves a training state from the layout of one Program to that of
// another: a job that is rescaled, or whose plan changes, without a checkpoint in between.
//
// Ranks keep their numbers: rank r of either Program is rank r of the transition, which has as many
// as the larger of the two. Each rank holds its old buffers and its new ones; nothing else but
// staging, of which there is at most `staging_bytes`. What stays on its rank is copied (and cast
// where the new copy is narrower), what is long enough is sent from where it lies to where it goes,
// short slices are packed into messages: cast on the sender's side, so that narrow copies travel
// narrow. Messages go in rounds, in round d each rank to the one d further, so that every link is
// used and no list waits in a circle. Replicas give in turn (planner/program/state_slices.h).
//
// The prologue stands for the old state, with values that depend on tensor and element only: who
// has an old state puts it in place of playing the prologue, as a resumed run does. Played as it is
// the transition proves itself: the new buffers must hold the same values by the new layout.
//
//   TL_ASSIGN_OR_RETURN(const Transition transition, LowerTransition(old_program, new_program));
//   transition.program    // verified; one body, played once
#ifndef TIDELINE_PLANNER_LOWERING_TRANSITION_H_
#define TIDELINE_PLANNER_LOWERING_TRANSITION_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/program/program.h"
#include "planner/program/state_map.h"

namespace tideline {

struct TransitionOptions {
  int64_t staging_bytes = int64_t{64} << 20;  // per rank; at least 1 KiB
};

struct Transition {
  Program program;
  // By rank: the buffer of `program` that stands for a buffer of the old or new role. Only buffers
  // that hold a state are there, and of the old ones only those that hold it at full width.
  std::vector<std::map<uint32_t, uint32_t>> old_buffers, new_buffers;
  ProgramState from, to;
};

// Precondition: both Programs are verified. Errors: those of MapState; exit 5 when the two states
// are not of the same tensors, naming one.
StatusOr<Transition> LowerTransition(const Program& from, const Program& to,
                                     const TransitionOptions& options = {});

// The generator's stream of a tensor's values in the prologue, which has
// value(element) = NormalAt(seed, stream, element).
std::string TransitionStream(const StateTensor& tensor);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_LOWERING_TRANSITION_H_

// A hand-made training program over two ranks, with everything an interpreter has to do: roles that
// differ, messages both ways, a collective, host tasks, copies, persistent and short-lived buffers.
//
// Rank 0 looks up x = table[ids] and sends y = x w. Rank 1 computes the "loss", 0.01 times the sum
// of z = y w, and the "gradient" g = 0.002 y^T y, which it sends back. Both add g to w, and the
// loss is all-reduced. w starts as 0.25 everywhere, table as N(0, 1) by seed 0.
#ifndef TIDELINE_TESTS_EXEC_INTERPRETER_EXAMPLE_PROGRAM_H_
#define TIDELINE_TESTS_EXEC_INTERPRETER_EXAMPLE_PROGRAM_H_

#include <string_view>
#include <vector>

#include "planner/program/program.h"

namespace tideline {

inline constexpr int64_t kExampleSequence = 4;
inline constexpr int64_t kExampleHidden = 4;

// Laid out, with lifetimes. `collapsed`: both ends of both links are written with delta +1, as
// lowering does on an axis of two.
Program ExampleProgram(bool collapsed = false);

// The losses of the example on the tokens of `text`, computed without any of the executor.
std::vector<double> ExampleLosses(std::string_view text, int64_t steps);

}  // namespace tideline

#endif  // TIDELINE_TESTS_EXEC_INTERPRETER_EXAMPLE_PROGRAM_H_

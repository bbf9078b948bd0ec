// What a room proposes, as text: for tests that hold it against a list written by hand.
#ifndef TIDELINE_TESTS_PLANNER_TECHNIQUES_WAYS_H_
#define TIDELINE_TESTS_PLANNER_TECHNIQUES_WAYS_H_

#include <string>
#include <string_view>
#include <vector>

#include "planner/techniques/propose.h"

namespace tideline {

// The alternatives of `propose` as FormatPins writes them, in the order proposed; `pinned` and
// `partial` in the form of ParsePins.
std::vector<std::string> WaysOf(Proposer propose, const Workload& workload,
                                std::string_view pinned = "", std::string_view partial = "");

// The message with which PlanOf refuses the pins: exit 3, which the test fails without.
std::string RefusalOf(const Workload& workload, std::string_view pins);

}  // namespace tideline

#endif  // TIDELINE_TESTS_PLANNER_TECHNIQUES_WAYS_H_

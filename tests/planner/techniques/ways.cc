#include "tests/planner/techniques/ways.h"

#include <gtest/gtest.h>

namespace tideline {

std::vector<std::string> WaysOf(Proposer propose, const Workload& workload, std::string_view pinned,
                                std::string_view partial) {
  const StatusOr<Pins> pins = ParsePins(pinned);
  const StatusOr<Pins> decided = ParsePins(partial);
  EXPECT_TRUE(pins.ok() && decided.ok()) << pins.status() << decided.status();
  if (!pins.ok() || !decided.ok()) return {};
  std::vector<std::string> texts;
  for (const Pins& way : propose({workload, *pins}, *decided)) texts.push_back(FormatPins(way));
  return texts;
}

std::string RefusalOf(const Workload& workload, std::string_view pins) {
  const StatusOr<Pins> parsed = ParsePins(pins);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  if (!parsed.ok()) return "";
  const StatusOr<Plan> plan = PlanOf(workload, *parsed);
  EXPECT_EQ(ExitCode(plan.status()), 3) << std::string(pins) << ": " << plan.status();
  return std::string(plan.status().message());
}

}  // namespace tideline

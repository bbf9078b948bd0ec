#include "cli/names.h"

#include <gtest/gtest.h>

#include <string>

#include "models/cluster/cluster_text.h"
#include "models/zoo/zoo.h"
#include "planner/plan/pins.h"

namespace tideline {
namespace {

std::string TextOf(const HelpSection& section) {
  std::string text;
  for (const auto& [name, sentence] : section.rows) text += name + " " + sentence + "\n";
  return text;
}

TEST(NamesTest, EveryModelIsListed) {
  const std::string text = TextOf(ModelSection());
  for (const std::string& name : ZooNames()) EXPECT_NE(text.find(name), std::string::npos) << name;
}

TEST(NamesTest, EveryClusterIsListed) {
  const std::string text = TextOf(ClusterSection());
  for (const std::string& name : ClusterNames()) {
    if (name.rfind("emulated:", 0) == 0) continue;  // a pattern
    EXPECT_NE(text.find(name), std::string::npos) << name;
  }
  EXPECT_NE(text.find("emulated:"), std::string::npos);
}

// The message about an unknown pin lists all there are.
TEST(NamesTest, EveryPinIsListed) {
  const std::string text = TextOf(PinSection());
  const std::string message(ParsePins("no_such_pin=1").status().message());
  std::string list = message.substr(message.find("valid: ") + 7) + ", ";
  size_t pins = 0;
  for (size_t end = list.find(", "); end != std::string::npos; end = list.find(", ")) {
    EXPECT_NE(text.find(list.substr(0, end) + "="), std::string::npos) << list.substr(0, end);
    list.erase(0, end + 2);
    ++pins;
  }
  EXPECT_GE(pins, 13u);
}

}  // namespace
}  // namespace tideline

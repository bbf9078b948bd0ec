#include "cli/table.h"

#include <gtest/gtest.h>

namespace tideline {
namespace {

TEST(TableTest, FirstColumnLeftOthersRight) {
  EXPECT_EQ(FormatTable({"name", "bytes", ""}, {{"a", "12", "x"}, {"longer", "3", ""}}),
            "name    bytes\n"
            "a          12  x\n"
            "longer      3\n");
  EXPECT_EQ(FormatTable({"name"}, {}), "name\n");
}

TEST(TableTest, WidthIsInCharacters) {
  EXPECT_EQ(FormatTable({"n", "v"}, {{"µs", "1"}, {"abc", "22"}}), "n     v\nµs    1\nabc  22\n");
}

TEST(TableTest, Pairs) {
  EXPECT_EQ(FormatPairs({{"a", "1"}, {"long", "2"}}), "a     1\nlong  2\n");
  EXPECT_EQ(FormatPairs({}), "");
}

}  // namespace
}  // namespace tideline

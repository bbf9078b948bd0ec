#include "exec/data/builtin_text.h"

#include <array>
#include <cmath>

#include "gtest/gtest.h"

namespace tideline {
namespace {

TEST(BuiltinText, IsLongEnoughAndPlainAscii) {
  const std::string_view text = BuiltinText();
  EXPECT_GE(text.size(), 24000u);
  for (const char character : text) {
    EXPECT_TRUE(character == '\n' || (character >= ' ' && character <= '~'));
  }
  EXPECT_EQ(text.substr(0, 9), "THE TIDE\n");
  EXPECT_EQ(text.substr(text.size() - 10), "the table.");
}

// A model that learns anything must beat the entropy of single bytes; English has about 4.2 bits.
TEST(BuiltinText, HasTheByteEntropyOfEnglish) {
  const std::string_view text = BuiltinText();
  std::array<int, 256> counts{};
  for (const char character : text) ++counts[static_cast<unsigned char>(character)];
  double bits = 0;
  for (const int count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(text.size());
    bits -= share * std::log2(share);
  }
  EXPECT_GT(bits, 3.9);
  EXPECT_LT(bits, 4.6);
}

}  // namespace
}  // namespace tideline

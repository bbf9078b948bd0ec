#include "exec/wire/fields.h"

#include <limits>

#include "gtest/gtest.h"

namespace tideline {
namespace {

enum class Colour : uint8_t { kRed, kGreen };

struct Item {
  uint16_t number = 0;
  std::string text;
  bool operator==(const Item&) const = default;
};

struct Letter {
  bool flag = false;
  Colour colour = Colour::kRed;
  std::array<int32_t, 2> pair{};
  std::vector<double> values;
  std::optional<int64_t> maybe;
  std::vector<Item> items;
  bool operator==(const Letter&) const = default;
};

template <typename Wire, IsOrConst<Letter> Message>
void Fields(Wire& wire, Message& letter) {
  wire(letter.flag);
  wire.Choice(letter.colour, Colour::kGreen);
  wire(letter.pair, letter.values);
  wire.Optional(letter.maybe, [](auto& each, auto& value) { each(value); });
  wire.List(letter.items, 10, [](auto& each, auto& item) { each(item.number, item.text); });
}

std::string Written(const Letter& letter) {
  FieldWriter writer;
  Fields(writer, letter);
  return writer.Take();
}

std::optional<Letter> Read(std::string_view bytes) {
  FieldReader reader(bytes);
  Letter letter;
  Fields(reader, letter);
  return reader.Finish() ? std::optional(letter) : std::nullopt;
}

const Letter kLetter = {.flag = true,
                        .colour = Colour::kGreen,
                        .pair = {1, -1},
                        .values = {0.0, std::numeric_limits<double>::infinity()},
                        .maybe = 7,
                        .items = {{3, "three"}, {0, ""}}};

// Little-endian: flag 01; colour 01; 1 and -1 in four bytes each, with nothing before them; no
// values, a count of 8 bytes; no value, 00; one item: a count, 2 bytes, the text after its length.
TEST(FieldsTest, BytesByHand) {
  const Letter letter = {.flag = true,
                         .colour = Colour::kGreen,
                         .pair = {1, -1},
                         .values = {},
                         .maybe = std::nullopt,
                         .items = {{258, "ab"}}};
  const std::string zeros(7, '\0');
  std::string expected = "\x01\x01";
  expected += std::string("\x01\0\0\0\xff\xff\xff\xff", 8);
  expected += std::string(8, '\0') + '\0';
  expected += '\x01' + zeros + "\x02\x01" + '\x02' + zeros + "ab";
  EXPECT_EQ(Written(letter), expected);
}

TEST(FieldsTest, LettersComeBack) {
  EXPECT_EQ(Read(Written(kLetter)), kLetter);
  EXPECT_EQ(Read(Written(Letter())), Letter());
}

TEST(FieldsTest, EveryCutAndEveryTailIsRefused) {
  const std::string whole = Written(kLetter);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(Read(std::string_view(whole).substr(0, size)), std::nullopt) << size;
  }
  EXPECT_EQ(Read(whole + '\0'), std::nullopt);
}

TEST(FieldsTest, ValuesThatDoNotExistAreRefused) {
  std::string whole = Written(kLetter);
  whole[1] = 2;  // no such colour
  EXPECT_EQ(Read(whole), std::nullopt);
  whole = Written(kLetter);
  whole[0] = 2;  // neither true nor false
  EXPECT_EQ(Read(whole), std::nullopt);
}

// A count is held against the bytes that are left before anything is allocated.
TEST(FieldsTest, FalseCountsAllocateNothing) {
  std::string whole = Written(Letter());
  whole[whole.size() - 2] = '\x7f';  // 2^54 * 127 items
  FieldReader reader(whole);
  Letter letter;
  Fields(reader, letter);
  EXPECT_FALSE(reader.ok());
  EXPECT_TRUE(letter.items.empty());
}

}  // namespace
}  // namespace tideline

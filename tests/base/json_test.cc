#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tideline {
namespace {

StatusOr<JsonDocument> Parse(std::string_view text, const JsonLimits& limits = {}) {
  return JsonDocument::Parse(text, "f.json", limits);
}

TEST(JsonTest, ReadsEachKindOfValue) {
  const auto document =
      Parse(R"({"b": true, "i": -7, "r": 2.5, "t": "x\u00e4", "a": [1, [2]], "n": null})");
  ASSERT_TRUE(document.ok()) << document.status().message();
  auto object = document->root().AsObject();
  ASSERT_TRUE(object.ok());
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  std::string text;
  EXPECT_TRUE(object->Read("b", &boolean).ok() && boolean);
  EXPECT_TRUE(object->Read("i", &integer).ok());
  EXPECT_EQ(integer, -7);
  EXPECT_TRUE(object->Read("r", &real).ok());
  EXPECT_EQ(real, 2.5);
  EXPECT_TRUE(object->Read("i", &real).ok());
  EXPECT_EQ(real, -7);
  EXPECT_TRUE(object->Read("t", &text).ok());
  EXPECT_EQ(text, "xä");
  EXPECT_TRUE(object->Find("n")->IsNull());
  const auto items = object->Find("a")->AsArray();
  ASSERT_TRUE(items.ok());
  EXPECT_EQ((*(*items)[1].AsArray())[0].Path(), "a[1][0]");
  EXPECT_TRUE(object->Finish().ok());
}

TEST(JsonTest, OptionalFieldsKeepTheirValueWhenMissingOrNull) {
  const auto document = Parse(R"({"n": null, "i": 5})");
  auto object = *document->root().AsObject();
  int32_t value = 3;
  EXPECT_TRUE(object.ReadOptional("n", &value).ok());
  EXPECT_TRUE(object.ReadOptional("missing", &value, 0, 9).ok());
  EXPECT_EQ(value, 3);
  EXPECT_TRUE(object.ReadOptional("i", &value, 0, 9).ok());
  EXPECT_EQ(value, 5);
  EXPECT_FALSE(object.ReadOptional("i", &value, 0, 4).ok());
}

TEST(JsonTest, ErrorsNameFileAndField) {
  const auto document = Parse(R"({"stages": [{"layers": "x"}, {"layers": 99, "extra": 1}]})");
  auto stages = *(*document->root().AsObject()).Find("stages")->AsArray();
  int64_t layers = 0;
  auto first = *stages[0].AsObject();
  const Status wrong_kind = first.Read("layers", &layers, 1, 10);
  EXPECT_EQ(ExitCode(wrong_kind), 5);
  EXPECT_EQ(wrong_kind.message(),
            "f.json: field `stages[0].layers`: it is a text; write a whole number from 1 to 10");
  auto second = *stages[1].AsObject();
  EXPECT_EQ(
      second.Read("layers", &layers, 1, 10).message(),
      "f.json: field `stages[1].layers`: 99 is out of range; write a whole number from 1 to 10");
  EXPECT_EQ(second.Read("layer", &layers).message(),
            "f.json: field `stages[1]`: the field `layer` is missing; add it");
  second.Find("extras");
  EXPECT_EQ(second.Finish().message(),
            "f.json: field `stages[1]`: unknown field `extra`; did you mean `extras`? valid: "
            "extras, layer, layers");
}

TEST(JsonTest, WholeNumbersAreNeitherRoundedNorWrapped) {
  const auto document = Parse(
      "[9223372036854775807, 9223372036854775808, 18446744073709551616, 3.0, "
      "-9223372036854775808, -9223372036854775809]");
  const auto items = *document->root().AsArray();
  EXPECT_EQ(*items[0].AsInteger(), std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(items[1].AsInteger().ok());
  EXPECT_FALSE(items[2].AsInteger().ok());
  EXPECT_FALSE(items[3].AsInteger().ok());
  EXPECT_EQ(*items[4].AsInteger(), std::numeric_limits<int64_t>::min());
  EXPECT_FALSE(items[5].AsInteger().ok());
  EXPECT_EQ(*items[1].AsReal(), 9223372036854775808.0);
}

TEST(JsonTest, MalformedDocumentsAreRefused) {
  for (const char* text :
       {"", " ", "{", "[1,]", "{\"a\":1,}", "{\"a\":1,\"a\":2}", "{\"a\" 1}", "nul", "01", "1e999",
        "\"\xff\"", "\"\\ud800\"", "[1] x", "{'a':1}", "NaN", "// c\n1", "\"a\nb\"", "\xef\xbb"}) {
    const auto document = Parse(text);
    ASSERT_FALSE(document.ok()) << text;
    EXPECT_EQ(ExitCode(document.status()), 5) << text;
    EXPECT_EQ(std::string(document.status().message()).rfind("f.json: it is no valid JSON", 0), 0u)
        << document.status().message();
  }
  EXPECT_NE(Parse("{\"a\":1,\n\"a\":2}").status().message().find("`a` stands twice"),
            absl::string_view::npos);
}

TEST(JsonTest, LimitsHold) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_NE(Parse(deep).status().message().find("deeper than 64"), absl::string_view::npos);
  EXPECT_TRUE(Parse(std::string(64, '[') + std::string(64, ']')).ok());
  EXPECT_FALSE(Parse(std::string(65, '[') + std::string(65, ']')).ok());
  EXPECT_FALSE(Parse("[1,2,3]", {.nodes = 3}).ok());
  EXPECT_TRUE(Parse("[1,2,3]", {.nodes = 4}).ok());
  EXPECT_FALSE(Parse("[1,2,3]", {.size_bytes = 6}).ok());
}

TEST(JsonWriterTest, WritesNestedValues) {
  JsonWriter json;
  json.BeginObject().Field("schema_version", 1).Field("name", "a\"\n\x01").NullField("none");
  json.Key("list").BeginInlineArray().Value(1).Value(2.5).Value(true).EndArray();
  json.Key("empty").BeginArray().EndArray();
  json.Key("rows").BeginArray().BeginObject().Field("x", uint64_t{18446744073709551615u});
  json.EndObject().EndArray().EndObject();
  EXPECT_EQ(json.Take(), R"({
  "schema_version": 1,
  "name": "a\"\n\u0001",
  "none": null,
  "list": [1, 2.5, true],
  "empty": [],
  "rows": [
    {
      "x": 18446744073709551615
    }
  ]
}
)");
}

TEST(JsonWriterTest, NumbersReadBackToTheSameBits) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    const double value =
        std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 400) - 200);
    const auto integer = static_cast<int64_t>(random());
    JsonWriter json;
    json.BeginArray().Value(value).Value(integer).EndArray();
    const auto document = Parse(json.Take());
    const auto items = *document->root().AsArray();
    ASSERT_EQ(*items[0].AsReal(), value);
    ASSERT_EQ(*items[1].AsInteger(), integer);
  }
}

TEST(JsonWriterTest, ZeroKeepsItsSign) {
  JsonWriter json;
  json.BeginArray().Value(-0.0).Value(0.0).EndArray();
  const auto document = Parse(json.Take());
  const auto items = *document->root().AsArray();
  EXPECT_TRUE(std::signbit(*items[0].AsReal()));
  EXPECT_FALSE(std::signbit(*items[1].AsReal()));
}

TEST(JsonWriterTest, WhatJsonCannotHoldIsReplaced) {
  JsonWriter json;
  json.BeginInlineArray().Value(std::nan("")).Value(INFINITY);
  json.Value(
          "\xff"
          "a\xc3")
      .Value("\xed\xa0\x80")
      .Value(std::optional<double>());
  json.EndArray();
  const std::string text = json.Take();
  EXPECT_EQ(text,
            "[null, null, \"\xef\xbf\xbd"
            "a\xef\xbf\xbd\", "
            "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\", null]\n");
  EXPECT_TRUE(Parse(text).ok());
}

}  // namespace
}  // namespace tideline

#include "models/import/safetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fuzz/mutate.h"

namespace tideline {
namespace {

using ::testing::HasSubstr;

std::string FileOf(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(uint64_t{header.size()} >> (8 * i));
  return bytes + header + data;
}

std::string Put(const std::string& name, const std::string& bytes) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string BytesOf(const TensorFiles& files, const std::string& name) {
  const StoredTensor* tensor = files.Find(name);
  if (tensor == nullptr) return "no " + name;
  std::string bytes(static_cast<size_t>(tensor->bytes), '\0');
  const Status status = files.Read(*tensor, 0, bytes);
  return status.ok() ? bytes : std::string(status.message());
}

// The message of opening a file with these contents; it must be an input error naming the file.
std::string Refusal(const std::string& bytes) {
  const std::string path = Put("refused.safetensors", bytes);
  const auto files = TensorFiles::Open(path);
  EXPECT_FALSE(files.ok());
  if (files.ok()) return "";
  EXPECT_EQ(ExitCode(files.status()), 5) << files.status();
  EXPECT_THAT(std::string(files.status().message()), HasSubstr("refused.safetensors"));
  return std::string(files.status().message());
}

constexpr const char* kTwo = R"({"__metadata__":{"format":"pt"},)"
                             R"("b":{"dtype":"U8","shape":[3],"data_offsets":[4,7]},)"
                             R"("a":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]},)"
                             R"("none":{"dtype":"F32","shape":[0,5],"data_offsets":[7,7]}}   )";

TEST(SafetensorsTest, ReadsWhatTheFormatDescribes) {
  const auto files = TensorFiles::Open(Put("two.safetensors", FileOf(kTwo, "wxyzABC")));
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->tensors().size(), 3u);
  EXPECT_EQ(BytesOf(*files, "a"), "wxyz");
  EXPECT_EQ(BytesOf(*files, "b"), "ABC");
  EXPECT_EQ(BytesOf(*files, "none"), "");
  EXPECT_EQ(files->Find("a")->shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(files->Find("a")->type, StoredType::kF16);
  EXPECT_EQ(files->Find("c"), nullptr);
  std::string middle(2, '\0');
  ASSERT_TRUE(files->Read(*files->Find("a"), 1, middle).ok());
  EXPECT_EQ(middle, "xy");
}

TEST(SafetensorsTest, RefusesWhatDoesNotFitTogether) {
  const std::string whole = FileOf(kTwo, "wxyzABC");
  for (size_t length = 0; length < whole.size(); ++length) Refusal(whole.substr(0, length));
  EXPECT_THAT(Refusal(whole + "x"), HasSubstr("the file at byte"));
  EXPECT_THAT(Refusal(FileOf("", "")), HasSubstr("refused"));
  EXPECT_THAT(Refusal(std::string(8, '\xff') + "{}"), HasSubstr("only 2 follow"));
  const auto one = [](const std::string& type, const std::string& shape, const std::string& ends) {
    return FileOf("{\"t\":{\"dtype\":\"" + type + "\",\"shape\":" + shape +
                      ",\"data_offsets\":" + ends + "}}",
                  "12345678");
  };
  EXPECT_TRUE(TensorFiles::Open(Put("good.safetensors", one("F32", "[2]", "[0,8]"))).ok());
  EXPECT_THAT(Refusal(one("F33", "[2]", "[0,8]")), HasSubstr("did you mean `F32`"));
  EXPECT_THAT(Refusal(one("F32", "[3]", "[0,8]")), HasSubstr("has 12"));
  EXPECT_THAT(Refusal(one("F32", "[2]", "[8,0]")), HasSubstr("data_offsets"));
  EXPECT_THAT(Refusal(one("F32", "[2]", "[0,16]")), HasSubstr("data_offsets"));
  EXPECT_THAT(Refusal(one("F32", "[1]", "[4,8]")), HasSubstr("behind a hole"));
  EXPECT_THAT(Refusal(one("F32", "[1]", "[0,4]")), HasSubstr("something behind"));
  EXPECT_THAT(Refusal(one("F32", "[-2]", "[0,8]")), HasSubstr("shape"));
  EXPECT_THAT(Refusal(one("F32", "[4611686018427387904, 4]", "[0,8]")), HasSubstr("2^63"));
  EXPECT_THAT(Refusal(one("F32", "[0, 9223372036854775807, 2]", "[0,8]")), HasSubstr("has 0"));
  EXPECT_THAT(Refusal(one("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]")), HasSubstr("9 dimensions"));
  EXPECT_THAT(Refusal(FileOf(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
                             R"("b":{"dtype":"U8","shape":[5],"data_offsets":[3,8]}})",
                             "12345678")),
              HasSubstr("inside the tensor before it"));
  EXPECT_THAT(
      Refusal(FileOf(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8],"x":1}})", "12345678")),
      HasSubstr("`x`"));
}

TEST(SafetensorsTest, WritesWhatItReads) {
  TensorHeader header;
  header.entries = {{.name = "second", .type = StoredType::kF32, .shape = {3, 1}},
                    {.name = "empty", .type = StoredType::kF64, .shape = {0}},
                    {.name = "a \"quoted\" one", .type = StoredType::kI8, .shape = {5}}};
  header.metadata["format"] = "pt";
  const std::string path = ::testing::TempDir() + "/written.safetensors";
  const auto fill = [](const TensorHeader::Entry& entry, int64_t offset, std::span<char> bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<char>(entry.name[0] + offset + static_cast<int64_t>(i));
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(WriteTensorFile(path, header, fill).ok());
  const auto files = TensorFiles::Open(path);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(BytesOf(*files, "second"), "stuvwxyz{|}~");
  EXPECT_EQ(BytesOf(*files, "a \"quoted\" one"), "abcde");
  EXPECT_EQ(files->tensors().size(), 3u);
  EXPECT_TRUE(files->CheckChecksums().ok());
  EXPECT_EQ(files->Find("second")->begin % 8, 0);

  std::string bytes = *ReadFile(path);
  bytes.back() ^= 1;
  const auto changed = TensorFiles::Open(Put("changed.safetensors", bytes));
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(ExitCode(changed->CheckChecksums()), 5);
}

TEST(SafetensorsTest, AnIndexJoinsItsFiles) {
  const std::string folder = ::testing::TempDir() + "/indexed";
  std::filesystem::create_directories(folder);
  const auto put = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
  };
  put("1.safetensors", FileOf(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "AA"));
  put("2.safetensors", FileOf(R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", "BBB"));
  const std::string index = "model.safetensors.index.json";
  put(index, R"({"metadata":{"total_size":5},"weight_map":)"
             R"({"a":"1.safetensors","b":"2.safetensors"}})");
  for (const std::string& path : {folder, folder + "/" + index}) {
    const auto files = TensorFiles::Open(path);
    ASSERT_TRUE(files.ok()) << files.status();
    EXPECT_EQ(BytesOf(*files, "a"), "AA");
    EXPECT_EQ(BytesOf(*files, "b"), "BBB");
    EXPECT_EQ(files->FileName(*files->Find("b")), folder + "/2.safetensors");
  }
  const auto refusal = [&](const std::string& map) {
    put(index, "{\"weight_map\":" + map + "}");
    const auto files = TensorFiles::Open(folder);
    EXPECT_EQ(ExitCode(files.status()), 5);
    return std::string(files.status().message());
  };
  EXPECT_THAT(refusal(R"({"c":"1.safetensors"})"), HasSubstr("`c` is not in"));
  EXPECT_THAT(refusal(R"({"a":"2.safetensors","b":"2.safetensors"})"), HasSubstr("`a` is not in"));
  EXPECT_THAT(refusal(R"({"a":"../1.safetensors"})"), HasSubstr("beside the index"));
  EXPECT_THAT(refusal(R"({"a":"3.safetensors"})"), HasSubstr("3.safetensors"));
  EXPECT_THAT(refusal(R"([])"), HasSubstr("weight_map"));
  put("1.safetensors", FileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                              R"("z":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                              "AA"));
  EXPECT_THAT(refusal(R"({"a":"1.safetensors"})"), HasSubstr("`z` is not in the index"));
  std::filesystem::remove(folder + "/" + index);
  EXPECT_THAT(std::string(TensorFiles::Open(folder).status().message()), HasSubstr("neither"));
}

TEST(SafetensorsTest, PathsThatAreNoFiles) {
  EXPECT_EQ(ExitCode(TensorFiles::Open("/nowhere.safetensors").status()), 5);
  EXPECT_EQ(ExitCode(TensorFiles::Open("/dev/null").status()), 5);
  EXPECT_EQ(ExitCode(TensorFiles::Open("").status()), 5);
}

TEST(SafetensorsTest, MutantsOfAHeaderAreReadOrRefused) {
  const FuzzResult result = FuzzParser(
      {FileOf(kTwo, "wxyzABC")},
      [](std::string_view bytes) {
        return ParseTensorHeader(bytes, static_cast<int64_t>(bytes.size()), "fuzz.safetensors")
            .status();
      },
      {.budget_s = 5,
       .tokens = {"\"dtype\"", "\"F32\"", "[0,4]", "data_offsets", "__metadata__", "{}", "[]"},
       .exit_codes = {5}});
  EXPECT_GT(result.accepted, 10);
  EXPECT_GT(result.rejected, 1000);
}

}  // namespace
}  // namespace tideline

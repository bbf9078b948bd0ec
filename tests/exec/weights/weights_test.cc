#include "exec/weights/weights.h"

#include <cstring>

#include "base/file.h"
#include "gtest/gtest.h"
#include "planner/lowering/lower.h"
#include "tests/models/import/random_weights.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

// A box of all of `shape`, or of a part of it.
Attributes BoxOf(const std::string& parameter, std::vector<int64_t> shape,
                 std::vector<int64_t> first, std::vector<int64_t> extent, int64_t valid_rows = 0) {
  InitBox box;
  box.parameter = parameter;
  box.full_shape = std::move(shape);
  box.extent = std::move(extent);
  for (const int64_t coordinate : first) box.first.push_back({.base = coordinate});
  box.valid_rows = valid_rows;
  Attributes attributes;
  attributes.init.push_back(std::move(box));
  return attributes;
}

// A file of one F16 tensor "w" [3, 2] holding 0, 1, ... 5, read as a parameter [2, 3].
class ReaderTest : public ::testing::Test {
 protected:
  ReaderTest() {
    TensorHeader header;
    header.entries.push_back({.name = "w", .type = StoredType::kF16, .shape = {3, 2}});
    // 0 to 5 in half precision.
    const uint16_t values[] = {0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500};
    const Status written = WriteTensorFile(
        path_, header, [&](const TensorHeader::Entry&, int64_t offset, std::span<char> bytes) {
          std::memcpy(bytes.data(), reinterpret_cast<const char*>(values) + offset, bytes.size());
          return absl::OkStatus();
        });
    EXPECT_TRUE(written.ok()) << written;
    map_.parameters = {
        {.parameter = "p",
         .shape = {2, 3},
         .parts = {{.tensor = "w", .tensor_shape = {3, 2}, .extent = 2, .strides = {1, 2}}}}};
  }
  std::vector<float> Fill(const Attributes& attributes, size_t count) {
    const auto source = WeightSource::Open(path_, map_, Program());
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return {};
    std::vector<float> values(count, -1.0f);
    WeightReader reader(*source);
    const Status filled = reader.Fill(attributes, {}, values);
    EXPECT_TRUE(filled.ok()) << filled;
    return values;
  }
  const std::string path_ = ::testing::TempDir() + "/reader.safetensors";
  WeightMap map_;
};

// p = transpose of w: rows 0 2 4 and 1 3 5.
TEST_F(ReaderTest, TransposesAndCasts) {
  EXPECT_EQ(Fill(BoxOf("p", {2, 3}, {0, 0}, {2, 3}), 6), (std::vector<float>{0, 2, 4, 1, 3, 5}));
}

TEST_F(ReaderTest, TakesARanksPart) {
  EXPECT_EQ(Fill(BoxOf("p", {2, 3}, {0, 1}, {2, 2}), 4), (std::vector<float>{2, 4, 3, 5}));
  Attributes shard = BoxOf("p", {2, 3}, {0, 0}, {2, 3});
  shard.element_offset.base = 2;  // elements 2, 3, 4 of the bucket
  EXPECT_EQ(Fill(shard, 3), (std::vector<float>{4, 1, 3}));
}

TEST_F(ReaderTest, PaddingAndGapsAreZero) {
  EXPECT_EQ(Fill(BoxOf("p", {4, 3}, {0, 0}, {4, 3}, 2), 12),
            (std::vector<float>{0, 2, 4, 1, 3, 5, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Fill(BoxOf("p", {2, 3}, {0, 0}, {2, 3}), 8),
            (std::vector<float>{0, 2, 4, 1, 3, 5, 0, 0}));
}

TEST_F(ReaderTest, SeveralTensorsMakeOneParameter) {
  map_.parameters[0].shape = {4, 3};
  map_.parameters[0].parts.push_back(map_.parameters[0].parts[0]);
  map_.parameters[0].parts[1].first = 2;
  EXPECT_EQ(Fill(BoxOf("p", {4, 3}, {1, 0}, {2, 3}), 6), (std::vector<float>{1, 3, 5, 0, 2, 4}));
}

TEST_F(ReaderTest, SaysWhatIsCast) {
  const auto source = WeightSource::Open(path_, map_, Program());
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->Summary(), "weights: 1 tensors from '" + path_ + "' (F16 cast to fp32)");
}

TEST_F(ReaderTest, AMapOfAnotherFileIsRefused) {
  map_.parameters[0].parts[0].tensor_shape = {2, 3};
  EXPECT_EQ(ExitCode(WeightSource::Open(path_, map_, Program()).status()), 5);
  map_.parameters[0].parts[0].tensor = "v";
  EXPECT_EQ(ExitCode(WeightSource::Open(path_, map_, Program()).status()), 5);
}

TEST(WeightSourceTest, AProgramOfAnotherModelIsRefused) {
  const Plan plan = TestPlan(TinyGpt());
  const StatusOr<Program> program = Lower(plan);
  ASSERT_TRUE(program.ok());
  const std::string path = ::testing::TempDir() + "/program.safetensors";
  ASSERT_TRUE(WriteRandomWeights(*DecoderOf(plan.model), 1, path).ok());
  WeightMap map = HuggingFaceWeights(*DecoderOf(plan.model));
  EXPECT_TRUE(WeightSource::Open(path, map, *program).ok());
  const std::string last = map.parameters.back().parameter;
  map.parameters.pop_back();
  const Status lacking = WeightSource::Open(path, map, *program).status();
  EXPECT_EQ(ExitCode(lacking), 5);
  EXPECT_NE(lacking.message().find(last), std::string::npos) << lacking;
}

// What no rank holds is not written as zeros.
TEST(SaveWeightsTest, AParameterThatNobodyHoldsIsAnError) {
  const Plan plan = TestPlan(TinyGpt());
  const StatusOr<Program> program = Lower(plan);
  ASSERT_TRUE(program.ok());
  WeightMap map = HuggingFaceWeights(*DecoderOf(plan.model));
  map.parameters[0].parameter = "somebody else's";
  const std::string path = ::testing::TempDir() + "/unheld.safetensors";
  const Status saved =
      SaveWeights(path, map, *program, [](int32_t, uint32_t, int64_t, std::span<char> bytes) {
        std::memset(bytes.data(), 0, bytes.size());
        return absl::OkStatus();
      });
  EXPECT_EQ(ExitCode(saved), 70) << saved;
  EXPECT_FALSE(ReadFile(path).ok());
}

}  // namespace
}  // namespace tideline

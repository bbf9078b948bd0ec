#include "exec/data/image_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace tideline {
namespace {

constexpr std::array<int64_t, 3> kImage = {3, 6, 5};
constexpr size_t kPixels = 90;

struct Loaded {
  std::vector<float> images;
  std::vector<int32_t> labels;
};

Loaded Load(const ImageSource& source, int64_t step, int64_t first, int64_t samples) {
  HostTask task;
  task.kind = HostTaskKind::kLoadImages;
  task.samples = samples;
  task.sequence = 1;
  task.image = kImage;
  Loaded loaded{std::vector<float>(samples * kPixels), std::vector<int32_t>(samples)};
  const std::span<std::byte> spans[] = {std::as_writable_bytes(std::span(loaded.images)),
                                        std::as_writable_bytes(std::span(loaded.labels))};
  EXPECT_EQ(static_cast<int64_t>(spans[0].size()), LoadedBytes(task)[0]);
  EXPECT_EQ(static_cast<int64_t>(spans[1].size()), LoadedBytes(task)[1]);
  EXPECT_TRUE(source.Load(task, step, first, 7, spans).ok());
  return loaded;
}

// Sample j of step t is number t * global_batch + j, whoever loads it.
TEST(ImageSourceTest, SamplesAreAFunctionOfTheirNumber) {
  const ImageSource source(3, kImage, 7, 10);
  const Loaded whole = Load(source, 2, 0, 10);
  const Loaded part = Load(source, 2, 4, 3);
  EXPECT_EQ(
      std::vector<float>(whole.images.begin() + 4 * kPixels, whole.images.begin() + 7 * kPixels),
      part.images);
  std::vector<float> image(kPixels);
  EXPECT_EQ(source.Sample(25, image), whole.labels[5]);
  EXPECT_EQ(
      std::vector<float>(whole.images.begin() + 5 * kPixels, whole.images.begin() + 6 * kPixels),
      image);
  // After the last comes the first.
  EXPECT_EQ(Load(source, 0, ImageSource::kTrainingSamples + 1, 1).images,
            Load(source, 0, 1, 1).images);
  EXPECT_NE(Load(ImageSource(4, kImage, 7, 10), 2, 0, 10).images, whole.images);
}

TEST(ImageSourceTest, HeldOutSamplesAreOthers) {
  const ImageSource training(3, kImage, 7, 10);
  const ImageSource held_out(3, kImage, 7, 10, DataSplit::kHeldOut);
  EXPECT_NE(training.hash(), held_out.hash());
  std::set<std::vector<float>> seen;
  for (int64_t first = 0; first < 50; ++first) {
    EXPECT_TRUE(seen.insert(Load(training, 0, first, 1).images).second);
    EXPECT_TRUE(seen.insert(Load(held_out, 0, first, 1).images).second);
  }
  std::vector<float> image(kPixels);
  held_out.Sample(ImageSource::kFirstHeldOut, image);
  EXPECT_EQ(Load(held_out, 0, 0, 1).images, image);
}

// Labels are even, and a tenth of them is noise: measured entropies are the stated ones. Images of
// a class share its colour, so the class is read off the nearest mean of the three channels.
TEST(ImageSourceTest, EntropiesAreThoseOfTheLabels) {
  const ImageSource source(1, kImage, 4, 1);
  EXPECT_DOUBLE_EQ(source.label_entropy(), std::log(4.0));
  // p = 0.9 + 0.025, three others of 0.025 each.
  EXPECT_NEAR(source.noise_entropy(), -0.925 * std::log(0.925) - 3 * 0.025 * std::log(0.025),
              1e-12);
  constexpr int kSamples = 8000;
  std::map<int32_t, int> counts;
  std::vector<float> image(kPixels);
  for (int64_t sample = 0; sample < kSamples; ++sample) ++counts[source.Sample(sample, image)];
  ASSERT_EQ(counts.size(), 4u);
  double entropy = 0;
  for (const auto& [label, count] : counts) {
    const double share = count / static_cast<double>(kSamples);
    EXPECT_NEAR(share, 0.25, 0.03) << label;
    entropy -= share * std::log(share);
  }
  EXPECT_NEAR(entropy, source.label_entropy(), 2e-3);
}

TEST(ImageSourceTest, OtherClassesAreRefused) {
  const ImageSource source(1, kImage, 4, 1);
  EXPECT_TRUE(source.CheckVocabulary(0).ok());
  EXPECT_TRUE(source.CheckVocabulary(4).ok());
  EXPECT_EQ(ExitCode(source.CheckVocabulary(5)), 5);
  // One class has one label.
  EXPECT_EQ(ImageSource(1, kImage, 1, 1).noise_entropy(), 0);
}

}  // namespace
}  // namespace tideline

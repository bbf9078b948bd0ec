// ImageSource: seeded images with labels that can be learned, without end of new ones.
//
// Sample j is a pure function of (seed, j). It has a class, drawn evenly: each class is a grating
// (direction, wavelength, colour) over a colour of its own. The image is the grating at a random
// phase with noise on every element; what tells the class is there, where it lies is not. Its label
// is the class, but for one in ten, which is any class, drawn evenly. So the least loss that any
// model can reach on new samples is known, and so is that of a model that has learned nothing:
//   entropy of the label given its image   -p ln p - (c - 1) e ln e,  e = 1 / (10 c), p = 0.9 + e
//   entropy of the label                   ln c
// for c classes. A loss on held-out samples between the two says that a model has learned, and how
// much of what can be learned it has.
//
// Training samples are 0 .. 2^20 - 1 (sample j of step t is (t * global_batch + j) mod 2^20,
// DEFINITIONS 8), held-out ones 2^40 .. 2^40 + 2^16 - 1: none is both.
#ifndef TIDELINE_EXEC_DATA_IMAGE_SOURCE_H_
#define TIDELINE_EXEC_DATA_IMAGE_SOURCE_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "exec/data/sample_source.h"

namespace tideline {

enum class DataSplit : uint8_t { kTraining, kHeldOut };

class ImageSource final : public SampleSource {
 public:
  static constexpr int64_t kTrainingSamples = int64_t{1} << 20;
  static constexpr int64_t kHeldOutSamples = int64_t{1} << 16;
  static constexpr int64_t kFirstHeldOut = int64_t{1} << 40;
  static constexpr double kNoisyLabels = 0.1;  // share of labels that any class may be

  // Images of [channels, height, width]. Precondition: every number is at least 1.
  ImageSource(uint64_t seed, std::array<int64_t, 3> image, int64_t classes, int64_t global_batch,
              DataSplit split = DataSplit::kTraining);

  const std::string& origin() const override { return origin_; }
  const std::string& hash() const override { return hash_; }
  Status CheckVocabulary(int64_t classes) const override;
  Status Load(const HostTask& task, int64_t step, int64_t first, int64_t classes,
              std::span<const std::span<std::byte>> operands) const override;

  // One sample by its own number: fills `image` and returns its label.
  int32_t Sample(int64_t sample, std::span<float> image) const;

  // Nats: of the label given its image, and of the label.
  double noise_entropy() const;
  double label_entropy() const;

 private:
  const uint64_t seed_;
  const std::array<int64_t, 3> image_;
  const int64_t classes_;
  const int64_t global_batch_;
  const DataSplit split_;
  std::string origin_;
  std::string hash_;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_DATA_IMAGE_SOURCE_H_

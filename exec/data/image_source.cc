#include "exec/data/image_source.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/numerics.h"
#include "base/rng.h"
#include "base/sha256.h"

namespace tideline {
namespace {

constexpr double kTurn = 6.283185307179586;
constexpr float kTintStrength = 0.5f;   // of the class's colour
constexpr float kNoiseStrength = 0.5f;  // of each element

// A number in [0, 1) from 32 bits.
double Fraction(uint32_t word) { return static_cast<double>(word) * 0x1p-32; }

// What makes a class: a grating, how strongly each channel has it, and a colour.
struct ImageClass {
  double down = 0, across = 0;  // turns per row and per column
  std::vector<float> strength;
  std::vector<float> tint;
};

ImageClass ClassOf(uint64_t seed, int64_t number, const std::array<int64_t, 3>& image) {
  const PhiloxBlock block = BlockAt(MakeStreamKey(seed, "image class"), number);
  const double direction = Fraction(block.word[0]) * kTurn / 2;
  const double wavelength = 2.5 + 3.5 * Fraction(block.word[1]);  // elements
  ImageClass made;
  made.down = static_cast<double>(Sin(direction)) / wavelength;
  made.across = static_cast<double>(Cos(direction)) / wavelength;
  const StreamKey colours = MakeStreamKey(seed, "image colour");
  for (int64_t channel = 0; channel < image[0]; ++channel) {
    const uint64_t index = static_cast<uint64_t>(number * image[0] + channel) * 2;
    made.strength.push_back(NormalAt(colours, index));
    made.tint.push_back(kTintStrength * NormalAt(colours, index + 1));
  }
  return made;
}

}  // namespace

ImageSource::ImageSource(uint64_t seed, std::array<int64_t, 3> image, int64_t classes,
                         int64_t global_batch, DataSplit split)
    : seed_(seed),
      image_(image),
      classes_(classes),
      global_batch_(global_batch),
      split_(split),
      origin_(absl::StrCat("generated images of ", classes, " classes, ", image[0], " x ", image[1],
                           " x ", image[2], ", seed ", seed,
                           split == DataSplit::kHeldOut ? ", held out" : "")),
      hash_(Sha256Hex(absl::StrCat("images 1\n", origin_))) {
  TL_CHECK(classes >= 1 && global_batch >= 1 && image[0] >= 1 && image[1] >= 1 && image[2] >= 1,
           "a model has classes and an image");
}

Status ImageSource::CheckVocabulary(int64_t classes) const {
  if (classes == 0 || classes == classes_) return absl::OkStatus();
  return InputError(absl::StrCat("data '", origin_, "': the model has ", classes, " classes"));
}

int32_t ImageSource::Sample(int64_t sample, std::span<float> image) const {
  const PhiloxBlock block =
      BlockAt(MakeStreamKey(seed_, "image sample"), static_cast<uint64_t>(sample));
  const int64_t drawn =
      static_cast<int64_t>(Fraction(block.word[0]) * static_cast<double>(classes_));
  const ImageClass made = ClassOf(seed_, drawn, image_);
  const double phase = Fraction(block.word[1]);
  const StreamKey noise =
      MakeStreamKey(seed_ ^ (static_cast<uint64_t>(sample) * 0x9e3779b97f4a7c15u), "image noise");
  size_t at = 0;
  for (int64_t channel = 0; channel < image_[0]; ++channel) {
    for (int64_t row = 0; row < image_[1]; ++row) {
      for (int64_t column = 0; column < image_[2]; ++column, ++at) {
        const double turns = phase + made.down * static_cast<double>(row) +
                             made.across * static_cast<double>(column);
        const float wave = made.strength[channel] * Cos(turns * kTurn);
        image[at] = wave + made.tint[channel] + kNoiseStrength * NormalAt(noise, at);
      }
    }
  }
  if (Fraction(block.word[2]) >= kNoisyLabels) return static_cast<int32_t>(drawn);
  return static_cast<int32_t>(Fraction(block.word[3]) * static_cast<double>(classes_));
}

Status ImageSource::Load(const HostTask& task, int64_t step, int64_t first, int64_t classes,
                         std::span<const std::span<std::byte>> operands) const {
  TL_CHECK(task.kind == HostTaskKind::kLoadImages && task.image == image_ && operands.size() == 2,
           "images are loaded from images");
  TL_RETURN_IF_ERROR(CheckVocabulary(classes));
  const bool held_out = split_ == DataSplit::kHeldOut;
  const int64_t count = held_out ? kHeldOutSamples : kTrainingSamples;
  const size_t elements = static_cast<size_t>(image_[0] * image_[1] * image_[2]);
  float* images = reinterpret_cast<float*>(operands[0].data());
  int32_t* labels = reinterpret_cast<int32_t*>(operands[1].data());
  for (int64_t i = 0; i < task.samples; ++i) {
    const int64_t number = (step * global_batch_ + first + i) % count;
    labels[i] = Sample(number + (held_out ? kFirstHeldOut : 0), {images + i * elements, elements});
  }
  return absl::OkStatus();
}

double ImageSource::noise_entropy() const {
  const double other = kNoisyLabels / static_cast<double>(classes_);
  const double own = 1 - kNoisyLabels + other;
  return -own * std::log(own) - static_cast<double>(classes_ - 1) * other * std::log(other);
}

double ImageSource::label_entropy() const { return std::log(static_cast<double>(classes_)); }

}  // namespace tideline

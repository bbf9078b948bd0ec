// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). The value of an element is a pure function of (seed, name
// of the stream, index), so that any rank can make any part of a parameter, in any order, with the
// bits of the whole (DEFINITIONS 8). The same bits on every host and on the GPU.
//
//   float w = NormalAt(seed, "layers.3.attention.qkv.weight", row * columns + column);
#ifndef TIDELINE_BASE_RNG_H_
#define TIDELINE_BASE_RNG_H_

#include <cstdint>
#include <string_view>

#include "base/host_device.h"
#include "base/numerics.h"

namespace tideline {

// Four 32-bit words.
struct PhiloxBlock {
  uint32_t word[4];
};

// Ten rounds of Philox4x32. Known answers of the paper's authors are in tests/base/rng_test.cc.
TIDELINE_HOST_DEVICE inline PhiloxBlock Philox4x32(PhiloxBlock counter, uint32_t key0,
                                                   uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter.word[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<uint32_t>(product1),
                static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// Key of one named stream: the seed is Philox's key, the FNV-1a hash of the name the upper half of
// its counter, the index the lower half.
struct StreamKey {
  uint64_t seed = 0;
  uint64_t name_hash = 0;
};

inline StreamKey MakeStreamKey(uint64_t seed, std::string_view stream_name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char character : stream_name) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001b3u;
  }
  return {seed, hash};
}

TIDELINE_HOST_DEVICE inline PhiloxBlock BlockAt(StreamKey key, uint64_t index) {
  return Philox4x32(
      {{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
        static_cast<uint32_t>(key.name_hash), static_cast<uint32_t>(key.name_hash >> 32)}},
      static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32));
}

// Standard normal variate of one element: Box-Muller over the first two words of its block, with
// 24 and 32 bits of uniform; the magnitude is below 5.77.
TIDELINE_HOST_DEVICE inline float NormalAt(StreamKey key, uint64_t index) {
  const PhiloxBlock block = BlockAt(key, index);
  const float uniform = static_cast<float>((block.word[0] >> 8) + 1u) * 0x1p-24f;  // (0, 1]
  const double angle = static_cast<double>(block.word[1]) * (6.283185307179586 * 0x1p-32);
  return Sqrt(-2.0f * Log(uniform)) * Cos(angle);
}

inline float NormalAt(uint64_t seed, std::string_view stream_name, uint64_t index) {
  return NormalAt(MakeStreamKey(seed, stream_name), index);
}

// A sequential generator for tests, searches and sampling; copies continue independently.
class Rng {
 public:
  explicit Rng(uint64_t seed, std::string_view stream_name = "")
      : key_(MakeStreamKey(seed, stream_name)) {}

  // 64 uniform bits.
  uint64_t Next() {
    if (next_word_ == 4) {
      block_ = BlockAt(key_, index_++);
      next_word_ = 0;
    }
    const uint64_t low = block_.word[next_word_];
    const uint64_t high = block_.word[next_word_ + 1];
    next_word_ += 2;
    return high << 32 | low;
  }

  // Uniform in [0, bound), without bias (the few values that would cause one are drawn again).
  // Precondition: bound > 0.
  uint64_t Below(uint64_t bound) {
    const uint64_t rejected = (0 - bound) % bound;  // 2^64 mod bound
    uint64_t value = Next();
    while (value < rejected) value = Next();
    return value % bound;
  }

  // Uniform in [0, 1), a multiple of 2^-53.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  StreamKey key_;
  uint64_t index_ = 0;
  PhiloxBlock block_{};
  int next_word_ = 4;
};

}  // namespace tideline

#endif  // TIDELINE_BASE_RNG_H_

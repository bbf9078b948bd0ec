#include "exec/ops/gemm.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace tideline {
namespace {

// One register tile: C[rows, columns] (+)= A[rows, k] * B[k, columns], A packed as [k][rows], row p
// of B at b + p * b_stride, row i of C at c + i * c_stride.
using TileFunction = void (*)(int64_t k, const float* a, const float* b, int64_t b_stride, float* c,
                              int64_t c_stride, bool load);

template <int kRows, int kVectors>
void Avx2Tile(int64_t k, const float* a, const float* b, int64_t b_stride, float* c,
              int64_t c_stride, bool load) {
  __m256 sum[kRows][kVectors];
  for (int row = 0; row < kRows; ++row) {
    for (int vector = 0; vector < kVectors; ++vector) {
      sum[row][vector] =
          load ? _mm256_loadu_ps(c + row * c_stride + vector * 8) : _mm256_setzero_ps();
    }
  }
  for (int64_t p = 0; p < k; ++p, a += kRows, b += b_stride) {
    __m256 right[kVectors];
    for (int vector = 0; vector < kVectors; ++vector)
      right[vector] = _mm256_loadu_ps(b + vector * 8);
    for (int row = 0; row < kRows; ++row) {
      const __m256 left = _mm256_broadcast_ss(a + row);
      for (int vector = 0; vector < kVectors; ++vector) {
        sum[row][vector] = _mm256_fmadd_ps(left, right[vector], sum[row][vector]);
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int vector = 0; vector < kVectors; ++vector) {
      _mm256_storeu_ps(c + row * c_stride + vector * 8, sum[row][vector]);
    }
  }
}

template <int kRows, int kVectors>
__attribute__((target("avx512f"))) void Avx512Tile(int64_t k, const float* a, const float* b,
                                                   int64_t b_stride, float* c, int64_t c_stride,
                                                   bool load) {
  __m512 sum[kRows][kVectors];
  for (int row = 0; row < kRows; ++row) {
    for (int vector = 0; vector < kVectors; ++vector) {
      sum[row][vector] =
          load ? _mm512_loadu_ps(c + row * c_stride + vector * 16) : _mm512_setzero_ps();
    }
  }
  for (int64_t p = 0; p < k; ++p, a += kRows, b += b_stride) {
    __m512 right[kVectors];
    for (int vector = 0; vector < kVectors; ++vector) {
      right[vector] = _mm512_loadu_ps(b + vector * 16);
    }
    for (int row = 0; row < kRows; ++row) {
      const __m512 left = _mm512_set1_ps(a[row]);
      for (int vector = 0; vector < kVectors; ++vector) {
        sum[row][vector] = _mm512_fmadd_ps(left, right[vector], sum[row][vector]);
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int vector = 0; vector < kVectors; ++vector) {
      _mm512_storeu_ps(c + row * c_stride + vector * 16, sum[row][vector]);
    }
  }
}

constexpr int kMaxRows = 12;
constexpr int kMaxVectors = 2;

// The tiles of one instruction set, for every number of rows and vectors up to the largest, so that
// a remainder costs no more than its own work.
struct TileSet {
  int rows = 0;     // of the largest tile
  int width = 0;    // elements of one vector
  int vectors = 0;  // of the largest tile
  std::array<std::array<TileFunction, kMaxVectors>, kMaxRows> tiles{};
  int Columns() const { return width * vectors; }
};

template <int... kRow>
TileSet MakeAvx2(std::integer_sequence<int, kRow...>) {
  TileSet set{.rows = sizeof...(kRow), .width = 8, .vectors = 2};
  ((set.tiles[kRow] = {Avx2Tile<kRow + 1, 1>, Avx2Tile<kRow + 1, 2>}), ...);
  return set;
}

template <int... kRow>
TileSet MakeAvx512(std::integer_sequence<int, kRow...>) {
  TileSet set{.rows = sizeof...(kRow), .width = 16, .vectors = 2};
  ((set.tiles[kRow] = {Avx512Tile<kRow + 1, 1>, Avx512Tile<kRow + 1, 2>}), ...);
  return set;
}

TileSet SelectTiles(GemmTile tile) {
  if (tile == GemmTile::kBest) {
    tile = TileAvailable(GemmTile::kAvx512) ? GemmTile::kAvx512 : GemmTile::kAvx2;
  }
  return tile == GemmTile::kAvx512 ? MakeAvx512(std::make_integer_sequence<int, 12>{})
                                   : MakeAvx2(std::make_integer_sequence<int, 6>{});
}

// Cache blocks, in elements: a packed block of A stays in the second-level cache, one panel of B in
// the first.
constexpr int64_t kBlockK = 256;
constexpr int64_t kBlockM = 144;
constexpr int64_t kBlockN = 1024;

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Eight neighbouring elements in fp32.
__m256 Load8(const float* from) { return _mm256_loadu_ps(from); }
__m256 Load8(const BFloat16* from) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
__m256 Load8(const Float16* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

// Transposes eight rows of eight elements: row r of the source becomes column r of the destination.
template <typename Element>
void Transpose8x8(const Element* from, int64_t from_stride, float* to, int64_t to_stride) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = Load8(from + i * from_stride);
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

template <typename Element>
void CopyLine(const Element* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) _mm256_storeu_ps(to + i, Load8(from + i));
  for (; i < count; ++i) to[i] = from[i];
}

// Writes [k][width] from `count` <= width lines of k elements; lines beyond `count` become zero.
template <typename Element>
void PackPanel(const Element* from, int64_t line_stride, int64_t k_stride, int64_t count, int64_t k,
               int64_t width, float* to) {
  int64_t line = 0;
  if (k_stride == 1) {
    for (; line + 8 <= count; line += 8) {
      int64_t p = 0;
      for (; p + 8 <= k; p += 8) {
        Transpose8x8(from + line * line_stride + p, line_stride, to + p * width + line, width);
      }
      for (; p < k; ++p) {
        for (int64_t i = line; i < line + 8; ++i) to[p * width + i] = from[i * line_stride + p];
      }
    }
  } else if (line_stride == 1) {
    for (int64_t p = 0; p < k; ++p) CopyLine(from + p * k_stride, count, to + p * width);
    line = count;
  }
  for (; line < count; ++line) {
    for (int64_t p = 0; p < k; ++p) {
      to[p * width + line] = from[line * line_stride + p * k_stride];
    }
  }
  if (count < width) {
    for (int64_t p = 0; p < k; ++p) std::fill_n(to + p * width + count, width - count, 0.0f);
  }
}

struct AlignedDelete {
  void operator()(float* data) const { ::operator delete[](data, std::align_val_t{64}); }
};
using AlignedFloats = std::unique_ptr<float[], AlignedDelete>;

AlignedFloats MakeAligned(int64_t count) {
  return AlignedFloats(static_cast<float*>(
      ::operator new[](static_cast<size_t>(count) * sizeof(float), std::align_val_t{64})));
}

// One packed block of A times one packed panel of B into C[rows, columns] at `c`.
class BlockProduct {
 public:
  BlockProduct(const TileSet& set, int64_t k, int64_t c_m, int64_t c_n, bool load)
      : set_(set), k_(k), c_m_(c_m), c_n_(c_n), load_(load) {}

  // `b` is a panel of b_stride columns of which `columns` are real.
  void Run(const float* a, int64_t rows, const float* b, int64_t b_stride, int64_t columns,
           float* c) const {
    const int64_t vectors = (columns + set_.width - 1) / set_.width;
    const bool direct = c_n_ == 1 && columns == vectors * set_.width;
    for (int64_t row = 0; row < rows; row += set_.rows) {
      const int64_t tile_rows = std::min<int64_t>(set_.rows, rows - row);
      const TileFunction tile = set_.tiles[tile_rows - 1][vectors - 1];
      const float* panel = a + row * k_;
      float* corner = c + row * c_m_;
      if (direct) {
        tile(k_, panel, b, b_stride, corner, c_m_, load_);
      } else {
        ThroughBuffer(tile, panel, b, b_stride, tile_rows, columns, corner);
      }
    }
  }

 private:
  // For a tile that ends beyond C, or a C without contiguous columns.
  void ThroughBuffer(TileFunction tile, const float* a, const float* b, int64_t b_stride,
                     int64_t rows, int64_t columns, float* c) const {
    alignas(64) float buffer[kMaxRows * 32] = {};
    const int64_t stride = set_.Columns();
    for (int64_t i = 0; load_ && i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) buffer[i * stride + j] = c[i * c_m_ + j * c_n_];
    }
    tile(k_, a, b, b_stride, buffer, stride, load_);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) c[i * c_m_ + j * c_n_] = buffer[i * stride + j];
    }
  }

  const TileSet& set_;
  int64_t k_, c_m_, c_n_;
  bool load_;
};

template <typename Element>
void PackA(const GemmShape& shape, const Element* a, int64_t rows, int64_t k, int64_t tile_rows,
           float* to) {
  for (int64_t row = 0; row < rows; row += tile_rows) {
    const int64_t count = std::min(tile_rows, rows - row);
    PackPanel(a + row * shape.a_m, shape.a_m, shape.a_k, count, k, count, to + row * k);
  }
}

}  // namespace

bool TileAvailable(GemmTile tile) {
  return tile != GemmTile::kAvx512 || __builtin_cpu_supports("avx512f") != 0;
}

GemmShape Transposed(const GemmShape& shape) {
  return {.m = shape.n,
          .n = shape.m,
          .k = shape.k,
          .a_m = shape.b_n,
          .a_k = shape.b_k,
          .b_k = shape.a_k,
          .b_n = shape.a_m,
          .c_m = shape.c_n,
          .c_n = shape.c_m};
}

template <typename Element>
void Gemm(const GemmShape& given, const Element* a, const Element* b, float* c, bool accumulate,
          GemmTile tile) {
  GemmShape shape = given;
  if (shape.m == 0 || shape.n == 0) return;
  if (shape.c_n != 1 && shape.c_m == 1) {  // the transposed product has contiguous columns
    shape = Transposed(given);
    std::swap(a, b);
  }
  if (shape.k == 0) {
    for (int64_t i = 0; !accumulate && i < shape.m; ++i) {
      for (int64_t j = 0; j < shape.n; ++j) c[i * shape.c_m + j * shape.c_n] = 0.0f;
    }
    return;
  }
  const TileSet set = SelectTiles(tile);
  const int64_t panel = set.Columns();
  const int64_t block_k = std::min(kBlockK, shape.k);
  const int64_t block_m = std::min(kBlockM, shape.m);
  const int64_t block_n = std::min(kBlockN, RoundUp(shape.n, panel));
  const AlignedFloats packed_a = MakeAligned(block_m * block_k);
  const AlignedFloats packed_b = MakeAligned(block_n * block_k);
  // Few rows do not repay packing B when its rows can be read where they are.
  [[maybe_unused]] const bool b_in_place = shape.b_n == 1 && shape.m <= 2 * set.rows;
  for (int64_t j0 = 0; j0 < shape.n; j0 += block_n) {
    const int64_t columns = std::min(block_n, shape.n - j0);
    for (int64_t p0 = 0; p0 < shape.k; p0 += block_k) {
      const int64_t k = std::min(block_k, shape.k - p0);
      const Element* b_block = b + p0 * shape.b_k + j0 * shape.b_n;
      const BlockProduct product(set, k, shape.c_m, shape.c_n, accumulate || p0 > 0);
      for (int64_t i0 = 0; i0 < shape.m; i0 += block_m) {
        const int64_t rows = std::min(block_m, shape.m - i0);
        PackA(shape, a + i0 * shape.a_m + p0 * shape.a_k, rows, k, set.rows, packed_a.get());
        for (int64_t j = 0; j < columns; j += panel) {
          const int64_t count = std::min(panel, columns - j);
          float* corner = c + i0 * shape.c_m + (j0 + j) * shape.c_n;
          float* packed = packed_b.get() + j * k;
          if constexpr (std::is_same_v<Element, float>) {
            if (b_in_place && count == panel) {
              product.Run(packed_a.get(), rows, b_block + j, shape.b_k, count, corner);
              continue;
            }
          }
          if (i0 == 0)
            PackPanel(b_block + j * shape.b_n, shape.b_n, shape.b_k, count, k, panel, packed);
          product.Run(packed_a.get(), rows, packed, panel, count, corner);
        }
      }
    }
  }
}

template void Gemm(const GemmShape&, const float*, const float*, float*, bool, GemmTile);
template void Gemm(const GemmShape&, const BFloat16*, const BFloat16*, float*, bool, GemmTile);
template void Gemm(const GemmShape&, const Float16*, const Float16*, float*, bool, GemmTile);

}  // namespace tideline

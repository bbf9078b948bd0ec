#include "exec/ops/gemm.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/rng.h"

namespace tideline {
namespace {

// The definition, one scalar chain per element.
void Reference(const GemmShape& s, const float* a, const float* b, float* c, bool accumulate) {
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      float sum = accumulate ? c[i * s.c_m + j * s.c_n] : 0.0f;
      for (int64_t p = 0; p < s.k; ++p) {
        sum = std::fma(a[i * s.a_m + p * s.a_k], b[p * s.b_k + j * s.b_n], sum);
      }
      c[i * s.c_m + j * s.c_n] = sum;
    }
  }
}

std::vector<float> Random(Rng& rng, int64_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.Uniform() * 2 - 1);
  return values;
}

std::vector<uint32_t> BitsOf(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// Strides of a matrix [rows, columns] in one of four layouts: rows contiguous or columns
// contiguous, without or with a gap.
struct Layout {
  int64_t row, column, elements;
};
Layout LayoutOf(int64_t rows, int64_t columns, uint64_t which) {
  const int64_t gap = which >= 2 ? 3 : 0;
  const bool transposed = which % 2 == 1;
  if (transposed) return {1, rows + gap, (rows + gap) * columns};
  return {columns + gap, 1, (columns + gap) * rows};
}

std::vector<GemmTile> Tiles() {
  std::vector<GemmTile> tiles{GemmTile::kBest, GemmTile::kAvx2};
  if (TileAvailable(GemmTile::kAvx512)) tiles.push_back(GemmTile::kAvx512);
  return tiles;
}

void ExpectChainBits(Rng& rng, int64_t m, int64_t n, int64_t k, uint64_t layouts, bool accumulate,
                     GemmTile tile) {
  const Layout a_layout = LayoutOf(m, k, layouts % 4);
  const Layout b_layout = LayoutOf(k, n, layouts / 4 % 4);
  const Layout c_layout = LayoutOf(m, n, layouts / 16 % 4);
  const GemmShape shape{.m = m,
                        .n = n,
                        .k = k,
                        .a_m = a_layout.row,
                        .a_k = a_layout.column,
                        .b_k = b_layout.row,
                        .b_n = b_layout.column,
                        .c_m = c_layout.row,
                        .c_n = c_layout.column};
  const std::vector<float> a = Random(rng, a_layout.elements);
  const std::vector<float> b = Random(rng, b_layout.elements);
  std::vector<float> c = Random(rng, c_layout.elements);
  std::vector<float> expected = c;  // gaps must stay as they are
  Gemm(shape, a.data(), b.data(), c.data(), accumulate, tile);
  Reference(shape, a.data(), b.data(), expected.data(), accumulate);
  ASSERT_EQ(BitsOf(c), BitsOf(expected))
      << "m " << m << " n " << n << " k " << k << " layouts " << layouts << " accumulate "
      << accumulate << " tile " << static_cast<int>(tile);
}

TEST(Gemm, EveryLayoutHasTheBitsOfTheChain) {
  Rng rng(1);
  for (const GemmTile tile : Tiles()) {
    for (uint64_t layouts = 0; layouts < 64; ++layouts) {
      ExpectChainBits(rng, 37, 41, 29, layouts, layouts % 3 == 0, tile);
      ExpectChainBits(rng, 12, 64, 16, layouts, layouts % 3 == 1, tile);
    }
  }
}

TEST(Gemm, EverySmallShapeHasTheBitsOfTheChain) {
  Rng rng(2);
  for (const GemmTile tile : Tiles()) {
    for (int64_t m = 0; m <= 14; ++m) {
      for (const int64_t n : {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 49}) {
        for (const int64_t k : {0, 1, 2, 9}) {
          ExpectChainBits(rng, m, n, k, rng.Below(64), rng.Below(2) == 1, tile);
        }
      }
    }
  }
}

TEST(Gemm, RandomShapesAcrossBlocksHaveTheBitsOfTheChain) {
  Rng rng(3);
  for (const GemmTile tile : Tiles()) {
    for (int trial = 0; trial < 12; ++trial) {
      ExpectChainBits(rng, rng.Below(210), rng.Below(210), rng.Below(520), rng.Below(64),
                      rng.Below(2) == 1, tile);
    }
    ExpectChainBits(rng, 3, 2100, 300, 0, false, tile);
    ExpectChainBits(rng, 150, 1030, 257, 1, true, tile);
  }
}

// A sum cut in two over k continues the chain: gradient accumulation does not change bits.
TEST(Gemm, AccumulationContinuesTheChain) {
  Rng rng(4);
  const int64_t m = 23, n = 47, k = 301, cut = 77;
  const std::vector<float> a = Random(rng, m * k), b = Random(rng, k * n);
  std::vector<float> whole(m * n), pieces(m * n);
  GemmShape shape{
      .m = m, .n = n, .k = k, .a_m = k, .a_k = 1, .b_k = n, .b_n = 1, .c_m = n, .c_n = 1};
  Gemm(shape, a.data(), b.data(), whole.data(), false);
  shape.k = cut;
  Gemm(shape, a.data(), b.data(), pieces.data(), false);
  shape.k = k - cut;
  Gemm(shape, a.data() + cut, b.data() + cut * n, pieces.data(), true);
  EXPECT_EQ(BitsOf(whole), BitsOf(pieces));
}

std::vector<float> ToFloats(const auto& values) { return {values.begin(), values.end()}; }

// 16-bit operands give the bits of their fp32 values, in every layout that packs differently.
template <typename Element>
void ExpectBitsOfTheConverted(Rng& rng, int64_t m, int64_t n, int64_t k, uint64_t layouts) {
  const Layout a_layout = LayoutOf(m, k, layouts % 4), b_layout = LayoutOf(k, n, layouts / 4 % 4);
  const GemmShape shape{.m = m,
                        .n = n,
                        .k = k,
                        .a_m = a_layout.row,
                        .a_k = a_layout.column,
                        .b_k = b_layout.row,
                        .b_n = b_layout.column,
                        .c_m = n,
                        .c_n = 1};
  std::vector<Element> a, b;
  for (const float value : Random(rng, a_layout.elements)) a.push_back(Element(value));
  for (const float value : Random(rng, b_layout.elements)) b.push_back(Element(value));
  for (const bool accumulate : {false, true}) {
    std::vector<float> c = Random(rng, m * n), expected = c;
    Gemm(shape, a.data(), b.data(), c.data(), accumulate);
    Gemm(shape, ToFloats(a).data(), ToFloats(b).data(), expected.data(), accumulate);
    ASSERT_EQ(BitsOf(c), BitsOf(expected)) << m << " " << n << " " << k << " " << layouts;
  }
}

TEST(Gemm, SixteenBitOperandsAreConvertedExactly) {
  Rng rng(6);
  for (uint64_t layouts = 0; layouts < 16; ++layouts) {
    for (const int64_t m : {1, 13, 150}) {
      ExpectBitsOfTheConverted<BFloat16>(rng, m, 37, 300, layouts);
      ExpectBitsOfTheConverted<Float16>(rng, m, 64, 29, layouts);
    }
  }
}

// Every 16-bit pattern but NaN, packed by vector and by element, is what exec/comm/element.h says.
TEST(Gemm, PacksEveryPatternExactly) {
  constexpr int64_t kCount = 0x10000;
  const float one = 1.0f;
  const auto check = [&](auto element, auto convert) {
    using Element = decltype(element);
    std::vector<Element> all(kCount);
    for (int64_t i = 0; i < kCount; ++i) all[i].bits = static_cast<uint16_t>(i);
    const Element unit(one);
    for (const int64_t stride : {1, 3}) {
      const int64_t count = kCount / stride;
      std::vector<float> c(count);
      Gemm({.m = 1,
            .n = count,
            .k = 1,
            .a_m = 1,
            .a_k = 1,
            .b_k = 0,
            .b_n = stride,
            .c_m = count,
            .c_n = 1},
           &unit, all.data(), c.data(), false);
      for (int64_t i = 0; i < count; ++i) {
        const float expected = convert(all[i * stride].bits);
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(c[i])) << i;
        } else {
          ASSERT_EQ(c[i], expected) << i;
        }
      }
    }
  };
  check(BFloat16(), BF16ToFloat);
  check(Float16(), F16ToFloat);
}

// A C without any contiguous side, and operands broadcast by a stride of zero.
TEST(Gemm, ArbitraryStrides) {
  Rng rng(5);
  const GemmShape shape{
      .m = 19, .n = 35, .k = 21, .a_m = 50, .a_k = 2, .b_k = 110, .b_n = 3, .c_m = 71, .c_n = 2};
  const std::vector<float> a = Random(rng, 50 * 19), b = Random(rng, 110 * 21);
  std::vector<float> c = Random(rng, 71 * 19), expected = c;
  Gemm(shape, a.data(), b.data(), c.data(), true);
  Reference(shape, a.data(), b.data(), expected.data(), true);
  EXPECT_EQ(BitsOf(c), BitsOf(expected));
  GemmShape broadcast = shape;
  broadcast.a_m = 0;
  broadcast.b_n = 0;
  Gemm(broadcast, a.data(), b.data(), c.data(), false);
  Reference(broadcast, a.data(), b.data(), expected.data(), false);
  EXPECT_EQ(BitsOf(c), BitsOf(expected));
}

}  // namespace
}  // namespace tideline

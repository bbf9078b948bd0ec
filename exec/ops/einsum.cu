// Einstein sums of two operands as batches of exact matrix products (exec/ops/einsum_plan.h).
#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "exec/ops/einsum_plan.h"
#include "exec/ops/formats.h"
#include "exec/ops/gemm.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"
#ifdef __CUDACC__
#include "exec/device/gemm_call.h"
#include "exec/ops/gemm_device.h"
#else
#include "exec/device/host_blas.h"
#endif

namespace tideline::ops {
namespace {

constexpr int kMaxLoops = 8;
using EinsumLoops = Table<EinsumLoop, kMaxLoops>;

// An EinsumPlan as it travels with a kernel, and how a product is cut into blocks: on a GPU into
// tiles, on the host only where C is of 16 bit
// (exec/ops/gemm.h cuts it for the caches).
struct EinsumWork {
  EinsumLoops batch, summed;
  GemmShape gemm;
  int64_t bias_m = 0, bias_n = 0;
  int64_t tile_m = 0, tile_n = 0;
  int64_t tiles_m = 1, tiles_n = 1;
  float scale = 1.0f;
#ifndef __CUDACC__
  const HostBlas* blas = nullptr;  // null: exact
#endif
};

// The elements at which iteration `index` of the loops begins.
TIDELINE_HOST_DEVICE EinsumLoop OffsetsAt(const EinsumLoops& loops, int64_t index) {
  EinsumLoop offsets;
  for (int level = loops.size() - 1; level >= 0; --level) {
    const int64_t iteration = index % loops[level].extent;
    index /= loops[level].extent;
    offsets.a += iteration * loops[level].a;
    offsets.b += iteration * loops[level].b;
    offsets.c += iteration * loops[level].c;
    offsets.bias += iteration * loops[level].bias;
  }
  return offsets;
}

TIDELINE_HOST_DEVICE int64_t Iterations(const EinsumLoops& loops) {
  int64_t count = 1;
  for (int level = 0; level < loops.size(); ++level) count *= loops[level].extent;
  return count;
}

TIDELINE_HOST_DEVICE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

#ifndef __CUDACC__
// A matrix in fp32: where it lies, or converted into `kept`, whose strides are written then.
template <typename T>
const float* InFp32(const T* from, int64_t rows, int64_t& row_stride, int64_t columns,
                    int64_t& column_stride, std::vector<float>& kept) {
  if constexpr (std::is_same_v<T, float>) {
    return from;
  } else {
    const bool by_rows = column_stride == 1 || row_stride != 1;
    const int64_t lines = by_rows ? rows : columns, length = by_rows ? columns : rows;
    const int64_t line_stride = by_rows ? row_stride : column_stride;
    const int64_t step = by_rows ? column_stride : row_stride;
    kept.resize(static_cast<size_t>(rows * columns));
    for (int64_t line = 0; line < lines; ++line) {
      for (int64_t i = 0; i < length; ++i) {
        kept[line * length + i] = from[line * line_stride + i * step];
      }
    }
    row_stride = by_rows ? columns : 1;
    column_stride = by_rows ? 1 : rows;
    return kept.data();
  }
}

// The product by the host's library. False when it cannot make it; nothing is written then.
template <typename T>
bool FastProduct(const HostBlas& blas, GemmShape shape, const T* a, const T* b, float* c,
                 bool accumulate) {
  if (shape.c_n != 1 && shape.c_m == 1) {
    shape = Transposed(shape);
    std::swap(a, b);
  }
  if (shape.c_n != 1 && shape.n != 1) return false;
  std::vector<float> wide_a, wide_b;
  const float* left = InFp32(a, shape.m, shape.a_m, shape.k, shape.a_k, wide_a);
  const float* right = InFp32(b, shape.k, shape.b_k, shape.n, shape.b_n, wide_b);
  const BlasProduct product{.m = shape.m,
                            .n = shape.n,
                            .k = shape.k,
                            .a_m = shape.a_m,
                            .a_k = shape.a_k,
                            .b_k = shape.b_k,
                            .b_n = shape.b_n,
                            .c_m = shape.c_m};
  if (!HostBlas::Fits(product)) return false;
  blas.Multiply(product, left, right, c, accumulate);
  return true;
}
#endif

// One block per tile of each iteration of the batch loops. `bias` is empty when there is none. A C
// of 16 bit starts from its values in fp32 when accumulating, and is rounded once, when the sum has
// its scale and its bias.
template <typename T, typename C, bool kAccumulate>
struct Einsum {
  static constexpr const char* kName = "einsum";

  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> a, In<T, Mode> b,
                                       In<T, Mode> bias, Sum<C, Mode, kAccumulate> c,
                                       const EinsumWork& work) {
    const int64_t tiles = work.tiles_m * work.tiles_n;
    EinsumLoop at = OffsetsAt(work.batch, block.index() / tiles);
    const int64_t first_m = block.index() % tiles / work.tiles_n * work.tile_m;
    const int64_t first_n = block.index() % work.tiles_n * work.tile_n;
    GemmShape shape = work.gemm;
    shape.m = Least(work.tile_m, shape.m - first_m);
    shape.n = Least(work.tile_n, shape.n - first_n);
    at.a += first_m * shape.a_m;
    at.b += first_n * shape.b_n;
    at.c += first_m * shape.c_m + first_n * shape.c_n;
    at.bias += first_m * work.bias_m + first_n * work.bias_n;
    Product(block, a, b, bias, c, work, shape, at);
  }

  // The product of one tile: `at` holds where it begins in each operand.
  template <typename A, typename Result>
  TIDELINE_HOST_DEVICE static void Product(const Block& block, const A& a, const A& b,
                                           const A& bias, const Result& c, const EinsumWork& work,
                                           const GemmShape& shape, const EinsumLoop& at) {
#ifdef __CUDA_ARCH__
    GemmTileOnDevice tile(shape, kAccumulate ? c.data() + at.c : nullptr);
    for (int64_t iteration = 0; iteration < Iterations(work.summed); ++iteration) {
      const EinsumLoop next = OffsetsAt(work.summed, iteration);
      tile.Add(a.data() + at.a + next.a, b.data() + at.b + next.b);
    }
    tile.Store(c.data() + at.c, [&](int64_t i, int64_t j, float sum) {
      if (work.scale != 1.0f) sum *= work.scale;
      if (bias.count() != 0) sum += bias[at.bias + i * work.bias_m + j * work.bias_n];
      return sum;
    });
#else
    C* out = c.Region(at.c, shape.m, shape.c_m, shape.n, shape.c_n);
    if (out == nullptr) return;
    if constexpr (std::is_same_v<C, float>) {
      if (!Chain(a, b, work, shape, at, out)) return;
      Finish(block, bias, work, shape, at.bias, out);
    } else {
      // The chain goes on in fp32, in the order in memory that C has.
      const bool by_rows = shape.c_n == 1 || shape.c_m != 1;
      GemmShape wide = shape;
      wide.c_m = by_rows ? shape.n : 1;
      wide.c_n = by_rows ? 1 : shape.m;
      std::vector<float> sums(static_cast<size_t>(shape.m * shape.n));
      const auto each_line = [&](const auto& function) {
        const int64_t length = by_rows ? shape.n : shape.m;
        const int64_t step = by_rows ? shape.c_n : shape.c_m;
        for (int64_t line = 0; line < shape.m * shape.n / length; ++line) {
          C* narrow = out + line * (by_rows ? shape.c_m : shape.c_n);
          float* sum = sums.data() + line * length;
          block.Each(length, [&](int64_t i) { function(narrow[i * step], sum[i]); });
        }
      };
      if constexpr (kAccumulate) each_line([](const C& from, float& to) { to = from; });
      if (!Chain(a, b, work, wide, at, sums.data())) return;
      Finish(block, bias, work, wide, at.bias, sums.data());
      each_line([](C& to, float from) { to = from; });
    }
#endif
  }

#ifndef __CUDA_ARCH__
  // False when an operand is too small.
  template <typename A>
  static bool Chain(const A& a, const A& b, const EinsumWork& work, const GemmShape& shape,
                    const EinsumLoop& at, float* out) {
    for (int64_t iteration = 0; iteration < Iterations(work.summed); ++iteration) {
      const EinsumLoop next = OffsetsAt(work.summed, iteration);
      const T* left = a.Region(at.a + next.a, shape.m, shape.a_m, shape.k, shape.a_k);
      const T* right = b.Region(at.b + next.b, shape.k, shape.b_k, shape.n, shape.b_n);
      if (left == nullptr || right == nullptr) return false;
      const bool continues = kAccumulate || iteration > 0;
#ifndef __CUDACC__
      if (work.blas != nullptr && FastProduct(*work.blas, shape, left, right, out, continues)) {
        continue;
      }
#endif
      Gemm(shape, left, right, out, continues);
    }
    return true;
  }

  // The finished sum gets its scale, then its bias.
  template <typename A>
  static void Finish(const Block& block, const A& bias, const EinsumWork& work,
                     const GemmShape& shape, int64_t bias_begin, float* out) {
    if (work.scale == 1.0f && bias.count() == 0) return;
    for (int64_t i = 0; i < shape.m; ++i) {
      float* row = out + i * shape.c_m;
      if (work.scale != 1.0f) {
        block.Each(shape.n, [&](int64_t j) { row[j * shape.c_n] *= work.scale; });
      }
      if (bias.count() == 0) continue;
      const int64_t from = bias_begin + i * work.bias_m;
      block.Each(shape.n, [&](int64_t j) { row[j * shape.c_n] += bias[from + j * work.bias_n]; });
    }
  }
#endif
};

StatusOr<EinsumLoops> LoopsOf(const std::vector<EinsumLoop>& loops) {
  EinsumLoops table;
  for (const EinsumLoop& loop : loops) {
    if (!table.Push(loop)) {
      return UnavailableError(
          "kernel einsum: more than 8 loops around the product; merge or reorder letters");
    }
  }
  return table;
}

// Side of a tile of C on the host, whose sums lie in fp32 beside a C of 16 bit: 4 MiB.
[[maybe_unused]] constexpr int64_t kNarrowTile = 1024;

StatusOr<EinsumWork> WorkOf(const OpCall& call, const EinsumPlan& plan) {
  EinsumWork work;
  TL_ASSIGN_OR_RETURN(work.batch, LoopsOf(plan.batch));
  TL_ASSIGN_OR_RETURN(work.summed, LoopsOf(plan.summed));
  work.gemm = plan.gemm;
  work.bias_m = plan.bias_m;
  work.bias_n = plan.bias_n;
  work.scale = call.attributes().scale;
#ifdef __CUDACC__
  work.tile_m = work.tile_n = GemmTileOnDevice::kTile;
#else
  work.blas = BlasOf(call.target().stream);
  // A product by the library converts its operands first; tiles bound that as well.
  const bool narrow = call.TypeOf(call.operand_count() - 1) != DType::kF32 ||
                      (work.blas != nullptr && call.TypeOf(0) != DType::kF32);
  work.tile_m = narrow ? std::min(plan.gemm.m, kNarrowTile) : plan.gemm.m;
  work.tile_n = narrow ? std::min(plan.gemm.n, kNarrowTile) : plan.gemm.n;
#endif
  work.tiles_m = (plan.gemm.m + work.tile_m - 1) / work.tile_m;
  work.tiles_n = (plan.gemm.n + work.tile_n - 1) / work.tile_n;
  return work;
}

#ifdef __CUDACC__
// The plan's products for the device's library. The longest batch loop becomes a strided batch; the
// other loops are calls of their own.
class LibraryProducts {
 public:
  LibraryProducts(const OpCall& call, const EinsumPlan& plan) : call_(call), plan_(plan) {
    const GemmShape& shape = plan.gemm;
    product_ = {.m = shape.m,
                .n = shape.n,
                .k = shape.k,
                .a_m = shape.a_m,
                .a_k = shape.a_k,
                .b_k = shape.b_k,
                .b_n = shape.b_n,
                .c_m = shape.c_m,
                .c_n = shape.c_n,
                .bias_m = plan.bias_m,
                .bias_n = plan.bias_n};
    const int output = call.operand_count() - 1;
    product_.operand_type = call.TypeOf(0);
    product_.result_type = call.TypeOf(output);
    product_.a = call.context().operands[0];
    product_.b = call.context().operands[1];
    product_.bias = output == 3 ? call.context().operands[2] : nullptr;
    product_.c = call.context().operands[output];
    product_.alpha = call.attributes().scale;
    loops_ = plan.batch;
    if (loops_.empty()) return;
    const auto longest = std::max_element(
        loops_.begin(), loops_.end(),
        [](const EinsumLoop& x, const EinsumLoop& y) { return x.extent < y.extent; });
    product_.batch = longest->extent;
    product_.batch_a = longest->a;
    product_.batch_b = longest->b;
    product_.batch_c = longest->c;
    product_.batch_bias = longest->bias;
    loops_.erase(longest);
  }

  bool Fit() const {
    if (product_.bias != nullptr && call_.TypeOf(2) != product_.result_type) return false;
    return call_.TypeOf(0) == call_.TypeOf(1) && GemmFits(product_);
  }

  Status Submit() const { return SubmitLoop(0, {}); }

 private:
  // Iterates over the loops from `level` on: first those of the batch, then the summed ones.
  Status SubmitLoop(size_t level, const EinsumLoop& at) const {
    const size_t levels = loops_.size() + plan_.summed.size();
    if (level == levels) return SubmitOne(at);
    const bool summed = level >= loops_.size();
    const EinsumLoop& loop = summed ? plan_.summed[level - loops_.size()] : loops_[level];
    for (int64_t i = 0; i < loop.extent; ++i) {
      EinsumLoop next = at;
      next.a += i * loop.a;
      next.b += i * loop.b;
      next.c += i * loop.c;
      next.bias += i * loop.bias;
      if (summed) next.extent += i;  // beyond 1: not the first product of its sum
      TL_RETURN_IF_ERROR(SubmitLoop(level + 1, next));
    }
    return absl::OkStatus();
  }

  Status SubmitOne(const EinsumLoop& at) const {
    const bool first = at.extent == 1;
    const int64_t operand = SizeOf(product_.operand_type);
    const int64_t result = SizeOf(product_.result_type);
    GemmCall one = product_;
    one.a = static_cast<const char*>(one.a) + at.a * operand;
    one.b = static_cast<const char*>(one.b) + at.b * operand;
    one.c = static_cast<char*>(one.c) + at.c * result;
    if (one.bias != nullptr) one.bias = static_cast<const char*>(one.bias) + at.bias * result;
    if (!first) one.bias = nullptr;
    one.accumulate = call_.attributes().accumulate || !first;
    return SubmitGemm(call_.target().stream, "einsum", call_.target().tag, one);
  }

  const OpCall& call_;
  const EinsumPlan& plan_;
  GemmCall product_;
  std::vector<EinsumLoop> loops_;
};
#endif

}  // namespace

Status LaunchEinsum(const OpCall& call) {
  const int output = call.operand_count() - 1;
  std::vector<std::vector<int64_t>> shapes;
  for (int operand = 0; operand <= output; ++operand) shapes.push_back(call.Shape(operand));
  TL_ASSIGN_OR_RETURN(const EinsumPlan plan, PlanEinsum(call.attributes().equation, shapes));
#ifdef __CUDACC__
  if (UsesGemmLibrary(call.target().stream)) {
    const LibraryProducts products(call, plan);
    if (products.Fit()) return products.Submit();
  }
#endif
  TL_ASSIGN_OR_RETURN(const EinsumWork work, WorkOf(call, plan));
  const int64_t blocks = plan.Batches() * work.tiles_m * work.tiles_n;
  return WithSum(
      call.TypeOf(0), call.TypeOf(output), [&]<typename T, typename C>(Type<T>, Type<C>) {
        const In<T> bias = output == 3 ? call.Read<T>(2) : In<T>(nullptr, 0);
        if (call.attributes().accumulate) {
          return Launch<Einsum<T, C, true>>(call.target(), blocks, call.Read<T>(0), call.Read<T>(1),
                                            bias, call.Update<C>(output), work);
        }
        return Launch<Einsum<T, C, false>>(call.target(), blocks, call.Read<T>(0), call.Read<T>(1),
                                           bias, call.Write<C>(output), work);
      });
}

}  // namespace tideline::ops

// Fused attention: scores, softmax and context in one pass over blocks of keys, without the
// probabilities ever being in memory.
//
// Forward: online softmax (Milakov & Gimelshein 2018) in blocks of 64 keys, as FlashAttention (Dao
// et al. 2022, 2023) lays it out. Backward makes the probabilities again from the log-sum-exp: one
// kernel per tile of queries for dq, one per tile of keys for dk and dv, so that no two blocks add
// to one element. Formulas and orders of the sums: exec/ops/README.md. They depend on no tile size:
// a query meets the blocks of keys in which it sees a key, and every sum over keys or queries is
// one chain in their order.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/numerics.h"
#include "exec/ops/dropout.h"
#include "exec/ops/flash_attention.h"
#include "exec/ops/formats.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"
#include "exec/ops/tile_product.h"
#include "models/ops/op_table.h"

namespace tideline::ops {
namespace {

constexpr int64_t kBlock = kAttentionKeyBlock;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Queries and, in the kernel of dk and dv, keys that one block works on. On a GPU as many as fit
// into its shared memory.
#ifdef __CUDACC__
constexpr int64_t kRows = 16;
constexpr int64_t kGradientKeys = 16;
#else
constexpr int64_t kRows = 64;
constexpr int64_t kGradientKeys = 64;
#endif
constexpr int64_t kSize = kMaxAttentionHeadSize;

// q, o: [batch, queries, groups, per_group, size]; k, v: [batch, keys, groups, size]; lse: [batch,
// groups, per_group, queries]. A query head is a group and one of its per_group.
struct AttentionPlace {
  int64_t queries = 0, keys = 0, groups = 0, per_group = 0, size = 0;
  int64_t first_query = 0, first_key = 0;  // positions
  int64_t key_begin = 0, key_end = 0;      // keys that take part
  int64_t first_head = 0;                  // global, for dropout
  float scale = 1.0f;
  bool causal = false;

  TIDELINE_HOST_DEVICE int64_t heads() const { return groups * per_group; }
  TIDELINE_HOST_DEVICE int64_t query_stride() const { return heads() * size; }
  TIDELINE_HOST_DEVICE int64_t key_stride() const { return groups * size; }
  TIDELINE_HOST_DEVICE int64_t QueryAt(int64_t batch, int64_t head, int64_t query) const {
    return ((batch * queries + query) * heads() + head) * size;
  }
  TIDELINE_HOST_DEVICE int64_t KeyAt(int64_t batch, int64_t group, int64_t key) const {
    return ((batch * keys + key) * groups + group) * size;
  }
  TIDELINE_HOST_DEVICE int64_t StatisticAt(int64_t batch, int64_t head, int64_t query) const {
    return (batch * heads() + head) * queries + query;
  }
  // A query sees keys [key_begin, SeenEnd(query)).
  TIDELINE_HOST_DEVICE int64_t SeenEnd(int64_t query) const {
    if (!causal) return key_end;
    const int64_t end = first_query + query - first_key + 1;
    return end < key_begin ? key_begin : end < key_end ? end : key_end;
  }
  // The first query that sees key `key` or one before it, at most `queries`.
  TIDELINE_HOST_DEVICE int64_t FirstSeeing(int64_t key) const {
    if (!causal) return 0;
    const int64_t query = key + first_key - first_query;
    return query < 0 ? 0 : query < queries ? query : queries;
  }
};

TIDELINE_HOST_DEVICE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
TIDELINE_HOST_DEVICE int64_t Most(int64_t a, int64_t b) { return a > b ? a : b; }

// The upper half of the lanes onto the lower, and so on: the tree of exec/device/block.h.
template <typename Combine>
TIDELINE_HOST_DEVICE float FoldLanes(float (&lanes)[kBlock], Combine combine) {
#pragma GCC unroll 6
  for (int width = kBlock / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) {
      lanes[lane] = combine(lanes[lane], lanes[lane + width]);
    }
  }
  return lanes[0];
}
TIDELINE_HOST_DEVICE float SumLanes(float (&lanes)[kBlock]) {
  return FoldLanes(lanes, [](float a, float b) { return a + b; });
}

// Sum of a[i] b[i] by the block's tree.
template <typename T>
TIDELINE_HOST_DEVICE float RowDot(const T* a, const T* b, int64_t count) {
  float lanes[kBlock];
  for (int lane = 0; lane < kBlock; ++lane) lanes[lane] = 0.0f;
  for (int64_t base = 0; base < count; base += kBlock) {
    const int64_t width = Least(kBlock, count - base);
    for (int64_t lane = 0; lane < width; ++lane) {
      lanes[lane] += static_cast<float>(a[base + lane]) * static_cast<float>(b[base + lane]);
    }
  }
  return SumLanes(lanes);
}

// What probabilities of one query over keys from position `first` on are multiplied by.
TIDELINE_HOST_DEVICE void DropoutRow(const DropoutMask& mask, int64_t sample, int64_t head,
                                     int64_t query, int64_t first, int64_t width,
                                     float (&factors)[kBlock]) {
  constexpr int64_t kTogether = DropoutMask::kTogether;
  for (int64_t j = 0; j < width;) {
    float together[kTogether];
    mask.Factors(sample, head, query, (first + j) / kTogether, together);
    for (int64_t i = (first + j) % kTogether; i < kTogether && j < width; ++i, ++j) {
      factors[j] = together[i];
    }
  }
}

// One tile of query rows against one block of keys.
struct Meeting {
  int64_t batch = 0, head = 0;
  int64_t query = 0, rows = 0;  // queries [query, query + rows)
  int64_t key = 0, width = 0;   // keys [key, key + width), at most kBlock
};

// ---- Forward ----

// One query's scores over a block of keys become the block's probabilities relative to the largest
// score so far; `largest` and `total` are carried on, and what earlier blocks gave is to be
// multiplied by the result.
TIDELINE_HOST_DEVICE float SoftmaxRow(const AttentionPlace& place, const DropoutMask& mask,
                                      const Meeting& at, float* scores, float& largest,
                                      float& total) {
  const int64_t seen = Least(at.width, place.SeenEnd(at.query) - at.key);
  float lanes[kBlock];
  for (int lane = 0; lane < kBlock; ++lane) {
    scores[lane] = lane < seen ? scores[lane] * place.scale : -kInfinity;
    lanes[lane] = scores[lane];
  }
  const float block_largest = FoldLanes(lanes, [](float a, float b) { return b > a ? b : a; });
  const float next = block_largest > largest ? block_largest : largest;
  for (int lane = 0; lane < kBlock; ++lane) {
    scores[lane] = lane < seen ? Exp(scores[lane] - next) : 0.0f;
    lanes[lane] = scores[lane];
  }
  const float correction = Exp(largest - next);
  total = std::fma(total, correction, SumLanes(lanes));
  largest = next;
  if (mask.active) {
    float factors[kBlock];
    DropoutRow(mask, at.batch, place.first_head + at.head, place.first_query + at.query,
               place.first_key + at.key, at.width, factors);
    for (int64_t j = 0; j < at.width; ++j) scores[j] *= factors[j];
  }
  return correction;
}

// One block per tile of queries of one head.
template <typename T>
struct Attention {
  static constexpr const char* kName = "attention";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> q, In<T, Mode> k,
                                       In<T, Mode> v, Out<T, Mode> o, Out<float, Mode> lse,
                                       AttentionPlace place, DropoutMask mask) {
    const int64_t tiles = (place.queries + kRows - 1) / kRows;
    Meeting at;
    at.batch = block.index() / tiles / place.heads();
    at.head = block.index() / tiles % place.heads();
    at.query = block.index() % tiles * kRows;
    at.rows = Least(kRows, place.queries - at.query);
    const int64_t size = place.size;
    // Keys as far as some query's last block reaches.
    const int64_t seen = place.SeenEnd(at.query + at.rows - 1) - place.key_begin;
    const int64_t used =
        Least((seen + kBlock - 1) / kBlock * kBlock, Most(place.key_end - place.key_begin, 0));
    const int64_t key_at = place.KeyAt(at.batch, at.head / place.per_group, place.key_begin);
    const int64_t query_at = place.QueryAt(at.batch, at.head, at.query);
    const T* queries = q.Region(query_at, at.rows, place.query_stride(), size, 1);
    const T* keys = k.Region(key_at, used, place.key_stride(), size, 1);
    const T* values = v.Region(key_at, used, place.key_stride(), size, 1);
    if (queries == nullptr || keys == nullptr || values == nullptr) return;

    TIDELINE_BLOCK_SHARED float scores[kRows * kBlock];
    TIDELINE_BLOCK_SHARED float sums[kRows * kSize];
    TIDELINE_BLOCK_SHARED float largest[kRows];
    TIDELINE_BLOCK_SHARED float total[kRows];
    TIDELINE_BLOCK_SHARED float correction[kRows];
    block.EachRow(at.rows, size, [&](int64_t row, int64_t i) { sums[row * size + i] = 0.0f; });
    block.Each(at.rows, [&](int64_t row) {
      largest[row] = -kInfinity;
      total[row] = 0.0f;
    });
    for (int64_t done = 0; done < used; done += kBlock) {
      at.key = place.key_begin + done;
      at.width = Least(kBlock, used - done);
      const int64_t first = Most(place.FirstSeeing(at.key) - at.query, 0);
      const int64_t rows = at.rows - first;
      TileProduct(block, rows, at.width, size,
                  Tile<T>{queries + first * place.query_stride(), place.query_stride(), 1},
                  Tile<T>{keys + done * place.key_stride(), 1, place.key_stride()},
                  scores + first * kBlock, kBlock, false);
      block.Each(rows, [&](int64_t row) {
        Meeting own = at;
        own.query += first + row;
        correction[first + row] = SoftmaxRow(place, mask, own, scores + (first + row) * kBlock,
                                             largest[first + row], total[first + row]);
      });
      block.EachRow(rows, size, [&](int64_t row, int64_t i) {
        sums[(first + row) * size + i] *= correction[first + row];
      });
      TileProduct(block, rows, size, at.width, Tile<float>{scores + first * kBlock, kBlock, 1},
                  Tile<T>{values + done * place.key_stride(), place.key_stride(), 1},
                  sums + first * size, size, true);
    }
    // A query that saw no key gives 0 and -infinity.
    block.EachRow(at.rows, size, [&](int64_t row, int64_t i) {
      const float inverse = total[row] == 0.0f ? 0.0f : 1.0f / total[row];
      o[query_at + row * place.query_stride() + i] = sums[row * size + i] * inverse;
    });
    const int64_t lse_at = place.StatisticAt(at.batch, at.head, at.query);
    block.Each(at.rows, [&](int64_t row) { lse[lse_at + row] = largest[row] + Log(total[row]); });
  }
};

// ---- Backward ----

// Of one query over a block of keys: `scores` (products of query and key) become the probabilities
// that were applied to the values, `products` (of do and value) the gradients of the scaled scores.
TIDELINE_HOST_DEVICE void GradientRow(const AttentionPlace& place, const DropoutMask& mask,
                                      const Meeting& at, float lse, float delta, float* scores,
                                      float* products) {
  const int64_t seen_from = place.key_begin - at.key;
  const int64_t seen_to = place.SeenEnd(at.query) - at.key;
  float factors[kBlock];
  if (mask.active) {
    DropoutRow(mask, at.batch, place.first_head + at.head, place.first_query + at.query,
               place.first_key + at.key, at.width, factors);
  } else {
    for (int64_t j = 0; j < at.width; ++j) factors[j] = 1.0f;
  }
  for (int64_t j = 0; j < at.width; ++j) {
    const bool seen = j >= seen_from && j < seen_to;
    const float p = seen ? Exp(std::fma(scores[j], place.scale, -lse)) : 0.0f;
    scores[j] = p * factors[j];
    products[j] = seen ? p * (products[j] * factors[j] - delta) : 0.0f;
  }
}

// Pointers to the first row and key of a meeting.
template <typename T>
struct MeetingOperands {
  const T *q, *gradient, *o;  // rows at.query on
  const T *k, *v;             // keys at.key on
};

// Fills the tiles [rows, kBlock] of probabilities and of gradients of the scores. Rows that see
// none of the keys must not be asked for.
template <typename T>
TIDELINE_HOST_DEVICE void MeetBackward(const Block& block, const AttentionPlace& place,
                                       const DropoutMask& mask, const Meeting& at,
                                       const MeetingOperands<T>& from, const float* lse,
                                       float* probabilities, float* gradients) {
  const int64_t query_stride = place.query_stride();
  const int64_t key_stride = place.key_stride();
  TileProduct(block, at.rows, at.width, place.size, Tile<T>{from.q, query_stride, 1},
              Tile<T>{from.k, 1, key_stride}, probabilities, kBlock, false);
  TileProduct(block, at.rows, at.width, place.size, Tile<T>{from.gradient, query_stride, 1},
              Tile<T>{from.v, 1, key_stride}, gradients, kBlock, false);
  block.Each(at.rows, [&](int64_t row) {
    Meeting own = at;
    own.query += row;
    const float delta =
        RowDot(from.gradient + row * query_stride, from.o + row * query_stride, place.size);
    GradientRow(place, mask, own, lse[row], delta, probabilities + row * kBlock,
                gradients + row * kBlock);
  });
}

// One block per tile of queries of one head.
template <typename T>
struct AttentionQueryGrad {
  static constexpr const char* kName = "attention_grad_q";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> gradient, In<T, Mode> q,
                                       In<T, Mode> k, In<T, Mode> v, In<T, Mode> o,
                                       In<float, Mode> lse, Out<T, Mode> dq, AttentionPlace place,
                                       DropoutMask mask) {
    const int64_t tiles = (place.queries + kRows - 1) / kRows;
    Meeting tile;
    tile.batch = block.index() / tiles / place.heads();
    tile.head = block.index() / tiles % place.heads();
    tile.query = block.index() % tiles * kRows;
    tile.rows = Least(kRows, place.queries - tile.query);
    const int64_t size = place.size;
    const int64_t query_stride = place.query_stride();
    const int64_t key_stride = place.key_stride();
    const int64_t used = Most(place.SeenEnd(tile.query + tile.rows - 1) - place.key_begin, 0);
    const int64_t query_at = place.QueryAt(tile.batch, tile.head, tile.query);
    const int64_t key_at = place.KeyAt(tile.batch, tile.head / place.per_group, place.key_begin);
    const MeetingOperands<T> whole{q.Region(query_at, tile.rows, query_stride, size, 1),
                                   gradient.Region(query_at, tile.rows, query_stride, size, 1),
                                   o.Region(query_at, tile.rows, query_stride, size, 1),
                                   k.Region(key_at, used, key_stride, size, 1),
                                   v.Region(key_at, used, key_stride, size, 1)};
    const float* statistics =
        lse.Region(place.StatisticAt(tile.batch, tile.head, tile.query), tile.rows, 1, 1, 1);
    if (whole.q == nullptr || whole.gradient == nullptr || whole.o == nullptr ||
        whole.k == nullptr || whole.v == nullptr || statistics == nullptr) {
      return;
    }
    TIDELINE_BLOCK_SHARED float probabilities[kRows * kBlock];
    TIDELINE_BLOCK_SHARED float gradients[kRows * kBlock];
    TIDELINE_BLOCK_SHARED float sums[kRows * kSize];
    block.EachRow(tile.rows, size, [&](int64_t row, int64_t i) { sums[row * size + i] = 0.0f; });
    for (int64_t done = 0; done < used; done += kBlock) {
      Meeting at = tile;
      at.key = place.key_begin + done;
      at.width = Least(kBlock, used - done);
      const int64_t first = Most(place.FirstSeeing(at.key) - tile.query, 0);
      at.query += first;
      at.rows -= first;
      MeetingOperands<T> from = whole;
      from.q += first * query_stride;
      from.gradient += first * query_stride;
      from.o += first * query_stride;
      from.k += done * key_stride;
      from.v += done * key_stride;
      MeetBackward(block, place, mask, at, from, statistics + first, probabilities, gradients);
      TileProduct(block, at.rows, size, at.width, Tile<float>{gradients, kBlock, 1},
                  Tile<T>{from.k, key_stride, 1}, sums + first * size, size, true);
    }
    block.EachRow(tile.rows, size, [&](int64_t row, int64_t i) {
      dq[query_at + row * query_stride + i] = sums[row * size + i] * place.scale;
    });
  }
};

// One block per tile of keys of one group; its query heads one after the other.
template <typename T>
struct AttentionKeyGrad {
  static constexpr const char* kName = "attention_grad_kv";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> gradient, In<T, Mode> q,
                                       In<T, Mode> k, In<T, Mode> v, In<T, Mode> o,
                                       In<float, Mode> lse, Out<T, Mode> dk, Out<T, Mode> dv,
                                       AttentionPlace place, DropoutMask mask) {
    const int64_t tiles = (place.keys + kGradientKeys - 1) / kGradientKeys;
    const int64_t group = block.index() / tiles % place.groups;
    Meeting tile;
    tile.batch = block.index() / tiles / place.groups;
    tile.key = block.index() % tiles * kGradientKeys;
    tile.width = Least(kGradientKeys, place.keys - tile.key);
    const int64_t size = place.size;
    const int64_t key_stride = place.key_stride();
    const int64_t key_at = place.KeyAt(tile.batch, group, tile.key);

    TIDELINE_BLOCK_SHARED float key_sums[kGradientKeys * kSize];
    TIDELINE_BLOCK_SHARED float value_sums[kGradientKeys * kSize];
    block.EachRow(tile.width, size, [&](int64_t row, int64_t i) {
      key_sums[row * size + i] = 0.0f;
      value_sums[row * size + i] = 0.0f;
    });
    const bool takes_part = tile.key < place.key_end && tile.key + tile.width > place.key_begin;
    if (takes_part) {
      MeetingOperands<T> from{nullptr, nullptr, nullptr,
                              k.Region(key_at, tile.width, key_stride, size, 1),
                              v.Region(key_at, tile.width, key_stride, size, 1)};
      if (from.k == nullptr || from.v == nullptr) return;
      for (int64_t inner = 0; inner < place.per_group; ++inner) {
        tile.head = group * place.per_group + inner;
        AddHead(block, gradient, q, o, lse, place, mask, tile, from, key_sums, value_sums);
      }
    }
    block.EachRow(tile.width, size, [&](int64_t row, int64_t i) {
      dk[key_at + row * key_stride + i] = key_sums[row * size + i] * place.scale;
      dv[key_at + row * key_stride + i] = value_sums[row * size + i];
    });
  }

  // Continues the sums over the queries of one head.
  template <typename Input, typename Statistics>
  TIDELINE_HOST_DEVICE static void AddHead(const Block& block, const Input& gradient,
                                           const Input& q, const Input& o, const Statistics& lse,
                                           const AttentionPlace& place, const DropoutMask& mask,
                                           Meeting at, MeetingOperands<T> from, float* key_sums,
                                           float* value_sums) {
    TIDELINE_BLOCK_SHARED float probabilities[kRows * kBlock];
    TIDELINE_BLOCK_SHARED float gradients[kRows * kBlock];
    const int64_t size = place.size;
    const int64_t query_stride = place.query_stride();
    for (at.query = place.FirstSeeing(Most(at.key, place.key_begin)); at.query < place.queries;
         at.query += at.rows) {
      at.rows = Least(kRows, place.queries - at.query);
      const int64_t query_at = place.QueryAt(at.batch, at.head, at.query);
      from.q = q.Region(query_at, at.rows, query_stride, size, 1);
      from.gradient = gradient.Region(query_at, at.rows, query_stride, size, 1);
      from.o = o.Region(query_at, at.rows, query_stride, size, 1);
      const float* statistics =
          lse.Region(place.StatisticAt(at.batch, at.head, at.query), at.rows, 1, 1, 1);
      if (from.q == nullptr || from.gradient == nullptr || from.o == nullptr ||
          statistics == nullptr) {
        return;
      }
      MeetBackward(block, place, mask, at, from, statistics, probabilities, gradients);
      TileProduct(block, at.width, size, at.rows, Tile<float>{probabilities, 1, kBlock},
                  Tile<T>{from.gradient, query_stride, 1}, value_sums, size, true);
      TileProduct(block, at.width, size, at.rows, Tile<float>{gradients, 1, kBlock},
                  Tile<T>{from.q, query_stride, 1}, key_sums, size, true);
    }
  }
};

// ---- Merging ----

// One block per query and head: o = (a wa + b wb) / (wa + wb), w = exp(lse - largest).
template <typename T>
struct MergeAttention {
  static constexpr const char* kName = "merge_attention";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> a, In<float, Mode> a_lse,
                                       In<T, Mode> b, In<float, Mode> b_lse, Out<T, Mode> o,
                                       Out<float, Mode> lse, AttentionPlace place) {
    const int64_t head = block.index() % place.heads();
    const int64_t query = block.index() / place.heads() % place.queries;
    const int64_t batch = block.index() / place.heads() / place.queries;
    const int64_t at = place.StatisticAt(batch, head, query);
    const float left = a_lse[at];
    const float right = b_lse[at];
    const float largest = right > left ? right : left;
    const bool any = largest != -kInfinity;
    const float left_weight = any ? Exp(left - largest) : 0.0f;
    const float right_weight = any ? Exp(right - largest) : 0.0f;
    const float total = left_weight + right_weight;
    const float inverse = any ? 1.0f / total : 0.0f;
    const int64_t row = place.QueryAt(batch, head, query);
    block.Map(
        place.size,
        [=](int64_t, float& to, float x, float y) {
          to = std::fma(y, right_weight * inverse, x * (left_weight * inverse));
        },
        o.From(row), a.From(row), b.From(row));
    block.Once([&] { lse[at] = any ? largest + Log(total) : -kInfinity; });
  }
};

StatusOr<AttentionPlace> PlaceOf(const OpCall& call, int q, int k) {
  const std::vector<int64_t>& query_shape = call.Shape(q);
  const Attributes& attributes = call.attributes();
  AttentionPlace place;
  place.queries = query_shape[1];
  place.keys = call.Shape(k)[1];
  place.groups = query_shape[2];
  place.per_group = query_shape[3];
  place.size = query_shape[4];
  place.first_query = call.At(attributes.position_offset);
  place.first_key = call.At(attributes.key_offset);
  place.key_begin = call.At(attributes.key_begin);
  place.key_end = attributes.key_end == Affine() ? place.keys : call.At(attributes.key_end);
  place.first_head = call.At(attributes.row_offset) * place.per_group;
  place.scale = attributes.scale;
  place.causal = attributes.causal;
  const bool in_order = 0 <= place.key_begin && place.key_begin <= place.key_end;
  if (in_order && place.key_end <= place.keys) return place;
  return InputError(absl::StrCat("kernel attention: keys [", place.key_begin, ", ", place.key_end,
                                 ") are no range of the ", place.keys,
                                 " keys there are; give 0 <= begin <= end <= keys"));
}

int64_t TilesOf(int64_t count, int64_t tile) { return (count + tile - 1) / tile; }

}  // namespace

Status LaunchAttention(const OpCall& call) {
  TL_ASSIGN_OR_RETURN(const AttentionPlace place, PlaceOf(call, 0, 1));
  const int64_t batch = call.Shape(0)[0];
  const int64_t blocks = batch * place.heads() * TilesOf(place.queries, kRows);
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<Attention<T>>(call.target(), blocks, call.Read<T>(0), call.Read<T>(1),
                                call.Read<T>(2), call.Write<T>(3), call.Write(4), place,
                                MaskOf(call, batch));
  });
}

Status LaunchAttentionGrad(const OpCall& call) {
  TL_ASSIGN_OR_RETURN(const AttentionPlace place, PlaceOf(call, 1, 2));
  const int64_t batch = call.Shape(1)[0];
  const DropoutMask mask = MaskOf(call, batch);
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) -> Status {
    TL_RETURN_IF_ERROR(Launch<AttentionQueryGrad<T>>(
        call.target(), batch * place.heads() * TilesOf(place.queries, kRows), call.Read<T>(0),
        call.Read<T>(1), call.Read<T>(2), call.Read<T>(3), call.Read<T>(4), call.Read(5),
        call.Write<T>(6), place, mask));
    return Launch<AttentionKeyGrad<T>>(
        call.target(), batch * place.groups * TilesOf(place.keys, kGradientKeys), call.Read<T>(0),
        call.Read<T>(1), call.Read<T>(2), call.Read<T>(3), call.Read<T>(4), call.Read(5),
        call.Write<T>(7), call.Write<T>(8), place, mask);
  });
}

Status LaunchMergeAttention(const OpCall& call) {
  AttentionPlace place;
  const std::vector<int64_t>& shape = call.Shape(0);
  place.queries = shape[1];
  place.groups = shape[2];
  place.per_group = shape[3];
  place.size = shape[4];
  const int64_t blocks = shape[0] * place.heads() * place.queries;
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<MergeAttention<T>>(call.target(), blocks, call.Read<T>(0), call.Read(1),
                                     call.Read<T>(2), call.Read(3), call.Write<T>(4), call.Write(5),
                                     place);
  });
}

}  // namespace tideline::ops

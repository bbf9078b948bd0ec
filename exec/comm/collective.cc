#include "exec/comm/collective.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "exec/comm/element.h"
#include "exec/comm/reduction.h"

namespace tideline {
namespace {

constexpr int64_t kBlock = 1024;    // elements reduced at a time: the rows stay in cache
constexpr int64_t kOwnPieces = 64;  // outer pieces declared one by one

bool Gathers(const Collective& collective) { return collective.kind == CollectiveKind::kAllGather; }
bool Scatters(const Collective& collective) {
  return collective.kind == CollectiveKind::kReduceScatter;
}

const char* At(const void* base, int64_t bytes) { return static_cast<const char*>(base) + bytes; }
char* At(void* base, int64_t bytes) { return static_cast<char*>(base) + bytes; }

// Reduces `count` elements that begin at byte offsets `from` of every input, and stores the result
// `to` bytes into the outputs of [first_output, last_output).
class Reducer {
 public:
  Reducer(const Collective& collective, std::span<const MemberBuffers> members)
      : collective_(collective),
        members_(members),
        values_(members.size() * kBlock),
        first_rank_(-1) {
    for (size_t member = 0; member < members.size(); ++member) {
      rows_.push_back(values_.data() + member * kBlock);
    }
  }

  // The ring of the elements to come starts at chunk number `chunk`.
  void SelectChunk(int32_t chunk) {
    const int32_t members = static_cast<int32_t>(members_.size());
    const int32_t first = static_cast<int32_t>((int64_t{collective_.ring_start} + chunk) % members);
    if (first == first_rank_) return;
    first_rank_ = first;
    steps_ = StepsOf(collective_.order, members, first);
  }

  void Run(int64_t from, int64_t to, int64_t count, size_t first_output, size_t last_output) {
    const int64_t size = SizeOf(collective_.dtype);
    for (int64_t done = 0; done < count; done += kBlock) {
      const int64_t now = std::min(kBlock, count - done);
      for (size_t member = 0; member < members_.size(); ++member) {
        Load(At(members_[member].input, from + done * size), now, rows_[member]);
      }
      const float* sum = Reduce(steps_, collective_.reduction, rows_, now);
      for (size_t member = first_output; member < last_output; ++member) {
        Store(sum, now, At(members_[member].output, to + done * size));
      }
    }
  }

 private:
  void Load(const void* from, int64_t count, float* to) const {
    if (collective_.dtype == DType::kF32) {
      std::memcpy(to, from, static_cast<size_t>(count) * 4);
      return;
    }
    for (int64_t i = 0; i < count; ++i) to[i] = LoadElement(from, i, collective_.dtype);
  }

  void Store(const float* from, int64_t count, void* to) const {
    if (collective_.dtype == DType::kF32) {
      std::memcpy(to, from, static_cast<size_t>(count) * 4);
      return;
    }
    for (int64_t i = 0; i < count; ++i) StoreElement(to, i, collective_.dtype, from[i]);
  }

  const Collective& collective_;
  std::span<const MemberBuffers> members_;
  std::vector<float> values_;
  std::vector<float*> rows_;
  int32_t first_rank_;
  ReductionSteps steps_;
};

void AllReduce(const Collective& collective, std::span<const MemberBuffers> members) {
  const int64_t count = collective.outer * collective.block;
  const int64_t size = SizeOf(collective.dtype);
  const int32_t ranks = static_cast<int32_t>(members.size());
  Reducer reducer(collective, members);
  for (int64_t begin = 0; begin < count;) {
    const RingChunk chunk = RingChunkAt(begin, count, ranks);
    reducer.SelectChunk(chunk.number);
    reducer.Run(begin * size, begin * size, chunk.end - begin, 0, members.size());
    begin = chunk.end;
  }
}

void ReduceScatter(const Collective& collective, std::span<const MemberBuffers> members) {
  const int64_t piece = collective.block * SizeOf(collective.dtype);
  const int64_t ranks = static_cast<int64_t>(members.size());
  Reducer reducer(collective, members);
  for (int64_t outer = 0; outer < collective.outer; ++outer) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      reducer.SelectChunk(static_cast<int32_t>(rank));
      const int64_t from = (outer * ranks + rank) * piece;
      const MemberBuffers& owner = members[rank];
      const int64_t to = owner.input == owner.output ? from : outer * piece;
      reducer.Run(from, to, collective.block, rank, rank + 1);
    }
  }
}

void AllGather(const Collective& collective, std::span<const MemberBuffers> members) {
  const int64_t piece = collective.block * SizeOf(collective.dtype);
  const int64_t ranks = static_cast<int64_t>(members.size());
  for (int64_t outer = 0; outer < collective.outer; ++outer) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t to = (outer * ranks + rank) * piece;
      const MemberBuffers& owner = members[rank];
      const char* from = At(owner.input, owner.input == owner.output ? to : outer * piece);
      for (const MemberBuffers& member : members) {
        if (At(member.output, to) != from) {
          std::memcpy(At(member.output, to), from, static_cast<size_t>(piece));
        }
      }
    }
  }
}

void Broadcast(const Collective& collective, std::span<const MemberBuffers> members) {
  const int64_t bytes = collective.outer * collective.block * SizeOf(collective.dtype);
  for (const MemberBuffers& member : members) {
    if (member.output != members[0].input) {
      std::memcpy(member.output, members[0].input, static_cast<size_t>(bytes));
    }
  }
}

}  // namespace

std::string_view Name(ReductionOrder order) {
  switch (order) {
    case ReductionOrder::kRank:
      return "rank";
    case ReductionOrder::kRing:
      return "ring";
    case ReductionOrder::kTree:
      return "tree";
    case ReductionOrder::kHalvingDoubling:
      return "halving_doubling";
  }
  return "unknown";
}

int64_t InputBytes(const Collective& collective, int32_t members) {
  const int64_t part = collective.outer * collective.block * SizeOf(collective.dtype);
  return Scatters(collective) ? part * members : part;
}

int64_t OutputBytes(const Collective& collective, int32_t members) {
  const int64_t part = collective.outer * collective.block * SizeOf(collective.dtype);
  return Gathers(collective) ? part * members : part;
}

std::string Describe(const Collective& collective) {
  std::string text(Name(collective.kind));
  const auto dtype = Name(collective.dtype);
  absl::StrAppend(&text, " ", absl::string_view(dtype.data(), dtype.size()), " [outer ",
                  collective.outer, ", block ", collective.block, "]");
  if (collective.kind == CollectiveKind::kAllReduce || Scatters(collective)) {
    const auto order = Name(collective.order);
    absl::StrAppend(&text, collective.reduction == Reduction::kSum ? " sum" : " maximum",
                    " in order ", absl::string_view(order.data(), order.size()));
    if (collective.order == ReductionOrder::kRing) {
      absl::StrAppend(&text, "(", collective.ring_start, ")");
    }
  }
  return text;
}

void RecogniseInPlace(const Collective& collective, int32_t member, const void*& input,
                      void*& output) {
  if (collective.outer != 1) return;
  const int64_t own = member * collective.block * SizeOf(collective.dtype);
  if (collective.kind == CollectiveKind::kAllGather &&
      input == static_cast<const char*>(output) + own) {
    input = output;
  }
  if (collective.kind == CollectiveKind::kReduceScatter &&
      output == static_cast<const char*>(input) + own) {
    output = const_cast<void*>(input);
  }
}

Status ValidateCollective(const Collective& collective, int32_t members, const void* input,
                          const void* output) {
  const std::string what = Describe(collective);
  if (collective.outer < 0 || collective.block < 0) {
    return RunError(absl::StrCat(what, ": outer and block are counts of elements, not below 0"));
  }
  int64_t count = 0;
  if (__builtin_mul_overflow(collective.outer, collective.block, &count) ||
      __builtin_mul_overflow(count, SizeOf(collective.dtype) * members, &count)) {
    return RunError(absl::StrCat(what, ": outer x block x ", members, " members overflows"));
  }
  const bool reduces = collective.kind == CollectiveKind::kAllReduce || Scatters(collective);
  if (reduces && collective.dtype == DType::kI32) {
    return RunError(absl::StrCat(what, ": reductions are of fp32, bf16 or fp16"));
  }
  if (collective.ring_start < 0) {
    return RunError(absl::StrCat(what, ": ring_start is a rank of the group, not below 0"));
  }
  const char* in = static_cast<const char*>(input);
  const char* out = static_cast<const char*>(output);
  if (in != out && in < out + OutputBytes(collective, members) &&
      out < in + InputBytes(collective, members)) {
    return RunError(absl::StrCat(
        what, ": input and output overlap in part; pass one pointer for both to work in place"));
  }
  return absl::OkStatus();
}

void AppendRanges(const Collective& collective, int32_t members, int32_t member, const void* input,
                  const void* output, absl::InlinedVector<Range, 6>& ranges) {
  const int64_t input_bytes = InputBytes(collective, members);
  const int64_t output_bytes = OutputBytes(collective, members);
  if (input != output) {
    // A broadcast reads on the first member alone.
    if (collective.kind != CollectiveKind::kBroadcast || member == 0) {
      ranges.push_back({input, input_bytes, Access::kRead});
    }
    ranges.push_back({output, output_bytes, Access::kWrite});
    return;
  }
  if (collective.kind == CollectiveKind::kBroadcast) {
    ranges.push_back({output, output_bytes, member == 0 ? Access::kRead : Access::kWrite});
    return;
  }
  if (!Gathers(collective) && !Scatters(collective)) {
    ranges.push_back({output, output_bytes, Access::kReadWrite});
    return;
  }
  const Access own = Gathers(collective) ? Access::kRead : Access::kWrite;
  if (Scatters(collective)) ranges.push_back({input, input_bytes, Access::kRead});
  if (collective.outer <= kOwnPieces) {
    const int64_t piece = collective.block * SizeOf(collective.dtype);
    for (int64_t outer = 0; outer < collective.outer; ++outer) {
      ranges.push_back({At(output, (outer * members + member) * piece), piece, own});
    }
  }
  if (Gathers(collective)) {
    ranges.push_back({output, output_bytes, Access::kWrite});
  } else if (collective.outer > kOwnPieces) {
    ranges.push_back({output, input_bytes, Access::kWrite});
  }
}

void RunCollective(const Collective& collective, std::span<const MemberBuffers> members) {
  if (collective.outer == 0 || collective.block == 0) return;
  switch (collective.kind) {
    case CollectiveKind::kAllReduce:
      return AllReduce(collective, members);
    case CollectiveKind::kAllGather:
      return AllGather(collective, members);
    case CollectiveKind::kReduceScatter:
      return ReduceScatter(collective, members);
    case CollectiveKind::kBroadcast:
      return Broadcast(collective, members);
  }
}

}  // namespace tideline

#include "planner/program/state_slices.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planner/program/byte_set.h"

namespace tideline {

SliceFinder::SliceFinder(const ProgramState& from)
    : from_(from), replicas_(from.tensors.size()), given_(from.ranks.size(), 0) {
  for (uint32_t tensor = 0; tensor < from.tensors.size(); ++tensor) {
    tensors_[{from.tensors[tensor].name, from.tensors[tensor].kind}] = tensor;
  }
  std::vector<std::map<TensorRegion, size_t>> places(from.tensors.size());
  for (size_t rank = 0; rank < from.ranks.size(); ++rank) {
    for (const StatePiece& piece : from.ranks[rank].pieces) {
      if (!piece.primary) continue;
      std::vector<Replicas>& replicas = replicas_[piece.tensor];
      const auto [place, is_new] = places[piece.tensor].try_emplace(piece.region, replicas.size());
      if (is_new) replicas.push_back({piece.region, {}});
      replicas[place->second].holders.push_back({static_cast<int32_t>(rank), &piece});
    }
  }
}

StatusOr<uint32_t> SliceFinder::SourceOf(const StateTensor& tensor) const {
  const auto found = tensors_.find({tensor.name, tensor.kind});
  if (found == tensors_.end()) return InputError(absl::StrCat(Describe(tensor), " is missing"));
  const StateTensor& source = from_.tensors[found->second];
  if (source.shape == tensor.shape) return found->second;
  return InputError(absl::StrCat(Describe(tensor), " has the shape [",
                                 absl::StrJoin(source.shape, ", "), "], not [",
                                 absl::StrJoin(tensor.shape, ", "), "]"));
}

SliceFinder::Holder SliceFinder::Choose(const Replicas& replicas, int32_t rank) const {
  const auto better = [&](const Holder& a, const Holder& b) {
    if ((a.rank == rank) != (b.rank == rank)) return a.rank == rank;
    return given_[static_cast<size_t>(a.rank)] < given_[static_cast<size_t>(b.rank)];
  };
  return *std::min_element(replicas.holders.begin(), replicas.holders.end(), better);
}

Status SliceFinder::FillPiece(const StatePiece& piece, const StateTensor& tensor, int32_t rank,
                              std::vector<StateSlice>& slices) {
  TL_ASSIGN_OR_RETURN(const uint32_t source, SourceOf(tensor));
  struct Choice {
    const Replicas* replicas;
    Holder holder;
  };
  std::vector<Choice> choices;
  for (const Replicas& replicas : replicas_[source]) {
    choices.push_back({&replicas, Choose(replicas, rank)});
  }
  // What lies on the rank itself goes first.
  std::stable_partition(choices.begin(), choices.end(),
                        [rank](const Choice& choice) { return choice.holder.rank == rank; });
  ByteSet filled;  // elements of the piece
  const size_t first = slices.size();
  for (const auto& [replicas, holder] : choices) {
    for (const CommonRun& run : CommonRuns(replicas->region, piece.region, tensor.shape)) {
      for (const auto& [begin, end] : filled.Missing(run.right, run.right + run.count)) {
        const StatePiece& from = *holder.piece;
        StateSlice slice{.tensor = piece.tensor,
                         .source_rank = holder.rank,
                         .destination_rank = rank,
                         .source_buffer = from.buffer,
                         .destination_buffer = piece.buffer,
                         .elements = end - begin,
                         .source_dtype = from.dtype,
                         .destination_dtype = piece.dtype};
        slice.source_offset = from.offset + (run.left + begin - run.right) * SizeOf(from.dtype);
        slice.destination_offset = piece.offset + begin * SizeOf(piece.dtype);
        given_[static_cast<size_t>(holder.rank)] += slice.source_bytes();
        slices.push_back(slice);
      }
      filled.Add(run.right, run.right + run.count);
    }
  }
  std::sort(slices.begin() + static_cast<std::ptrdiff_t>(first), slices.end(),
            [](const StateSlice& a, const StateSlice& b) {
              return a.destination_offset < b.destination_offset;
            });
  const auto missing = filled.Missing(0, piece.region.count());
  if (missing.empty()) return absl::OkStatus();
  return InputError(absl::StrCat(
      Describe(tensor), " is not complete: ", missing.front().second - missing.front().first,
      " elements that rank ", rank, " needs are missing"));
}

StatusOr<std::vector<StateSlice>> SliceFinder::Fill(const ProgramState& to, int32_t rank) {
  std::vector<StateSlice> slices;
  for (const StatePiece& piece : to.ranks[static_cast<size_t>(rank)].pieces) {
    TL_RETURN_IF_ERROR(FillPiece(piece, to.tensors[piece.tensor], rank, slices));
  }
  return slices;
}

}  // namespace tideline

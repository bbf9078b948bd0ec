#include "planner/lowering/transition.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "models/ops/op_table.h"
#include "planner/program/builder.h"
#include "planner/program/memory.h"
#include "planner/program/state_slices.h"
#include "planner/program/verifier.h"

namespace tideline {
namespace {

// From this on a slice is a message of its own and needs no staging.
constexpr int64_t kDirectBytes = int64_t{64} << 10;
// Of each kind, used in turn: one is filled while the other is on its way.
constexpr size_t kStagingBuffers = 2;
// One message: elements of one type, without gaps.
struct Package {
  int32_t source = 0, destination = 0;
  std::vector<StateSlice> slices;
  int64_t bytes = 0;  // packed
  bool direct = false;
};

// What one rank's writers share.
struct RankWriter {
  std::map<uint32_t, uint32_t>* old_buffers = nullptr;
  std::map<uint32_t, uint32_t>* new_buffers = nullptr;
  std::array<uint32_t, kStagingBuffers> to_send{kNoId, kNoId}, received{kNoId, kNoId};
  // The last instruction that used each, in the body.
  std::array<uint32_t, kStagingBuffers> last_send{kNoId, kNoId}, last_unpack{kNoId, kNoId};
  size_t sends = 0, receives = 0;  // packed ones
};

class Lowering {
 public:
  Lowering(const Program& from, const Program& to, const TransitionOptions& options)
      : from_(from),
        to_(to),
        // Two buffers of each kind make up the whole.
        package_bytes_(options.staging_bytes / static_cast<int64_t>(2 * kStagingBuffers)),
        build_(&result_.program) {
    TL_CHECK(options.staging_bytes >= 1024, "room for some elements");
  }

  StatusOr<Transition> Run() {
    TL_ASSIGN_OR_RETURN(result_.from, MapState(from_));
    TL_ASSIGN_OR_RETURN(result_.to, MapState(to_));
    ranks_ = static_cast<int32_t>(std::max(from_.ranks.size(), to_.ranks.size()));
    TL_RETURN_IF_ERROR(FindPackages());
    AddRanks();
    AddBuffers();
    AddStaging();
    AddLanes();
    for (int32_t rank = 0; rank < ranks_; ++rank) WritePrologue(rank);
    WriteBodies();
    Program& program = result_.program;
    for (Role& role : program.roles) InsertLifetimes(role);
    AssignAddresses(program);
    TL_RETURN_IF_ERROR(Verify(program, {.after_pass = "transition"}));
    return std::move(result_);
  }

 private:
  // ---- What is to be moved ----

  Status FindPackages() {
    SliceFinder finder(result_.from);
    local_.resize(static_cast<size_t>(ranks_));
    std::map<std::pair<int32_t, int32_t>, std::vector<Package>> between;
    for (int32_t rank = 0; rank < std::ssize(result_.to.ranks); ++rank) {
      TL_ASSIGN_OR_RETURN(const std::vector<StateSlice> slices, finder.Fill(result_.to, rank));
      for (const StateSlice& slice : slices) {
        if (slice.source_rank == rank) {
          local_[static_cast<size_t>(rank)].push_back(slice);
        } else {
          Put(slice, between[{slice.source_rank, rank}]);
        }
      }
    }
    Order(between);
    return absl::OkStatus();
  }

  // Adds a slice to the packages between two ranks.
  void Put(const StateSlice& slice, std::vector<Package>& packages) const {
    Package fresh{slice.source_rank, slice.destination_rank, {}, 0, false};
    if (slice.source_dtype == slice.destination_dtype && slice.source_bytes() >= kDirectBytes) {
      fresh.slices = {slice};
      fresh.bytes = slice.source_bytes();
      fresh.direct = true;
      packages.push_back(std::move(fresh));
      return;
    }
    const int64_t to_size = SizeOf(slice.destination_dtype);
    for (int64_t done = 0; done < slice.elements;) {
      const auto open =
          std::find_if(packages.rbegin(), packages.rend(), [&](const Package& package) {
            return !package.direct &&
                   package.slices.front().destination_dtype == slice.destination_dtype;
          });
      const int64_t room = open == packages.rend() ? 0 : (package_bytes_ - open->bytes) / to_size;
      StateSlice part = slice;
      part.elements = std::min(room > 0 ? room : package_bytes_ / to_size, slice.elements - done);
      part.source_offset += done * SizeOf(slice.source_dtype);
      part.destination_offset += done * to_size;
      done += part.elements;
      Package& package = room > 0 ? *open : packages.emplace_back(fresh);
      package.slices.push_back(part);
      package.bytes += part.destination_bytes();
    }
  }

  void Order(std::map<std::pair<int32_t, int32_t>, std::vector<Package>>& between) {
    for (int32_t delta = 1; delta < ranks_; ++delta) {
      bool more = true;
      for (size_t round = 0; more; ++round) {
        more = false;
        for (int32_t source = 0; source < ranks_; ++source) {
          const auto found = between.find({source, (source + delta) % ranks_});
          if (found == between.end() || round >= found->second.size()) continue;
          packages_.push_back(std::move(found->second[round]));
          more = true;
        }
      }
    }
  }

  int32_t DeltaOf(const Package& package) const {
    return (package.destination - package.source + ranks_) % ranks_;
  }

  // ---- Roles, buffers, lanes ----

  void AddRanks() {
    Program& program = result_.program;
    program.mesh = {1, 1, 1};
    program.mesh[static_cast<size_t>(Axis::kData)] = ranks_;
    program.global_batch = to_.global_batch;
    program.sequence = to_.sequence;
    program.seed = from_.seed;
    program.graph_hash = to_.graph_hash;
    program.schedule = {{.body = 0, .times = 1}};
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      Rank entry;
      entry.role = build_.AddRole(absl::StrCat("rank ", rank));
      entry.coordinates[static_cast<size_t>(Axis::kData)] = rank;
      program.ranks.push_back(entry);
      program.roles.back().bodies.resize(1);
    }
    writers_.resize(static_cast<size_t>(ranks_));
    result_.old_buffers.resize(static_cast<size_t>(ranks_));
    result_.new_buffers.resize(static_cast<size_t>(ranks_));
    for (size_t rank = 0; rank < writers_.size(); ++rank) {
      writers_[rank].old_buffers = &result_.old_buffers[rank];
      writers_[rank].new_buffers = &result_.new_buffers[rank];
    }
  }

  void AddBuffersOf(const Program& program, const ProgramState& state, const char* prefix,
                    bool only_primary, std::vector<std::map<uint32_t, uint32_t>>& buffers) {
    for (size_t rank = 0; rank < state.ranks.size(); ++rank) {
      const Role& role = program.roles[program.ranks[rank].role];
      for (const StatePiece& piece : state.ranks[rank].pieces) {
        if (only_primary && !piece.primary) continue;
        const Buffer& buffer = role.buffers[piece.buffer];
        const auto [entry, is_new] = buffers[rank].try_emplace(piece.buffer, kNoId);
        if (!is_new) continue;
        entry->second =
            build_.AddBuffer(static_cast<uint32_t>(rank),
                             absl::StrCat(prefix, std::string(NameText(program, buffer.name))),
                             buffer.bytes, buffer.category, buffer.space, /*persistent=*/true);
      }
    }
  }

  void AddBuffers() {
    AddBuffersOf(from_, result_.from, "old ", true, result_.old_buffers);
    AddBuffersOf(to_, result_.to, "new ", false, result_.new_buffers);
  }

  void AddStaging() {
    std::vector<std::array<int64_t, kStagingBuffers>> sent(writers_.size()),
        received(writers_.size());
    for (const Package& package : packages_) {
      if (package.direct) continue;
      RankWriter& source = writer(package.source);
      RankWriter& destination = writer(package.destination);
      int64_t& out = sent[static_cast<size_t>(package.source)][source.sends++ % kStagingBuffers];
      int64_t& in = received[static_cast<size_t>(package.destination)]
                            [destination.receives++ % kStagingBuffers];
      out = std::max(out, package.bytes);
      in = std::max(in, package.bytes);
    }
    for (size_t rank = 0; rank < writers_.size(); ++rank) {
      RankWriter& of = writers_[rank];
      of.sends = of.receives = 0;
      for (size_t i = 0; i < kStagingBuffers; ++i) {
        of.to_send[i] = AddStagingBuffer(rank, "packed to send ", i, sent[rank][i]);
        of.received[i] = AddStagingBuffer(rank, "packed and received ", i, received[rank][i]);
      }
    }
  }

  uint32_t AddStagingBuffer(size_t rank, const char* name, size_t index, int64_t bytes) {
    if (bytes == 0) return kNoId;
    return build_.AddBuffer(static_cast<uint32_t>(rank), absl::StrCat(name, index), bytes,
                            Category::kCommunication);
  }

  void AddLanes() {
    for (const Package& package : packages_) {
      SendLane(package);
      ReceiveLane(package);
    }
    for (Role& role : result_.program.roles) {
      prologues_.emplace_back(&role, &role.prologue);
      bodies_.emplace_back(&role, &role.bodies[0]);
    }
  }

  uint32_t PeerOf(int32_t delta) { return build_.Intern(Peer{Axis::kData, delta}); }
  uint16_t SendLane(const Package& package) {
    return build_.LaneOf(static_cast<uint32_t>(package.source),
                         {LaneKind::kSendTo, PeerOf(DeltaOf(package))});
  }
  uint16_t ReceiveLane(const Package& package) {
    return build_.LaneOf(static_cast<uint32_t>(package.destination),
                         {LaneKind::kReceiveFrom, PeerOf(-DeltaOf(package))});
  }

  RankWriter& writer(int32_t rank) { return writers_[static_cast<size_t>(rank)]; }

  // ---- Instructions ----

  Instruction Compute(std::string_view name, Op op, const Attributes& attributes,
                      const std::vector<OperandSpec>& operands) {
    Kernel kernel;
    kernel.op = op;
    kernel.attributes = attributes;
    kernel.operands = operands;
    kernel.work = WorkOf(op, attributes, operands);
    Instruction instruction{.kind = InstructionKind::kCompute,
                            .phase = Phase::kUpdate,
                            .lane = kComputeLane,
                            .what = build_.Intern(kernel)};
    instruction.name = build_.Intern(name);
    return instruction;
  }

  Instruction Message(InstructionKind kind, uint16_t lane, int32_t delta, std::string_view name) {
    Instruction instruction{
        .kind = kind, .phase = Phase::kUpdate, .lane = lane, .what = PeerOf(delta)};
    instruction.name = build_.Intern(name);
    return instruction;
  }

  // The old state stands there before the transition begins.
  void WritePrologue(int32_t rank) {
    if (rank >= std::ssize(result_.from.ranks)) return;
    for (const StatePiece& piece : result_.from.ranks[static_cast<size_t>(rank)].pieces) {
      if (!piece.primary) continue;
      const StateTensor& tensor = result_.from.tensors[piece.tensor];
      InitBox box;
      box.parameter = TransitionStream(tensor);
      box.full_shape = tensor.shape;
      box.extent = piece.region.extent;
      for (const int64_t first : piece.region.first) {
        box.first.emplace_back();
        box.first.back().base = first;
      }
      Attributes attributes;
      attributes.init = {std::move(box)};
      attributes.init_stddev = 1.0f;
      attributes.element_offset.base = piece.region.begin;
      const Instruction instruction =
          Compute(absl::StrCat("old ", Describe(tensor)), Op::kInitNormal, attributes,
                  {{{piece.region.count()}, piece.dtype, Access::kWrite}});
      const Operand operands[] = {{.buffer = writer(rank).old_buffers->at(piece.buffer),
                                   .offset = piece.offset,
                                   .bytes = piece.bytes(),
                                   .access = Access::kWrite}};
      prologues_[static_cast<size_t>(rank)].Append(instruction, operands, {});
    }
  }

  void WriteBodies() {
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      if (rank < std::ssize(result_.to.ranks)) WritePadding(rank);
      for (const StateSlice& slice : local_[static_cast<size_t>(rank)]) {
        Copy(rank, slice, Old(slice), slice.source_dtype, New(slice), kNoId);
      }
    }
    for (const Package& package : packages_) {
      if (package.direct) {
        WriteDirect(package);
      } else {
        WritePacked(package);
      }
    }
  }

  void WritePadding(int32_t rank) {
    const RankState& state = result_.to.ranks[static_cast<size_t>(rank)];
    std::map<uint32_t, DType> types;
    for (const StatePiece& piece : state.pieces) types[piece.buffer] = piece.dtype;
    for (const ZeroRange& zeros : state.zeros) {
      const auto type = types.find(zeros.buffer);
      if (type == types.end()) continue;  // no part of the state: gradients
      const int64_t bytes = zeros.end - zeros.begin;
      const Instruction instruction =
          Compute("zero padding", Op::kFill, {},
                  {{{bytes / SizeOf(type->second)}, type->second, Access::kWrite}});
      const Operand operands[] = {{.buffer = writer(rank).new_buffers->at(zeros.buffer),
                                   .offset = zeros.begin,
                                   .bytes = bytes,
                                   .access = Access::kWrite}};
      bodies_[static_cast<size_t>(rank)].Append(instruction, operands, {});
    }
  }

  Operand Old(const StateSlice& slice) {
    return {.buffer = writer(slice.source_rank).old_buffers->at(slice.source_buffer),
            .offset = slice.source_offset,
            .bytes = slice.source_bytes(),
            .access = Access::kRead};
  }
  Operand New(const StateSlice& slice) {
    return {.buffer = writer(slice.destination_rank).new_buffers->at(slice.destination_buffer),
            .offset = slice.destination_offset,
            .bytes = slice.destination_bytes(),
            .access = Access::kWrite};
  }

  // Elements of a slice from one place of a rank to another, rounded where the types differ.
  uint32_t Copy(int32_t rank, const StateSlice& slice, const Operand& source, DType source_type,
                const Operand& destination, uint32_t wait) {
    const Instruction instruction =
        Compute(absl::StrCat("move ", Describe(result_.to.tensors[slice.tensor])), Op::kCast, {},
                {{{slice.elements}, source_type, Access::kRead},
                 {{slice.elements}, slice.destination_dtype, Access::kWrite}});
    const Operand operands[] = {source, destination};
    const uint32_t waits[] = {wait};
    return bodies_[static_cast<size_t>(rank)].Append(instruction, operands, waits);
  }

  void WriteDirect(const Package& package) {
    const int32_t delta = DeltaOf(package);
    const StateSlice& slice = package.slices.front();
    const std::string name = absl::StrCat("move ", Describe(result_.to.tensors[slice.tensor]));
    const Operand sent[] = {Old(slice)}, received[] = {New(slice)};
    bodies_[static_cast<size_t>(package.source)].Append(
        Message(InstructionKind::kSend, SendLane(package), delta, name), sent, {});
    bodies_[static_cast<size_t>(package.destination)].Append(
        Message(InstructionKind::kReceive, ReceiveLane(package), -delta, name), received, {});
  }

  void WritePacked(const Package& package) {
    const int32_t delta = DeltaOf(package);
    RankWriter& source = writer(package.source);
    RankWriter& destination = writer(package.destination);
    const size_t out = source.sends++ % kStagingBuffers;
    const size_t in = destination.receives++ % kStagingBuffers;
    SectionBuilder& sender = bodies_[static_cast<size_t>(package.source)];
    SectionBuilder& receiver = bodies_[static_cast<size_t>(package.destination)];

    const auto staged = [](uint32_t buffer, int64_t offset, int64_t bytes, Access access) {
      return Operand{.buffer = buffer, .offset = offset, .bytes = bytes, .access = access};
    };
    int64_t offset = 0;
    uint32_t packed = kNoId;
    for (const StateSlice& slice : package.slices) {
      // The others follow on the compute lane.
      const uint32_t wait = offset == 0 ? source.last_send[out] : kNoId;
      const int64_t bytes = slice.destination_bytes();
      packed = Copy(package.source, slice, Old(slice), slice.source_dtype,
                    staged(source.to_send[out], offset, bytes, Access::kWrite), wait);
      offset += bytes;
    }
    const Operand sent[] = {staged(source.to_send[out], 0, package.bytes, Access::kRead)};
    const uint32_t after_packing[] = {packed};
    source.last_send[out] =
        sender.Append(Message(InstructionKind::kSend, SendLane(package), delta,
                              absl::StrCat("slices to rank ", package.destination)),
                      sent, after_packing);

    const Operand received[] = {staged(destination.received[in], 0, package.bytes, Access::kWrite)};
    const uint32_t after_unpacking[] = {destination.last_unpack[in]};
    const uint32_t arrived =
        receiver.Append(Message(InstructionKind::kReceive, ReceiveLane(package), -delta,
                                absl::StrCat("slices from rank ", package.source)),
                        received, after_unpacking);
    offset = 0;
    for (const StateSlice& slice : package.slices) {
      const int64_t bytes = slice.destination_bytes();
      destination.last_unpack[in] =
          Copy(package.destination, slice,
               staged(destination.received[in], offset, bytes, Access::kRead),
               slice.destination_dtype, New(slice), offset == 0 ? arrived : kNoId);
      offset += bytes;
    }
  }

  const Program& from_;
  const Program& to_;
  const int64_t package_bytes_;
  int32_t ranks_ = 0;
  Transition result_;
  ProgramBuilder build_;
  std::vector<std::vector<StateSlice>> local_;  // by rank
  std::vector<Package> packages_;               // in the order of everybody's list
  std::vector<RankWriter> writers_;
  std::vector<SectionBuilder> prologues_, bodies_;
};

}  // namespace

std::string TransitionStream(const StateTensor& tensor) {
  return absl::StrCat(std::string(Name(tensor.kind)), " ", tensor.name);
}

StatusOr<Transition> LowerTransition(const Program& from, const Program& to,
                                     const TransitionOptions& options) {
  return Lowering(from, to, options).Run();
}

}  // namespace tideline

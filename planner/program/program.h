// Program: what each rank does, instruction by instruction. The simulator and the executor play the
// same Program.
//
// Ranks with the same instruction order share a Role, written in mesh coordinates. A Role has a
// prologue (parameters are made), bodies (one is a training step), and an epilogue; the schedule
// says how often each body runs.
//
// Order and time (DEFINITIONS 1):
// - a section's list extends all its waits; each lane runs its instructions in list order, one at a
// time;
// - an instruction starts when its lane is free, its waits are done and, on a device lane, its
// launch on the host lane
//   is done. Launches happen in list order and cost host time; they never wait for the device,
//   except that a kHostCompute instruction occupies the host lane itself and later launches come
//   after it;
// - a section starts when every lane of the rank has finished the section before it;
// - kAlloc stands directly before the first access, on that access's lane, and waits for what that
// access waits for; kFree stands directly after the last access on its lane and waits for the last
// access on every other lane; both take no time and no launch, but their waits hold;
// - kSend and kReceive are rendezvous: both ends are taken at once, when both have arrived;
// - messages meet on channels, first in first out: a send lane to peer (axis, d) is one channel
// with the receive lane from peer (axis, -d) at the other end; where the other end has no such lane
// (on an axis of two, +1 and -1 are the same rank), with the one whose distance is the same around
// the axis;
// - a collective starts when every member has arrived;
// - sections are closed: what is sent in one is received in it;
// - an instruction whose guard register is 0 is skipped: it does nothing, but its waits hold and it
// keeps its place on its lane. All members of a collective, and both ends of a message, have the
// same guard.
// Lists of different ranks are consistent: playing every rank strictly in list order never
// deadlocks.
//
// The file form is program.proto. Everything here is flat arrays with 32-bit ids; 90 layers x 96
// micro-batches on one role is about 10^5 instructions.
#ifndef TIDELINE_PLANNER_PROGRAM_PROGRAM_H_
#define TIDELINE_PLANNER_PROGRAM_PROGRAM_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/ir/attributes.h"
#include "models/ir/graph.h"
#include "models/ops/op_table.h"

namespace tideline {

inline constexpr uint32_t kNoId = UINT32_MAX;

// ---- Memory ----

enum class Space : uint8_t { kDevice, kPinnedHost };
inline constexpr int kSpaces = 2;

enum class Category : uint8_t {
  kParameter,
  kGradient,
  kOptimizer,
  kActivation,
  kChunk,
  kWorkspace,
  kCommunication,
  kKeyValue,
  kInput,
  kRuntime,
};
inline constexpr int kCategories = 10;

std::string_view Name(Space space);        // "device", "pinned_host"
std::string_view Name(Category category);  // "parameter", "gradient", ... as in peak_by_category{}

inline constexpr int64_t kAlignment =
    256;  // of addresses; live figures do not round (DEFINITIONS 2)
inline constexpr int64_t kNoAddress = -1;

struct Buffer {
  uint32_t name = kNoId;
  int64_t bytes = 0;
  Space space = Space::kDevice;
  Category category = Category::kActivation;
  bool persistent = false;  // lives from prologue start to epilogue end; has no kAlloc or kFree
  int64_t address = kNoAddress;  // within its space's arena; written by AssignAddresses (layout.h)
};

// A contiguous byte range of a buffer. The range begins at offset + affines[affine] (bytes) on the
// rank.
struct Operand {
  uint32_t buffer = kNoId;
  uint32_t affine = kNoId;  // into Program::affines; kNoId: none
  int64_t offset = 0;
  int64_t bytes = 0;
  Access access = Access::kRead;
};

// ---- Instructions ----

enum class InstructionKind : uint8_t {
  kCompute,      // what: kernels;      operands in the order of the op
  kCollective,   // what: collectives;  operands: input, output (one operand, kReadWrite, when in
                 // place)
  kSend,         // what: peers;        operand: the bytes sent
  kReceive,      // what: peers;        operand: the bytes written
  kCopy,         // operands: source, destination (of different spaces, equal bytes)
  kAlloc,        // what: buffers
  kFree,         // what: buffers
  kHostCompute,  // what: host_tasks;   operands in pinned host memory
  kPolicy,       // reserved: calls an online policy
  kLoop,         // reserved: repeats a range of the list over slices
};

std::string_view Name(InstructionKind kind);  // "compute", "collective", "send", ...

struct Instruction {
  InstructionKind kind = InstructionKind::kCompute;
  Phase phase = Phase::kForward;
  uint16_t lane = 0;                              // into Role::lanes
  uint32_t what = kNoId;                          // into the table its kind names
  uint32_t operands_begin = 0, operands_end = 0;  // into Section::operands
  uint32_t waits_begin = 0, waits_end = 0;        // into Section::waits
  uint32_t name = kNoId;                          // into Program::names
  uint32_t guard = kNoId;  // into Program::registers: skipped while it is 0; kNoId: always runs
  int32_t layer = kNone;   // block of the model, kNone where it has none
  int32_t micro_batch = kNone;
};

struct Section {
  std::vector<Instruction> instructions;
  std::vector<Operand> operands;
  std::vector<uint32_t> waits;  // instruction indices within this section, each on another lane and
                                // earlier in the list

  std::span<const Operand> Operands(const Instruction& instruction) const {
    return {operands.data() + instruction.operands_begin,
            operands.data() + instruction.operands_end};
  }
  std::span<const uint32_t> Waits(const Instruction& instruction) const {
    return {waits.data() + instruction.waits_begin, waits.data() + instruction.waits_end};
  }
};

// ---- Lanes, groups, tables ----

enum class LaneKind : uint8_t {
  kHost,
  kCompute,
  kHostToDevice,
  kDeviceToHost,
  kGroup,
  kSendTo,
  kReceiveFrom
};

// kGroup: index into groups; kSendTo, kReceiveFrom: index into peers. Lane 0 is the host, lane 1
// the compute lane.
struct Lane {
  LaneKind kind = LaneKind::kCompute;
  uint32_t index = kNoId;
  bool operator==(const Lane&) const = default;
};
inline constexpr uint16_t kHostLane = 0;
inline constexpr uint16_t kComputeLane = 1;

// The ranks that share all coordinates outside `axes`; ordered with the last axis of the mesh order
// fastest. A non-empty `subset` keeps only those coordinates of the (then single) axis, e.g. {0,
// p-1} for tied embeddings.
struct Group {
  std::vector<Axis> axes;
  std::vector<int32_t> subset;
  bool operator==(const Group&) const = default;
};

// The rank whose coordinate on `axis` is (own + delta) mod size.
struct Peer {
  Axis axis = Axis::kPipeline;
  int32_t delta = 0;
  bool operator==(const Peer&) const = default;
};

// One kernel, interned: many instructions share it.
struct Kernel {
  Op op = Op::kAdd;
  Attributes attributes;
  std::vector<OperandSpec> operands;
  Work work;
  DType compute_dtype = DType::kF32;
  // Registers whose values go with a launch, in the order that the op's comment gives
  // (models/ir/attributes.h); empty: the op does without.
  std::vector<uint32_t> scalars;
  bool operator==(const Kernel&) const = default;
};

enum class CollectiveKind : uint8_t { kAllReduce, kAllGather, kReduceScatter, kBroadcast };
std::string_view Name(CollectiveKind kind);  // "all_reduce", "all_gather", ...
enum class Reduction : uint8_t { kSum, kMaximum };
// How one all-reduce moves its bytes (cost) and in which order it adds (bits); DEFINITIONS 5.
enum class CollectiveAlgorithm : uint8_t { kRing, kTree, kHalvingDoubling };
enum class ReductionOrder : uint8_t { kRank, kRing, kTree, kHalvingDoubling };

// `outer` independent collectives in one launch: element (o, r, i) of the full tensor, r the
// member's index, i in [0, block). kAllGather: the input is [outer, block], the output [outer, n,
// block]; kReduceScatter the reverse; kAllReduce and kBroadcast: both are [outer * block] and
// nothing is cut.
struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
  ReductionOrder order = ReductionOrder::kRank;
  int32_t ring_start = 0;  // RING(s)
  uint32_t group = kNoId;
  DType dtype = DType::kF32;
  int64_t outer = 1;
  int64_t block = 0;  // elements
  bool operator==(const Collective&) const = default;
};

enum class HostTaskKind : uint8_t {
  kLoadTokens,  // operand 0: ids, operand 1: targets; int32 [samples, sequence] each
  kReadLoss,    // operand: one fp32, the mean loss of the step; reported
  kGateUpdate,  // operand: the exact sum of squares of all gradients (base/square_sum.h); writes
                // registers, reports the norm
  kLoadImages,  // operand 0: images, fp32 [samples, channels, height, width]; operand 1: labels,
                // int32 [samples, sequence]
};

// What becomes of gradients before they update parameters; the settings of kGateUpdate.
struct GradientControl {
  double clip_norm = 0;           // gradients of a larger norm are scaled down to it; 0: none are
  double initial_loss_scale = 0;  // a power of two that the loss's gradient is multiplied by; 0: no
                                  // scaling
  int64_t growth_steps = 2000;    // steps without overflow after which the scale doubles
  bool scales_loss() const { return initial_loss_scale != 0; }
  bool any() const { return clip_norm != 0 || scales_loss(); }
  bool operator==(const GradientControl&) const = default;
};

// Of loss scales: 2^-140 still is exact in fp32, so that unscaling is.
inline constexpr double kLargestLossScale = 0x1p140;

// kGateUpdate: with n the norm of the gradients (unscaled) it writes
//   factor = min(1, clip_norm / n) / loss_scale, what the update multiplies gradients by.
// With loss scaling also: when a gradient is no finite number, update = 0, skipped_steps + 1, the
// scale halves and clean_steps = 0; else update = 1, and after growth_steps of them in a row the
// scale doubles (up to kLargestLossScale). Registers that a plan has no use for are kNoId.
struct UpdateGate {
  GradientControl control;
  uint32_t factor = kNoId;
  uint32_t update = kNoId;
  uint32_t loss_scale = kNoId;
  uint32_t clean_steps = kNoId;
  uint32_t skipped_steps = kNoId;
  bool operator==(const UpdateGate&) const = default;
};

// Samples are numbered within the step; first + i is sample (step * global_batch + first + i) mod
// count.
struct HostTask {
  HostTaskKind kind = HostTaskKind::kLoadTokens;
  Affine first_sample;
  int64_t samples = 0;
  int64_t sequence = 0;
  UpdateGate gate = {};
  std::array<int64_t, 3> image{};  // kLoadImages: channels, height, width
  bool operator==(const HostTask&) const = default;
};

// Whether the task brings samples, and the bytes of each of its operands. Precondition of the
// second: the first, and no overflow (Verify checks).
bool LoadsSamples(const HostTask& task);
std::array<int64_t, 2> LoadedBytes(const HostTask& task);

// The registers that a task reads, and those it writes.
std::vector<uint32_t> RegistersRead(const HostTask& task);
std::vector<uint32_t> RegistersWritten(const HostTask& task);

// A run-time value of each rank, with declared bounds.
//
// It lives on the host lane: host tasks write it (a reduction's result reaches it through a copy to
// pinned memory), and what comes later in the list sees the new value: host tasks, guards, and the
// scalars of kernels, which are read when the kernel is launched. A value outside its bounds ends
// the run. The simulator has no values: it plays every guarded instruction.
struct Register {
  std::string name;       // unique; what checkpoints call it
  bool floating = false;  // else a whole number of magnitude up to 2^53
  double lower = 0, upper = 0;
  // Persistent: has `initial` at first, keeps its value from section to section and belongs to the
  // training state. Others hold nothing when a section begins.
  bool persistent = false;
  double initial = 0;
  // Equal on all ranks whenever it has been written equally often; persistent ones are, and the
  // guards of communication must be.
  bool replicated = false;
  bool operator==(const Register&) const = default;
};
inline constexpr double kLargestWholeRegister = 0x1p53;

// A persistent register in the training state: what checkpoints hold.
struct RegisterValue {
  std::string name;
  double value = 0;
  bool operator==(const RegisterValue&) const = default;
};

// ---- The whole ----

struct Role {
  std::string name;  // "stage 2"
  std::vector<Lane> lanes;
  std::vector<Buffer> buffers;
  Section prologue;
  std::vector<Section> bodies;
  Section epilogue;
  std::array<int64_t, kSpaces>
      extent{};  // arena bytes per space, alignment included; written with the addresses
};

using Coordinates = std::array<int32_t, kAxes>;

struct Rank {
  uint32_t role = 0;
  Coordinates coordinates{};
};

// Bodies run in this order, each `times` times (0: as many as the caller asks for).
struct BodyRun {
  uint32_t body = 0;
  int64_t times = 0;
};

struct Program {
  std::array<int32_t, kAxes> mesh{1, 1, 1};  // size per Axis
  std::array<Axis, kAxes> mesh_order{Axis::kData, Axis::kPipeline,
                                     Axis::kTensor};  // last is fastest
  int64_t global_batch = 0;
  int64_t sequence = 0;
  uint64_t seed = 0;
  std::string graph_hash;
  std::vector<std::string> names;
  std::vector<Kernel> kernels;
  std::vector<Collective> collectives;
  std::vector<Group> groups;
  std::vector<Peer> peers;
  std::vector<Affine> affines;
  std::vector<HostTask> host_tasks;
  std::vector<Register> registers;
  std::vector<Role> roles;
  std::vector<Rank> ranks;  // rank r is device r of the cluster: node r / gpus, GPU r % gpus
  std::vector<BodyRun> schedule;
  // A body outside the schedule that computes the loss of one batch of the evaluation data and
  // writes nothing persistent; whoever plays the Program says when. kNoId: there is none.
  uint32_t evaluation = kNoId;
};

// Members of `group` as seen from `rank`, in the group's order; contains `rank` unless a subset
// excludes it.
std::vector<int32_t> Members(const Program& program, const Group& group, int32_t rank);

// The rank at the other end.
int32_t PeerRank(const Program& program, const Peer& peer, int32_t rank);

// The rank with these coordinates under the program's mesh order.
int32_t RankAt(const Program& program, const Coordinates& coordinates);

// Bytes of `operand` on `rank`: first byte within the buffer.
int64_t OperandOffset(const Program& program, const Operand& operand,
                      const Coordinates& coordinates);

// The mesh has these ranks: the product of Program::mesh. Precondition: no overflow (Verify
// checks).
int64_t MeshSize(const Program& program);

// Every section of a role in play order: prologue, bodies, epilogue.
std::vector<const Section*> Sections(const Role& role);
std::vector<Section*> Sections(Role& role);

// The body that the last entry of the schedule repeats: a step as people mean it. Null for none.
const Section* SteadyBody(const Program& program, const Role& role);

// "prologue", "body 0", ..., "epilogue": names of the entries of Sections().
std::string SectionName(const Role& role, size_t section);

// "host", "compute", "h2d", "d2h", "group dp,tp", "send pp+1", "receive pp-1": for events and
// messages.
std::string LaneName(const Program& program, const Lane& lane);

// The text of an interned name; "" for kNoId.
std::string_view NameText(const Program& program, uint32_t name);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_PROGRAM_H_

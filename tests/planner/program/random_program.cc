#include "tests/planner/program/random_program.h"

#include <algorithm>
#include <vector>

#include "planner/program/builder.h"
#include "planner/program/memory.h"
#include "planner/program/verify_structure.h"
#include "tests/planner/program/mutants.h"

namespace tideline {
namespace {

constexpr int64_t kUnit = 2;  // bytes of the kernels' elements

class Generator {
 public:
  Generator(std::mt19937_64& random, bool broken)
      : random_(random), broken_(broken), build_(&program_) {}

  Program Generate() {
    MakeMesh();
    std::vector<uint32_t> roles(program_.roles.size());
    for (uint32_t role = 0; role < roles.size(); ++role) {
      roles[role] = role;
      MakeBuffers(role);
      Prologue(role);
    }
    const int events = 2 + Draw(6);
    for (int event = 0; event < events; ++event) {
      const int kind = Draw(10);
      if (kind < 2 && ranks_ > 1) {
        Collective({Axis::kPipeline});
      } else if (kind < 4 && roles.size() > 1) {
        Message();
      } else {
        Local(roles[Draw(static_cast<int>(roles.size()))]);
      }
    }
    for (Role& role : program_.roles) InsertLifetimes(role);
    PlaceBuffers();
    program_.schedule = {{0, 0}};
    return std::move(program_);
  }

 private:
  struct Earlier {
    uint32_t index;
    Operand operand;
  };
  struct State {
    std::vector<Earlier> accesses;            // of the body so far
    std::vector<std::vector<bool>> written;   // per buffer and unit, in list order
    std::vector<std::vector<bool>> prologue;  // the same after the prologue
  };

  int Draw(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }
  bool Chance(int percent) { return Draw(100) < percent; }
  // A slip is what makes a Program wrong.
  bool Slip(int percent) { return broken_ && Chance(percent); }

  void MakeMesh() {
    ranks_ = Chance(45) ? 1 : 2 + Draw(2);
    program_.mesh = {1, ranks_, 1};
    const bool shared = ranks_ == 1 || Chance(40);
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank == 0 || !shared) build_.AddRole("role " + std::to_string(rank));
      program_.ranks.push_back({shared ? 0 : static_cast<uint32_t>(rank), {0, rank, 0}});
    }
    for (Role& role : program_.roles) role.bodies.emplace_back();
    states_.resize(program_.roles.size());
  }

  void MakeBuffers(uint32_t role) {
    const int count = 1 + Draw(3);
    for (int index = 0; index < count; ++index) {
      int64_t bytes = kUnit * (1 + Draw(4));
      if (Chance(10)) bytes = 256 + kUnit * Draw(20);
      if (Chance(3)) bytes = 0;
      const Space space = Chance(25) ? Space::kPinnedHost : Space::kDevice;
      build_.AddBuffer(role, "b", bytes, static_cast<Category>(Draw(kCategories)), space,
                       Chance(40));
      states_[role].written.emplace_back(bytes / kUnit, false);
    }
  }

  std::vector<bool>& WrittenOf(uint32_t role, uint32_t buffer) {
    return states_[role].written[buffer];
  }

  void Prologue(uint32_t role) {
    SectionBuilder append(&program_.roles[role], &program_.roles[role].prologue);
    for (uint32_t buffer = 0; buffer < program_.roles[role].buffers.size(); ++buffer) {
      const Buffer& entry = program_.roles[role].buffers[buffer];
      if (!entry.persistent || Chance(8)) continue;
      const Operand whole{.buffer = buffer, .bytes = entry.bytes, .access = Access::kWrite};
      append.Append(ComputeOf({whole}), {{whole}}, {});
      WrittenOf(role, buffer).assign(entry.bytes / kUnit, true);
    }
    states_[role].prologue = states_[role].written;
  }

  Instruction ComputeOf(const std::vector<Operand>& operands) {
    Kernel kernel;
    for (const Operand& operand : operands) {
      kernel.operands.push_back({{operand.bytes / kUnit}, DType::kBF16, operand.access});
    }
    Instruction instruction{.kind = InstructionKind::kCompute, .lane = kComputeLane};
    instruction.what = build_.Intern(kernel);
    return instruction;
  }

  // A random range of a random buffer of `role`; reads choose written bytes unless they slip.
  Operand PickOperand(uint32_t role, Access access) {
    const std::vector<Buffer>& buffers = program_.roles[role].buffers;
    Operand operand;
    const bool careless = Slip(4);
    for (int attempt = 0; attempt < 20; ++attempt) {
      operand.buffer = static_cast<uint32_t>(Draw(static_cast<int>(buffers.size())));
      const int64_t units = buffers[operand.buffer].bytes / kUnit;
      int64_t begin = 0, end = units;
      if (units > 1 && Chance(40)) {
        begin = Draw(static_cast<int>(units));
        end = begin + 1 + Draw(static_cast<int>(units - begin));
      }
      operand.offset = begin * kUnit;
      operand.bytes = (end - begin) * kUnit;
      operand.access = access;
      const std::vector<bool>& written = WrittenOf(role, operand.buffer);
      const bool all_written =
          std::all_of(written.begin() + begin, written.begin() + end, [](bool b) { return b; });
      if (access == Access::kWrite || all_written || careless) return operand;
    }
    operand.access = Access::kWrite;
    return operand;
  }

  // Ranks of a shared role may reach different bytes: the same operand, one unit further per rank.
  void Slide(uint32_t role, Operand& operand) {
    const int64_t room = program_.roles[role].buffers[operand.buffer].bytes - operand.bytes -
                         operand.offset - kUnit * (ranks_ - 1);
    if (program_.roles.size() > 1 || ranks_ == 1 || room < 0 || !Chance(25)) return;
    operand.affine = build_.Intern(Affine{.base = 0, .per_coordinate = {0, kUnit, 0}});
  }

  void Local(uint32_t role) {
    const int kind = Draw(10);
    if (kind < 4) {
      std::vector<Operand> operands;
      for (int count = 1 + Draw(2); count > 0; --count) {
        const int access = Draw(5);
        operands.push_back(PickOperand(role, access < 2   ? Access::kRead
                                             : access < 4 ? Access::kWrite
                                                          : Access::kReadWrite));
        Slide(role, operands.back());
      }
      AppendTo(role, ComputeOf(operands), operands);
    } else if (kind < 8) {
      // A group of one is a lane of its own.
      const Operand input = PickOperand(role, Access::kReadWrite);
      if (input.access == Access::kWrite) return;
      CollectiveOn(role, {Chance(50) ? Axis::kData : Axis::kTensor}, input);
    } else {
      CopyOn(role);
    }
  }

  void CopyOn(uint32_t role) {
    Operand from = PickOperand(role, Access::kRead), to = PickOperand(role, Access::kWrite);
    const std::vector<Buffer>& buffers = program_.roles[role].buffers;
    if (from.access != Access::kRead || buffers[from.buffer].space == buffers[to.buffer].space) {
      return;
    }
    to.bytes = from.bytes = std::min(from.bytes, to.bytes);
    const bool up = buffers[to.buffer].space == Space::kDevice;
    Instruction instruction{.kind = InstructionKind::kCopy};
    instruction.lane =
        build_.LaneOf(role, {up ? LaneKind::kHostToDevice : LaneKind::kDeviceToHost, kNoId});
    AppendTo(role, instruction, {from, to});
  }

  // An all-reduce on one role's lane of a group: of `input` in place, or into another buffer.
  void CollectiveOn(uint32_t role, const std::vector<Axis>& axes, Operand input) {
    tideline::Collective collective;
    collective.group = build_.Intern(Group{axes, {}});
    collective.dtype = DType::kBF16;
    collective.block = input.bytes / kUnit;
    if (Slip(6)) collective.order = ReductionOrder::kTree;
    std::vector<Operand> operands = {input};
    Operand output = PickOperand(role, Access::kWrite);
    if (Chance(60) && program_.roles[role].buffers[output.buffer].bytes >= input.bytes) {
      operands[0].access = Access::kRead;
      output.offset = 0;
      output.bytes = input.bytes;
      operands.push_back(output);
    }
    Instruction instruction{.kind = InstructionKind::kCollective};
    instruction.what = build_.Intern(collective);
    instruction.lane = build_.LaneOf(role, {LaneKind::kGroup, collective.group});
    AppendTo(role, instruction, operands);
  }

  // Every role takes part, or none when one has nothing written to bring.
  void Collective(const std::vector<Axis>& axes) {
    std::vector<Operand> inputs;
    int64_t bytes = INT64_MAX;
    for (uint32_t role = 0; role < program_.roles.size(); ++role) {
      inputs.push_back(PickOperand(role, Access::kReadWrite));
      if (inputs.back().access == Access::kWrite) return;
      bytes = std::min(bytes, inputs.back().bytes);
    }
    for (uint32_t role = 0; role < program_.roles.size(); ++role) {
      inputs[role].bytes = bytes;
      if (!Slip(5)) CollectiveOn(role, axes, inputs[role]);
    }
  }

  // From one role to the next or the one before.
  void Message() {
    const int from = Draw(ranks_);
    const int32_t delta = Chance(50) ? 1 : -1;
    const int to = (from + delta + ranks_) % ranks_;
    Operand sent = PickOperand(from, Access::kRead);
    Operand received = PickOperand(to, Access::kWrite);
    if (sent.access != Access::kRead) return;
    const int64_t bytes = std::min(sent.bytes, received.bytes);
    sent.bytes = received.bytes = bytes;
    if (Slip(12) && bytes > kUnit) sent.bytes -= kUnit;
    Instruction send{.kind = InstructionKind::kSend}, receive{.kind = InstructionKind::kReceive};
    send.what = build_.Intern(Peer{Axis::kPipeline, delta});
    receive.what = build_.Intern(Peer{Axis::kPipeline, ranks_ == 2 && Chance(10) ? delta : -delta});
    send.lane = build_.LaneOf(from, {LaneKind::kSendTo, send.what});
    receive.lane = build_.LaneOf(to, {LaneKind::kReceiveFrom, receive.what});
    if (!Slip(3)) AppendTo(from, send, {sent});
    if (!Slip(3)) AppendTo(to, receive, {received});
  }

  static bool Collide(const Operand& a, const Operand& b) {
    if (a.buffer != b.buffer || (a.access == Access::kRead && b.access == Access::kRead)) {
      return false;
    }
    if (a.affine != kNoId || b.affine != kNoId) return true;
    return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  }

  void AppendTo(uint32_t role, const Instruction& instruction,
                const std::vector<Operand>& operands) {
    State& state = states_[role];
    std::vector<uint32_t> waits;
    for (const Operand& operand : operands) {
      bool first = true;
      for (const Earlier& earlier : state.accesses) {
        // The first access also brings the buffer to life.
        const bool births = first && earlier.operand.buffer == operand.buffer;
        first &= earlier.operand.buffer != operand.buffer;
        if ((births || Collide(earlier.operand, operand)) && !Slip(25)) {
          waits.push_back(earlier.index);
        }
      }
    }
    SectionBuilder append(&program_.roles[role], &program_.roles[role].bodies[0]);
    const uint32_t index = append.Append(instruction, operands, waits);
    for (const Operand& operand : operands) {
      state.accesses.push_back({index, operand});
      if (operand.access == Access::kRead || operand.affine != kNoId) continue;
      std::vector<bool>& written = WrittenOf(role, operand.buffer);
      std::fill(written.begin() + operand.offset / kUnit,
                written.begin() + (operand.offset + operand.bytes) / kUnit, true);
    }
  }

  void PlaceBuffers() {
    const int way = Draw(10);
    if (way < 5) {
      AssignAddresses(program_);
    } else if (way == 5) {
      for (Role& role : program_.roles) {
        role.extent = {2048, 2048};
        for (Buffer& buffer : role.buffers) buffer.address = kAlignment * Draw(5);
      }
    }
  }

  std::mt19937_64& random_;
  const bool broken_;
  int ranks_ = 1;
  Program program_;
  ProgramBuilder build_;
  std::vector<State> states_;
};

size_t CountInstructions(const Program& program) {
  size_t count = 0;
  for (const Role& role : program.roles) {
    for (const Section* section : Sections(role)) count += section->instructions.size();
  }
  return count;
}

}  // namespace

RandomProgram MakeRandomProgram(std::mt19937_64& random, bool broken) {
  while (true) {
    RandomProgram result;
    result.program = Generator(random, broken).Generate();
    for (int changes = broken ? 1 + static_cast<int>(random() % 2) : 0; changes > 0; --changes) {
      const auto kind = random() % static_cast<uint64_t>(Mutation::kCount);
      Mutate(result.program, static_cast<Mutation>(kind), random);
    }
    if (CountInstructions(result.program) > kRandomProgramInstructions) continue;
    if (!VerifyStructure(result.program).ok()) continue;
    if (random() % 8 == 0) {
      const int64_t extent = result.program.roles[0].extent[0];
      result.capacity[0] = std::max<int64_t>(0, extent + static_cast<int64_t>(random() % 3) - 1);
    }
    return result;
  }
}

}  // namespace tideline

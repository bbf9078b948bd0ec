// RankPlayer: gives one rank's instructions to its device, in list order.
//
// Lanes become streams, waits become events, a buffer becomes an address: its place in the rank's
// arena, or with the eager allocator a reservation of its own for as long as its section is played.
// kHostCompute runs on the calling thread, which is the host lane and holds the registers; what its
// guard skips is not given, but its waits and its own event are. A section ends when every stream
// is empty. Uses outside a buffer's alloc and free, and buffers that a section leaves behind, are
// errors; with the order checks on, an alloc or free that other lanes' accesses are not ordered
// with is a race (it counts as a write that leaves nothing). Nothing is decided here: the same
// Program plays in the simulator.
#ifndef TIDELINE_EXEC_INTERPRETER_RANK_PLAYER_H_
#define TIDELINE_EXEC_INTERPRETER_RANK_PLAYER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "exec/data/sample_source.h"
#include "exec/device/device.h"
#include "exec/device/launch.h"
#include "exec/interpreter/finite_watch.h"
#include "exec/interpreter/position_board.h"
#include "exec/interpreter/register_file.h"
#include "exec/interpreter/section_trace.h"
#include "exec/weights/weights.h"
#include "planner/program/program.h"

namespace tideline {

// Bytes that kernels of one op declared and touched (with CheckLevel::kKernels).
struct TouchedBytes {
  int64_t declared = 0;
  int64_t touched = 0;
};

class RankPlayer {
 public:
  struct Setting {
    const Program* program = nullptr;
    Device device = nullptr;
    int32_t rank = 0;
    bool eager = false;
    const SampleSource* samples = nullptr;
    int64_t vocabulary = 0;                 // tokens and labels must be below it; 0: any
    PositionBoard* positions = nullptr;     // may be null
    const WeightSource* weights = nullptr;  // null: random initial values
    NonFiniteFindings* findings = nullptr;  // not null: look at everything that is written
    // A kReadLoss was reached; called on the rank's thread.
    std::function<Status(int64_t step, float loss)> on_loss;
    // A kGateUpdate was played, a replicated register written; the same.
    std::function<Status(int64_t step, const GateReading& reading)> on_gate;
    std::function<Status(uint32_t id, double value)> on_register;
  };

  explicit RankPlayer(Setting setting);
  ~RankPlayer();
  RankPlayer(const RankPlayer&) = delete;
  RankPlayer& operator=(const RankPlayer&) = delete;

  // Reserves memory, makes streams and events, joins communicators. Called on the rank's thread.
  Status Open();

  // Plays Sections(role)[section] as part of `step` (-1: prologue) and waits for its end.
  Status PlaySection(uint32_t section, int64_t step);

  // The last play of a section.
  const SectionTrace& Trace(uint32_t section) const { return plans_[section]->trace; }
  const Role& role() const { return role_; }
  Device device() const { return setting_.device; }
  int32_t rank() const { return setting_.rank; }

  RegisterFile& registers() { return registers_; }
  // Address of a persistent buffer.
  void* AddressOf(uint32_t buffer) const { return bases_[buffer]; }
  // The most bytes ever reserved in a space.
  int64_t reserved_peak(Space space) const { return reserved_peak_[static_cast<size_t>(space)]; }
  // By op; valid when no section is being played.
  const std::array<TouchedBytes, static_cast<size_t>(Op::kCount)>& touched() const {
    return touches_.by_op;
  }

 private:
  // What is worked out once per section.
  struct SectionPlan {
    SectionPlan(const Program& program, const Role& role, const Section& played)
        : section(played), trace(program, role, played), events(played.instructions.size()) {}
    const Section& section;
    SectionTrace trace;
    std::vector<Event> events;      // of instructions that others wait for, else null
    std::vector<uint32_t> buffers;  // non-persistent ones it touches
  };
  class TouchMeter : public TouchObserver {
   public:
    void OnTouched(const TouchReport& report) override;
    std::mutex mutex;
    const Program* program = nullptr;
    const Section* section = nullptr;
    std::array<TouchedBytes, static_cast<size_t>(Op::kCount)> by_op{};
  };
  // The two ends of the messages to and from one peer.
  struct PeerLinks {
    Communicator send = nullptr, receive = nullptr;
    int32_t send_to = 0, receive_from = 0;  // members
  };

  Status OpenLanes();
  Status OpenPeer(const Peer& peer, PeerLinks& links);
  Status OpenSection(const Section& section);
  Status OpenMemory();
  Status ReserveBuffer(uint32_t index);
  Status CheckLifetimes(const SectionPlan& plan, const Instruction& instruction);
  Status CheckNothingIsLeft(const SectionPlan& plan) const;
  Status AllocOrFree(const Instruction& instruction, uint32_t index, Stream stream);
  Status PlayInstructions(SectionPlan& plan, uint32_t section_index, int64_t step);
  Status PlayOne(SectionPlan& plan, uint32_t index, int64_t step);
  Status GiveToDevice(const SectionPlan& plan, uint32_t index, Stream stream, int64_t step);
  Status PlayHost(SectionPlan& plan, uint32_t index, int64_t step);
  Status PlayCompute(const SectionPlan& plan, uint32_t index, Stream stream, int64_t step);
  Status LoadWeights(const Kernel& kernel, void* destination);
  Status PlayTransfer(const SectionPlan& plan, uint32_t index, Stream stream);
  Status RunHostTask(const SectionPlan& plan, uint32_t index, int64_t step);
  Status RunGate(const UpdateGate& gate, const void* squares, int64_t step);
  bool Skips(const Instruction& instruction) const {
    return instruction.guard != kNoId && registers_.Get(instruction.guard) == 0;
  }
  void* AddressOf(const Operand& operand) const;
  Status BeginWatch(const SectionPlan& plan, uint32_t section, int64_t step);
  const char* NameOf(const Instruction& instruction) const;

  const Setting setting_;
  const Program& program_;
  const Role& role_;
  const Coordinates coordinates_;
  std::vector<Stream> streams_;            // by lane; null for the host
  std::vector<Communicator> group_links_;  // by Program::groups; null where not a member
  std::vector<PeerLinks> peer_links_;      // by Program::peers
  std::vector<std::unique_ptr<SectionPlan>> plans_;
  std::array<void*, kSpaces> arenas_{};
  std::vector<bool> live_;    // by buffer, in list order
  std::vector<void*> bases_;  // by buffer
  std::array<int64_t, kSpaces> reserved_peak_{};
  RegisterFile registers_;
  std::vector<void*> operand_addresses_;  // of the kernel being launched
  std::vector<double> scalars_;           // and its registers
  std::optional<WeightReader> weights_;
  TouchMeter touches_;
  std::optional<FiniteWatch> watch_;
  bool state_is_checked_ = false;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_INTERPRETER_RANK_PLAYER_H_

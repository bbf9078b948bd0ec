// PositionBoard: where each rank is, in memory that outlives the worker.
//
// A rank writes its step, section and instruction as it gives work; the board lies in shared memory
// that the parent process made, so that it can be read after the worker was killed, and by a signal
// handler without locks. One writer per rank; readers may see the three numbers of neighbouring
// instructions mixed.
//
//   TL_ASSIGN_OR_RETURN(PositionBoard board, PositionBoard::Create(8));
//   ... fork; the child: PositionBoard::Attach(board.descriptor(), 8)
#ifndef TIDELINE_EXEC_INTERPRETER_POSITION_BOARD_H_
#define TIDELINE_EXEC_INTERPRETER_POSITION_BOARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "planner/program/program.h"

namespace tideline {

struct Position {
  int64_t step = -1;         // -1: prologue
  uint32_t section = kNoId;  // index into Sections(role); kNoId: not begun
  uint32_t instruction = 0;
};

class PositionBoard {
 public:
  static StatusOr<PositionBoard> Create(int ranks);
  // Maps the board of another process; does not take over the descriptor.
  static StatusOr<PositionBoard> Attach(int descriptor, int ranks);
  PositionBoard(PositionBoard&& other) noexcept;
  PositionBoard& operator=(PositionBoard&& other) noexcept;
  ~PositionBoard();

  void Set(int rank, const Position& position);
  Position Get(int rank) const;
  int ranks() const { return ranks_; }
  int descriptor() const { return descriptor_; }

 private:
  struct Slot {
    std::atomic<int64_t> step;
    std::atomic<uint64_t> place;  // section << 32 | instruction; 0: not begun (section is kept + 1)
    char padding[48];             // a cache line per rank
  };
  static_assert(sizeof(Slot) == 64 && std::atomic<uint64_t>::is_always_lock_free);

  PositionBoard() = default;
  static StatusOr<PositionBoard> Map(int descriptor, int ranks);

  Slot* slots_ = nullptr;
  int ranks_ = 0;
  int descriptor_ = -1;  // owned when >= 0
};

// "rank 3: step 12, body 0, instruction 451 'layers.3.mlp.up' (layer 4, micro-batch 1)", cut to
// `size` - 1 bytes and ended by 0. Returns the length. Calls nothing that a signal handler may not.
size_t WritePositionLine(const Program& program, int rank, const Position& position, char* line,
                         size_t size);
std::string PositionLine(const Program& program, int rank, const Position& position);

}  // namespace tideline

#endif  // TIDELINE_EXEC_INTERPRETER_POSITION_BOARD_H_

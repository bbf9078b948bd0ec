#include "exec/interpreter/position_board.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace tideline {
namespace {

// Appends to a fixed buffer; no allocation, no locale, no locks.
class LineWriter {
 public:
  LineWriter(char* line, size_t size) : line_(line), size_(size) {}

  void Text(std::string_view text) {
    for (const char character : text) {
      if (length_ + 1 < size_) line_[length_++] = character;
    }
  }
  void Number(int64_t value) {
    char digits[24];
    size_t count = 0;
    const bool negative = value < 0;
    uint64_t rest = negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    do {
      digits[count++] = static_cast<char>('0' + rest % 10);
      rest /= 10;
    } while (rest > 0);
    if (negative) Text("-");
    while (count > 0) Text({&digits[--count], 1});
  }
  size_t End() {
    line_[length_] = '\0';
    return length_;
  }

 private:
  char* line_;
  size_t size_;
  size_t length_ = 0;
};

const Section* SectionAt(const Role& role, uint32_t index) {
  if (index == 0) return &role.prologue;
  if (index <= role.bodies.size()) return &role.bodies[index - 1];
  return index == role.bodies.size() + 1 ? &role.epilogue : nullptr;
}

}  // namespace

PositionBoard::PositionBoard(PositionBoard&& other) noexcept { *this = std::move(other); }

PositionBoard& PositionBoard::operator=(PositionBoard&& other) noexcept {
  std::swap(slots_, other.slots_);
  std::swap(ranks_, other.ranks_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

PositionBoard::~PositionBoard() {
  if (slots_ != nullptr) munmap(slots_, sizeof(Slot) * static_cast<size_t>(ranks_));
  if (descriptor_ >= 0) close(descriptor_);
}

StatusOr<PositionBoard> PositionBoard::Map(int descriptor, int ranks) {
  void* memory = mmap(nullptr, sizeof(Slot) * static_cast<size_t>(ranks), PROT_READ | PROT_WRITE,
                      MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) {
    return RunError(
        absl::StrCat("the board of positions cannot be mapped: ", std::strerror(errno)));
  }
  PositionBoard board;
  board.slots_ = static_cast<Slot*>(memory);
  board.ranks_ = ranks;
  return board;
}

StatusOr<PositionBoard> PositionBoard::Create(int ranks) {
  TL_CHECK(ranks >= 1, "a run has ranks");
  const int descriptor = memfd_create("tideline-positions", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, static_cast<off_t>(sizeof(Slot)) * ranks) != 0) {
    const std::string reason = std::strerror(errno);
    if (descriptor >= 0) close(descriptor);
    return RunError(absl::StrCat("the board of positions cannot be made: ", reason));
  }
  StatusOr<PositionBoard> board = Map(descriptor, ranks);
  if (!board.ok()) {
    close(descriptor);
    return board.status();
  }
  board->descriptor_ = descriptor;
  return board;
}

StatusOr<PositionBoard> PositionBoard::Attach(int descriptor, int ranks) {
  // A file that is too short would raise SIGBUS at the first access.
  const off_t size = lseek(descriptor, 0, SEEK_END);
  if (size < static_cast<off_t>(sizeof(Slot)) * ranks) {
    return InputError(
        absl::StrCat("descriptor ", descriptor, " holds no board of ", ranks, " positions"));
  }
  return Map(descriptor, ranks);
}

void PositionBoard::Set(int rank, const Position& position) {
  slots_[rank].step.store(position.step, std::memory_order_relaxed);
  slots_[rank].place.store(uint64_t{position.section + 1} << 32 | position.instruction,
                           std::memory_order_relaxed);
}

Position PositionBoard::Get(int rank) const {
  const uint64_t place = slots_[rank].place.load(std::memory_order_relaxed);
  return {slots_[rank].step.load(std::memory_order_relaxed), static_cast<uint32_t>(place >> 32) - 1,
          static_cast<uint32_t>(place)};
}

size_t WritePositionLine(const Program& program, int rank, const Position& position, char* line,
                         size_t size) {
  LineWriter writer(line, size);
  writer.Text("rank ");
  writer.Number(rank);
  writer.Text(": ");
  const Role& role = program.roles[program.ranks[rank].role];
  const Section* section = SectionAt(role, position.section);
  if (section == nullptr) {
    writer.Text("has not begun");
    return writer.End();
  }
  if (position.section == 0) {
    writer.Text("prologue");
  } else if (position.section == role.bodies.size() + 1) {
    writer.Text("epilogue");
  } else {
    writer.Text("step ");
    writer.Number(position.step);
    writer.Text(", body ");
    writer.Number(position.section - 1);
  }
  if (position.instruction >= section->instructions.size()) {
    writer.Text(", at its end");
    return writer.End();
  }
  const Instruction& instruction = section->instructions[position.instruction];
  writer.Text(", instruction ");
  writer.Number(position.instruction);
  if (instruction.name < program.names.size()) {
    writer.Text(" '");
    writer.Text(program.names[instruction.name]);
    writer.Text("'");
  }
  if (instruction.layer >= 0) {
    writer.Text(", layer ");
    writer.Number(instruction.layer);
  }
  if (instruction.micro_batch >= 0) {
    writer.Text(", micro-batch ");
    writer.Number(instruction.micro_batch);
  }
  return writer.End();
}

std::string PositionLine(const Program& program, int rank, const Position& position) {
  char line[256];
  return std::string(line, WritePositionLine(program, rank, position, line, sizeof line));
}

}  // namespace tideline

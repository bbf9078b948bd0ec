#include "planner/program/verify_memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "planner/program/message.h"
#include "planner/program/order.h"
#include "planner/program/verify_structure.h"

namespace tideline {
namespace {

// Who touched a range of bytes, as far as a later access must know.
constexpr uint32_t kNobody = kNoId;
constexpr uint32_t kEarlierSection = kNoId - 1;

struct History {
  int64_t end = 0;
  uint32_t writer = kNobody;
  uint32_t guard = kNoId;         // the bytes hold something only where this register is not 0
  std::vector<uint32_t> readers;  // since the write; the last one of each lane
};

// The bytes of one buffer: disjoint ranges that cover it, by their first byte.
using Histories = std::map<int64_t, History>;

struct Touching {
  uint32_t instruction = 0;
  uint32_t operand = 0;  // into Section::operands
};

// The accesses, alloc and free of every buffer in one section. Flat: the accesses of buffer b, in
// list order, are accesses[begin[b] .. begin[b + 1]).
struct Uses {
  std::vector<uint32_t> begin;
  std::vector<Touching> accesses;
  std::vector<uint32_t> alloc, free;

  std::span<const Touching> Of(uint32_t buffer) const {
    return {accesses.data() + begin[buffer], accesses.data() + begin[buffer + 1]};
  }
};

// A persistent buffer's bytes that the prologue writes, as disjoint ranges [begin, end).
using Written = std::vector<std::pair<int64_t, int64_t>>;

// Checks one section of one role.
class SectionChecker {
 public:
  SectionChecker(const Program& program, const Role& role, size_t section)
      : program_(program),
        role_(role),
        index_(section),
        section_(*Sections(role)[section]),
        order_(section_, role.lanes.size()) {}

  // Groups the accesses by buffer; every buffer is allocated and freed at most once.
  Status Collect() {
    const size_t buffers = role_.buffers.size();
    uses_.alloc.assign(buffers, kNoId);
    uses_.free.assign(buffers, kNoId);
    uses_.begin.assign(buffers + 1, 0);
    for (uint32_t i = 0; i < section_.instructions.size(); ++i) {
      const Instruction& instruction = section_.instructions[i];
      for (const Operand& operand : section_.Operands(instruction))
        ++uses_.begin[operand.buffer + 1];
      const bool alloc = instruction.kind == InstructionKind::kAlloc;
      if (!alloc && instruction.kind != InstructionKind::kFree) continue;
      uint32_t& mark = alloc ? uses_.alloc[instruction.what] : uses_.free[instruction.what];
      if (mark != kNoId) {
        return Fail(i, Message(alloc ? "allocates " : "frees ", Buffer(instruction.what),
                               " again after instruction #", mark));
      }
      mark = i;
    }
    for (size_t buffer = 0; buffer < buffers; ++buffer) {
      uses_.begin[buffer + 1] += uses_.begin[buffer];
    }
    uses_.accesses.resize(uses_.begin[buffers]);
    std::vector<uint32_t> next(uses_.begin.begin(), uses_.begin.end() - 1);
    for (uint32_t i = 0; i < section_.instructions.size(); ++i) {
      const Instruction& instruction = section_.instructions[i];
      for (uint32_t operand = instruction.operands_begin; operand < instruction.operands_end;
           ++operand) {
        uses_.accesses[next[section_.operands[operand].buffer]++] = {i, operand};
      }
    }
    return absl::OkStatus();
  }

  Status CheckLifetimes() const {
    for (uint32_t buffer = 0; buffer < role_.buffers.size(); ++buffer) {
      if (role_.buffers[buffer].persistent) continue;
      const uint32_t alloc = uses_.alloc[buffer], free = uses_.free[buffer];
      const std::span<const Touching> accesses = uses_.Of(buffer);
      if (alloc == kNoId && free == kNoId && accesses.empty()) continue;
      if (alloc == kNoId) {
        return Fail(accesses.empty() ? free : accesses.front().instruction,
                    Message("uses ", Buffer(buffer), ", which its section never allocates"));
      }
      if (free == kNoId) {
        return Fail(alloc,
                    Message("allocates ", Buffer(buffer), ", which its section never frees"));
      }
      if (!order_.Before(alloc, free)) {
        return Fail(free, Message("frees ", Buffer(buffer), ", but its alloc, instruction #", alloc,
                                  ", does not happen before"));
      }
      for (const Touching& access : accesses) {
        if (!order_.Before(alloc, access.instruction)) {
          return Fail(access.instruction,
                      Message("uses ", Buffer(buffer), ", but its alloc, instruction #", alloc,
                              ", does not happen before; wait for it"));
        }
        if (!order_.Before(access.instruction, free)) {
          return Fail(access.instruction,
                      Message("uses ", Buffer(buffer), ", but does not happen before its free, ",
                              "instruction #", free, "; let the free wait for it"));
        }
      }
    }
    return absl::OkStatus();
  }

  // Reads come after writes, and what is not ordered does not collide, in one buffer.
  // `before`: bytes written before this section; nullptr when it starts unwritten. `after`, when
  // not nullptr, becomes the bytes written at the end.
  Status CheckBytes(uint32_t buffer, const Coordinates& coordinates, const Written* before,
                    Written* after) {
    const std::span<const Touching> accesses = uses_.Of(buffer);
    if (accesses.empty() && after == nullptr) return absl::OkStatus();
    Begin(role_.buffers[buffer].bytes, before);
    for (size_t first = 0; first < accesses.size();) {
      size_t last = first;
      while (last < accesses.size() && accesses[last].instruction == accesses[first].instruction) {
        ++last;
      }
      const std::span<const Touching> same = accesses.subspan(first, last - first);
      // An instruction reads what was there before any of its writes.
      for (const bool write : {false, true}) {
        for (const Touching& access : same) {
          TL_RETURN_IF_ERROR(Touch(access, coordinates, write));
        }
      }
      first = last;
    }
    if (after != nullptr) {
      for (const auto& [begin, history] : histories_) {
        const bool always = history.writer != kNobody && history.guard == kNoId;
        if (always) after->emplace_back(begin, history.end);
      }
    }
    return absl::OkStatus();
  }

  // No two buffers alive at once share an address of `space`.
  Status CheckAddresses(Space space) const {
    bool laid_out = false;
    for (const tideline::Buffer& buffer : role_.buffers) {
      laid_out |= buffer.space == space && buffer.address != kNoAddress;
    }
    if (!laid_out) return absl::OkStatus();
    std::map<int64_t, Tenant> tenants;
    for (uint32_t buffer = 0; buffer < role_.buffers.size(); ++buffer) {
      const tideline::Buffer& entry = role_.buffers[buffer];
      if (entry.persistent && entry.space == space) {
        TL_RETURN_IF_ERROR(MoveIn(buffer, kNoId, tenants));
      }
    }
    for (uint32_t i = 0; i < section_.instructions.size(); ++i) {
      const Instruction& instruction = section_.instructions[i];
      if (instruction.kind != InstructionKind::kAlloc) continue;
      if (role_.buffers[instruction.what].space != space) continue;
      TL_RETURN_IF_ERROR(MoveIn(instruction.what, i, tenants));
    }
    return absl::OkStatus();
  }

 private:
  struct Tenant {
    int64_t end = 0;
    uint32_t buffer = 0;
  };

  std::string Buffer(uint32_t buffer) const { return BufferText(program_, role_, buffer); }

  Status Fail(uint32_t instruction, const std::string& what) const {
    return InternalError(Message(Where(program_, role_, index_, instruction), " ", what));
  }

  void Begin(int64_t bytes, const Written* before) {
    histories_.clear();
    int64_t at = 0;
    const auto add = [&](int64_t end, uint32_t writer) {
      if (at < end) histories_[at] = {end, writer, kNoId, {}};
      at = std::max(at, end);
    };
    if (before != nullptr) {
      for (const auto& [begin, end] : *before) {
        add(begin, kNobody);
        add(end, kEarlierSection);
      }
    }
    add(bytes, kNobody);
  }

  // The range that begins at `at`, cut there when it begins earlier.
  Histories::iterator CutAt(int64_t at) {
    auto next = histories_.lower_bound(at);
    if (next != histories_.end() && next->first == at) return next;
    if (next == histories_.begin()) return next;
    const auto range = std::prev(next);
    if (range->second.end <= at) return next;
    History upper = range->second;
    range->second.end = at;
    return histories_.emplace_hint(next, at, std::move(upper));
  }

  Status Touch(const Touching& access, const Coordinates& coordinates, bool write) {
    const Operand& operand = section_.operands[access.operand];
    if (operand.access == (write ? Access::kRead : Access::kWrite) || operand.bytes == 0) {
      return absl::OkStatus();
    }
    const int64_t begin = OperandOffset(program_, operand, coordinates);
    const int64_t end = begin + operand.bytes;
    const auto first = CutAt(begin);
    const auto last = CutAt(end);
    for (auto range = first; range != last; ++range) {
      TL_RETURN_IF_ERROR(TouchRange(access.instruction, operand, write, *range));
    }
    if (!write) return absl::OkStatus();
    const uint32_t guard = section_.instructions[access.instruction].guard;
    if (guard == kNoId) {
      first->second = {end, access.instruction, kNoId, {}};
      histories_.erase(std::next(first), last);
      return absl::OkStatus();
    }
    // What was there before still is where the guard is 0.
    for (auto range = first; range != last; ++range) {
      History& history = range->second;
      const bool always = history.writer != kNobody && history.guard == kNoId;
      history = {history.end, access.instruction, always ? kNoId : guard, {}};
    }
    return absl::OkStatus();
  }

  Status TouchRange(uint32_t instruction, const Operand& operand, bool write,
                    Histories::value_type& range) {
    History& history = range.second;
    const std::string_view verb = write ? "writes" : "reads";
    const auto bytes = [&] {
      return Message(Buffer(operand.buffer), " bytes [", range.first, ", ", history.end, ")");
    };
    const auto unordered = [&](uint32_t other, std::string_view other_verb) {
      return Fail(instruction,
                  Message(verb, " ", bytes(), ", which instruction #", other, " `",
                          NameText(program_, section_.instructions[other].name), "` ", other_verb,
                          ": neither happens before the other; add a wait"));
    };
    if (!write && history.writer == kNobody) {
      return Fail(instruction, Message("reads ", bytes(), ", which nothing wrote before"));
    }
    const uint32_t guard = section_.instructions[instruction].guard;
    if (!write && history.guard != kNoId && history.guard != guard) {
      return Fail(
          instruction,
          Message("reads ", bytes(), ", which are written only when register `",
                  program_.registers[history.guard].name, "` is not 0; guard the read by it too"));
    }
    const bool in_this_section = history.writer != kNobody && history.writer != kEarlierSection;
    if (in_this_section && history.writer != instruction &&
        !order_.Before(history.writer, instruction)) {
      return unordered(history.writer, "writes");
    }
    if (write) {
      for (const uint32_t reader : history.readers) {
        if (reader != instruction && !order_.Before(reader, instruction)) {
          return unordered(reader, "reads");
        }
      }
      return absl::OkStatus();
    }
    const uint16_t lane = section_.instructions[instruction].lane;
    for (uint32_t& reader : history.readers) {
      if (section_.instructions[reader].lane == lane) {
        reader = instruction;
        return absl::OkStatus();
      }
    }
    history.readers.push_back(instruction);
    return absl::OkStatus();
  }

  // `buffer` comes to life at `alloc` (kNoId: it always lives): everything that had its bytes
  // before must be dead by then. Only the last tenant of a byte matters: it came after the others.
  Status MoveIn(uint32_t buffer, uint32_t alloc, std::map<int64_t, Tenant>& tenants) const {
    const int64_t begin = role_.buffers[buffer].address;
    const int64_t end = begin + role_.buffers[buffer].bytes;
    if (begin == end) return absl::OkStatus();
    const auto fail = [&](const std::string& what) {
      const std::string text = Message(Buffer(buffer), what);
      if (alloc != kNoId) return Fail(alloc, Message("allocates ", text));
      return InternalError(Message("role `", role_.name, "`: persistent ", text));
    };
    if (begin == kNoAddress) return fail(" without an address, though others have one");
    auto tenant = tenants.lower_bound(begin);
    if (tenant != tenants.begin() && std::prev(tenant)->second.end > begin) --tenant;
    while (tenant != tenants.end() && tenant->first < end) {
      const auto [tenant_begin, old] = *tenant;
      if (role_.buffers[old.buffer].persistent || alloc == kNoId ||
          !order_.Before(uses_.free[old.buffer], alloc)) {
        return fail(
            Message(" at address ", begin, ", where ", Buffer(old.buffer), " may still be alive"));
      }
      tenant = tenants.erase(tenant);
      if (tenant_begin < begin) tenants[tenant_begin] = {begin, old.buffer};
      if (old.end > end) tenants[end] = {old.end, old.buffer};
    }
    tenants[begin] = {end, buffer};
    return absl::OkStatus();
  }

  const Program& program_;
  const Role& role_;
  const size_t index_;
  const Section& section_;
  const HappensBefore order_;
  Uses uses_;
  Histories histories_;  // of the buffer being checked
};

// One coordinate per combination of values of the affines that the role's operands use; at least
// one even when no rank plays the role.
std::vector<Coordinates> DistinctCoordinates(const Program& program, uint32_t role,
                                             const std::vector<bool>& used) {
  std::vector<Coordinates> result;
  std::set<std::vector<int64_t>> seen;
  for (const Rank& rank : program.ranks) {
    if (rank.role != role) continue;
    std::vector<int64_t> values;
    for (size_t affine = 0; affine < used.size(); ++affine) {
      if (used[affine]) values.push_back(program.affines[affine].At(rank.coordinates));
    }
    if (seen.insert(std::move(values)).second) result.push_back(rank.coordinates);
  }
  if (result.empty()) result.push_back({});
  return result;
}

}  // namespace

Status VerifyMemory(const Program& program, uint32_t role_index) {
  const Role& role = program.roles[role_index];
  std::vector<bool> affine_used(program.affines.size()), moves(role.buffers.size());
  for (const Section* section : Sections(role)) {
    for (const Instruction& instruction : section->instructions) {
      for (const Operand& operand : section->Operands(instruction)) {
        if (operand.affine == kNoId) continue;
        affine_used[operand.affine] = true;
        moves[operand.buffer] = true;
      }
    }
  }
  const std::vector<Coordinates> places = DistinctCoordinates(program, role_index, affine_used);
  std::vector<uint32_t> all, moving;
  for (uint32_t buffer = 0; buffer < role.buffers.size(); ++buffer) {
    all.push_back(buffer);
    if (moves[buffer]) moving.push_back(buffer);
  }

  // What the prologue leaves written in persistent buffers, per place.
  std::vector<std::map<uint32_t, Written>> written(places.size());
  for (size_t section = 0; section < role.bodies.size() + 2; ++section) {
    SectionChecker checker(program, role, section);
    TL_RETURN_IF_ERROR(checker.Collect());
    TL_RETURN_IF_ERROR(checker.CheckLifetimes());
    for (size_t place = 0; place < places.size(); ++place) {
      for (const uint32_t buffer : place == 0 ? all : moving) {
        Written* bytes = role.buffers[buffer].persistent ? &written[place][buffer] : nullptr;
        TL_RETURN_IF_ERROR(checker.CheckBytes(buffer, places[place], section == 0 ? nullptr : bytes,
                                              section == 0 ? bytes : nullptr));
      }
    }
    for (const Space space : {Space::kDevice, Space::kPinnedHost}) {
      TL_RETURN_IF_ERROR(checker.CheckAddresses(space));
    }
  }
  return absl::OkStatus();
}

}  // namespace tideline

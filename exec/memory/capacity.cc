#include "exec/memory/capacity.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

using Split = std::array<int64_t, kCategories>;

std::string Tide(const Split& live) {
  std::string text;
  for (int category = 0; category < kCategories; ++category) {
    if (live[category] == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", View(Name(static_cast<Category>(category))),
                    " ", live[category]);
  }
  return text.empty() ? "nothing" : text;
}

std::string NameOf(const Program& program, uint32_t name) {
  return name < program.names.size() ? program.names[name] : std::string("unnamed");
}

Status Beyond(const Program& program, int rank, const Buffer& buffer, const Split& live,
              int64_t capacity, const std::string& when) {
  const Role& role = program.roles[program.ranks[rank].role];
  return RunError(
      absl::StrCat("rank ", rank, " (", role.name, ") is out of ", View(Name(buffer.space)),
                   " memory: its layout needs ", role.extent[static_cast<int>(buffer.space)],
                   " bytes of ", capacity, "; buffer '", NameOf(program, buffer.name), "' (",
                   View(Name(buffer.category)), ", ", buffer.bytes, " bytes at ", buffer.address,
                   ") is the first beyond it, ", when, ". The tide then: ", Tide(live),
                   ". Plan with --memory-limit, or execute on devices with more memory"));
}

// The first buffer in list order that ends beyond `capacity`.
Status FirstBeyond(const Program& program, int rank, Space space, int64_t capacity) {
  const Role& role = program.roles[program.ranks[rank].role];
  Split live{};
  const auto is_beyond = [&](const Buffer& buffer) {
    return buffer.space == space && buffer.address + buffer.bytes > capacity;
  };
  for (const Buffer& buffer : role.buffers) {
    if (!buffer.persistent || buffer.space != space) continue;
    live[static_cast<size_t>(buffer.category)] += buffer.bytes;
    if (is_beyond(buffer)) {
      return Beyond(program, rank, buffer, live, capacity, "at the start of the prologue");
    }
  }
  for (const Section* section : Sections(role)) {
    for (const Instruction& instruction : section->instructions) {
      const bool alloc = instruction.kind == InstructionKind::kAlloc;
      if (!alloc && instruction.kind != InstructionKind::kFree) continue;
      const Buffer& buffer = role.buffers[instruction.what];
      if (buffer.space != space) continue;
      live[static_cast<size_t>(buffer.category)] += alloc ? buffer.bytes : -buffer.bytes;
      if (!alloc || !is_beyond(buffer)) continue;
      const size_t index = &instruction - section->instructions.data();
      return Beyond(program, rank, buffer, live, capacity,
                    absl::StrCat("allocated at instruction ", index));
    }
  }
  return RunError(absl::StrCat("rank ", rank, " (", role.name, ") is out of ", View(Name(space)),
                               " memory: its layout needs ", role.extent[static_cast<int>(space)],
                               " bytes of ", capacity));
}

}  // namespace

Status CheckCapacity(const Program& program, int ranks_per_node, int64_t device_bytes,
                     int64_t pinned_bytes_per_node) {
  const int ranks = static_cast<int>(program.ranks.size());
  constexpr int kDevice = static_cast<int>(Space::kDevice);
  constexpr int kPinned = static_cast<int>(Space::kPinnedHost);
  for (int rank = 0; rank < ranks; ++rank) {
    if (program.roles[program.ranks[rank].role].extent[kDevice] > device_bytes) {
      return FirstBeyond(program, rank, Space::kDevice, device_bytes);
    }
  }
  for (int first = 0; first < ranks; first += ranks_per_node) {
    int64_t before = 0;
    for (int rank = first; rank < std::min(ranks, first + ranks_per_node); ++rank) {
      const int64_t extent = program.roles[program.ranks[rank].role].extent[kPinned];
      if (extent > pinned_bytes_per_node - before) {
        return FirstBeyond(program, rank, Space::kPinnedHost, pinned_bytes_per_node - before);
      }
      before += extent;
    }
  }
  return absl::OkStatus();
}

}  // namespace tideline

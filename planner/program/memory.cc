#include "planner/program/memory.h"

#include <algorithm>

#include "planner/program/layout.h"
#include "planner/program/live_bound.h"
#include "planner/program/order.h"

namespace tideline {
namespace {

int64_t Align(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool IsMark(const Instruction& instruction) {
  return instruction.kind == InstructionKind::kAlloc || instruction.kind == InstructionKind::kFree;
}

// Per buffer: the bytes that count in `space` while it is alive between its alloc and free.
std::vector<int64_t> TransientBytes(const Role& role, Space space, bool with_runtime, bool align) {
  std::vector<int64_t> bytes(role.buffers.size(), 0);
  for (size_t index = 0; index < role.buffers.size(); ++index) {
    const Buffer& buffer = role.buffers[index];
    if (buffer.persistent || buffer.space != space) continue;
    if (buffer.category == Category::kRuntime && !with_runtime) continue;
    bytes[index] = align ? Align(buffer.bytes) : buffer.bytes;
  }
  return bytes;
}

// The buffers of one section in one space as records of the layout, with their ids.
struct SectionRecords {
  LayoutRecords layout;
  std::vector<uint32_t> buffers;
};

// For each lane with allocs, when it learns of each free: walks the lane, and along it, per other
// lane, the frees that have come into its past. O(instructions x lanes).
void FillEnds(const Section& section, const HappensBefore& order,
              const std::vector<std::vector<uint32_t>>& marks_of_lane,
              const std::vector<uint32_t>& view_of_lane, const std::vector<uint32_t>& record_of,
              LayoutRecords& layout) {
  std::vector<std::vector<uint32_t>> frees_of_lane(marks_of_lane.size());
  for (size_t lane = 0; lane < marks_of_lane.size(); ++lane) {
    for (const uint32_t mark : marks_of_lane[lane]) {
      if (section.instructions[mark].kind == InstructionKind::kFree) {
        frees_of_lane[lane].push_back(mark);
      }
    }
  }
  layout.ends.assign(layout.records.size() * layout.views, LayoutRecords::kNever);
  for (size_t lane = 0; lane < marks_of_lane.size(); ++lane) {
    const uint32_t view = view_of_lane[lane];
    if (view == kNoId) continue;
    std::vector<size_t> next(frees_of_lane.size(), 0);
    for (const uint32_t mark : marks_of_lane[lane]) {
      if (section.instructions[mark].kind != InstructionKind::kAlloc) continue;
      for (size_t other = 0; other < frees_of_lane.size(); ++other) {
        const std::vector<uint32_t>& frees = frees_of_lane[other];
        const uint32_t seen = order.Seen(mark, static_cast<uint16_t>(other));
        for (; next[other] < frees.size() && order.Position(frees[next[other]]) < seen;
             ++next[other]) {
          const uint32_t record = record_of[section.instructions[frees[next[other]]].what];
          if (record != kNoId) layout.ends[size_t{record} * layout.views + view] = mark;
        }
      }
    }
  }
}

SectionRecords CollectRecords(const Role& role, const Section& section, const HappensBefore& order,
                              Space space, std::span<const int64_t> aligned) {
  SectionRecords result;
  const size_t lanes = role.lanes.size();
  std::vector<uint32_t> record_of(role.buffers.size(), kNoId);
  std::vector<uint32_t> view_of_lane(lanes, kNoId);
  std::vector<std::vector<uint32_t>> marks_of_lane(lanes);
  result.layout.views = 0;
  for (uint32_t index = 0; index < section.instructions.size(); ++index) {
    const Instruction& instruction = section.instructions[index];
    if (!IsMark(instruction) || role.buffers[instruction.what].space != space) continue;
    marks_of_lane[instruction.lane].push_back(index);
    if (instruction.kind == InstructionKind::kFree) continue;
    uint32_t& view = view_of_lane[instruction.lane];
    if (view == kNoId) view = result.layout.views++;
    record_of[instruction.what] = static_cast<uint32_t>(result.buffers.size());
    result.buffers.push_back(instruction.what);
    result.layout.records.push_back(
        {.bytes = aligned[instruction.what], .begin = index, .view = view});
  }
  FillEnds(section, order, marks_of_lane, view_of_lane, record_of, result.layout);
  return result;
}

// Buffers of one section beyond which a layout is searched less hard.
constexpr size_t kLongList = 4000;

void LayOutSpace(Role& role, Space space) {
  int64_t persistent_end = 0;
  for (Buffer& buffer : role.buffers) {
    if (buffer.space != space) continue;
    buffer.address = kNoAddress;
    if (!buffer.persistent) continue;
    buffer.address = persistent_end;
    persistent_end += Align(buffer.bytes);
  }
  int64_t extent = persistent_end;
  const std::vector<int64_t> aligned = TransientBytes(role, space, true, true);
  for (const Section* section : Sections(role)) {
    const HappensBefore order(*section, role.lanes.size());
    const SectionRecords records = CollectRecords(role, *section, order, space, aligned);
    if (records.buffers.empty()) continue;
    const LayoutRegion region{.begin = persistent_end};
    // More rules are worth their cost only where the first does not nearly meet the bound, and only
    // of lists that are not too long: there a few percent are let go.
    const bool is_long = records.buffers.size() > kLongList;
    const int64_t target = LiveBound(*section, order, role.lanes.size(), aligned);
    QuickLayoutResult quick =
        QuickLayout(records.layout, {&region, 1}, target, is_long ? 4 : 1, is_long ? 3 : 1);
    LayoutResult result = std::move(quick.result);
    if (!quick.met && !is_long) {
      LayoutResult searched = Layout(records.layout, {&region, 1}, target);
      if (searched.extent < result.extent) result = std::move(searched);
    }
    for (size_t index = 0; index < records.buffers.size(); ++index) {
      role.buffers[records.buffers[index]].address = result.addresses[index];
    }
    extent = std::max(extent, result.extent);
  }
  role.extent[static_cast<size_t>(space)] = extent;
}

// Live bytes per category while a list is replayed, and the figures they leave behind.
class Replay {
 public:
  explicit Replay(MemoryFigures* figures) : figures_(figures) {}

  void Add(Category category, int64_t bytes) {
    int64_t& live = live_[static_cast<size_t>(category)];
    live += bytes;
    total_ += bytes;
    int64_t& maximum = figures_->category_max[static_cast<size_t>(category)];
    maximum = std::max(maximum, live);
  }

  void Look() {
    if (total_ <= figures_->serial_peak) return;
    figures_->serial_peak = total_;
    figures_->peak_by_category = live_;
  }

 private:
  MemoryFigures* figures_;
  std::array<int64_t, kCategories> live_{};
  int64_t total_ = 0;
};

}  // namespace

void AssignAddresses(Program& program) {
  for (Role& role : program.roles) {
    for (const Space space : {Space::kDevice, Space::kPinnedHost}) LayOutSpace(role, space);
  }
}

MemoryFigures MeasureMemory(const Program&, const Role& role, Space space) {
  MemoryFigures figures;
  figures.extent = role.extent[static_cast<size_t>(space)];
  Replay replay(&figures);
  int64_t persistent = 0;
  for (const Buffer& buffer : role.buffers) {
    if (!buffer.persistent || buffer.space != space) continue;
    if (buffer.category == Category::kRuntime) continue;
    persistent += buffer.bytes;
    replay.Add(buffer.category, buffer.bytes);
  }
  replay.Look();
  figures.live_bound = persistent;
  const std::vector<int64_t> bytes = TransientBytes(role, space, false, false);
  for (const Section* section : Sections(role)) {
    for (const Instruction& instruction : section->instructions) {
      if (!IsMark(instruction)) continue;
      const bool alloc = instruction.kind == InstructionKind::kAlloc;
      const int64_t size = bytes[instruction.what];
      replay.Add(role.buffers[instruction.what].category, alloc ? size : -size);
      replay.Look();
    }
    const HappensBefore order(*section, role.lanes.size());
    const int64_t bound = LiveBound(*section, order, role.lanes.size(), bytes);
    figures.live_bound = std::max(figures.live_bound, persistent + bound);
  }
  return figures;
}

}  // namespace tideline

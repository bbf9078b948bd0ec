#include "planner/program/builder.h"

#include <bit>
#include <functional>

#include "base/check.h"

namespace tideline {
namespace {

// Mixes field after field into 64 bits; equal values give equal hashes.
class Hasher {
 public:
  Hasher& Add(uint64_t value) {
    state_ = (std::rotl(state_, 23) ^ value) * 0x9E3779B97F4A7C15ull;
    state_ ^= state_ >> 29;
    return *this;
  }
  Hasher& Add(std::string_view text) { return Add(std::hash<std::string_view>()(text)); }
  Hasher& AddReal(double value) { return Add(std::bit_cast<uint64_t>(value == 0.0 ? 0.0 : value)); }
  Hasher& Add(const Affine& affine) {
    Add(affine.base);
    for (const int64_t coefficient : affine.per_coordinate) Add(coefficient);
    return *this;
  }
  Hasher& Add(const std::vector<int64_t>& values) {
    Add(values.size());
    for (const int64_t value : values) Add(value);
    return *this;
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0x243F6A8885A308D3ull;
};

void AddAttributes(Hasher& hash, const Attributes& attributes) {
  hash.Add(std::string_view(attributes.equation));
  hash.Add(uint64_t{attributes.accumulate} | uint64_t{attributes.causal} << 1 |
           uint64_t{attributes.inverse} << 2 | uint64_t{attributes.maximum} << 3);
  hash.Add(attributes.dimension);
  hash.AddReal(attributes.scale).AddReal(attributes.constant).AddReal(attributes.loss_scale);
  hash.Add(attributes.valid_columns).Add(attributes.row_offset).Add(attributes.position_offset);
  hash.AddReal(attributes.init_stddev).Add(attributes.element_offset);
  hash.Add(attributes.init.size());
  for (const InitBox& box : attributes.init) {
    hash.Add(std::string_view(box.parameter)).Add(box.full_shape).Add(box.extent);
    for (const Affine& first : box.first) hash.Add(first);
  }
  hash.Add(attributes.window.height).Add(attributes.window.width);
  hash.Add(attributes.window.stride).Add(attributes.window.padding);
  hash.Add(attributes.spans.size());
  for (const AdamSpan& span : attributes.spans) hash.Add(span.begin).Add(span.end).Add(span.decay);
  hash.Add(attributes.norm_spans.size());
  for (const NormSpan& span : attributes.norm_spans) {
    hash.Add(span.begin).Add(span.end).Add(span.copy);
  }
}

uint64_t HashOf(const std::string& name) { return Hasher().Add(std::string_view(name)).value(); }

uint64_t HashOf(const Kernel& kernel) {
  Hasher hash;
  hash.Add(static_cast<uint64_t>(kernel.op)).Add(static_cast<uint64_t>(kernel.compute_dtype));
  AddAttributes(hash, kernel.attributes);
  for (const OperandSpec& operand : kernel.operands) {
    hash.Add(operand.shape).Add(static_cast<uint64_t>(operand.dtype));
    hash.Add(static_cast<uint64_t>(operand.access));
  }
  hash.Add(kernel.work.bytes_read).Add(kernel.work.bytes_written);
  for (const uint32_t scalar : kernel.scalars) hash.Add(scalar);
  return hash.value();
}

uint64_t HashOf(const Collective& collective) {
  return Hasher()
      .Add(static_cast<uint64_t>(collective.kind))
      .Add(static_cast<uint64_t>(collective.dtype))
      .Add(collective.ring_start)
      .Add(collective.group)
      .Add(collective.outer)
      .Add(collective.block)
      .value();
}

uint64_t HashOf(const Group& group) {
  Hasher hash;
  for (const Axis axis : group.axes) hash.Add(static_cast<uint64_t>(axis));
  for (const int32_t coordinate : group.subset) hash.Add(coordinate);
  return hash.value();
}

uint64_t HashOf(const Peer& peer) {
  return Hasher().Add(static_cast<uint64_t>(peer.axis)).Add(peer.delta).value();
}

uint64_t HashOf(const Affine& affine) { return Hasher().Add(affine).value(); }

uint64_t HashOf(const HostTask& task) {
  return Hasher()
      .Add(static_cast<uint64_t>(task.kind))
      .Add(task.first_sample)
      .Add(task.samples)
      .Add(task.sequence)
      .Add(task.image[0])
      .Add(task.image[1])
      .Add(task.image[2])
      .value();
}

template <typename Value>
void Fill(const std::vector<Value>& table, std::unordered_multimap<uint64_t, uint32_t>& index) {
  for (uint32_t id = 0; id < table.size(); ++id) index.emplace(HashOf(table[id]), id);
}

}  // namespace

ProgramBuilder::ProgramBuilder(Program* program) : program_(program) {
  Fill(program->names, names_);
  Fill(program->kernels, kernels_);
  Fill(program->collectives, collectives_);
  Fill(program->groups, groups_);
  Fill(program->peers, peers_);
  Fill(program->affines, affines_);
  Fill(program->host_tasks, host_tasks_);
}

template <typename Value>
uint32_t ProgramBuilder::InternIn(std::vector<Value>& table, Index& index, const Value& value) {
  const uint64_t hash = HashOf(value);
  const auto [begin, end] = index.equal_range(hash);
  for (auto entry = begin; entry != end; ++entry) {
    if (table[entry->second] == value) return entry->second;
  }
  const uint32_t id = static_cast<uint32_t>(table.size());
  table.push_back(value);
  index.emplace(hash, id);
  return id;
}

uint32_t ProgramBuilder::Intern(std::string_view name) {
  return InternIn(program_->names, names_, std::string(name));
}
uint32_t ProgramBuilder::Intern(const Kernel& kernel) {
  return InternIn(program_->kernels, kernels_, kernel);
}
uint32_t ProgramBuilder::Intern(const Collective& collective) {
  return InternIn(program_->collectives, collectives_, collective);
}
uint32_t ProgramBuilder::Intern(const Group& group) {
  return InternIn(program_->groups, groups_, group);
}
uint32_t ProgramBuilder::Intern(const Peer& peer) {
  return InternIn(program_->peers, peers_, peer);
}
uint32_t ProgramBuilder::Intern(const Affine& affine) {
  return InternIn(program_->affines, affines_, affine);
}
uint32_t ProgramBuilder::Intern(const HostTask& task) {
  return InternIn(program_->host_tasks, host_tasks_, task);
}

uint32_t ProgramBuilder::InternOffset(const Affine& affine) {
  return affine == Affine() ? kNoId : Intern(affine);
}

uint32_t ProgramBuilder::AddRole(std::string_view name) {
  Role role;
  role.name = std::string(name);
  role.lanes = {{LaneKind::kHost, kNoId}, {LaneKind::kCompute, kNoId}};
  program_->roles.push_back(std::move(role));
  return static_cast<uint32_t>(program_->roles.size() - 1);
}

uint16_t ProgramBuilder::LaneOf(uint32_t role, Lane lane) {
  std::vector<Lane>& lanes = program_->roles[role].lanes;
  for (size_t index = 0; index < lanes.size(); ++index) {
    if (lanes[index] == lane) return static_cast<uint16_t>(index);
  }
  TL_CHECK(lanes.size() < UINT16_MAX, "a role has fewer than 2^16 lanes");
  lanes.push_back(lane);
  return static_cast<uint16_t>(lanes.size() - 1);
}

uint32_t ProgramBuilder::AddBuffer(uint32_t role, std::string_view name, int64_t bytes,
                                   Category category, Space space, bool persistent) {
  std::vector<Buffer>& buffers = program_->roles[role].buffers;
  buffers.push_back({.name = Intern(name),
                     .bytes = bytes,
                     .space = space,
                     .category = category,
                     .persistent = persistent});
  return static_cast<uint32_t>(buffers.size() - 1);
}

uint32_t SectionBuilder::Append(Instruction instruction, std::span<const Operand> operands,
                                std::span<const uint32_t> waits) {
  Section& section = *section_;
  const uint32_t index = size();
  instruction.operands_begin = static_cast<uint32_t>(section.operands.size());
  section.operands.insert(section.operands.end(), operands.begin(), operands.end());
  instruction.operands_end = static_cast<uint32_t>(section.operands.size());

  instruction.waits_begin = static_cast<uint32_t>(section.waits.size());
  if (!waits.empty()) {
    last_.assign(role_->lanes.size(), kNoId);
    for (const uint32_t wait : waits) {
      if (wait == kNoId) continue;
      TL_CHECK(wait < index, "an instruction waits for earlier ones only");
      uint32_t& last = last_[section.instructions[wait].lane];
      if (last == kNoId || last < wait) last = wait;
    }
    last_[instruction.lane] = kNoId;
    for (const uint32_t wait : last_) {
      if (wait != kNoId) section.waits.push_back(wait);
    }
  }
  instruction.waits_end = static_cast<uint32_t>(section.waits.size());
  section.instructions.push_back(instruction);
  return index;
}

}  // namespace tideline

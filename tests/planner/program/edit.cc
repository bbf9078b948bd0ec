#include "tests/planner/program/edit.h"

#include <sstream>

namespace tideline {

SectionEditor::SectionEditor(const Section& section) {
  for (const Instruction& instruction : section.instructions) {
    const auto operands = section.Operands(instruction);
    const auto waits = section.Waits(instruction);
    entries.push_back(
        {instruction, {operands.begin(), operands.end()}, {waits.begin(), waits.end()}});
  }
}

Section SectionEditor::Pack() const {
  Section section;
  for (const Entry& entry : entries) {
    Instruction instruction = entry.instruction;
    instruction.operands_begin = static_cast<uint32_t>(section.operands.size());
    section.operands.insert(section.operands.end(), entry.operands.begin(), entry.operands.end());
    instruction.operands_end = static_cast<uint32_t>(section.operands.size());
    instruction.waits_begin = static_cast<uint32_t>(section.waits.size());
    section.waits.insert(section.waits.end(), entry.waits.begin(), entry.waits.end());
    instruction.waits_end = static_cast<uint32_t>(section.waits.size());
    section.instructions.push_back(instruction);
  }
  return section;
}

template <typename Map>
void SectionEditor::RemapWaits(Map map) {
  for (Entry& entry : entries) {
    for (uint32_t& wait : entry.waits) wait = map(wait);
  }
}

void SectionEditor::Move(uint32_t from, uint32_t to) {
  Entry moved = std::move(entries[from]);
  entries.erase(entries.begin() + from);
  entries.insert(entries.begin() + to, std::move(moved));
  RemapWaits([&](uint32_t index) {
    if (index == from) return to;
    if (from < index && index <= to) return index - 1;
    if (to <= index && index < from) return index + 1;
    return index;
  });
}

void SectionEditor::Drop(uint32_t index) {
  entries.erase(entries.begin() + index);
  for (Entry& entry : entries) std::erase(entry.waits, index);
  RemapWaits([&](uint32_t other) { return other > index ? other - 1 : other; });
}

void SectionEditor::Insert(uint32_t index, Entry entry) {
  RemapWaits([&](uint32_t other) { return other >= index ? other + 1 : other; });
  entries.insert(entries.begin() + index, std::move(entry));
}

std::string Dump(const Program& program) {
  static constexpr char kAccess[] = {'r', 'w', 'u'};
  std::ostringstream text;
  text << "mesh " << program.mesh[0] << "x" << program.mesh[1] << "x" << program.mesh[2];
  for (const Rank& rank : program.ranks) text << " role" << rank.role;
  text << "\n";
  for (const Role& role : program.roles) {
    text << "role " << role.name << " extent " << role.extent[0] << "," << role.extent[1] << "\n";
    for (size_t index = 0; index < role.buffers.size(); ++index) {
      const Buffer& buffer = role.buffers[index];
      text << "  buffer " << index << ": " << buffer.bytes << " bytes " << Name(buffer.space)
           << (buffer.persistent ? " persistent" : "") << " at " << buffer.address << "\n";
    }
    const std::vector<const Section*> sections = Sections(role);
    for (size_t section = 0; section < sections.size(); ++section) {
      text << "  " << SectionName(role, section) << "\n";
      for (size_t index = 0; index < sections[section]->instructions.size(); ++index) {
        const Instruction& entry = sections[section]->instructions[index];
        text << "    #" << index << " " << Name(entry.kind) << " " << entry.what << " on "
             << LaneName(program, role.lanes[entry.lane]);
        for (const Operand& operand : sections[section]->Operands(entry)) {
          text << " " << kAccess[static_cast<size_t>(operand.access)] << operand.buffer << "["
               << operand.offset << "+" << operand.bytes;
          if (operand.affine != kNoId) text << " affine " << operand.affine;
          text << "]";
        }
        for (const uint32_t wait : sections[section]->Waits(entry)) text << " <" << wait;
        text << "\n";
      }
    }
  }
  return text.str();
}

}  // namespace tideline

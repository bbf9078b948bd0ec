// A section taken apart, for tests that change Programs: instructions with their own operands and
// waits, which may be moved, dropped and put in; waits follow the instructions they name.
#ifndef TIDELINE_TESTS_PLANNER_PROGRAM_EDIT_H_
#define TIDELINE_TESTS_PLANNER_PROGRAM_EDIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/program/program.h"

namespace tideline {

class SectionEditor {
 public:
  struct Entry {
    Instruction instruction;
    std::vector<Operand> operands;
    std::vector<uint32_t> waits;  // indices into entries
  };

  explicit SectionEditor(const Section& section);

  // Flat again. Waits may point anywhere: that is what some tests want.
  Section Pack() const;

  // Moves an entry so that it ends up at `to`; waits keep naming the same entries.
  void Move(uint32_t from, uint32_t to);
  // Removes an entry and every wait for it.
  void Drop(uint32_t index);
  // Puts in an entry before `index`.
  void Insert(uint32_t index, Entry entry);

  std::vector<Entry> entries;

 private:
  template <typename Map>
  void RemapWaits(Map map);
};

// The Program, one instruction a line, for failure messages.
std::string Dump(const Program& program);

}  // namespace tideline

#endif  // TIDELINE_TESTS_PLANNER_PROGRAM_EDIT_H_

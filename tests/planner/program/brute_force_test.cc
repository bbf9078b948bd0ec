// The verifier, the live bound and the layout against every interleaving of small random Programs.
#include "tests/planner/program/brute_force.h"

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "planner/program/memory.h"
#include "planner/program/verifier.h"
#include "tests/planner/program/edit.h"
#include "tests/planner/program/mutants.h"
#include "tests/planner/program/random_program.h"

namespace tideline {
namespace {

// Everything that can go wrong, in the words of BruteForce.
const std::vector<std::string> kReasons = {"frees a dead buffer",
                                           "touches a dead buffer",
                                           "reads an unwritten byte",
                                           "bears a buffer over a living one",
                                           "race",
                                           "is never freed",
                                           "persistent buffers overlap",
                                           "collectives disagree",
                                           "message sizes disagree",
                                           "gets stuck",
                                           "is larger than the memory"};

constexpr std::array<int64_t, kSpaces> kPlenty = {INT64_MAX, INT64_MAX};

size_t Played(const Program& program) {
  size_t count = 0;
  for (const Rank& rank : program.ranks) {
    for (const Section* section : Sections(program.roles[rank.role])) {
      count += section->instructions.size();
    }
  }
  return count;
}

TEST(BruteForceTest, TheVerifierAgreesOnTenThousandPrograms) {
  std::mt19937_64 random(20261130);
  int accepted = 0, rejected = 0, played_concurrently = 0;
  std::map<std::string, int> reasons;
  for (int round = 0; round < 10000; ++round) {
    const RandomProgram made = MakeRandomProgram(random, round % 4 != 0);
    const std::string wrong = BruteForce(made.program, made.capacity);
    VerifyOptions options;
    options.capacity = made.capacity;
    const Status status = Verify(made.program, options);
    ASSERT_EQ(status.ok(), wrong.empty())
        << "verifier: " << status << "\nbrute force: " << wrong << "\n"
        << Dump(made.program);
    ++(status.ok() ? accepted : rejected);
    for (const std::string& reason : kReasons) {
      if (wrong.find(reason) != std::string::npos) ++reasons[reason];
    }
    if (!status.ok() || Played(made.program) > 16) continue;
    ASSERT_EQ(BruteForceConcurrently(made.program), "") << Dump(made.program);
    ++played_concurrently;
  }
  std::cout << accepted << " accepted, " << rejected << " rejected, " << played_concurrently
            << " played concurrently\n";
  for (const std::string& reason : kReasons) {
    std::cout << reasons[reason] << " because something " << reason << "\n";
    EXPECT_GT(reasons[reason], 20) << reason;
  }
  // Roughly half each, else the test would say little.
  EXPECT_GT(accepted, 3500);
  EXPECT_GT(rejected, 3500);
  EXPECT_GT(played_concurrently, 1000);
}

// A role whose body only brings buffers to life and ends them, on two to four lanes, with waits
// thrown in: nothing but lifetimes and their order.
Role RandomLives(std::mt19937_64& random) {
  Role role;
  const size_t lanes = 2 + random() % 3;
  role.lanes.resize(lanes);
  SectionEditor body{Section()};
  std::vector<std::pair<uint32_t, uint32_t>> alive;  // buffer, its alloc
  const size_t length = 1 + random() % 14;
  while (body.entries.size() < length) {
    SectionEditor::Entry entry;
    const uint32_t index = static_cast<uint32_t>(body.entries.size());
    entry.instruction.lane = static_cast<uint16_t>(random() % lanes);
    if (random() % 3 == 0 && !alive.empty()) {
      const size_t which = random() % alive.size();
      entry.instruction.kind = InstructionKind::kFree;
      entry.instruction.what = alive[which].first;
      entry.waits = {alive[which].second};
      alive.erase(alive.begin() + which);
    } else if (random() % 2 == 0) {
      entry.instruction.kind = InstructionKind::kAlloc;
      entry.instruction.what = static_cast<uint32_t>(role.buffers.size());
      alive.emplace_back(entry.instruction.what, index);
      role.buffers.push_back({.bytes = static_cast<int64_t>(1 + random() % 9)});
    }
    if (index > 0 && random() % 4 == 0) {
      entry.waits.push_back(static_cast<uint32_t>(random() % index));
    }
    std::erase_if(entry.waits, [&](uint32_t wait) {
      return body.entries[wait].instruction.lane == entry.instruction.lane;
    });
    body.entries.push_back(entry);
  }
  role.bodies = {body.Pack()};
  return role;
}

TEST(BruteForceTest, TheLiveBoundIsThatOfEveryInterleaving) {
  std::mt19937_64 random(2);
  int above_serial = 0;
  for (int round = 0; round < 2000; ++round) {
    Program program;
    program.roles = {RandomLives(random)};
    const Role& role = program.roles[0];
    const MemoryFigures figures = MeasureMemory(program, role, Space::kDevice);
    ASSERT_EQ(figures.live_bound, EnumerateLiveBound(role, Space::kDevice)) << Dump(program);
    ASSERT_LE(figures.serial_peak, figures.live_bound);
    above_serial += figures.serial_peak < figures.live_bound;
  }
  EXPECT_GT(above_serial, 300);
}

TEST(BruteForceTest, TheLiveBoundOfProgramsIsThatOfEveryInterleaving) {
  std::mt19937_64 random(2);
  for (int checked = 0; checked < 400;) {
    const RandomProgram made = MakeRandomProgram(random, checked % 2 == 1);
    if (!BruteForce(made.program, kPlenty).empty()) continue;
    for (const Role& role : made.program.roles) {
      for (const Space space : {Space::kDevice, Space::kPinnedHost}) {
        const MemoryFigures figures = MeasureMemory(made.program, role, space);
        ASSERT_EQ(figures.live_bound, EnumerateLiveBound(role, space)) << Dump(made.program);
        ASSERT_LE(figures.serial_peak, figures.live_bound);
      }
    }
    ++checked;
  }
}

TEST(BruteForceTest, LayoutNeverLetsLivingBuffersMeet) {
  std::mt19937_64 random(3);
  for (int checked = 0; checked < 1000;) {
    RandomProgram made = MakeRandomProgram(random, false);
    for (Role& role : made.program.roles) {
      role.extent = {};
      for (Buffer& buffer : role.buffers) buffer.address = kNoAddress;
    }
    if (!BruteForce(made.program, kPlenty).empty()) continue;
    AssignAddresses(made.program);
    ASSERT_EQ(BruteForce(made.program, kPlenty), "") << Dump(made.program);
    for (const Role& role : made.program.roles) {
      for (const Space space : {Space::kDevice, Space::kPinnedHost}) {
        const MemoryFigures figures = MeasureMemory(made.program, role, space);
        ASSERT_LE(figures.live_bound, figures.extent);
      }
    }
    ++checked;
  }
}

TEST(BruteForceTest, MutantsThatAreCalledEquivalentAre) {
  std::mt19937_64 random(4);
  int equivalent = 0, different = 0;
  for (int round = 0; round < 4000; ++round) {
    const RandomProgram made = MakeRandomProgram(random, false);
    if (!BruteForce(made.program, kPlenty).empty()) continue;
    ForEachMutant({&made.program, 1}, 1, random(), [&](const Mutant& mutant) {
      const bool same = SameBehaviour(made.program, mutant.program);
      ++(same ? equivalent : different);
      if (same) {
        ASSERT_EQ(BruteForce(mutant.program, kPlenty), "")
            << mutant.change << "\n"
            << Dump(made.program) << Dump(mutant.program);
      }
    });
    ASSERT_TRUE(SameBehaviour(made.program, made.program)) << Dump(made.program);
  }
  EXPECT_GT(equivalent, 50);
  EXPECT_GT(different, 500);
}

}  // namespace
}  // namespace tideline

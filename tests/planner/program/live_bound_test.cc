#include "planner/program/live_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/edmonds_karp_max_flow.hpp>
#include <random>
#include <vector>

namespace tideline {
namespace {

// A section of allocs and frees, written by hand.
class Marks {
 public:
  uint32_t Buffer(int64_t bytes) {
    bytes_.push_back(bytes);
    return static_cast<uint32_t>(bytes_.size() - 1);
  }

  uint32_t Add(InstructionKind kind, uint32_t buffer, uint16_t lane, std::vector<uint32_t> waits) {
    Instruction instruction;
    instruction.kind = kind;
    instruction.what = buffer;
    instruction.lane = lane;
    instruction.waits_begin = static_cast<uint32_t>(section_.waits.size());
    section_.waits.insert(section_.waits.end(), waits.begin(), waits.end());
    instruction.waits_end = static_cast<uint32_t>(section_.waits.size());
    section_.instructions.push_back(instruction);
    return static_cast<uint32_t>(section_.instructions.size() - 1);
  }
  uint32_t Alloc(uint32_t buffer, uint16_t lane, std::vector<uint32_t> waits = {}) {
    return Add(InstructionKind::kAlloc, buffer, lane, std::move(waits));
  }
  uint32_t Free(uint32_t buffer, uint16_t lane, std::vector<uint32_t> waits = {}) {
    return Add(InstructionKind::kFree, buffer, lane, std::move(waits));
  }

  int64_t Bound(size_t lanes) const {
    return LiveBound(section_, HappensBefore(section_, lanes), lanes, bytes_);
  }

  // Bytes of all allocs less the largest flow from allocs to frees that happen before them, by
  // another algorithm on the whole graph of pairs.
  int64_t BoundByMaximumFlow(size_t lanes) const;

 private:
  Section section_;
  std::vector<int64_t> bytes_;
};

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using FlowGraph = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS, boost::no_property,
    boost::property<
        boost::edge_capacity_t, int64_t,
        boost::property<boost::edge_residual_capacity_t, int64_t,
                        boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>>;

void AddEdge(FlowGraph& graph, size_t from, size_t to, int64_t capacity) {
  const auto there = boost::add_edge(from, to, graph).first;
  const auto back = boost::add_edge(to, from, graph).first;
  boost::put(boost::edge_capacity, graph, there, capacity);
  boost::put(boost::edge_capacity, graph, back, 0);
  boost::put(boost::edge_reverse, graph, there, back);
  boost::put(boost::edge_reverse, graph, back, there);
}

int64_t Marks::BoundByMaximumFlow(size_t lanes) const {
  const HappensBefore order(section_, lanes);
  const uint32_t count = static_cast<uint32_t>(section_.instructions.size());
  FlowGraph graph(count + 2);
  int64_t allocated = 0;
  for (uint32_t index = 0; index < count; ++index) {
    const Instruction& instruction = section_.instructions[index];
    const int64_t bytes = bytes_[instruction.what];
    if (instruction.kind == InstructionKind::kFree) {
      AddEdge(graph, index, count + 1, bytes);
      continue;
    }
    allocated += bytes;
    AddEdge(graph, count, index, bytes);
    for (uint32_t other = 0; other < index; ++other) {
      if (section_.instructions[other].kind != InstructionKind::kFree) continue;
      if (order.Before(other, index)) AddEdge(graph, index, other, bytes);
    }
  }
  return allocated - boost::edmonds_karp_max_flow(graph, count, count + 1);
}

TEST(LiveBoundTest, NothingIsNothing) {
  Marks marks;
  EXPECT_EQ(marks.Bound(2), 0);
}

TEST(LiveBoundTest, OneLaneIsItsReplay) {
  // 5, 5 + 7, 7, 7 + 3, 3, 0.
  Marks marks;
  const uint32_t a = marks.Buffer(5), b = marks.Buffer(7), c = marks.Buffer(3);
  marks.Alloc(a, 0);
  marks.Alloc(b, 0);
  marks.Free(a, 0);
  marks.Alloc(c, 0);
  marks.Free(b, 0);
  marks.Free(c, 0);
  EXPECT_EQ(marks.Bound(1), 12);
}

TEST(LiveBoundTest, AShipmentMovesToAnOlderFree) {
  // x comes after the frees of a (lane 1) and b (lane 0) and ships into b's, the newest. y comes
  // after the free of b only, so x must move to a's. Never more than two live: a with b or y, or x
  // with y: 12.
  Marks marks;
  const uint32_t a = marks.Buffer(6), b = marks.Buffer(6), x = marks.Buffer(6), y = marks.Buffer(6);
  marks.Alloc(a, 1);
  const uint32_t free_a = marks.Free(a, 1);
  marks.Alloc(b, 0);
  const uint32_t free_b = marks.Free(b, 0);
  marks.Alloc(x, 0, {free_a});
  marks.Alloc(y, 2, {free_b});
  EXPECT_EQ(marks.Bound(3), 12);
}

// One buffer after another on random lanes, freed on random lanes, with random waits. `locality`:
// how far back waits reach.
Marks RandomMarks(std::mt19937_64& random, uint32_t count, uint16_t lanes, uint32_t locality) {
  Marks marks;
  const auto below = [&](uint64_t bound) { return static_cast<uint32_t>(random() % bound); };
  std::vector<std::pair<uint32_t, uint32_t>> alive;  // buffer, its alloc
  for (uint32_t index = 0; index < count; ++index) {
    const uint16_t lane = static_cast<uint16_t>(below(lanes));
    std::vector<uint32_t> waits;
    if (index > 0 && below(3) == 0) waits.push_back(index - 1 - below(std::min(index, locality)));
    if (!alive.empty() && below(2) == 0) {
      const uint32_t place = below(alive.size());
      waits.push_back(alive[place].second);
      marks.Free(alive[place].first, lane, waits);
      alive.erase(alive.begin() + place);
    } else {
      const uint32_t buffer = marks.Buffer(below(4) == 0 ? 0 : 1 + below(20));
      alive.emplace_back(buffer, marks.Alloc(buffer, lane, waits));
    }
  }
  return marks;
}

TEST(LiveBoundTest, IsTheMaximumClosureOfRandomSections) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3000; ++round) {
    const uint16_t lanes = static_cast<uint16_t>(1 + random() % 6);
    const uint32_t count = static_cast<uint32_t>(random() % 90);
    const uint32_t locality = static_cast<uint32_t>(1 + random() % 40);
    const Marks marks = RandomMarks(random, count, lanes, locality);
    ASSERT_EQ(marks.Bound(lanes), marks.BoundByMaximumFlow(lanes)) << "round " << round;
  }
}

}  // namespace
}  // namespace tideline

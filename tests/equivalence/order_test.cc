// Every wait of a Program holds in the timestamps of its execution (issue: quality bars), lanes
// run one instruction at a time in list order, and the members of a collective or message meet.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tests/equivalence/execute_plan.h"
#include "tests/equivalence/plan_cases.h"

namespace tideline::equivalence {
namespace {

constexpr int64_t kNever = -1;

struct Interval {
  int64_t start_ns = kNever;
  int64_t end_ns = kNever;
  bool ran() const { return start_ns != kNever; }
};

// Times of one played body on one rank, by instruction.
using Times = std::vector<Interval>;

std::map<std::pair<int32_t, int32_t>, Times> TimesByRankAndStep(
    const Executed& executed, const std::vector<uint32_t>& bodies) {
  std::map<std::pair<int32_t, int32_t>, Times> times;
  for (const RunEvent& event : executed.run.events()) {
    if (event.step < 0) continue;
    const Role& role = executed.program.roles[executed.program.ranks[event.rank].role];
    Times& of_step = times[{event.rank, event.step}];
    of_step.resize(role.bodies[bodies[event.step]].instructions.size());
    EXPECT_FALSE(of_step[event.instruction].ran()) << "an instruction ran twice in a step";
    of_step[event.instruction] = {event.start_ns, event.end_ns};
  }
  return times;
}

// Checks lanes and waits of one body; returns the number of waits that were checked.
int64_t CheckOrder(const Section& body, const Times& times) {
  // When each instruction is done; kAlloc and kFree take no time and are done when what they come
  // after is.
  std::vector<int64_t> done(body.instructions.size(), kNever);
  std::map<uint16_t, int64_t> lane_done;
  int64_t checked = 0;
  for (size_t i = 0; i < body.instructions.size(); ++i) {
    const Instruction& instruction = body.instructions[i];
    int64_t after = kNever;
    if (const auto lane = lane_done.find(instruction.lane); lane != lane_done.end()) {
      after = lane->second;
    }
    for (const uint32_t wait : body.Waits(instruction)) {
      after = std::max(after, done[wait]);
      ++checked;
    }
    const bool timeless =
        instruction.kind == InstructionKind::kAlloc || instruction.kind == InstructionKind::kFree;
    EXPECT_EQ(times[i].ran(), !timeless) << "instruction " << i;
    if (timeless) {
      done[i] = after;
    } else {
      EXPECT_GE(times[i].start_ns, after) << "instruction " << i << " began before it might";
      EXPECT_GE(times[i].end_ns, times[i].start_ns);
      done[i] = times[i].end_ns;
    }
    lane_done[instruction.lane] = done[i];
  }
  return checked;
}

// A meeting is named by its members, by what it is, and by how many came before it.
using Meeting = std::tuple<std::vector<int32_t>, std::string, int64_t>;

void CollectMeetings(const Program& program, int32_t rank, const Section& body, const Times& times,
                     std::map<Meeting, std::vector<Interval>>& meetings) {
  std::map<std::pair<std::vector<int32_t>, std::string>, int64_t> counts;
  for (size_t i = 0; i < body.instructions.size(); ++i) {
    const Instruction& instruction = body.instructions[i];
    std::vector<int32_t> members;
    std::string what;
    if (instruction.kind == InstructionKind::kCollective) {
      const Collective& collective = program.collectives[instruction.what];
      members = Members(program, program.groups[collective.group], rank);
      what = "collective " + std::to_string(collective.group);
    } else if (instruction.kind == InstructionKind::kSend) {
      members = {rank, PeerRank(program, program.peers[instruction.what], rank)};
      what = "message";
    } else if (instruction.kind == InstructionKind::kReceive) {
      members = {PeerRank(program, program.peers[instruction.what], rank), rank};
      what = "message";
    } else {
      continue;
    }
    const int64_t ordinal = counts[{members, what}]++;
    meetings[{members, what, ordinal}].push_back(times[i]);
  }
}

class OrderTest : public testing::TestWithParam<PlanCase> {};

TEST_P(OrderTest, EveryWaitHolds) {
  for (const bool seeded : {false, true}) {
    const auto executed =
        ExecutePlan(GetParam().plan,
                    {.steps = 2,
                     .schedule = seeded ? SchedulePolicy::kSeeded : SchedulePolicy::kConcurrent,
                     .schedule_seed = 17});
    ASSERT_TRUE(executed.ok()) << executed.status();
    const Program& program = executed->program;
    const auto bodies = BodySequence(program, 2);
    ASSERT_TRUE(bodies.ok());
    const auto times = TimesByRankAndStep(*executed, *bodies);
    ASSERT_EQ(times.size(), 2 * program.ranks.size());
    int64_t waits = 0;
    for (int32_t step = 0; step < 2; ++step) {
      std::map<Meeting, std::vector<Interval>> meetings;
      for (int32_t rank = 0; rank < static_cast<int32_t>(program.ranks.size()); ++rank) {
        const Role& role = program.roles[program.ranks[rank].role];
        const Section& body = role.bodies[(*bodies)[step]];
        waits += CheckOrder(body, times.at({rank, step}));
        CollectMeetings(program, rank, body, times.at({rank, step}), meetings);
      }
      for (const auto& [meeting, intervals] : meetings) {
        EXPECT_EQ(intervals.size(), std::get<0>(meeting).size()) << std::get<1>(meeting);
        int64_t last_start = kNever;
        int64_t first_end = INT64_MAX;
        for (const Interval& interval : intervals) {
          last_start = std::max(last_start, interval.start_ns);
          first_end = std::min(first_end, interval.end_ns);
        }
        EXPECT_LE(last_start, first_end)
            << std::get<1>(meeting) << " " << std::get<2>(meeting) << ": its members never met";
      }
    }
    EXPECT_GT(waits, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, OrderTest, testing::ValuesIn(PlanCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tideline::equivalence

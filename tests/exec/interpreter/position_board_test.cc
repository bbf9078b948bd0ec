#include "exec/interpreter/position_board.h"

#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"
#include "planner/program/builder.h"

namespace tideline {
namespace {

Program Example() {
  Program program;
  ProgramBuilder build(&program);
  const uint32_t role = build.AddRole("only");
  Role& made = program.roles[role];
  SectionBuilder body(&made, &made.bodies.emplace_back());
  Instruction instruction{.kind = InstructionKind::kFree, .what = 0};
  instruction.lane = kComputeLane;
  instruction.name = build.Intern("layers.3.mlp.up");
  instruction.layer = 4;
  instruction.micro_batch = 1;
  body.Append(instruction, {}, {});
  program.ranks = {{role, {}}, {role, {}}};
  return program;
}

TEST(PositionBoardTest, OutlivesAKilledWriter) {
  auto board = PositionBoard::Create(2);
  ASSERT_TRUE(board.ok()) << board.status();
  const pid_t child = fork();
  if (child == 0) {
    auto own = PositionBoard::Attach(board->descriptor(), 2);
    if (!own.ok()) _exit(1);
    own->Set(1, {12, 1, 0});
    kill(getpid(), SIGKILL);
  }
  int result = 0;
  waitpid(child, &result, 0);
  ASSERT_TRUE(WIFSIGNALED(result));
  const Program program = Example();
  EXPECT_EQ(PositionLine(program, 0, board->Get(0)), "rank 0: has not begun");
  EXPECT_EQ(PositionLine(program, 1, board->Get(1)),
            "rank 1: step 12, body 0, instruction 0 'layers.3.mlp.up', layer 4, micro-batch 1");
}

TEST(PositionBoardTest, LinesOfEverySectionAndCutLines) {
  const Program program = Example();
  EXPECT_EQ(PositionLine(program, 0, {-1, 0, 0}), "rank 0: prologue, at its end");
  EXPECT_EQ(PositionLine(program, 0, {3, 1, 7}), "rank 0: step 3, body 0, at its end");
  EXPECT_EQ(PositionLine(program, 0, {-1, 2, 0}), "rank 0: epilogue, at its end");
  EXPECT_EQ(PositionLine(program, 0, {-1, 99, 0}), "rank 0: has not begun");
  char line[8];
  EXPECT_EQ(WritePositionLine(program, 0, {12, 1, 0}, line, sizeof line), 7u);
  EXPECT_STREQ(line, "rank 0:");
}

TEST(PositionBoardTest, ABoardThatIsTooShortIsRefused) {
  auto board = PositionBoard::Create(1);
  ASSERT_TRUE(board.ok());
  EXPECT_FALSE(PositionBoard::Attach(board->descriptor(), 1000).ok());
  EXPECT_FALSE(PositionBoard::Attach(-1, 1).ok());
}

}  // namespace
}  // namespace tideline

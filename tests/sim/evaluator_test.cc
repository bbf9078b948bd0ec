#include "sim/evaluator.h"

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "sim/simulate.h"
#include "tests/sim/synthetic_program.h"

namespace tideline {
namespace {

std::unique_ptr<ProcessEvaluator> MustStart(ProcessEvaluator::Function function) {
  StatusOr<std::unique_ptr<ProcessEvaluator>> evaluator =
      ProcessEvaluator::Start(std::move(function));
  EXPECT_TRUE(evaluator.ok()) << evaluator.status();
  return *std::move(evaluator);
}

TEST(EvaluatorTest, AnswersComeBackWhole) {
  const auto evaluator = MustStart([](std::string_view request) -> StatusOr<std::string> {
    return std::string(request.rbegin(), request.rend());
  });
  for (const size_t bytes : {0u, 1u, 7u, 4096u, 3000001u}) {
    std::string request(bytes, 'a');
    for (size_t i = 0; i < bytes; ++i) request[i] = static_cast<char>(i * 31);
    const StatusOr<std::string> answer = evaluator->Evaluate(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(*answer, std::string(request.rbegin(), request.rend()));
  }
}

TEST(EvaluatorTest, ErrorsKeepTheirCode) {
  const auto evaluator = MustStart([](std::string_view) -> StatusOr<std::string> {
    return InfeasibleError("does not fit: 5 bytes are missing");
  });
  const StatusOr<std::string> answer = evaluator->Evaluate("");
  EXPECT_EQ(ExitCode(answer.status()), 3);
  EXPECT_EQ(answer.status().message(), "does not fit: 5 bytes are missing");
}

TEST(EvaluatorTest, ACrashIsAnErrorAndTheNextRequestWorks) {
  const auto evaluator = MustStart([](std::string_view request) -> StatusOr<std::string> {
    if (request == "abort") std::abort();
    if (request == "exit") _exit(9);
    return std::string("fine");
  });
  const StatusOr<std::string> aborted = evaluator->Evaluate("abort");
  EXPECT_EQ(ExitCode(aborted.status()), 1);
  EXPECT_NE(aborted.status().message().find("signal 6"), std::string::npos) << aborted.status();
  EXPECT_NE(evaluator->Evaluate("exit").status().message().find("exit code 9"), std::string::npos);
  EXPECT_EQ(*evaluator->Evaluate("again"), "fine");
}

TEST(EvaluatorTest, ThreadsTakeTurns) {
  const auto evaluator = MustStart(
      [](std::string_view request) -> StatusOr<std::string> { return std::string(request) + "!"; });
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const std::string request = std::to_string(100 * t + i);
        const StatusOr<std::string> answer = evaluator->Evaluate(request);
        right[t] += answer.ok() && *answer == request + "!";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 10));
}

// Every child starts SimGrid afresh, so evaluations of one plan agree to the last bit.
TEST(EvaluatorTest, SimulationsDoNotTouchEachOther) {
  const auto evaluator = MustStart([](std::string_view request) -> StatusOr<std::string> {
    const Program program = SyntheticTraining(
        {.tp = 2, .pp = 2, .dp = 2, .micro_batches = std::stoi(std::string(request))});
    TL_ASSIGN_OR_RETURN(const SimulationResult result,
                        Simulate(program, TestCluster(2, 4), {}, nullptr));
    return std::string(reinterpret_cast<const char*>(&result.step_time_s), sizeof(double));
  });
  const StatusOr<std::string> first = evaluator->Evaluate("4");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_NE(*evaluator->Evaluate("8"), *first);
  EXPECT_EQ(*evaluator->Evaluate("4"), *first);
}

}  // namespace
}  // namespace tideline

// 200 mutants of lowered Programs over a dozen plans: who notices? The verifier alone, and the
// emulator alone (a finding of its checks, or other bits than the original's). Mutants that
// provably do what the original does are left out and do not count.
#include "tests/planner/program/mutants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "planner/lowering/lower.h"
#include "planner/program/verifier.h"
#include "tests/equivalence/plan_cases.h"
#include "tests/mutants/guarded_run.h"

namespace tideline {
namespace {

constexpr size_t kMutants = 200;
constexpr uint64_t kSeed = 20261130;

struct Score {
  int mutants = 0, equivalent = 0, by_verifier = 0, by_emulator = 0, by_either = 0;

  Score& operator+=(const Score& other) {
    mutants += other.mutants;
    equivalent += other.equivalent;
    by_verifier += other.by_verifier;
    by_emulator += other.by_emulator;
    by_either += other.by_either;
    return *this;
  }
};

void Print(std::string_view name, const Score& score) {
  std::printf("%-20s %8d %11d %9d %9d %9d\n", std::string(name).c_str(), score.mutants,
              score.equivalent, score.by_verifier, score.by_emulator, score.by_either);
}

struct Original {
  std::string name;
  Plan plan;
  GuardedRun run;
};

TEST(MutantsTest, VerifierAndEmulatorTogetherNoticeThem) {
  const std::vector<std::string> chosen = {
      "gpt_plain",          "gpt_dp4_ring",           "gpt_dp2_zero1",
      "gpt_dp2_zero2",      "gpt_dp4_zero3_buckets",  "gpt_tp4_sequence",
      "gpt_pp4_gpipe",      "gpt_pp4_1f1b",           "gpt_pp2_interleaved",
      "gpt_selective",      "gpt_dp2_pp2_full_zero1", "gpt_dp2_pp2_tp2_selective_zero1",
      "llama_tp2_sequence", "llama_dp2_zero3"};
  std::vector<Original> originals;
  std::vector<Program> programs;
  for (const equivalence::PlanCase& plan_case : equivalence::PlanCases()) {
    if (std::find(chosen.begin(), chosen.end(), plan_case.name) == chosen.end()) continue;
    StatusOr<Program> program = Lower(plan_case.plan);
    ASSERT_TRUE(program.ok()) << plan_case.name << ": " << program.status();
    ASSERT_TRUE(Verify(*program).ok()) << plan_case.name;
    ASSERT_TRUE(SameBehaviour(*program, *program)) << plan_case.name;
    Original original{plan_case.name, plan_case.plan, PlayGuarded(plan_case.plan, *program, 1)};
    ASSERT_EQ(original.run.end, GuardedRun::End::kFinished)
        << plan_case.name << ": " << original.run.result;
    // Another interleaving gives the same bits: a difference is a finding.
    ASSERT_EQ(PlayGuarded(plan_case.plan, *program, 2).result, original.run.result)
        << plan_case.name;
    originals.push_back(std::move(original));
    programs.push_back(*std::move(program));
  }
  ASSERT_GE(originals.size(), 10u);

  std::array<Score, static_cast<size_t>(Mutation::kCount)> scores;
  Score total;
  // Equivalent ones are replaced: more are drawn until enough count.
  ForEachMutant(programs, 4 * kMutants, kSeed, [&](const Mutant& mutant) {
    if (total.mutants == static_cast<int>(kMutants)) return;
    Score score;
    const Original& original = originals[mutant.original];
    const bool verifier = !Verify(mutant.program).ok();
    if (!verifier && SameBehaviour(programs[mutant.original], mutant.program)) {
      score.equivalent = 1;
    } else {
      const GuardedRun run = PlayGuarded(original.plan, mutant.program, 1);
      const bool emulator =
          run.end == GuardedRun::End::kRefused || run.end == GuardedRun::End::kCrashed ||
          (run.end == GuardedRun::End::kFinished && run.result != original.run.result);
      score = {1, 0, verifier, emulator, verifier || emulator};
      if (!verifier && !emulator) {
        std::printf("unnoticed: %s, %s: %s\n", original.name.c_str(),
                    std::string(Name(mutant.mutation)).c_str(), mutant.change.c_str());
      }
      if (run.end == GuardedRun::End::kCrashed || run.end == GuardedRun::End::kHung) {
        std::printf("%s: %s, %s: %s\n", run.end == GuardedRun::End::kHung ? "hung" : "crashed",
                    original.name.c_str(), std::string(Name(mutant.mutation)).c_str(),
                    mutant.change.c_str());
      }
    }
    scores[static_cast<size_t>(mutant.mutation)] += score;
    total += score;
  });
  std::printf("%-20s %8s %11s %9s %9s %9s\n", "mutation", "mutants", "equivalent", "verifier",
              "emulator", "together");
  for (size_t mutation = 0; mutation < scores.size(); ++mutation) {
    Print(Name(static_cast<Mutation>(mutation)), scores[mutation]);
  }
  Print("all", total);
  EXPECT_EQ(total.mutants, static_cast<int>(kMutants));
  EXPECT_GE(total.by_either, 0.99 * total.mutants);
}

}  // namespace
}  // namespace tideline

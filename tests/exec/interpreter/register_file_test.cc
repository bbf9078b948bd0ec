#include "exec/interpreter/register_file.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace tideline {
namespace {

// Registers and gate as planner/lowering makes them.
struct Example {
  Program program;
  UpdateGate gate;

  explicit Example(const GradientControl& control) {
    gate.control = control;
    const auto add = [&](Register entry) {
      program.registers.push_back(std::move(entry));
      return static_cast<uint32_t>(program.registers.size() - 1);
    };
    gate.factor = add({.name = "factor", .floating = true, .lower = 0, .upper = 1});
    if (!control.scales_loss()) return;
    gate.update = add({.name = "update", .lower = 0, .upper = 1});
    gate.loss_scale = add({.name = "loss scale",
                           .floating = true,
                           .lower = 1,
                           .upper = kLargestLossScale,
                           .persistent = true,
                           .initial = control.initial_loss_scale,
                           .replicated = true});
    gate.clean_steps = add({.name = "clean steps",
                            .lower = 0,
                            .upper = double(control.growth_steps),
                            .persistent = true,
                            .replicated = true});
    gate.skipped_steps = add({.name = "skipped steps",
                              .lower = 0,
                              .upper = 1000,
                              .persistent = true,
                              .replicated = true});
  }
};

std::array<float, SquareSum::kValues> SquaresOf(float value) {
  uint64_t limbs[SquareSum::kLimbs] = {};
  std::array<float, SquareSum::kValues> values{};
  if (!SquareSum::Add(value, limbs)) values[SquareSum::kDigits] = 1;
  for (int i = 0; i < SquareSum::kDigits; ++i) values[i] = SquareSum::Digit(limbs, i);
  return values;
}

GateReading Play(const Example& example, float gradient, RegisterFile& registers) {
  const auto reading = PlayGate(example.gate, SquaresOf(gradient), registers);
  EXPECT_TRUE(reading.ok()) << reading.status();
  return reading.ok() ? *reading : GateReading();
}

TEST(PlayGateTest, ClipsOnlyLargerNorms) {
  const Example example({.clip_norm = 2});
  RegisterFile registers(example.program);
  for (const auto& [gradient, factor] : {std::pair{1.0f, 1.0}, {2.0f, 1.0}, {8.0f, 0.25}}) {
    EXPECT_EQ(Play(example, gradient, registers).norm, gradient);
    EXPECT_EQ(registers.Get(example.gate.factor), factor);
  }
  EXPECT_TRUE(std::isinf(Play(example, INFINITY, registers).norm));
}

// Scale 16, growth after 3 clean steps: the gradient 32 is 2 unscaled.
TEST(PlayGateTest, ScalesByTheRules) {
  const Example example({.clip_norm = 1, .initial_loss_scale = 16, .growth_steps = 3});
  const UpdateGate& gate = example.gate;
  RegisterFile registers(example.program);
  GateReading reading = Play(example, 32, registers);
  EXPECT_EQ(reading.norm, 2.0);
  EXPECT_EQ(reading.loss_scale, 16.0);
  EXPECT_TRUE(reading.updates);
  EXPECT_EQ(registers.Get(gate.factor), 0.5 / 16);
  EXPECT_EQ(registers.Get(gate.update), 1.0);
  EXPECT_EQ(registers.Get(gate.clean_steps), 1.0);

  reading = Play(example, INFINITY, registers);
  EXPECT_FALSE(reading.updates);
  EXPECT_EQ(reading.loss_scale, 16.0);
  EXPECT_EQ(registers.Get(gate.update), 0.0);
  EXPECT_EQ(registers.Get(gate.loss_scale), 8.0);
  EXPECT_EQ(registers.Get(gate.clean_steps), 0.0);
  EXPECT_EQ(registers.Get(gate.skipped_steps), 1.0);

  for (int step = 0; step < 3; ++step) EXPECT_TRUE(Play(example, 1, registers).updates);
  EXPECT_EQ(registers.Get(gate.loss_scale), 16.0);
  EXPECT_EQ(registers.Get(gate.clean_steps), 0.0);
  EXPECT_EQ(registers.Get(gate.skipped_steps), 1.0);
}

TEST(PlayGateTest, TheScaleStaysWithinItsBounds) {
  const Example least({.initial_loss_scale = 1, .growth_steps = 1});
  RegisterFile low(least.program);
  Play(least, INFINITY, low);
  EXPECT_EQ(low.Get(least.gate.loss_scale), 1.0);
  const Example most({.initial_loss_scale = kLargestLossScale, .growth_steps = 1});
  RegisterFile high(most.program);
  Play(most, 1, high);
  EXPECT_EQ(high.Get(most.gate.loss_scale), kLargestLossScale);
}

TEST(RegisterFileTest, RefusesWhatTheBoundsDoNotHave) {
  const Example example({.initial_loss_scale = 16});
  RegisterFile registers(example.program);
  const uint32_t update = example.gate.update;
  for (const double bad : {-1.0, 2.0, 0.5, double(NAN)}) {
    const Status status = registers.Set(update, bad);
    EXPECT_EQ(ExitCode(status), 1) << bad;
    EXPECT_NE(std::string(status.message()).find("register 'update'"), std::string::npos);
  }
  EXPECT_TRUE(registers.Set(update, 1).ok());
  EXPECT_TRUE(registers.Set(example.gate.loss_scale, 2.5).ok());
}

TEST(RegisterFileTest, PersistentOnesComeBackByName) {
  const Example example({.initial_loss_scale = 16});
  RegisterFile registers(example.program);
  ASSERT_TRUE(registers.Set(example.gate.loss_scale, 4).ok());
  ASSERT_TRUE(registers.Set(example.gate.skipped_steps, 7).ok());
  std::vector<RegisterValue> saved = registers.Save();
  EXPECT_EQ(saved, (std::vector<RegisterValue>{
                       {"loss scale", 4}, {"clean steps", 0}, {"skipped steps", 7}}));
  // Another plan's are passed over, and what is not there keeps its first value.
  saved = {{"of another plan", 1e9}, {"skipped steps", 7}};
  RegisterFile restored(example.program);
  ASSERT_TRUE(restored.Restore(saved).ok());
  EXPECT_EQ(restored.Get(example.gate.loss_scale), 16.0);
  EXPECT_EQ(restored.Get(example.gate.skipped_steps), 7.0);
  EXPECT_EQ(ExitCode(restored.Restore(std::vector<RegisterValue>{{"loss scale", 0.5}})), 5);
}

}  // namespace
}  // namespace tideline

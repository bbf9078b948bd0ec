#include "exec/interpreter/register_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

bool Fits(const Register& entry, double value) {
  return value >= entry.lower && value <= entry.upper &&
         (entry.floating || value == std::floor(value));
}

std::string Misfit(const Register& entry, double value) {
  return absl::StrCat("register '", entry.name, "' cannot be ", value, ": it holds ",
                      entry.floating ? "numbers" : "whole numbers", " from ", entry.lower, " to ",
                      entry.upper);
}

}  // namespace

RegisterFile::RegisterFile(const Program& program) : program_(program) {
  for (const Register& entry : program.registers) {
    values_.push_back(entry.persistent ? entry.initial : std::numeric_limits<double>::quiet_NaN());
  }
}

Status RegisterFile::Set(uint32_t id, double value) {
  if (!Fits(program_.registers[id], value)) {
    return RunError(Misfit(program_.registers[id], value));
  }
  values_[id] = value;
  return absl::OkStatus();
}

std::vector<RegisterValue> RegisterFile::Save() const {
  std::vector<RegisterValue> saved;
  for (size_t id = 0; id < values_.size(); ++id) {
    if (!program_.registers[id].persistent) continue;
    saved.push_back({program_.registers[id].name, values_[id]});
  }
  return saved;
}

Status RegisterFile::Restore(std::span<const RegisterValue> saved) {
  for (size_t id = 0; id < values_.size(); ++id) {
    const Register& entry = program_.registers[id];
    const auto found = std::find_if(saved.begin(), saved.end(), [&](const RegisterValue& value) {
      return value.name == entry.name;
    });
    if (!entry.persistent || found == saved.end()) continue;
    if (!Fits(entry, found->value)) {
      return InputError(absl::StrCat("the checkpoint's ", Misfit(entry, found->value)));
    }
    values_[id] = found->value;
  }
  return absl::OkStatus();
}

StatusOr<GateReading> PlayGate(const UpdateGate& gate,
                               std::span<const float, SquareSum::kValues> squares,
                               RegisterFile& registers) {
  const bool scales = gate.control.scales_loss();
  const double scale = scales ? registers.Get(gate.loss_scale) : 1.0;
  GateReading reading;
  reading.norm = std::sqrt(SquareSum::Value(squares)) / scale;
  reading.loss_scale = scales ? scale : 0.0;
  const bool finite = std::isfinite(reading.norm);
  const double clip = gate.control.clip_norm;
  const double factor = clip > 0 && reading.norm > clip ? clip / reading.norm : 1.0;
  TL_RETURN_IF_ERROR(registers.Set(gate.factor, factor / scale));
  if (!scales) return reading;

  reading.updates = finite;
  TL_RETURN_IF_ERROR(registers.Set(gate.update, finite ? 1.0 : 0.0));
  double next_scale = scale;
  double clean = finite ? registers.Get(gate.clean_steps) + 1 : 0.0;
  if (!finite) {
    TL_RETURN_IF_ERROR(registers.Set(gate.skipped_steps, registers.Get(gate.skipped_steps) + 1));
    next_scale = std::max(1.0, scale / 2);
  } else if (clean >= static_cast<double>(gate.control.growth_steps)) {
    clean = 0;
    next_scale = std::min(kLargestLossScale, scale * 2);
  }
  TL_RETURN_IF_ERROR(registers.Set(gate.clean_steps, clean));
  TL_RETURN_IF_ERROR(registers.Set(gate.loss_scale, next_scale));
  return reading;
}

}  // namespace tideline

#include "planner/lowering/lower.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "planner/lowering/emit.h"
#include "planner/lowering/parameter_layout.h"
#include "planner/plan/validate.h"
#include "planner/program/memory.h"
#include "planner/program/verifier.h"
#include "planner/techniques/registry.h"

namespace tideline {
namespace {

class Timer {
 public:
  explicit Timer(const LowerOptions& options) : timings_(options.timings) {}

  // Charges the time since the last call to `pass`.
  void Charge(std::string_view pass) {
    const auto now = std::chrono::steady_clock::now();
    if (timings_ != nullptr) {
      timings_->push_back({pass, std::chrono::duration<double>(now - last_).count()});
    }
    last_ = now;
  }

 private:
  std::vector<PassTiming>* timings_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void InsertAllLifetimes(Program* program) {
  for (Role& role : program->roles) InsertLifetimes(role);
}

Status VerifyDraft(const Draft& draft, std::string_view pass) {
  Program program = Emit(draft);
  InsertAllLifetimes(&program);
  AssignAddresses(program);
  VerifyOptions options;
  options.after_pass = pass;
  return Verify(program, options);
}

}  // namespace

StatusOr<Draft> DraftOf(const Plan& plan, const LowerOptions& options) {
  TL_RETURN_IF_ERROR(Validate(plan));
  Timer timer(options);
  TL_ASSIGN_OR_RETURN(Draft draft, MakeDraft(plan));
  timer.Charge("draft");
  if (options.verify_each_pass) TL_RETURN_IF_ERROR(VerifyDraft(draft, "draft"));
  for (const LoweringPass& pass : LoweringPasses()) {
    if (!pass.applies(plan)) continue;
    const Status status = pass.run(draft);
    if (!status.ok()) return Annotate(status, absl::StrCat("pass ", std::string(pass.name)));
    timer.Charge(pass.name);
    if (options.verify_each_pass) TL_RETURN_IF_ERROR(VerifyDraft(draft, pass.name));
  }
  return draft;
}

StatusOr<Program> Lower(const Plan& plan, const LowerOptions& options) {
  TL_ASSIGN_OR_RETURN(const Draft draft, DraftOf(plan, options));
  Timer timer(options);
  Program program = Emit(draft, options.evaluation);
  timer.Charge("emit");
  InsertAllLifetimes(&program);
  timer.Charge("lifetimes");
  AssignAddresses(program);
  timer.Charge("addresses");
  if (options.verify) {
    TL_RETURN_IF_ERROR(Verify(program));
    timer.Charge("verify");
  }
  return program;
}

StatusOr<int64_t> StateBytes(const Plan& plan) {
  TL_ASSIGN_OR_RETURN(const Draft draft, DraftOf(plan));
  int64_t most = 0;
  for (int32_t stage = 0; stage < draft.size(Axis::kPipeline); ++stage) {
    most = std::max(most, StateOf(draft, LayOutParameters(draft, stage)).total());
  }
  return most;
}

}  // namespace tideline

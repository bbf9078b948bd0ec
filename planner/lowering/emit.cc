#include "planner/lowering/emit.h"

#include "absl/strings/str_cat.h"
#include "planner/lowering/body.h"
#include "planner/lowering/evaluation.h"
#include "planner/lowering/prologue.h"
#include "planner/lowering/stage_context.h"
#include "planner/lowering/update_gate.h"
#include "planner/program/builder.h"

namespace tideline {
namespace {

// Every rank with its role and coordinates; the last axis of the mesh order is the fastest.
void AddRanks(Program* program) {
  const int64_t size = MeshSize(*program);
  for (int64_t rank = 0; rank < size; ++rank) {
    Rank entry;
    int64_t rest = rank;
    for (int i = kAxes - 1; i >= 0; --i) {
      const size_t axis = static_cast<size_t>(program->mesh_order[i]);
      entry.coordinates[axis] = static_cast<int32_t>(rest % program->mesh[axis]);
      rest /= program->mesh[axis];
    }
    entry.role = static_cast<uint32_t>(entry.coordinates[static_cast<size_t>(Axis::kPipeline)]);
    program->ranks.push_back(entry);
  }
}

}  // namespace

Program Emit(const Draft& draft, bool evaluation) {
  Program program;
  program.mesh = draft.mesh;
  program.mesh_order = draft.plan.mesh_order;
  program.global_batch = draft.plan.global_batch;
  program.sequence = draft.plan.seq;
  program.graph_hash = draft.plan.graph_hash;
  ProgramBuilder builder(&program);
  const int32_t stages = draft.size(Axis::kPipeline);
  const Draft evaluated = evaluation ? ForEvaluation(draft) : Draft();
  for (int32_t stage = 0; stage < stages; ++stage) builder.AddRole(absl::StrCat("stage ", stage));
  const UpdateGate gate = AddGate(draft.plan.gradients, &program);
  for (int32_t stage = 0; stage < stages; ++stage) {
    StageContext context =
        MakeStageContext(draft, stage, &program, &builder, static_cast<uint32_t>(stage), gate);
    EmitPrologue(context);
    EmitBody(context, BodyKind::kTraining);
    if (!evaluation) continue;
    context.draft = &evaluated;
    EmitBody(context, BodyKind::kEvaluation);
  }
  AddRanks(&program);
  program.schedule = {{.body = 0, .times = 0}};
  if (evaluation) program.evaluation = 1;
  return program;
}

}  // namespace tideline

// Parsers of planner/: plans, pins, Programs.
#include "base/check.h"
#include "models/cluster/cluster_text.h"
#include "models/zoo/zoo.h"
#include "planner/lowering/lower.h"
#include "planner/plan/pins.h"
#include "planner/plan/plan.h"
#include "planner/plan/validate.h"
#include "planner/plan/workload.h"
#include "planner/program/file.h"
#include "tests/fuzz/target.h"

namespace tideline {
namespace {

Plan PlanWith(std::string_view model, std::string_view cluster, std::string_view pins) {
  const auto config = ResolveModel(model);
  const auto machines = ParseCluster(cluster);
  const auto pinned = ParsePins(pins);
  TL_CHECK(config.ok() && machines.ok() && pinned.ok(), "a seed must be valid");
  WorkloadRequest request;
  request.seq = 4;
  request.global_batch = 4;
  const auto workload = MakeWorkload(*config, *machines, request);
  TL_CHECK(workload.ok(), "a seed must be valid");
  StatusOr<Plan> plan = PlanOf(*workload, *pinned);
  TL_CHECK(plan.ok(), "a seed must be valid");
  return *std::move(plan);
}

std::vector<Plan> Plans() {
  return {PlanWith("gpt:layers=2,hidden=8,heads=2,vocab=256", "emulated:1x64MiB", "tp=1,pp=1,dp=1"),
          PlanWith("llama:layers=4,hidden=8,heads=2,vocab=256", "emulated:4x64MiB",
                   "tp=2,pp=1,dp=2,zero=3,recompute=full"),
          PlanWith("gpt:layers=4,hidden=8,heads=2,vocab=257", "emulated:2x64MiB",
                   "pp=2,schedule=interleaved,chunks=2,tp=1,dp=1")};
}

// A valid plan must be read back the same from both of its forms.
Status ReadPlanText(std::string_view text) {
  TL_ASSIGN_OR_RETURN(const Plan plan, ParsePlan(text, "fuzz.json"));
  TL_RETURN_IF_ERROR(Validate(plan));
  for (const std::string& written : {PlanToJson(plan), PlanToText(plan)}) {
    const StatusOr<Plan> again = ParsePlan(written, "written");
    if (!again.ok() || PlanToText(*again) != PlanToText(plan)) {
      return InternalError("a plan changes when written and read");
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> JsonPlans() {
  std::vector<std::string> seeds;
  for (const Plan& plan : Plans()) seeds.push_back(PlanToJson(plan));
  return seeds;
}

std::vector<std::string> TextPlans() {
  std::vector<std::string> seeds;
  for (const Plan& plan : Plans()) seeds.push_back(PlanToText(plan));
  return seeds;
}

Status ReadPins(std::string_view text) {
  TL_ASSIGN_OR_RETURN(const Pins pins, ParsePins(text));
  const StatusOr<Pins> again = ParsePins(FormatPins(pins));
  if (!again.ok() || !(*again == pins)) return InternalError("pins change when printed and read");
  return absl::OkStatus();
}

std::vector<std::string> PinSeeds() {
  return {"tp=8,pp=8,dp=16,micro_batch=1,zero=1,recompute=full,schedule=1f1b",
          "bucket=25MiB,dtype=bf16,grad_dtype=fp32,sequence_parallel=1,chunks=2",
          "reduce=each_micro_batch"};
}

// What is accepted is written with the same bytes every time.
Status ReadProgram(std::string_view bytes) {
  TL_ASSIGN_OR_RETURN(const Program program, Parse(bytes));
  const std::string written = Serialize(program);
  const StatusOr<Program> again = Parse(written);
  if (!again.ok() || Serialize(*again) != written) {
    return InternalError("a Program changes when written and read");
  }
  return absl::OkStatus();
}

std::vector<std::string> Programs() {
  std::vector<std::string> seeds;
  for (const Plan& plan : Plans()) {
    const StatusOr<Program> program = Lower(plan);
    TL_CHECK(program.ok(), "a seed must be valid");
    seeds.push_back(Serialize(*program));
  }
  return seeds;
}

}  // namespace

std::vector<FuzzTarget> PlannerTargets() {
  return {
      {.name = "plan_json",
       .parse = ReadPlanText,
       .seeds = JsonPlans,
       .tokens = {"null", "true", "-1", "1e308", "\"zero\": 3,", "\"tp\": 2,", "\"fp16\"", "[", "]",
                  "{", "}", "9223372036854775807", "\"interleaved\""}},
      {.name = "plan_text",
       .parse = ReadPlanText,
       .seeds = TextPlans,
       .tokens = {"{", "}", ":", "zero: 3", "mesh {", "stages {", "\"", "#", "nan", "inf"},
       .exit_codes = {3, 5}},
      {.name = "pins",
       .parse = ReadPins,
       .seeds = PinSeeds,
       .tokens = {",", "=", "tp=", "zero=3", "GiB", "full", "interleaved", "bf16"},
       .exit_codes = {2}},
      {.name = "program",
       .parse = ReadProgram,
       .seeds = Programs,
       .tokens = {std::string(4, '\xff'), std::string(4, '\0'), "\x08", "\x12"}},
  };
}

}  // namespace tideline

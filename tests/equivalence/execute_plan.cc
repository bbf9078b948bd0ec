#include "tests/equivalence/execute_plan.h"

#include "exec/data/open_source.h"
#include "models/import/hf_weights.h"
#include "models/import/safetensors.h"
#include "planner/lowering/lower.h"

namespace tideline::equivalence {

StatusOr<Executed> ExecutePlan(const Plan& plan, const ExecuteSetting& setting) {
  Executed executed;
  TL_ASSIGN_OR_RETURN(executed.program, Lower(plan));
  TL_RETURN_IF_ERROR(CheckExecutable(executed.program));
  TL_ASSIGN_OR_RETURN(const auto samples,
                      OpenSamples(executed.program, "", VocabularyOf(executed.program)));
  EmulatorOptions devices;
  devices.devices = static_cast<int>(executed.program.ranks.size());
  devices.devices_per_node = plan.cluster.node.gpus;
  devices.device_memory_bytes = plan.cluster.device.memory_bytes;
  devices.limit_memory = !setting.eager;
  devices.check = setting.check;
  devices.schedule = setting.schedule;
  devices.schedule_seed = setting.schedule_seed;
  devices.fast_products = setting.fast;
  TL_ASSIGN_OR_RETURN(const MachinePtr machine, MakeEmulator(devices));
  ExecuteOptions options;
  options.steps = setting.steps;
  options.eager = setting.eager;
  options.checkpoint_folder = setting.checkpoint_folder;
  options.checkpoint_every = 1;
  options.resume = setting.resume;
  if (!setting.weights_path.empty()) {
    options.weights_path = setting.weights_path;
    TL_ASSIGN_OR_RETURN(const TensorFiles files, TensorFiles::Open(setting.weights_path));
    TL_ASSIGN_OR_RETURN(options.weights, MatchWeights(*DecoderOf(plan.model), files));
  }
  options.save_weights_path = setting.save_weights_path;
  if (!setting.save_weights_path.empty()) {
    options.save_weights = HuggingFaceWeights(*DecoderOf(plan.model));
  }
  ExecuteHooks hooks;
  hooks.sink = &executed.run;
  TL_ASSIGN_OR_RETURN(executed.report,
                      Execute(executed.program, *machine, *samples, options, hooks));
  return executed;
}

}  // namespace tideline::equivalence

#include "tests/equivalence/execute_plan.h"

#include <map>

#include "base/sha256.h"
#include "exec/data/open_source.h"
#include "models/import/hf_weights.h"
#include "models/import/safetensors.h"
#include "planner/lowering/lower.h"

namespace tideline::equivalence {
namespace {

class NoteKeeper : public RunObserver {
 public:
  explicit NoteKeeper(std::vector<std::string>* notes) : notes_(notes) {}
  void OnStep(const StepResult&) override {}
  void OnNote(std::string_view text) override { notes_->emplace_back(text); }

 private:
  std::vector<std::string>* notes_;
};

Status ReadBuffers(const Program& program, const ReadBuffer& read, RankBuffers& ranks) {
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const Role& role = program.roles[program.ranks[rank].role];
    std::map<uint32_t, std::string>& buffers = ranks.emplace_back();
    for (uint32_t buffer = 0; buffer < role.buffers.size(); ++buffer) {
      if (!role.buffers[buffer].persistent) continue;
      std::string& bytes = buffers[buffer];
      bytes.resize(static_cast<size_t>(role.buffers[buffer].bytes));
      TL_RETURN_IF_ERROR(read(static_cast<int32_t>(rank), buffer, 0, bytes));
    }
  }
  return absl::OkStatus();
}

}  // namespace

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
  options.plan_hash = Sha256Hex(PlanToJson(plan));
  ExecuteHooks hooks;
  hooks.sink = &executed.run;
  NoteKeeper notes(&executed.notes);
  hooks.observer = &notes;
  RankBuffers ranks;
  if (setting.read_state) {
    hooks.inspect = [&](const ReadBuffer& read) {
      return ReadBuffers(executed.program, read, ranks);
    };
  }
  TL_ASSIGN_OR_RETURN(executed.report,
                      Execute(executed.program, *machine, *samples, options, hooks));
  if (setting.read_state) {
    TL_ASSIGN_OR_RETURN(executed.state, ReadTrainingState(plan, executed.program, ranks));
  }
  return executed;
}

}  // namespace tideline::equivalence

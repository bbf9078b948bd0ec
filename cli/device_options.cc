#include "cli/device_options.h"

#include "absl/strings/str_cat.h"
#include "exec/launch/worker_client.h"

namespace tideline {
namespace {

Status ReadNumerics(const OptionValues& options, bool cuda, WorkerRequest* request) {
  request->numerics = cuda ? Numerics::kFast : Numerics::kExact;
  if (!options.Has("numerics")) return absl::OkStatus();
  const std::string value = options.Text("numerics");
  if (!cuda && value == "tf32") {
    return UsageError("--numerics tf32 is a GPU's; give exact or fast, or --device cuda");
  }
  if (value == "fast") request->numerics = Numerics::kFast;
  if (value == "exact") request->numerics = Numerics::kExact;
  if (value == "tf32") request->numerics = Numerics::kTf32;
  return absl::OkStatus();
}

Status ReadCollectives(const OptionValues& options, bool cuda, WorkerRequest* request) {
  if (!options.Has("comm")) return absl::OkStatus();
  const std::string value = options.Text("comm");
  if (value == "copy") {
    request->collectives = CollectiveMethod::kCopy;
    return absl::OkStatus();
  }
  const char* native = cuda ? "nccl" : "emulated";
  if (value == native) return absl::OkStatus();
  return UsageError(absl::StrCat("--comm ", value, " does not go with --device ",
                                 cuda ? "cuda" : "emulated", "; give ", native, " or copy"));
}

}  // namespace

std::vector<OptionRecord> DeviceOptionRecords() {
  return {
      {.name = "device",
       .kind = OptionKind::kChoice,
       .value_name = "KIND",
       .sentence = "What runs it: emulated devices, or the GPUs of this machine (where the "
                   "CUDA worker was built):",
       .default_text = "emulated",
       .choices = {"emulated", "cuda"}},
      {.name = "numerics",
       .kind = OptionKind::kChoice,
       .value_name = "KIND",
       .sentence = "Matrix products: exact (the default of emulated) gives the same bits for any "
                   "tiling and number of threads; fast (the default of cuda) multiplies by "
                   "OpenBLAS on all cores, or by cuBLAS; tf32 is cuBLAS with rounded fp32 "
                   "operands:",
       .choices = {"exact", "fast", "tf32"}},
      {.name = "comm",
       .kind = OptionKind::kChoice,
       .value_name = "KIND",
       .sentence = "Collectives: nccl of cuda, emulated of emulated (their defaults); copy is "
                   "kernels of ours, with the bits of emulated, by which ranks may share a "
                   "GPU:",
       .choices = {"nccl", "emulated", "copy"}}};
}

StatusOr<std::string> ReadDeviceOptions(const OptionValues& options, WorkerRequest* request) {
  const bool cuda = options.Text("device") == "cuda";
  TL_RETURN_IF_ERROR(ReadNumerics(options, cuda, request));
  TL_RETURN_IF_ERROR(ReadCollectives(options, cuda, request));
  if (!cuda) return FindWorker("tideline-worker-emulated");
  StatusOr<std::string> worker = FindWorker("tideline-worker-cuda");
  if (worker.ok()) return worker;
  return Annotate(worker.status(),
                  "--device cuda needs the CUDA worker, which is built where the CUDA toolkit is");
}

}  // namespace tideline

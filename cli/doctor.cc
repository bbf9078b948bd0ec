#include "cli/doctor.h"

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/machine_report.h"
#include "cli/version.h"
#include "exec/launch/worker_client.h"
#include "sim/engine/version.h"

namespace tideline {
namespace {

// The path of the CUDA worker; empty where it was not built.
std::string CudaWorker() { return FindWorker("tideline-worker-cuda").value_or(""); }

// Why `--device cuda` cannot run here; empty when everything it needs was found.
std::string CudaObstacle(const MachineReport& machine) {
  if (machine.nvidia_gpus == 0) return "no GPU (/dev/nvidia0)";
  if (machine.nvidia_driver.empty()) return "no NVIDIA driver (/proc/driver/nvidia/version)";
  if (machine.cublas_library.empty()) return "no cuBLAS (libcublas.so)";
  if (machine.nccl_library.empty()) return "no NCCL (libnccl.so.2)";
  if (CudaWorker().empty()) return "no CUDA worker (tideline-worker-cuda beside this program)";
  return "";
}

std::string OrNone(const std::string& text) { return text.empty() ? "not found" : text; }

void AppendLine(std::string_view name, const std::string& value, std::string* text) {
  constexpr size_t kColumn = 13;
  absl::StrAppend(text, std::string(name), std::string(kColumn - name.size(), ' '), value, "\n");
}

std::string Text(const MachineReport& machine) {
  std::string text;
  AppendLine("tideline", kVersion, &text);
  AppendLine("system", absl::StrCat(OrNone(machine.system), ", Linux ", machine.kernel), &text);
  AppendLine("processor",
             absl::StrCat(machine.cpu_cores, machine.cpu_cores == 1 ? " core" : " cores", ", ",
                          OrNone(machine.cpu_model), machine.avx2 ? ", AVX2" : ", no AVX2",
                          machine.fma ? ", FMA" : ", no FMA"),
             &text);
  AppendLine(
      "memory",
      absl::StrCat(HumanBytes(static_cast<double>(machine.memory_bytes)), ", ",
                   HumanBytes(static_cast<double>(machine.memory_available_bytes)), " available"),
      &text);
  AppendLine("GPUs", absl::StrCat(machine.nvidia_gpus, ", driver ", OrNone(machine.nvidia_driver)),
             &text);
  AppendLine("CUDA",
             machine.cuda_folder.empty()
                 ? "not found"
                 : absl::StrCat(machine.cuda_folder, " ", machine.cuda_version),
             &text);
  AppendLine("cuBLAS", OrNone(machine.cublas_library), &text);
  AppendLine("NCCL", OrNone(machine.nccl_library), &text);
  AppendLine("CUDA worker", OrNone(CudaWorker()), &text);
  AppendLine("MPI", OrNone(machine.mpirun), &text);
  AppendLine("SimGrid", SimgridVersion(), &text);
  const std::string obstacle = CudaObstacle(machine);
  absl::StrAppend(&text, "\n--device emulated works here\n--device cuda ",
                  obstacle.empty() ? "has what it needs here" : "does not work here: ", obstacle,
                  "\n");
  return text;
}

JsonWriter& TextOrNull(JsonWriter* json, const char* name, const std::string& value) {
  return value.empty() ? json->NullField(name) : json->Field(name, value);
}

std::string Json(const MachineReport& machine) {
  JsonWriter json;
  json.BeginObject().Field("schema_version", 1).Field("tideline_version", kVersion);
  TextOrNull(&json, "system", machine.system);
  json.Field("kernel", machine.kernel).Field("cpu_cores", machine.cpu_cores);
  TextOrNull(&json, "cpu_model", machine.cpu_model);
  json.Field("avx2", machine.avx2).Field("fma", machine.fma);
  json.Field("memory_bytes", machine.memory_bytes);
  json.Field("memory_available_bytes", machine.memory_available_bytes);
  json.Field("nvidia_gpus", machine.nvidia_gpus);
  TextOrNull(&json, "nvidia_driver", machine.nvidia_driver);
  TextOrNull(&json, "cuda_folder", machine.cuda_folder);
  TextOrNull(&json, "cuda_version", machine.cuda_version);
  TextOrNull(&json, "cublas_library", machine.cublas_library);
  TextOrNull(&json, "nccl_library", machine.nccl_library);
  TextOrNull(&json, "cuda_worker", CudaWorker());
  TextOrNull(&json, "mpirun", machine.mpirun);
  json.Field("simgrid_version", SimgridVersion());
  const std::string obstacle = CudaObstacle(machine);
  json.Key("devices").BeginArray();
  json.BeginObject().Field("name", "emulated").Field("available", true).NullField("reason");
  json.EndObject();
  json.BeginObject().Field("name", "cuda").Field("available", obstacle.empty());
  TextOrNull(&json, "reason", obstacle);
  json.EndObject().EndArray().EndObject();
  return json.Take();
}

class DoctorCommand : public Command {
 public:
  CommandInfo Info() const override {
    return {.name = "doctor",
            .summary = "Shows what was found on this machine: processor, memory, GPUs, libraries",
            .description =
                "Looks at the system's files only; no library is loaded and no device is opened. "
                "Ends with which values of --device can work here and, if not, what is missing.",
            .examples = {"tideline doctor", "tideline doctor --json"}};
  }

  Status Run(CommandContext* context) const override {
    const MachineReport machine = InspectMachine();
    context->Print(context->json ? Json(machine) : Text(machine));
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Command> MakeDoctorCommand() { return std::make_unique<DoctorCommand>(); }

}  // namespace tideline

// The device facade on real GPUs: CUDA, cuBLASLt and NCCL behind exec/device/device.h.
//
//   TL_ASSIGN_OR_RETURN(MachinePtr machine, MakeCudaMachine({.devices = 8}));
//
// Streams are CUDA streams, events CUDA events, reservations stream-ordered allocations (device)
// and pinned memory (host). Matrix products are cuBLASLt's (exec/device/gemm_call.h), everything
// else our kernels. Times come from events around each operation.
//
// Collectives, by CommunicationWay:
//   kNccl   NCCL's, one rank per GPU; its order of adding is its own. A thread watches for
//           asynchronous errors; when one rank fails, every communicator is aborted, so that no
//           rank waits for ever.
//   kCopy   ours: kernels that read the members' buffers and add in the declared order
//           (exec/comm/copy_collective.h), with the emulator's bits. Ranks may share a GPU, so that
//           a plan of several ranks runs on one. Each stream then is fed by a host thread of its
//           own, which is where members wait for each other.
//
// cuBLAS and NCCL are opened at run time: a worker carried to a bare machine names what is missing
// instead of failing to start. Errors (exit 6): no driver, no GPU, too few of them, a library or a
// function in it that is not there.
#ifndef TIDELINE_EXEC_CUDA_CUDA_H_
#define TIDELINE_EXEC_CUDA_CUDA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "exec/device/device.h"

namespace tideline {

enum class CommunicationWay : uint8_t { kNccl, kCopy };

struct CudaOptions {
  int devices = 1;  // ranks of this process; rank r has GPU r, or r mod GPUs with kCopy
  CommunicationWay communication = CommunicationWay::kNccl;
  // Matrix products by our kernels, with the bits of the emulator, instead of cuBLASLt's.
  bool exact = false;
  bool tf32 = false;  // fp32 products may round their operands to tf32
};

StatusOr<MachinePtr> MakeCudaMachine(const CudaOptions& options);

// What there is of CUDA here, for people.
struct CudaSurvey {
  struct Gpu {
    std::string name;
    int compute_major = 0, compute_minor = 0;
    int64_t memory_bytes = 0;
    int multiprocessors = 0;
  };
  std::vector<Gpu> gpus;
  std::vector<std::string> missing;  // each a sentence: what, and where it was looked for
};
CudaSurvey SurveyCuda(bool needs_cublas, bool needs_nccl);

}  // namespace tideline

#endif  // TIDELINE_EXEC_CUDA_CUDA_H_

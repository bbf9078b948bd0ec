#include "tests/sim/synthetic_program.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace tideline {

ClusterSpec TestCluster(int32_t nodes, int32_t gpus) {
  ClusterSpec cluster;
  cluster.name = "test";
  cluster.nodes = nodes;
  cluster.device.name = "test";
  cluster.device.memory_bytes = int64_t{1} << 34;
  cluster.device.peak_fp32_flops = 1e12;
  cluster.device.peak_16bit_flops = 1e12;
  cluster.device.memory_bandwidth = 1e9;  // a byte is a nanosecond: see TimedKernel
  cluster.node.gpus = gpus;
  cluster.node.nvlink_bandwidth = 100e9;
  cluster.node.pcie_bandwidth = 50e9;
  cluster.node.nics = gpus;
  cluster.node.nic_bandwidth = 10e9;
  cluster.node.host_memory_bytes = int64_t{1} << 38;
  cluster.node.host_cores = 8;
  cluster.node.dram_bandwidth = 400e9;
  return cluster;
}

uint32_t TimedKernel(ProgramBuilder& build, double seconds) {
  Kernel kernel;
  kernel.work.work_class = WorkClass::kMemoryBound;
  kernel.work.bytes_read = std::llround(seconds * 1e9);
  return build.Intern(kernel);
}

void SetMesh(Program& program, int32_t dp, int32_t pp, int32_t tp, bool role_per_stage) {
  program.mesh[static_cast<size_t>(Axis::kData)] = dp;
  program.mesh[static_cast<size_t>(Axis::kPipeline)] = pp;
  program.mesh[static_cast<size_t>(Axis::kTensor)] = tp;
  program.ranks.resize(static_cast<size_t>(dp) * pp * tp);
  for (int32_t d = 0; d < dp; ++d) {
    for (int32_t p = 0; p < pp; ++p) {
      for (int32_t t = 0; t < tp; ++t) {
        Coordinates coordinates;
        coordinates[static_cast<size_t>(Axis::kData)] = d;
        coordinates[static_cast<size_t>(Axis::kPipeline)] = p;
        coordinates[static_cast<size_t>(Axis::kTensor)] = t;
        Rank& rank = program.ranks[RankAt(program, coordinates)];
        rank.coordinates = coordinates;
        rank.role = role_per_stage ? static_cast<uint32_t>(p) : 0;
      }
    }
  }
  program.schedule = {{.body = 0, .times = 0}};
}

Hand::Hand(Program* program, ProgramBuilder* build, uint32_t role)
    : program_(program),
      build_(build),
      role_(role),
      section_(&program->roles[role], &program->roles[role].bodies.emplace_back()) {}

uint32_t Hand::Add(InstructionKind kind, uint16_t lane, uint32_t what, const Operand* operand,
                   const Waits& waits, std::string_view name) {
  Instruction instruction;
  instruction.kind = kind;
  instruction.lane = lane;
  instruction.what = what;
  instruction.name = build_->Intern(name);
  return section_.Append(instruction, {operand, operand == nullptr ? 0u : 1u}, waits);
}

Operand Hand::BytesOf(int64_t bytes, Space space) {
  const std::string name =
      std::string(Name(space)) + " of " + std::to_string(bytes);  // one buffer per size is enough
  std::vector<tideline::Buffer>& buffers = program_->roles[role_].buffers;
  const uint32_t id = build_->Intern(name);
  const auto found = std::find_if(buffers.begin(), buffers.end(),
                                  [&](const tideline::Buffer& it) { return it.name == id; });
  const uint32_t buffer =
      found != buffers.end()
          ? static_cast<uint32_t>(found - buffers.begin())
          : build_->AddBuffer(role_, name, bytes, Category::kRuntime, space, /*persistent=*/true);
  return {.buffer = buffer, .bytes = bytes, .access = Access::kReadWrite};
}

uint32_t Hand::Compute(double seconds, const Waits& waits) {
  return Add(InstructionKind::kCompute, kComputeLane, TimedKernel(*build_, seconds), nullptr, waits,
             "kernel");
}

uint32_t Hand::Collective(const tideline::Collective& collective, const Waits& waits) {
  const Operand operand = BytesOf(collective.outer * collective.block * SizeOf(collective.dtype));
  return Add(InstructionKind::kCollective, LaneOf({LaneKind::kGroup, collective.group}),
             build_->Intern(collective), &operand, waits, Name(collective.kind));
}

uint32_t Hand::AllReduce(Axis axis, int64_t bytes, const Waits& waits) {
  tideline::Collective collective;
  collective.group = build_->Intern(Group{.axes = {axis}, .subset = {}});
  collective.block = bytes / SizeOf(collective.dtype);
  return Collective(collective, waits);
}

uint32_t Hand::AddMessage(InstructionKind kind, LaneKind lane, Axis axis, int32_t delta,
                          int64_t bytes, const Waits& waits) {
  const uint32_t peer = build_->Intern(Peer{.axis = axis, .delta = delta});
  const Operand operand = BytesOf(bytes);
  return Add(kind, LaneOf({lane, peer}), peer, &operand, waits, Name(kind));
}

uint32_t Hand::Send(Axis axis, int32_t delta, int64_t bytes, const Waits& waits) {
  return AddMessage(InstructionKind::kSend, LaneKind::kSendTo, axis, delta, bytes, waits);
}

uint32_t Hand::Receive(Axis axis, int32_t delta, int64_t bytes, const Waits& waits) {
  return AddMessage(InstructionKind::kReceive, LaneKind::kReceiveFrom, axis, delta, bytes, waits);
}

uint32_t Hand::CopyToDevice(int64_t bytes, const Waits& waits) {
  const Operand operand = BytesOf(bytes);
  return Add(InstructionKind::kCopy, LaneOf({LaneKind::kHostToDevice, kNoId}), kNoId, &operand,
             waits, "to device");
}

uint32_t Hand::CopyToHost(int64_t bytes, const Waits& waits) {
  const Operand operand = BytesOf(bytes);
  return Add(InstructionKind::kCopy, LaneOf({LaneKind::kDeviceToHost, kNoId}), kNoId, &operand,
             waits, "to host");
}

uint32_t Hand::HostTask(const Waits& waits) {
  return Add(InstructionKind::kHostCompute, kHostLane, build_->Intern(tideline::HostTask{}),
             nullptr, waits, "host task");
}

uint32_t Hand::Buffer(std::string_view name, int64_t bytes, Category category, bool persistent) {
  return build_->AddBuffer(role_, name, bytes, category, Space::kDevice, persistent);
}

uint32_t Hand::Alloc(uint16_t lane, uint32_t buffer, const Waits& waits) {
  return Add(InstructionKind::kAlloc, lane, buffer, nullptr, waits, "alloc");
}

uint32_t Hand::Free(uint16_t lane, uint32_t buffer, const Waits& waits) {
  return Add(InstructionKind::kFree, lane, buffer, nullptr, waits, "free");
}

namespace {

class TrainingWriter {
 public:
  TrainingWriter(const TrainingShape& shape, Program* program, ProgramBuilder* build, int32_t stage)
      : shape_(shape), build_(build), stage_(stage), hand_(program, build, stage) {}

  void Write() {
    const int32_t warm_up = std::min(shape_.pp - stage_ - 1, shape_.micro_batches);
    parameters_ = hand_.Buffer("parameters", 1 << 20, Category::kParameter, true);
    for (int32_t m = 0; m < shape_.micro_batches; ++m) {
      activations_.push_back(hand_.Buffer("activations " + std::to_string(m), (2 + m % 3) << 20));
    }
    for (int32_t m = 0; m < warm_up; ++m) Forward(m);
    for (int32_t m = warm_up; m < shape_.micro_batches; ++m) {
      Forward(m);
      Backward(m - warm_up);
    }
    for (int32_t m = shape_.micro_batches - warm_up; m < shape_.micro_batches; ++m) Backward(m);
    for (const uint32_t reduced : gradients_) hand_.Compute(shape_.kernel_s, {reduced});
    if (stage_ == shape_.pp - 1) hand_.HostTask({last_});
  }

 private:
  // One pass through the stage's layers, `factor` times as long.
  void Layers(int32_t factor, bool reduce_gradients) {
    for (int32_t layer = 0; layer < shape_.layers_per_stage; ++layer) {
      for (int32_t half = 0; half < 2; ++half) {
        for (int32_t kernel = 0; kernel < shape_.kernels; ++kernel) {
          Kernel(shape_.kernel_s * factor / 2);
        }
        if (shape_.tp == 1) continue;
        next_ = hand_.AllReduce(Axis::kTensor, shape_.tensor_bytes, {last_});
      }
      if (!reduce_gradients) continue;
      if (shape_.dp == 1) {
        gradients_.push_back(last_);
        continue;
      }
      Collective collective;
      collective.algorithm = shape_.gradient_algorithm;
      collective.group = build_->Intern(Group{.axes = {Axis::kData}, .subset = {}});
      collective.block = shape_.gradient_bytes / 4;
      gradients_.push_back(hand_.Collective(collective, {last_, next_}));
    }
  }

  void Kernel(double seconds) {
    last_ = hand_.Compute(seconds, next_ == kNoId ? Hand::Waits{} : Hand::Waits{next_});
    next_ = kNoId;
  }

  void Forward(int32_t m) {
    if (stage_ == 0) {
      next_ = hand_.CopyToDevice(1 << 16, {hand_.HostTask()});
    } else {
      next_ = hand_.Receive(Axis::kPipeline, -1, shape_.message_bytes);
    }
    if (shape_.memory) hand_.Alloc(kComputeLane, activations_[m], {next_});
    Layers(1, false);
    Kernel(shape_.kernel_s / 4);
    if (shape_.offload) hand_.CopyToHost(1 << 22, {last_});
    if (stage_ + 1 < shape_.pp) {
      hand_.Send(Axis::kPipeline, 1, shape_.message_bytes, {last_});
    }
  }

  void Backward(int32_t m) {
    if (stage_ + 1 < shape_.pp) next_ = hand_.Receive(Axis::kPipeline, 1, shape_.message_bytes);
    if (shape_.offload) {
      Kernel(shape_.kernel_s / 4);
      next_ = hand_.CopyToDevice(1 << 22, {last_});
    }
    if (shape_.recompute) Layers(1, false);
    Layers(2, m + 1 == shape_.micro_batches);
    Kernel(shape_.kernel_s / 4);
    if (shape_.memory) hand_.Free(kComputeLane, activations_[m]);
    if (stage_ > 0) hand_.Send(Axis::kPipeline, -1, shape_.message_bytes, {last_});
  }

  const TrainingShape& shape_;
  ProgramBuilder* build_;
  int32_t stage_;
  Hand hand_;
  uint32_t parameters_ = kNoId;
  std::vector<uint32_t> activations_;
  std::vector<uint32_t> gradients_;  // what each update waits for
  uint32_t last_ = kNoId;            // last kernel
  uint32_t next_ = kNoId;            // what the next kernel waits for
};

}  // namespace

Program SyntheticTraining(const TrainingShape& shape) {
  Program program;
  ProgramBuilder build(&program);
  for (int32_t stage = 0; stage < shape.pp; ++stage) {
    build.AddRole("stage " + std::to_string(stage));
  }
  program.mesh_order = shape.mesh_order;
  SetMesh(program, shape.dp, shape.pp, shape.tp, /*role_per_stage=*/true);
  for (int32_t stage = 0; stage < shape.pp; ++stage) {
    TrainingWriter(shape, &program, &build, stage).Write();
  }
  return program;
}

}  // namespace tideline

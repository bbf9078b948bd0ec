#include "tests/exec/interpreter/example_program.h"

#include <array>

#include "base/rng.h"
#include "models/ops/op_table.h"
#include "planner/program/builder.h"
#include "planner/program/memory.h"

namespace tideline {
namespace {

constexpr int64_t kS = kExampleSequence;
constexpr int64_t kH = kExampleHidden;
constexpr Access kR = Access::kRead;
constexpr Access kW = Access::kWrite;
constexpr Access kRW = Access::kReadWrite;

OperandSpec F32(std::vector<int64_t> shape, Access access) {
  return {std::move(shape), DType::kF32, access};
}

class ExampleBuilder {
 public:
  explicit ExampleBuilder(bool collapsed) : build_(&program_), collapsed_(collapsed) {
    program_.mesh = {1, 2, 1};
    program_.global_batch = 1;
    program_.sequence = kS;
    program_.graph_hash = "example";
    program_.schedule = {{0, 0}};
    for (int rank = 0; rank < 2; ++rank) {
      build_.AddRole(rank == 0 ? "first" : "second");
      program_.ranks.push_back({static_cast<uint32_t>(rank), {0, rank, 0}});
    }
  }

  Program Build() {
    First();
    Second();
    for (Role& role : program_.roles) InsertLifetimes(role);
    AssignAddresses(program_);
    return std::move(program_);
  }

 private:
  struct Stage {
    uint32_t role;
    uint16_t group, send, receive, to_device, to_host;
    uint32_t w, total, pinned_loss;
  };

  Stage Open(uint32_t role, int32_t delta) {
    Stage stage;
    stage.role = role;
    peer_ = build_.Intern(Peer{Axis::kPipeline, collapsed_ ? 1 : delta});
    stage.group =
        build_.LaneOf(role, {LaneKind::kGroup, build_.Intern(Group{{Axis::kPipeline}, {}})});
    stage.send = build_.LaneOf(role, {LaneKind::kSendTo, peer_});
    stage.receive = build_.LaneOf(role, {LaneKind::kReceiveFrom, peer_});
    stage.to_device = build_.LaneOf(role, {LaneKind::kHostToDevice, kNoId});
    stage.to_host = build_.LaneOf(role, {LaneKind::kDeviceToHost, kNoId});
    stage.w = build_.AddBuffer(role, "w", kH * kH * 4, Category::kParameter, Space::kDevice, true);
    stage.total = build_.AddBuffer(role, "total", 4, Category::kActivation);
    stage.pinned_loss =
        build_.AddBuffer(role, "pinned loss", 4, Category::kInput, Space::kPinnedHost);
    program_.roles[role].bodies.resize(1);
    return stage;
  }

  static Operand Whole(const Role& role, uint32_t buffer, Access access) {
    return {.buffer = buffer, .bytes = role.buffers[buffer].bytes, .access = access};
  }

  struct Use {
    uint32_t buffer;
    Access access;
  };

  uint32_t Add(SectionBuilder& section, const Role& role, InstructionKind kind, uint16_t lane,
               uint32_t what, const char* name, std::vector<Use> uses,
               std::vector<uint32_t> waits) {
    Instruction instruction{.kind = kind, .what = what};
    instruction.lane = lane;
    instruction.name = build_.Intern(name);
    std::vector<Operand> operands;
    for (const Use& use : uses) operands.push_back(Whole(role, use.buffer, use.access));
    return section.Append(instruction, operands, waits);
  }

  uint32_t KernelOf(Op op, const Attributes& attributes, std::vector<OperandSpec> operands) {
    Kernel kernel;
    kernel.op = op;
    kernel.attributes = attributes;
    kernel.work = WorkOf(op, attributes, operands);
    kernel.operands = std::move(operands);
    return build_.Intern(kernel);
  }

  uint32_t Fill(float value, std::vector<int64_t> shape, const char* parameter = nullptr) {
    Attributes attributes;
    attributes.constant = value;
    if (parameter != nullptr) {
      attributes.init = {{parameter, shape, shape, std::vector<Affine>(shape.size()), 0}};
    }
    return KernelOf(Op::kFill, attributes, {F32(std::move(shape), kW)});
  }

  uint32_t Einsum(const char* equation, float scale, std::vector<int64_t> a, std::vector<int64_t> b,
                  std::vector<int64_t> c) {
    Attributes attributes;
    attributes.equation = equation;
    attributes.scale = scale;
    return KernelOf(Op::kEinsum, attributes,
                    {F32(std::move(a), kR), F32(std::move(b), kR), F32(std::move(c), kW)});
  }

  // The end of a body on both ranks: the loss is added up and read.
  void Finish(SectionBuilder& body, const Role& role, const Stage& stage, uint32_t made) {
    Collective sum;
    sum.group = build_.Intern(Group{{Axis::kPipeline}, {}});
    sum.block = 1;
    const uint32_t summed = Add(body, role, InstructionKind::kCollective, stage.group,
                                build_.Intern(sum), "sum loss", {{stage.total, kRW}}, {made});
    const uint32_t copied =
        Add(body, role, InstructionKind::kCopy, stage.to_host, kNoId, "copy loss",
            {{stage.total, kR}, {stage.pinned_loss, kW}}, {summed});
    HostTask read;
    read.kind = HostTaskKind::kReadLoss;
    Add(body, role, InstructionKind::kHostCompute, kHostLane, build_.Intern(read), "read loss",
        {{stage.pinned_loss, kR}}, {copied});
  }

  void First() {
    const Stage stage = Open(0, 1);
    const auto buffer = [&](const char* name, int64_t bytes, Space space = Space::kDevice,
                            bool persistent = false, Category category = Category::kActivation) {
      return build_.AddBuffer(0, name, bytes, category, space, persistent);
    };
    const uint32_t table =
        buffer("table", 256 * kH * 4, Space::kDevice, true, Category::kParameter);
    const uint32_t pinned_ids = buffer("pinned ids", kS * 4, Space::kPinnedHost);
    const uint32_t pinned_targets = buffer("pinned targets", kS * 4, Space::kPinnedHost);
    const uint32_t ids = buffer("ids", kS * 4);
    const uint32_t x = buffer("x", kS * kH * 4);
    const uint32_t y = buffer("y", kS * kH * 4);
    const uint32_t g = buffer("g", kH * kH * 4, Space::kDevice, false, Category::kGradient);
    Role& role = program_.roles[0];

    SectionBuilder prologue(&role, &role.prologue);
    Add(prologue, role, InstructionKind::kCompute, kComputeLane, Fill(0.25f, {kH, kH}, "w"),
        "fill w", {{stage.w, kW}}, {});
    Attributes normal;
    normal.init_stddev = 1.0f;
    normal.init = {{"table", {256, kH}, {256, kH}, {Affine(), Affine()}, 0}};
    Add(prologue, role, InstructionKind::kCompute, kComputeLane,
        KernelOf(Op::kInitNormal, normal, {F32({256, kH}, kW)}), "init table", {{table, kW}}, {});

    SectionBuilder body(&role, &role.bodies[0]);
    HostTask load;
    load.samples = 1;
    load.sequence = kS;
    const uint32_t loaded =
        Add(body, role, InstructionKind::kHostCompute, kHostLane, build_.Intern(load), "load",
            {{pinned_ids, kW}, {pinned_targets, kW}}, {});
    const uint32_t copied = Add(body, role, InstructionKind::kCopy, stage.to_device, kNoId,
                                "copy ids", {{pinned_ids, kR}, {ids, kW}}, {loaded});
    Add(body, role, InstructionKind::kCompute, kComputeLane,
        KernelOf(Op::kEmbedding, {},
                 {{{1, kS}, DType::kI32, kR}, F32({256, kH}, kR), F32({1, kS, kH}, kW)}),
        "embed", {{ids, kR}, {table, kR}, {x, kW}}, {copied});
    const uint32_t product = Add(body, role, InstructionKind::kCompute, kComputeLane,
                                 Einsum("bsh,hn->bsn", 1.0f, {1, kS, kH}, {kH, kH}, {1, kS, kH}),
                                 "project", {{x, kR}, {stage.w, kR}, {y, kW}}, {});
    Add(body, role, InstructionKind::kSend, stage.send, peer_, "send y", {{y, kR}}, {product});
    const uint32_t received = Add(body, role, InstructionKind::kReceive, stage.receive, peer_,
                                  "receive g", {{g, kW}}, {});
    Add(body, role, InstructionKind::kCompute, kComputeLane,
        KernelOf(Op::kAccumulate, {}, {F32({kH, kH}, kR), F32({kH, kH}, kRW)}), "update w",
        {{g, kR}, {stage.w, kRW}}, {received});
    const uint32_t made = Add(body, role, InstructionKind::kCompute, kComputeLane, Fill(0.0f, {1}),
                              "no loss here", {{stage.total, kW}}, {});
    Finish(body, role, stage, made);
  }

  void Second() {
    const Stage stage = Open(1, -1);
    const auto buffer = [&](const char* name, int64_t bytes, Category category) {
      return build_.AddBuffer(1, name, bytes, category);
    };
    const uint32_t y = buffer("y", kS * kH * 4, Category::kActivation);
    const uint32_t z = buffer("z", kS * kH * 4, Category::kActivation);
    const uint32_t ones = buffer("ones", kH * 4, Category::kWorkspace);
    const uint32_t rows = buffer("rows", kS * 4, Category::kActivation);
    const uint32_t g = buffer("g", kH * kH * 4, Category::kGradient);
    Role& role = program_.roles[1];

    SectionBuilder prologue(&role, &role.prologue);
    Add(prologue, role, InstructionKind::kCompute, kComputeLane, Fill(0.25f, {kH, kH}, "w"),
        "fill w", {{stage.w, kW}}, {});

    SectionBuilder body(&role, &role.bodies[0]);
    const uint32_t received = Add(body, role, InstructionKind::kReceive, stage.receive, peer_,
                                  "receive y", {{y, kW}}, {});
    const uint32_t gradient = Add(body, role, InstructionKind::kCompute, kComputeLane,
                                  Einsum("bsn,bsm->nm", 0.002f, {1, kS, kH}, {1, kS, kH}, {kH, kH}),
                                  "gradient", {{y, kR}, {y, kR}, {g, kW}}, {received});
    Add(body, role, InstructionKind::kSend, stage.send, peer_, "send g", {{g, kR}}, {gradient});
    Add(body, role, InstructionKind::kCompute, kComputeLane,
        Einsum("bsn,nm->bsm", 1.0f, {1, kS, kH}, {kH, kH}, {1, kS, kH}), "z",
        {{y, kR}, {stage.w, kR}, {z, kW}}, {});
    Add(body, role, InstructionKind::kCompute, kComputeLane, Fill(1.0f, {kH}), "ones", {{ones, kW}},
        {});
    Add(body, role, InstructionKind::kCompute, kComputeLane,
        Einsum("bsm,m->bs", 0.01f, {1, kS, kH}, {kH}, {1, kS}), "rows",
        {{z, kR}, {ones, kR}, {rows, kW}}, {});
    Add(body, role, InstructionKind::kCompute, kComputeLane,
        KernelOf(Op::kAccumulate, {}, {F32({kH, kH}, kR), F32({kH, kH}, kRW)}), "update w",
        {{g, kR}, {stage.w, kRW}}, {});
    const uint32_t made = Add(body, role, InstructionKind::kCompute, kComputeLane,
                              KernelOf(Op::kSumLoss, {}, {F32({1, kS}, kR), F32({1}, kW)}),
                              "sum rows", {{rows, kR}, {stage.total, kW}}, {});
    Finish(body, role, stage, made);
  }

  Program program_;
  ProgramBuilder build_;
  const bool collapsed_;
  uint32_t peer_ = kNoId;
};

}  // namespace

Program ExampleProgram(bool collapsed) { return ExampleBuilder(collapsed).Build(); }

std::vector<double> ExampleLosses(std::string_view text, int64_t steps) {
  std::array<std::array<double, kH>, kH> w;
  for (auto& row : w) row.fill(0.25);
  const int64_t count = (static_cast<int64_t>(text.size()) - 1) / kS;
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    std::array<std::array<double, kH>, kS> y{};
    for (int64_t s = 0; s < kS; ++s) {
      const auto token = static_cast<unsigned char>(text[step % count * kS + s]);
      for (int64_t n = 0; n < kH; ++n) {
        for (int64_t h = 0; h < kH; ++h) {
          y[s][n] += double{NormalAt(0, "table", token * kH + h)} * w[h][n];
        }
      }
    }
    double loss = 0;
    std::array<std::array<double, kH>, kH> gradient{};
    for (int64_t s = 0; s < kS; ++s) {
      for (int64_t n = 0; n < kH; ++n) {
        for (int64_t m = 0; m < kH; ++m) {
          loss += 0.01 * y[s][n] * w[n][m];
          gradient[n][m] += 0.002 * y[s][n] * y[s][m];
        }
      }
    }
    losses.push_back(loss);
    for (int64_t n = 0; n < kH; ++n) {
      for (int64_t m = 0; m < kH; ++m) w[n][m] += gradient[n][m];
    }
  }
  return losses;
}

}  // namespace tideline

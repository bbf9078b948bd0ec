#include "tests/planner/program/pipeline_program.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "planner/program/builder.h"
#include "planner/program/memory.h"

namespace tideline {
namespace {

using Ids = std::vector<uint32_t>;

// Appends to one section and finds the waits from who wrote and read each buffer before.
class Writer {
 public:
  Writer(ProgramBuilder* build, Program* program, uint32_t role, Section* section)
      : build_(build), role_(&program->roles[role]), append_(role_, section), section_(section) {}

  uint32_t Compute(const std::string& name, const Ids& reads, const Ids& writes,
                   const Ids& updates = {}, const Ids& extra_waits = {}) {
    Kernel kernel;
    kernel.op = Op::kAdd;
    std::vector<Operand> operands;
    const auto add = [&](const Ids& buffers, Access access) {
      for (const uint32_t buffer : buffers) {
        const int64_t bytes = role_->buffers[buffer].bytes;
        kernel.operands.push_back({{bytes / 4}, DType::kF32, access});
        operands.push_back({.buffer = buffer, .bytes = bytes, .access = access});
      }
    };
    add(reads, Access::kRead);
    add(writes, Access::kWrite);
    add(updates, Access::kReadWrite);
    Instruction instruction{.kind = InstructionKind::kCompute, .lane = kComputeLane};
    instruction.what = build_->Intern(kernel);
    return Append(instruction, name, operands, extra_waits);
  }

  uint32_t Append(Instruction instruction, const std::string& name,
                  const std::vector<Operand>& operands, Ids waits = {}) {
    instruction.name = build_->Intern(name);
    const uint32_t index = append_.size();
    for (const Operand& operand : operands) {
      const Use& use = uses_[operand.buffer];
      waits.push_back(use.writer);
      if (operand.access != Access::kRead) {
        waits.insert(waits.end(), use.readers.begin(), use.readers.end());
      }
    }
    append_.Append(instruction, operands, waits);
    for (const Operand& operand : operands) {
      Use& use = uses_[operand.buffer];
      if (operand.access == Access::kRead) {
        use.readers.push_back(index);
      } else {
        use = {index, {}};
      }
    }
    return index;
  }

  uint32_t last() const { return append_.size() - 1; }

 private:
  struct Use {
    uint32_t writer = kNoId;
    Ids readers;
  };
  ProgramBuilder* build_;
  const Role* role_;
  SectionBuilder append_;
  Section* section_;
  std::map<uint32_t, Use> uses_;
};

// What one micro-batch keeps of one layer for its backward pass.
struct Saved {
  uint32_t input, norm1, qkv, probabilities, context, middle, norm2, wide, gelu;
};

class Stage {
 public:
  Stage(const PipelineShape& options, ProgramBuilder* build, Program* program, uint32_t role,
        int32_t stage)
      : options_(options), build_(build), program_(program), role_(role), stage_(stage) {
    if (options.tensor > 1) {
      tensor_group_ = build->Intern(Group{{Axis::kTensor}, {}});
      tensor_lane_ = build->LaneOf(role, {LaneKind::kGroup, tensor_group_});
    }
    if (options.data > 1) {
      data_group_ = build->Intern(Group{{Axis::kData}, {}});
      data_lane_ = build->LaneOf(role, {LaneKind::kGroup, data_group_});
    }
    if (stage > 0) previous_ = Link(-1);
    if (stage + 1 < options.stages) next_ = Link(1);
    weight_bytes_ = 4 * options.hidden_bytes;
    for (int32_t layer = 0; layer < options.layers; ++layer) {
      parameters_.push_back(Keep("parameters", weight_bytes_, Category::kParameter));
      gradients_.push_back(Keep("gradients", weight_bytes_, Category::kGradient));
      states_.push_back(Keep("states", 2 * weight_bytes_, Category::kOptimizer));
    }
    program->roles[role].bodies.emplace_back();
  }

  void Write() {
    Writer prologue(build_, program_, role_, &program_->roles[role_].prologue);
    for (int32_t layer = 0; layer < options_.layers; ++layer) {
      prologue.Compute("init", {}, {parameters_[layer], states_[layer]});
    }
    Writer body(build_, program_, role_, &program_->roles[role_].bodies[0]);
    body_ = &body;
    for (int32_t layer = 0; layer < options_.layers; ++layer) {
      body.Compute("zero gradients", {}, {gradients_[layer]});
    }
    saved_.resize(options_.micro_batches);
    const int32_t warm_up = std::min(options_.stages - 1 - stage_, options_.micro_batches);
    for (int32_t m = 0; m < warm_up; ++m) SendActivation(Forward(m));
    for (int32_t m = warm_up; m < options_.micro_batches; ++m) {
      // The gradient comes in before the activation goes out: with both ends sending first, playing
      // in list order would never end.
      const Pass forward = Forward(m);
      const Pass backward = ReceiveGradient(m - warm_up);
      SendActivation(forward);
      Backward(m - warm_up, backward);
    }
    for (int32_t m = options_.micro_batches - warm_up; m < options_.micro_batches; ++m) {
      Backward(m, ReceiveGradient(m));
    }
    Update();
    body_ = nullptr;
  }

 private:
  struct Ends {
    uint32_t peer = kNoId;
    uint16_t send = 0, receive = 0;
    bool there = false;
  };

  Ends Link(int32_t delta) {
    Ends ends;
    ends.there = true;
    ends.peer = build_->Intern(Peer{Axis::kPipeline, delta});
    ends.send = build_->LaneOf(role_, {LaneKind::kSendTo, ends.peer});
    ends.receive = build_->LaneOf(role_, {LaneKind::kReceiveFrom, ends.peer});
    return ends;
  }

  uint32_t Keep(const std::string& name, int64_t bytes, Category category) {
    return build_->AddBuffer(role_, name, bytes, category, Space::kDevice, true);
  }
  uint32_t Make(const std::string& name, int64_t bytes) {
    return build_->AddBuffer(role_, name, bytes, Category::kActivation);
  }
  int64_t Hidden() const { return options_.hidden_bytes; }
  int64_t Cut(int64_t times) const { return times * options_.hidden_bytes / options_.tensor; }

  void AllReduce(uint32_t buffer, uint32_t group, uint16_t lane, const std::string& name) {
    const int64_t bytes = program_->roles[role_].buffers[buffer].bytes;
    Collective collective;
    collective.group = group;
    collective.block = bytes / 4;
    Instruction instruction{.kind = InstructionKind::kCollective, .lane = lane};
    instruction.what = build_->Intern(collective);
    body_->Append(instruction, name,
                  {{.buffer = buffer, .bytes = bytes, .access = Access::kReadWrite}});
  }
  void TensorAllReduce(uint32_t buffer, const std::string& name) {
    if (options_.tensor > 1) AllReduce(buffer, tensor_group_, tensor_lane_, name);
  }

  // One forward or backward pass of one micro-batch.
  struct Pass {
    size_t number = 0;
    uint32_t tensor = kNoId;  // forward: what it hands on; backward: what it begins with
  };

  // A pass begins: it may run one pass ahead of the messages of the pass before the last.
  Pass BeginPass() {
    pass_starts_.push_back(body_->last());
    sends_.push_back(kNoId);
    return {sends_.size() - 1, kNoId};
  }
  Ids ThrottleOf(const Pass& pass) const {
    return pass.number >= 2 ? Ids{sends_[pass.number - 2]} : Ids();
  }

  uint32_t Receive(const Ends& from, const std::string& name) {
    const uint32_t buffer = Make(name, Hidden());
    Instruction instruction{.kind = InstructionKind::kReceive, .lane = from.receive};
    instruction.what = from.peer;
    Ids waits;
    if (pass_starts_.size() >= 2) waits = {pass_starts_[pass_starts_.size() - 2]};
    body_->Append(instruction, name,
                  {{.buffer = buffer, .bytes = Hidden(), .access = Access::kWrite}}, waits);
    return buffer;
  }

  void Send(const Ends& to, const Pass& pass, uint32_t buffer, const std::string& name) {
    Instruction instruction{.kind = InstructionKind::kSend, .lane = to.send};
    instruction.what = to.peer;
    sends_[pass.number] = body_->Append(
        instruction, name, {{.buffer = buffer, .bytes = Hidden(), .access = Access::kRead}});
  }

  Pass Forward(int32_t micro_batch) {
    Pass pass = BeginPass();
    throttle_ = ThrottleOf(pass);
    if (previous_.there) {
      pass.tensor = Receive(previous_, "receive activation");
    } else {
      pass.tensor = Make("embedding", Hidden());
      body_->Compute("embed", {}, {pass.tensor}, {}, throttle_);
    }
    for (int32_t layer = 0; layer < options_.layers; ++layer) {
      pass.tensor = ForwardLayer(micro_batch, layer, pass.tensor);
    }
    if (!next_.there) head_inputs_.push_back(pass.tensor);
    return pass;
  }

  void SendActivation(const Pass& pass) {
    if (next_.there) Send(next_, pass, pass.tensor, "send activation");
  }

  Pass ReceiveGradient(int32_t micro_batch) {
    Pass pass = BeginPass();
    throttle_ = ThrottleOf(pass);
    if (next_.there) {
      pass.tensor = Receive(next_, "receive gradient");
    } else {
      pass.tensor = Make("loss gradient", Hidden());
      body_->Compute("loss", {head_inputs_[micro_batch]}, {pass.tensor}, {}, throttle_);
    }
    return pass;
  }

  uint32_t ForwardLayer(int32_t micro_batch, int32_t layer, uint32_t x) {
    Saved saved;
    const uint32_t weights = parameters_[layer];
    saved.input = x;
    saved.norm1 = Make("norm1", Hidden());
    body_->Compute("norm1", {x, weights}, {saved.norm1}, {}, layer == 0 ? throttle_ : Ids());
    saved.qkv = Make("qkv", Cut(3));
    body_->Compute("qkv", {saved.norm1, weights}, {saved.qkv});
    const uint32_t scores = Make("scores", options_.attention_bytes);
    body_->Compute("scores", {saved.qkv}, {scores});
    saved.probabilities = Make("probabilities", options_.attention_bytes);
    body_->Compute("softmax", {scores}, {saved.probabilities});
    saved.context = Make("context", Cut(1));
    body_->Compute("context", {saved.probabilities, saved.qkv}, {saved.context});
    const uint32_t projected = Make("projected", Hidden());
    body_->Compute("project", {saved.context, weights}, {projected});
    TensorAllReduce(projected, "reduce projected");
    saved.middle = Make("middle", Hidden());
    body_->Compute("add", {x, projected}, {saved.middle});
    saved.norm2 = Make("norm2", Hidden());
    body_->Compute("norm2", {saved.middle, weights}, {saved.norm2});
    saved.wide = Make("wide", Cut(4));
    body_->Compute("up", {saved.norm2, weights}, {saved.wide});
    saved.gelu = Make("gelu", Cut(4));
    body_->Compute("gelu", {saved.wide}, {saved.gelu});
    const uint32_t down = Make("down", Hidden());
    body_->Compute("down", {saved.gelu, weights}, {down});
    TensorAllReduce(down, "reduce down");
    const uint32_t y = Make("output", Hidden());
    body_->Compute("add", {saved.middle, down}, {y});
    saved_[micro_batch].push_back(saved);
    return y;
  }

  void Backward(int32_t micro_batch, const Pass& pass) {
    uint32_t dy = pass.tensor;
    throttle_ = ThrottleOf(pass);
    for (int32_t layer = options_.layers - 1; layer >= 0; --layer) {
      dy = BackwardLayer(saved_[micro_batch][layer], layer, dy, layer + 1 == options_.layers);
    }
    if (previous_.there) Send(previous_, pass, dy, "send gradient");
  }

  uint32_t BackwardLayer(const Saved& saved, int32_t layer, uint32_t dy, bool first) {
    const uint32_t weights = parameters_[layer], gradients = gradients_[layer];
    const uint32_t dgelu = Make("dgelu", Cut(4));
    body_->Compute("down:x", {dy, weights}, {dgelu}, {}, first ? throttle_ : Ids());
    body_->Compute("down:w", {dy, saved.gelu}, {}, {gradients});
    const uint32_t dwide = Make("dwide", Cut(4));
    body_->Compute("gelu:x", {dgelu, saved.wide}, {dwide});
    const uint32_t dnorm2 = Make("dnorm2", Hidden());
    body_->Compute("up:x", {dwide, weights}, {dnorm2});
    TensorAllReduce(dnorm2, "reduce dnorm2");
    body_->Compute("up:w", {dwide, saved.norm2}, {}, {gradients});
    const uint32_t dmiddle_norm = Make("dmiddle norm", Hidden());
    body_->Compute("norm2:x", {dnorm2, saved.middle, weights}, {dmiddle_norm});
    const uint32_t dmiddle = Make("dmiddle", Hidden());
    body_->Compute("add", {dmiddle_norm, dy}, {dmiddle});
    const uint32_t dcontext = Make("dcontext", Cut(1));
    body_->Compute("project:x", {dmiddle, weights}, {dcontext});
    body_->Compute("project:w", {dmiddle, saved.context}, {}, {gradients});
    const uint32_t dprobabilities = Make("dprobabilities", options_.attention_bytes);
    body_->Compute("context:p", {dcontext, saved.qkv}, {dprobabilities});
    const uint32_t dscores = Make("dscores", options_.attention_bytes);
    body_->Compute("softmax:x", {dprobabilities, saved.probabilities}, {dscores});
    const uint32_t dqkv = Make("dqkv", Cut(3));
    body_->Compute("scores:x", {dscores, saved.qkv, dcontext}, {dqkv});
    const uint32_t dnorm1 = Make("dnorm1", Hidden());
    body_->Compute("qkv:x", {dqkv, weights}, {dnorm1});
    TensorAllReduce(dnorm1, "reduce dnorm1");
    body_->Compute("qkv:w", {dqkv, saved.norm1}, {}, {gradients});
    const uint32_t dinput_norm = Make("dinput norm", Hidden());
    body_->Compute("norm1:x", {dnorm1, saved.input, weights}, {dinput_norm});
    const uint32_t dx = Make("dinput", Hidden());
    body_->Compute("add", {dinput_norm, dmiddle}, {dx});
    return dx;
  }

  void Update() {
    for (int32_t layer = options_.layers - 1; layer >= 0; --layer) {
      if (options_.data > 1) {
        AllReduce(gradients_[layer], data_group_, data_lane_, "reduce gradients");
      }
    }
    for (int32_t layer = 0; layer < options_.layers; ++layer) {
      body_->Compute("adamw", {gradients_[layer]}, {}, {parameters_[layer], states_[layer]});
    }
  }

  const PipelineShape& options_;
  ProgramBuilder* build_;
  Program* program_;
  uint32_t role_;
  int32_t stage_;
  uint32_t tensor_group_ = kNoId, data_group_ = kNoId;
  uint16_t tensor_lane_ = 0, data_lane_ = 0;
  Ends previous_, next_;
  int64_t weight_bytes_ = 0;
  Ids parameters_, gradients_, states_;
  Writer* body_ = nullptr;
  std::vector<std::vector<Saved>> saved_;  // per micro-batch and layer
  Ids head_inputs_;
  Ids pass_starts_;  // the last instruction before each pass
  Ids sends_;        // per pass its send
  Ids throttle_;
};

}  // namespace

Program MakePipelineProgram(const PipelineShape& options) {
  Program program;
  program.mesh = {options.data, options.stages, options.tensor};
  program.global_batch = int64_t{options.data} * options.micro_batches;
  program.sequence = 1;
  ProgramBuilder build(&program);
  for (int32_t stage = 0; stage < options.stages; ++stage) {
    build.AddRole("stage " + std::to_string(stage));
  }
  for (int32_t stage = 0; stage < options.stages; ++stage) {
    Stage(options, &build, &program, static_cast<uint32_t>(stage), stage).Write();
  }
  for (int32_t d = 0; d < options.data; ++d) {
    for (int32_t p = 0; p < options.stages; ++p) {
      for (int32_t t = 0; t < options.tensor; ++t) {
        program.ranks.push_back({static_cast<uint32_t>(p), {d, p, t}});
      }
    }
  }
  program.schedule = {{0, 0}};
  if (options.with_memory) {
    for (Role& role : program.roles) InsertLifetimes(role);
    AssignAddresses(program);
  }
  return program;
}

}  // namespace tideline

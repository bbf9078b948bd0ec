#include "base/check.h"
#include "planner/program/file.h"
#include "planner/program/program.pb.h"

namespace tideline {
namespace {

// Ids with "none" are stored plus one; kNoId + 1 wraps to 0.
uint32_t PlusOne(uint32_t id) { return id + 1; }

void Write(const Affine& affine, file::Affine* out) {
  out->set_base(affine.base);
  if (affine.per_coordinate == Affine().per_coordinate) return;
  for (const int64_t coefficient : affine.per_coordinate) out->add_per_coordinate(coefficient);
}

void Write(const Attributes& attributes, file::Attributes* out) {
  out->set_equation(attributes.equation);
  out->set_accumulate(attributes.accumulate);
  out->set_causal(attributes.causal);
  out->set_inverse(attributes.inverse);
  out->set_maximum(attributes.maximum);
  out->set_dimension(attributes.dimension);
  out->set_scale(attributes.scale);
  out->set_constant(attributes.constant);
  out->set_epsilon(attributes.epsilon);
  out->set_loss_scale(attributes.loss_scale);
  out->set_valid_columns(attributes.valid_columns);
  Write(attributes.row_offset, out->mutable_row_offset());
  Write(attributes.position_offset, out->mutable_position_offset());
  file::RotaryScaling* rotary = out->mutable_rotary();
  rotary->set_theta(attributes.rotary.theta);
  rotary->set_factor(attributes.rotary.factor);
  rotary->set_low_frequency_factor(attributes.rotary.low_frequency_factor);
  rotary->set_high_frequency_factor(attributes.rotary.high_frequency_factor);
  rotary->set_original_positions(attributes.rotary.original_positions);
  out->set_init_stddev(attributes.init_stddev);
  for (const InitBox& box : attributes.init) {
    file::InitBox* init = out->add_init();
    init->set_parameter(box.parameter);
    init->mutable_full_shape()->Add(box.full_shape.begin(), box.full_shape.end());
    init->mutable_extent()->Add(box.extent.begin(), box.extent.end());
    for (const Affine& first : box.first) Write(first, init->add_first());
    init->set_valid_rows(box.valid_rows);
  }
  file::AdamSettings* adam = out->mutable_adam();
  adam->set_learning_rate(attributes.adam.learning_rate);
  adam->set_beta1(attributes.adam.beta1);
  adam->set_beta2(attributes.adam.beta2);
  adam->set_epsilon(attributes.adam.epsilon);
  adam->set_decay(attributes.adam.decay);
  adam->set_schedule(static_cast<file::AdamSettings::Schedule>(attributes.adam.schedule));
  adam->set_warmup_steps(attributes.adam.warmup_steps);
  adam->set_decay_steps(attributes.adam.decay_steps);
  adam->set_least_learning_rate(attributes.adam.least_learning_rate);
  for (const AdamSpan& span : attributes.spans) {
    file::AdamSpan* entry = out->add_spans();
    entry->set_begin(span.begin);
    entry->set_end(span.end);
    entry->set_decay(span.decay);
  }
  Write(attributes.element_offset, out->mutable_element_offset());
  for (const NormSpan& span : attributes.norm_spans) {
    file::NormSpan* entry = out->add_norm_spans();
    entry->set_begin(span.begin);
    entry->set_end(span.end);
    Write(span.copy, entry->mutable_copy());
  }
  Write(attributes.key_offset, out->mutable_key_offset());
  Write(attributes.key_begin, out->mutable_key_begin());
  Write(attributes.key_end, out->mutable_key_end());
  if (attributes.dropout != Dropout()) {
    file::Dropout* dropout = out->mutable_dropout();
    dropout->set_rate(attributes.dropout.rate);
    dropout->set_site(attributes.dropout.site);
    Write(attributes.dropout.first_sample, dropout->mutable_first_sample());
  }
  out->set_axis(static_cast<file::Axis>(attributes.axis));
  if (attributes.window == SpatialWindow()) return;
  out->mutable_window()->set_height(attributes.window.height);
  out->mutable_window()->set_width(attributes.window.width);
  out->mutable_window()->set_stride(attributes.window.stride);
  out->mutable_window()->set_padding(attributes.window.padding);
}

void Write(const Kernel& kernel, file::Kernel* out) {
  out->set_op(std::string(Name(kernel.op)));
  Write(kernel.attributes, out->mutable_attributes());
  for (const OperandSpec& operand : kernel.operands) {
    file::OperandSpec* spec = out->add_operands();
    spec->mutable_shape()->Add(operand.shape.begin(), operand.shape.end());
    spec->set_dtype(static_cast<file::DType>(operand.dtype));
    spec->set_access(static_cast<file::Access>(operand.access));
  }
  file::Work* work = out->mutable_work();
  work->set_work_class(static_cast<file::Work::Class>(kernel.work.work_class));
  work->set_flops(kernel.work.flops);
  work->set_model_flops(kernel.work.model_flops);
  work->set_bytes_read(kernel.work.bytes_read);
  work->set_bytes_written(kernel.work.bytes_written);
  work->set_m(kernel.work.m);
  work->set_n(kernel.work.n);
  work->set_k(kernel.work.k);
  work->set_batch(kernel.work.batch);
  out->set_compute_dtype(static_cast<file::DType>(kernel.compute_dtype));
  for (const uint32_t scalar : kernel.scalars) out->add_scalars(scalar);
}

void Write(const Collective& collective, file::Collective* out) {
  out->set_kind(static_cast<file::Collective::Kind>(collective.kind));
  out->set_reduction(static_cast<file::Collective::Reduction>(collective.reduction));
  out->set_algorithm(static_cast<file::Collective::Algorithm>(collective.algorithm));
  out->set_order(static_cast<file::Collective::Order>(collective.order));
  out->set_ring_start(collective.ring_start);
  out->set_group(collective.group);
  out->set_dtype(static_cast<file::DType>(collective.dtype));
  out->set_outer(collective.outer);
  out->set_block(collective.block);
}

void Write(const UpdateGate& gate, file::UpdateGate* out) {
  out->set_clip_norm(gate.control.clip_norm);
  out->set_initial_loss_scale(gate.control.initial_loss_scale);
  out->set_growth_steps(gate.control.growth_steps);
  out->set_factor(PlusOne(gate.factor));
  out->set_update(PlusOne(gate.update));
  out->set_loss_scale(PlusOne(gate.loss_scale));
  out->set_clean_steps(PlusOne(gate.clean_steps));
  out->set_skipped_steps(PlusOne(gate.skipped_steps));
}

void WriteTables(const Program& program, file::Program* out) {
  for (const std::string& name : program.names) out->add_names(name);
  for (const Kernel& kernel : program.kernels) Write(kernel, out->add_kernels());
  for (const Collective& collective : program.collectives) {
    Write(collective, out->add_collectives());
  }
  for (const Group& group : program.groups) {
    file::Group* entry = out->add_groups();
    for (const Axis axis : group.axes) entry->add_axes(static_cast<file::Axis>(axis));
    for (const int32_t coordinate : group.subset) entry->add_subset(coordinate);
  }
  for (const Peer& peer : program.peers) {
    file::Peer* entry = out->add_peers();
    entry->set_axis(static_cast<file::Axis>(peer.axis));
    entry->set_delta(peer.delta);
  }
  for (const Affine& affine : program.affines) Write(affine, out->add_affines());
  for (const HostTask& task : program.host_tasks) {
    file::HostTask* entry = out->add_host_tasks();
    entry->set_kind(static_cast<file::HostTask::Kind>(task.kind));
    Write(task.first_sample, entry->mutable_first_sample());
    entry->set_samples(task.samples);
    entry->set_sequence(task.sequence);
    if (task.kind == HostTaskKind::kGateUpdate) Write(task.gate, entry->mutable_gate());
    if (task.kind != HostTaskKind::kLoadImages) continue;
    for (const int64_t extent : task.image) entry->add_image(extent);
  }
  for (const Register& value : program.registers) {
    file::Register* entry = out->add_registers();
    entry->set_name(value.name);
    entry->set_floating(value.floating);
    entry->set_lower(value.lower);
    entry->set_upper(value.upper);
    entry->set_persistent(value.persistent);
    entry->set_initial(value.initial);
    entry->set_replicated(value.replicated);
  }
}

void Write(const std::vector<Buffer>& buffers, file::Buffers* out) {
  for (const Buffer& buffer : buffers) {
    out->add_name(PlusOne(buffer.name));
    out->add_bytes(buffer.bytes);
    out->add_space(static_cast<file::Space>(buffer.space));
    out->add_category(static_cast<file::Category>(buffer.category));
    out->add_persistent(buffer.persistent);
    out->add_address(buffer.address == kNoAddress ? 0 : buffer.address / kAlignment + 1);
  }
}

void Write(const Section& section, file::Section* out) {
  bool guarded = false;
  for (const Instruction& instruction : section.instructions) guarded |= instruction.guard != kNoId;
  for (uint32_t index = 0; index < section.instructions.size(); ++index) {
    const Instruction& instruction = section.instructions[index];
    out->add_kind(static_cast<file::InstructionKind>(instruction.kind));
    out->add_phase(static_cast<file::Phase>(instruction.phase));
    out->add_lane(instruction.lane);
    out->add_what(instruction.kind == InstructionKind::kCopy ? 0 : instruction.what);
    out->add_name(PlusOne(instruction.name));
    out->add_layer(instruction.layer);
    out->add_micro_batch(instruction.micro_batch);
    const auto operands = section.Operands(instruction);
    const auto waits = section.Waits(instruction);
    out->add_operand_count(static_cast<uint32_t>(operands.size()));
    out->add_wait_count(static_cast<uint32_t>(waits.size()));
    if (guarded) out->add_guard(PlusOne(instruction.guard));
    for (const Operand& operand : operands) {
      out->add_operand_buffer(operand.buffer);
      out->add_operand_affine(PlusOne(operand.affine));
      out->add_operand_offset(operand.offset);
      out->add_operand_bytes(operand.bytes);
      out->add_operand_access(static_cast<file::Access>(operand.access));
    }
    for (const uint32_t wait : waits) out->add_wait_distance(index - wait);
  }
}

void Write(const Role& role, file::Role* out) {
  out->set_name(role.name);
  for (const Lane& lane : role.lanes) {
    out->add_lane_kind(static_cast<file::LaneKind>(lane.kind));
    out->add_lane_index(PlusOne(lane.index));
  }
  Write(role.buffers, out->mutable_buffers());
  Write(role.prologue, out->mutable_prologue());
  for (const Section& body : role.bodies) Write(body, out->add_bodies());
  Write(role.epilogue, out->mutable_epilogue());
  for (const int64_t bytes : role.extent) out->add_extent(bytes);
}

}  // namespace

std::string Serialize(const Program& program) {
  file::Program out;
  out.set_schema_version(1);
  for (const int32_t extent : program.mesh) out.add_mesh(extent);
  for (const Axis axis : program.mesh_order) out.add_mesh_order(static_cast<file::Axis>(axis));
  for (const Rank& rank : program.ranks) out.add_rank_role(rank.role);
  out.set_global_batch(program.global_batch);
  out.set_sequence(program.sequence);
  out.set_seed(program.seed);
  out.set_graph_hash(program.graph_hash);
  WriteTables(program, &out);
  for (const Role& role : program.roles) Write(role, out.add_roles());
  for (const BodyRun& run : program.schedule) {
    file::BodyRun* entry = out.add_schedule();
    entry->set_body(run.body);
    entry->set_times(run.times);
  }
  out.set_evaluation(PlusOne(program.evaluation));
  std::string bytes;
  TL_CHECK(out.SerializeToString(&bytes), "a Program is below the 2 GiB of protocol buffers");
  return bytes;
}

}  // namespace tideline

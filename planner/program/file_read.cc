#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"
#include "planner/program/file.h"
#include "planner/program/message.h"
#include "planner/program/program.pb.h"
#include "planner/program/verify_structure.h"

namespace tideline {
namespace {

// Reads a message; the first thing wrong is kept, with the path of the field that holds it.
class Reader {
 public:
  StatusOr<Program> Read(const file::Program& in);

 private:
  // Puts a name before the fields of what is read while it lives.
  class Scope {
   public:
    Scope(Reader* reader, const std::string& name)
        : reader_(reader), length_(reader->path_.size()) {
      reader_->path_ += name;
      reader_->path_ += '.';
    }
    ~Scope() { reader_->path_.resize(length_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Reader* reader_;
    size_t length_;
  };

  void Fail(std::string_view field, const std::string& why) {
    if (status_.ok()) status_ = InputError(Message(path_, field, ": ", why));
  }

  // Open enums carry any number; ours are dense from 0 up to `last`.
  template <typename Enum>
  Enum ReadEnum(int value, Enum last, std::string_view field) {
    if (value >= 0 && value <= static_cast<int>(last)) return static_cast<Enum>(value);
    Fail(field,
         Message("the value ", value, " has no meaning; it ends at ", static_cast<int>(last)));
    return Enum{};
  }

  // Columns that belong together are equally long.
  bool SameLength(int length, std::initializer_list<std::pair<std::string_view, int>> columns) {
    for (const auto& [field, size] : columns) {
      if (size == length) continue;
      Fail(field, Message("has ", size, " entries, but its table has ", length, " rows"));
      return false;
    }
    return true;
  }

  template <typename Messages, typename ReadOne>
  void ForEach(const Messages& messages, std::string_view field, ReadOne read_one) {
    for (int index = 0; index < messages.size() && status_.ok(); ++index) {
      Scope scope(this, Message(field, "[", index, "]"));
      read_one(messages.Get(index));
    }
  }

  Affine ReadAffine(const file::Affine& in, std::string_view field);
  Attributes ReadAttributes(const file::Attributes& in);
  Kernel ReadKernel(const file::Kernel& in);
  Collective ReadCollective(const file::Collective& in);
  void ReadTables(const file::Program& in, Program& program);
  void ReadMesh(const file::Program& in, Program& program);
  void ReadRole(const file::Role& in, Role& role);
  void ReadBuffers(const file::Buffers& in, std::vector<Buffer>& buffers);
  void ReadSection(const file::Section& in, std::string_view field, Section& section);
  void ReadOperands(const file::Section& in, Section& section);

  Status status_;
  std::string path_;
};

UpdateGate ReadGate(const file::UpdateGate& in) {
  return {.control = {.clip_norm = in.clip_norm(),
                      .initial_loss_scale = in.initial_loss_scale(),
                      .growth_steps = in.growth_steps()},
          .factor = in.factor() - 1,
          .update = in.update() - 1,
          .loss_scale = in.loss_scale() - 1,
          .clean_steps = in.clean_steps() - 1,
          .skipped_steps = in.skipped_steps() - 1};
}

Affine Reader::ReadAffine(const file::Affine& in, std::string_view field) {
  Affine affine;
  affine.base = in.base();
  if (in.per_coordinate_size() != 0 && in.per_coordinate_size() != kAxes) {
    Fail(field, Message("per_coordinate has ", in.per_coordinate_size(), " entries, needs ", kAxes,
                        " or none"));
    return affine;
  }
  for (int axis = 0; axis < in.per_coordinate_size(); ++axis) {
    affine.per_coordinate[axis] = in.per_coordinate(axis);
  }
  return affine;
}

Attributes Reader::ReadAttributes(const file::Attributes& in) {
  Scope scope(this, "attributes");
  Attributes attributes;
  attributes.equation = in.equation();
  attributes.accumulate = in.accumulate();
  attributes.causal = in.causal();
  attributes.inverse = in.inverse();
  attributes.maximum = in.maximum();
  attributes.dimension = in.dimension();
  attributes.scale = in.scale();
  attributes.constant = in.constant();
  attributes.epsilon = in.epsilon();
  attributes.loss_scale = in.loss_scale();
  attributes.valid_columns = in.valid_columns();
  attributes.row_offset = ReadAffine(in.row_offset(), "row_offset");
  attributes.position_offset = ReadAffine(in.position_offset(), "position_offset");
  attributes.rotary = {in.rotary().theta(), in.rotary().factor(),
                       in.rotary().low_frequency_factor(), in.rotary().high_frequency_factor(),
                       in.rotary().original_positions()};
  attributes.init_stddev = in.init_stddev();
  ForEach(in.init(), "init", [&](const file::InitBox& entry) {
    InitBox& box = attributes.init.emplace_back();
    box.parameter = entry.parameter();
    box.full_shape.assign(entry.full_shape().begin(), entry.full_shape().end());
    box.extent.assign(entry.extent().begin(), entry.extent().end());
    for (const file::Affine& first : entry.first()) {
      box.first.push_back(ReadAffine(first, "first"));
    }
    SameLength(entry.full_shape_size(),
               {{"extent", entry.extent_size()}, {"first", entry.first_size()}});
    box.valid_rows = entry.valid_rows();
  });
  attributes.adam = {in.adam().learning_rate(),
                     in.adam().beta1(),
                     in.adam().beta2(),
                     in.adam().epsilon(),
                     in.adam().decay(),
                     ReadEnum(in.adam().schedule(), RateSchedule::kCosine, "adam.schedule"),
                     in.adam().warmup_steps(),
                     in.adam().decay_steps(),
                     in.adam().least_learning_rate()};
  for (const file::AdamSpan& span : in.spans()) {
    attributes.spans.push_back({span.begin(), span.end(), span.decay()});
  }
  attributes.element_offset = ReadAffine(in.element_offset(), "element_offset");
  for (const file::NormSpan& span : in.norm_spans()) {
    attributes.norm_spans.push_back({span.begin(), span.end(), ReadAffine(span.copy(), "copy")});
  }
  attributes.key_offset = ReadAffine(in.key_offset(), "key_offset");
  attributes.key_begin = ReadAffine(in.key_begin(), "key_begin");
  attributes.key_end = ReadAffine(in.key_end(), "key_end");
  if (in.has_dropout()) {
    attributes.dropout = {in.dropout().rate(), in.dropout().site(),
                          ReadAffine(in.dropout().first_sample(), "dropout.first_sample")};
  }
  attributes.axis = ReadEnum(in.axis(), Axis::kTensor, "axis");
  if (in.has_window()) {
    attributes.window = {in.window().height(), in.window().width(), in.window().stride(),
                         in.window().padding()};
  }
  return attributes;
}

Kernel Reader::ReadKernel(const file::Kernel& in) {
  Kernel kernel;
  kernel.op = Op::kCount;
  for (int op = 0; op < static_cast<int>(Op::kCount); ++op) {
    if (Name(static_cast<Op>(op)) == in.op()) kernel.op = static_cast<Op>(op);
  }
  if (kernel.op == Op::kCount) Fail("op", Message("there is no op ", Quoted(in.op())));
  kernel.attributes = ReadAttributes(in.attributes());
  ForEach(in.operands(), "operands", [&](const file::OperandSpec& entry) {
    OperandSpec& operand = kernel.operands.emplace_back();
    operand.shape.assign(entry.shape().begin(), entry.shape().end());
    operand.dtype = ReadEnum(entry.dtype(), DType::kI32, "dtype");
    operand.access = ReadEnum(entry.access(), Access::kReadWrite, "access");
  });
  const file::Work& work = in.work();
  kernel.work.work_class = ReadEnum(work.work_class(), WorkClass::kNone, "work.work_class");
  kernel.work.flops = work.flops();
  kernel.work.model_flops = work.model_flops();
  kernel.work.bytes_read = work.bytes_read();
  kernel.work.bytes_written = work.bytes_written();
  kernel.work.m = work.m();
  kernel.work.n = work.n();
  kernel.work.k = work.k();
  kernel.work.batch = work.batch();
  kernel.compute_dtype = ReadEnum(in.compute_dtype(), DType::kI32, "compute_dtype");
  kernel.scalars.assign(in.scalars().begin(), in.scalars().end());
  return kernel;
}

Collective Reader::ReadCollective(const file::Collective& in) {
  Collective collective;
  collective.kind = ReadEnum(in.kind(), CollectiveKind::kBroadcast, "kind");
  collective.reduction = ReadEnum(in.reduction(), Reduction::kMaximum, "reduction");
  collective.algorithm =
      ReadEnum(in.algorithm(), CollectiveAlgorithm::kHalvingDoubling, "algorithm");
  collective.order = ReadEnum(in.order(), ReductionOrder::kHalvingDoubling, "order");
  collective.ring_start = in.ring_start();
  collective.group = in.group();
  collective.dtype = ReadEnum(in.dtype(), DType::kI32, "dtype");
  collective.outer = in.outer();
  collective.block = in.block();
  return collective;
}

void Reader::ReadTables(const file::Program& in, Program& program) {
  program.names.assign(in.names().begin(), in.names().end());
  ForEach(in.kernels(), "kernels",
          [&](const file::Kernel& entry) { program.kernels.push_back(ReadKernel(entry)); });
  ForEach(in.collectives(), "collectives", [&](const file::Collective& entry) {
    program.collectives.push_back(ReadCollective(entry));
  });
  ForEach(in.groups(), "groups", [&](const file::Group& entry) {
    Group& group = program.groups.emplace_back();
    for (const int axis : entry.axes()) group.axes.push_back(ReadEnum(axis, Axis::kTensor, "axes"));
    group.subset.assign(entry.subset().begin(), entry.subset().end());
  });
  ForEach(in.peers(), "peers", [&](const file::Peer& entry) {
    program.peers.push_back({ReadEnum(entry.axis(), Axis::kTensor, "axis"), entry.delta()});
  });
  ForEach(in.affines(), "affines", [&](const file::Affine& entry) {
    program.affines.push_back(ReadAffine(entry, "per_coordinate"));
  });
  ForEach(in.host_tasks(), "host_tasks", [&](const file::HostTask& entry) {
    HostTask& task = program.host_tasks.emplace_back();
    task.kind = ReadEnum(entry.kind(), HostTaskKind::kLoadImages, "kind");
    task.first_sample = ReadAffine(entry.first_sample(), "first_sample");
    task.samples = entry.samples();
    task.sequence = entry.sequence();
    if (entry.has_gate()) task.gate = ReadGate(entry.gate());
    if (task.kind != HostTaskKind::kLoadImages) return;
    if (!SameLength(task.image.size(), {{"image", entry.image_size()}})) return;
    std::copy(entry.image().begin(), entry.image().end(), task.image.begin());
  });
  for (const file::Register& entry : in.registers()) {
    program.registers.push_back({.name = entry.name(),
                                 .floating = entry.floating(),
                                 .lower = entry.lower(),
                                 .upper = entry.upper(),
                                 .persistent = entry.persistent(),
                                 .initial = entry.initial(),
                                 .replicated = entry.replicated()});
  }
}

void Reader::ReadMesh(const file::Program& in, Program& program) {
  if (!SameLength(kAxes, {{"mesh", in.mesh_size()}, {"mesh_order", in.mesh_order_size()}})) return;
  for (int axis = 0; axis < kAxes; ++axis) {
    program.mesh[axis] = in.mesh(axis);
    program.mesh_order[axis] = ReadEnum(in.mesh_order(axis), Axis::kTensor, "mesh_order");
    if (in.mesh(axis) < 1) Fail("mesh", "extents are at least 1");
  }
  if (!status_.ok()) return;
  program.ranks.reserve(in.rank_role_size());
  for (int rank = 0; rank < in.rank_role_size(); ++rank) {
    Rank& entry = program.ranks.emplace_back();
    entry.role = in.rank_role(rank);
    int32_t rest = rank;
    for (int place = kAxes - 1; place >= 0; --place) {
      const size_t axis = static_cast<size_t>(program.mesh_order[place]);
      entry.coordinates[axis] = rest % program.mesh[axis];
      rest /= program.mesh[axis];
    }
  }
}

void Reader::ReadBuffers(const file::Buffers& in, std::vector<Buffer>& buffers) {
  Scope scope(this, "buffers");
  const int count = in.bytes_size();
  if (!SameLength(count, {{"name", in.name_size()},
                          {"space", in.space_size()},
                          {"category", in.category_size()},
                          {"persistent", in.persistent_size()},
                          {"address", in.address_size()}})) {
    return;
  }
  buffers.reserve(count);
  for (int index = 0; index < count && status_.ok(); ++index) {
    Buffer& buffer = buffers.emplace_back();
    buffer.name = in.name(index) - 1;
    buffer.bytes = in.bytes(index);
    buffer.space = ReadEnum(in.space(index), Space::kPinnedHost, "space");
    buffer.category = ReadEnum(in.category(index), Category::kRuntime, "category");
    buffer.persistent = in.persistent(index);
    if (in.address(index) < 0 || in.address(index) > kMaximumBytes / kAlignment) {
      Fail("address", Message("entry ", index, " is negative or beyond 2^60 bytes"));
    } else if (in.address(index) > 0) {
      buffer.address = (in.address(index) - 1) * kAlignment;
    }
  }
}

void Reader::ReadOperands(const file::Section& in, Section& section) {
  const int count = in.operand_buffer_size();
  if (!SameLength(count, {{"operand_affine", in.operand_affine_size()},
                          {"operand_offset", in.operand_offset_size()},
                          {"operand_bytes", in.operand_bytes_size()},
                          {"operand_access", in.operand_access_size()}})) {
    return;
  }
  section.operands.reserve(count);
  for (int index = 0; index < count && status_.ok(); ++index) {
    section.operands.push_back(
        {.buffer = in.operand_buffer(index),
         .affine = in.operand_affine(index) - 1,
         .offset = in.operand_offset(index),
         .bytes = in.operand_bytes(index),
         .access = ReadEnum(in.operand_access(index), Access::kReadWrite, "operand_access")});
  }
}

void Reader::ReadSection(const file::Section& in, std::string_view field, Section& section) {
  Scope scope(this, std::string(field));
  const int count = in.kind_size();
  if (!SameLength(count, {{"phase", in.phase_size()},
                          {"lane", in.lane_size()},
                          {"what", in.what_size()},
                          {"name", in.name_size()},
                          {"layer", in.layer_size()},
                          {"micro_batch", in.micro_batch_size()},
                          {"operand_count", in.operand_count_size()},
                          {"wait_count", in.wait_count_size()}}) ||
      (in.guard_size() != 0 && !SameLength(count, {{"guard", in.guard_size()}}))) {
    return;
  }
  ReadOperands(in, section);
  section.instructions.reserve(count);
  section.waits.reserve(in.wait_distance_size());
  uint64_t operands = 0, waits = 0;
  for (int index = 0; index < count && status_.ok(); ++index) {
    Instruction& instruction = section.instructions.emplace_back();
    instruction.kind = ReadEnum(in.kind(index), InstructionKind::kLoop, "kind");
    instruction.phase = ReadEnum(in.phase(index), Phase::kUpdate, "phase");
    instruction.lane = static_cast<uint16_t>(std::min<uint32_t>(in.lane(index), UINT16_MAX));
    instruction.what = instruction.kind == InstructionKind::kCopy ? kNoId : in.what(index);
    instruction.name = in.name(index) - 1;
    instruction.layer = in.layer(index);
    instruction.micro_batch = in.micro_batch(index);
    if (in.guard_size() != 0) instruction.guard = in.guard(index) - 1;
    instruction.operands_begin = static_cast<uint32_t>(operands);
    operands += in.operand_count(index);
    instruction.waits_begin = static_cast<uint32_t>(waits);
    waits += in.wait_count(index);
    if (operands > section.operands.size()) {
      Fail("operand_count", Message("instruction ", index, " needs more operands than there are"));
    }
    if (waits > static_cast<uint64_t>(in.wait_distance_size())) {
      Fail("wait_count", Message("instruction ", index, " needs more waits than there are"));
      return;
    }
    instruction.operands_end = static_cast<uint32_t>(operands);
    instruction.waits_end = static_cast<uint32_t>(waits);
    for (uint32_t wait = instruction.waits_begin; wait < instruction.waits_end; ++wait) {
      const uint32_t distance = in.wait_distance(static_cast<int>(wait));
      if (distance < 1 || distance > static_cast<uint32_t>(index)) {
        Fail("wait_distance", Message("instruction ", index, " cannot wait ", distance, " back"));
      }
      section.waits.push_back(static_cast<uint32_t>(index) - distance);
    }
  }
  if (!status_.ok()) return;
  SameLength(static_cast<int>(operands), {{"operand_buffer", in.operand_buffer_size()}});
  SameLength(static_cast<int>(waits), {{"wait_distance", in.wait_distance_size()}});
}

void Reader::ReadRole(const file::Role& in, Role& role) {
  role.name = in.name();
  if (!SameLength(in.lane_kind_size(), {{"lane_index", in.lane_index_size()}})) return;
  for (int lane = 0; lane < in.lane_kind_size(); ++lane) {
    role.lanes.push_back({ReadEnum(in.lane_kind(lane), LaneKind::kReceiveFrom, "lane_kind"),
                          in.lane_index(lane) - 1});
  }
  ReadBuffers(in.buffers(), role.buffers);
  ReadSection(in.prologue(), "prologue", role.prologue);
  for (int body = 0; body < in.bodies_size() && status_.ok(); ++body) {
    ReadSection(in.bodies(body), Message("bodies[", body, "]"), role.bodies.emplace_back());
  }
  ReadSection(in.epilogue(), "epilogue", role.epilogue);
  if (in.extent_size() == 0) return;
  if (!SameLength(kSpaces, {{"extent", in.extent_size()}})) return;
  for (int space = 0; space < kSpaces; ++space) {
    role.extent[space] = in.extent(space);
    if (in.extent(space) < 0) Fail("extent", "is negative");
  }
}

StatusOr<Program> Reader::Read(const file::Program& in) {
  Program program;
  if (in.schema_version() != 1) {
    Fail("schema_version", Message("is ", in.schema_version(),
                                   "; this program reads version 1. Is it a Program file?"));
  }
  ReadMesh(in, program);
  program.global_batch = in.global_batch();
  program.sequence = in.sequence();
  program.seed = in.seed();
  program.graph_hash = in.graph_hash();
  ReadTables(in, program);
  ForEach(in.roles(), "roles",
          [&](const file::Role& entry) { ReadRole(entry, program.roles.emplace_back()); });
  for (const file::BodyRun& run : in.schedule()) {
    program.schedule.push_back({run.body(), run.times()});
  }
  program.evaluation = in.evaluation() - 1;
  if (!status_.ok()) return status_;
  return program;
}

// The first message that holds a field this schema does not know.
Status CheckUnknownFields(const google::protobuf::Message& message, const std::string& path) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const google::protobuf::UnknownFieldSet& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty()) {
    return InputError(Message(path.empty() ? std::string("the Program") : path, ": holds field ",
                              unknown.field(0).number(), ", which this version does not know"));
  }
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const std::string name = path.empty() ? field->name() : Message(path, ".", field->name());
    if (!field->is_repeated()) {
      TL_RETURN_IF_ERROR(CheckUnknownFields(reflection.GetMessage(message, field), name));
      continue;
    }
    for (int index = 0; index < reflection.FieldSize(message, field); ++index) {
      TL_RETURN_IF_ERROR(CheckUnknownFields(reflection.GetRepeatedMessage(message, field, index),
                                            Message(name, "[", index, "]")));
    }
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<Program> Parse(std::string_view bytes) {
  file::Program in;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InputError(
        "not a Program file: the bytes are no protocol buffer of this schema, or cut");
  }
  TL_RETURN_IF_ERROR(CheckUnknownFields(in, ""));
  TL_ASSIGN_OR_RETURN(Program program, Reader().Read(in));
  const Status status = VerifyStructure(program);
  if (!status.ok()) return InputError(std::string(status.message()));
  return program;
}

}  // namespace tideline

#include "planner/program/file.h"

#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "planner/program/program.pb.h"
#include "planner/program/verifier.h"
#include "tests/planner/program/edit.h"
#include "tests/planner/program/pipeline_program.h"

namespace tideline {
namespace {

PipelineShape SmallPipeline() {
  PipelineShape options;
  options.data = 2;
  options.stages = 2;
  options.tensor = 2;
  options.layers = 1;
  options.micro_batches = 2;
  return options;
}

// A Program in which every field of every table holds something.
Program FullProgram() {
  Program program = MakePipelineProgram(SmallPipeline());
  program.seed = UINT64_MAX;
  program.graph_hash = "abc";
  Kernel kernel;
  kernel.op = Op::kAdamW;
  Attributes& attributes = kernel.attributes;
  attributes.equation = "bsk,kn->bsn";
  attributes.accumulate = attributes.causal = attributes.inverse = attributes.maximum = true;
  attributes.dimension = -3;
  attributes.scale = 0.5f;
  attributes.constant = 2.25f;
  attributes.epsilon = 1e-5f;
  attributes.loss_scale = 1.0f / 3.0f;
  attributes.valid_columns = 50257;
  attributes.row_offset = {7, {0, -1, 1000}};
  attributes.position_offset = {2, {}};
  attributes.rotary = {5e5, 8, 1, 4, 8192};
  attributes.init_stddev = 0.02f;
  attributes.init = {{"wte", {512, 64}, {256, 64}, {{0, {0, 0, 256}}, {}}, 500}};
  attributes.adam = {1e-4f, 0.8f, 0.99f, 1e-6f, 0.1f, RateSchedule::kCosine, 3, 17, 1e-5f};
  attributes.spans = {{0, 10, true}, {10, 99, false}};
  attributes.element_offset = {0, {33, 0, 0}};
  attributes.norm_spans = {{0, 10, {1, {0, 0, 1}}}, {10, 99, {}}};
  kernel.scalars = {0, 1};
  kernel.operands = {{{3, 5}, DType::kBF16, Access::kRead}, {{}, DType::kI32, Access::kReadWrite}};
  kernel.work = {WorkClass::kBatchedGemm, 1e15, 5e14, 1 << 30, 1 << 20, 1, 2, 3, 4};
  kernel.compute_dtype = DType::kBF16;
  program.kernels.push_back(kernel);
  Collective collective = program.collectives[0];
  collective.kind = CollectiveKind::kReduceScatter;
  collective.reduction = Reduction::kMaximum;
  collective.algorithm = CollectiveAlgorithm::kTree;
  collective.order = ReductionOrder::kRing;
  collective.ring_start = 1;
  collective.outer = 9;
  program.collectives.push_back(collective);
  program.groups.push_back({{Axis::kPipeline}, {0, 1}});
  program.affines.push_back({-5, {1, 2, 3}});
  HostTask task;
  task.kind = HostTaskKind::kReadLoss;
  task.first_sample = {1, {4, 0, 0}};
  task.samples = 3;
  task.sequence = 128;
  program.host_tasks.push_back(task);
  program.registers.push_back({"loss scale", true, 1.0, 65536.0, true, 1024.0, true});
  program.registers.push_back({.name = "factor", .floating = true, .lower = 0, .upper = 1});
  program.registers.push_back({.name = "update", .lower = 0, .upper = 1});
  program.registers.push_back(
      {.name = "clean", .lower = 0, .upper = 9, .persistent = true, .replicated = true});
  program.registers.push_back(
      {.name = "skipped", .lower = 0, .upper = 9, .persistent = true, .replicated = true});
  HostTask gate;
  gate.kind = HostTaskKind::kGateUpdate;
  gate.gate = {{.clip_norm = 1.5, .initial_loss_scale = 1024, .growth_steps = 9}, 1, 2, 0, 3, 4};
  program.host_tasks.push_back(gate);
  program.schedule = {{0, 2}, {0, 0}};
  return program;
}

TEST(FileTest, RoundTripKeepsEverything) {
  for (Program program : {FullProgram(), MakePipelineProgram({}), [] {
                            PipelineShape options = SmallPipeline();
                            options.with_memory = false;
                            return MakePipelineProgram(options);
                          }()}) {
    const std::string bytes = Serialize(program);
    const StatusOr<Program> read = Parse(bytes);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(Serialize(*read), bytes);
    EXPECT_EQ(Dump(*read), Dump(program));
    EXPECT_EQ(read->kernels, program.kernels);
    EXPECT_EQ(read->collectives, program.collectives);
    EXPECT_EQ(read->groups, program.groups);
    EXPECT_EQ(read->peers, program.peers);
    EXPECT_EQ(read->affines, program.affines);
    EXPECT_EQ(read->host_tasks, program.host_tasks);
    EXPECT_EQ(read->names, program.names);
    EXPECT_EQ(read->seed, program.seed);
    EXPECT_EQ(read->graph_hash, program.graph_hash);
    EXPECT_EQ(read->mesh, program.mesh);
    EXPECT_EQ(read->mesh_order, program.mesh_order);
    EXPECT_EQ(read->registers, program.registers);
    ASSERT_EQ(read->roles.size(), program.roles.size());
    for (size_t role = 0; role < program.roles.size(); ++role) {
      EXPECT_EQ(read->roles[role].lanes, program.roles[role].lanes);
      EXPECT_EQ(read->roles[role].extent, program.roles[role].extent);
      const auto& old = program.roles[role].bodies[0].instructions;
      const auto& now = read->roles[role].bodies[0].instructions;
      ASSERT_EQ(now.size(), old.size());
      for (size_t index = 0; index < old.size(); ++index) {
        EXPECT_EQ(now[index].name, old[index].name);
        EXPECT_EQ(now[index].phase, old[index].phase);
        EXPECT_EQ(now[index].layer, old[index].layer);
        EXPECT_EQ(now[index].micro_batch, old[index].micro_batch);
      }
    }
    for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
      EXPECT_EQ(read->ranks[rank].role, program.ranks[rank].role);
      EXPECT_EQ(read->ranks[rank].coordinates, program.ranks[rank].coordinates);
    }
  }
}

TEST(FileTest, RoundTripUnderEveryMeshOrder) {
  std::array<Axis, kAxes> order = {Axis::kData, Axis::kPipeline, Axis::kTensor};
  do {
    Program program = MakePipelineProgram(SmallPipeline());
    program.mesh_order = order;
    std::vector<Rank> ranks(program.ranks.size());
    for (const Rank& rank : program.ranks) ranks[RankAt(program, rank.coordinates)] = rank;
    program.ranks = ranks;
    const StatusOr<Program> read = Parse(Serialize(program));
    ASSERT_TRUE(read.ok()) << read.status();
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      EXPECT_EQ(read->ranks[rank].coordinates, ranks[rank].coordinates);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

// Parse refuses the message after `change`, as bad input, naming `field`.
void ExpectRefused(const std::function<void(file::Program&)>& change, const std::string& field) {
  file::Program message;
  ASSERT_TRUE(message.ParseFromString(Serialize(FullProgram())));
  change(message);
  const StatusOr<Program> read = Parse(message.SerializeAsString());
  ASSERT_FALSE(read.ok()) << field;
  EXPECT_EQ(ExitCode(read.status()), 5);
  EXPECT_NE(std::string(read.status().message()).find(field), std::string::npos) << read.status();
}

TEST(FileTest, NamesTheFieldThatIsWrong) {
  ExpectRefused([](auto& m) { m.set_schema_version(2); }, "schema_version");
  ExpectRefused([](auto& m) { m.clear_mesh(); }, "mesh");
  ExpectRefused([](auto& m) { m.set_mesh(0, 0); }, "mesh");
  ExpectRefused([](auto& m) { m.set_mesh_order(0, file::AXIS_TENSOR); }, "mesh_order");
  ExpectRefused([](auto& m) { m.set_rank_role(3, 99); }, "ranks[3].role");
  ExpectRefused([](auto& m) { m.mutable_kernels(0)->set_op("frobnicate"); }, "kernels[0].op");
  ExpectRefused([](auto& m) { m.mutable_kernels(0)->set_compute_dtype(file::DType(9)); },
                "kernels[0].compute_dtype");
  ExpectRefused([](auto& m) { m.mutable_kernels(1)->mutable_operands(0)->set_shape(0, INT64_MAX); },
                "kernels[1].operands[0].shape");
  ExpectRefused([](auto& m) { m.mutable_affines(0)->add_per_coordinate(1); },
                "affines[0].per_coordinate");
  ExpectRefused([](auto& m) { m.mutable_collectives(0)->set_group(77); }, "collectives[0]");
  ExpectRefused([](auto& m) { m.mutable_groups(0)->add_axes(file::Axis(3)); }, "groups[0].axes");
  ExpectRefused([](auto& m) { m.mutable_roles(0)->mutable_buffers()->add_bytes(1); },
                "roles[0].buffers.name");
  ExpectRefused([](auto& m) { m.mutable_roles(0)->mutable_buffers()->set_address(0, INT64_MAX); },
                "roles[0].buffers.address");
  ExpectRefused([](auto& m) { m.mutable_roles(1)->mutable_bodies(0)->add_phase(file::Phase(0)); },
                "roles[1].bodies[0].phase");
  ExpectRefused(
      [](auto& m) { m.mutable_roles(1)->mutable_bodies(0)->set_operand_count(0, UINT32_MAX); },
      "roles[1].bodies[0].operand_count");
  ExpectRefused([](auto& m) { m.mutable_roles(1)->mutable_bodies(0)->add_wait_distance(1); },
                "roles[1].bodies[0].wait_distance");
  ExpectRefused([](auto& m) { m.mutable_roles(0)->mutable_bodies(0)->set_lane(0, UINT32_MAX); },
                "lane");
  ExpectRefused([](auto& m) { m.mutable_schedule(0)->set_body(5); }, "schedule[0]");
  for (const auto kind : {file::INSTRUCTION_POLICY, file::INSTRUCTION_LOOP}) {
    ExpectRefused([&](auto& m) { m.mutable_roles(0)->mutable_bodies(0)->set_kind(0, kind); },
                  "no interpreter plays it yet");
  }
  ExpectRefused([](auto& m) { m.GetReflection()->MutableUnknownFields(&m)->AddVarint(999, 1); },
                "field 999");
}

TEST(FileTest, RefusesWhatIsNoProgram) {
  for (const std::string& bytes : {std::string(), std::string("hello, world"),
                                   std::string(1000, '\xff'), std::string(1000, '\0')}) {
    const StatusOr<Program> read = Parse(bytes);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(ExitCode(read.status()), 5);
  }
}

// Whatever the bytes are, Parse answers, and what it accepts the verifier can look at.
void ExpectHandled(const std::string& bytes) {
  const StatusOr<Program> read = Parse(bytes);
  if (read.ok()) {
    (void)Verify(*read);
    EXPECT_TRUE(Parse(Serialize(*read)).ok());
  } else {
    EXPECT_EQ(ExitCode(read.status()), 5);
  }
}

TEST(FileTest, TruncatedAndFlippedBytesAreHandled) {
  const std::string good = Serialize(FullProgram());
  std::mt19937_64 random(5);
  for (int round = 0; round < 1500; ++round) {
    std::string bytes = good;
    switch (random() % 3) {
      case 0:
        bytes.resize(random() % bytes.size());
        break;
      case 1:
        for (int flips = 1 + random() % 4; flips > 0; --flips) {
          bytes[random() % bytes.size()] = static_cast<char>(random());
        }
        break;
      default:
        bytes.insert(random() % bytes.size(), bytes.substr(random() % bytes.size(), random() % 64));
    }
    ExpectHandled(bytes);
  }
}

// Changes one random field somewhere in `message` to an extreme value.
void ChangeSomeField(google::protobuf::Message* message, std::mt19937_64& random) {
  using google::protobuf::FieldDescriptor;
  const auto* descriptor = message->GetDescriptor();
  const auto* reflection = message->GetReflection();
  const FieldDescriptor* field = descriptor->field(random() % descriptor->field_count());
  const int64_t extremes[] = {0,         1,         -1,        2,         255,     256,
                              INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1 << 20, UINT32_MAX};
  const int64_t value = extremes[random() % std::size(extremes)];
  if (!field->is_repeated()) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      ChangeSomeField(reflection->MutableMessage(message, field), random);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      reflection->SetInt64(message, field, value);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
      reflection->SetUInt32(message, field, static_cast<uint32_t>(value));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      reflection->SetInt32(message, field, static_cast<int32_t>(value));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      reflection->SetEnumValue(message, field, static_cast<int>(value));
    }
    return;
  }
  const int size = reflection->FieldSize(*message, field);
  if (size == 0) return;
  const int index = static_cast<int>(random() % size);
  if (random() % 8 == 0) {
    reflection->RemoveLast(message, field);
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    ChangeSomeField(reflection->MutableRepeatedMessage(message, field, index), random);
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    reflection->SetRepeatedInt64(message, field, index, value);
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
    const uint32_t small = static_cast<uint32_t>(random() % 16);
    reflection->SetRepeatedUInt32(message, field, index,
                                  random() % 2 ? small : static_cast<uint32_t>(value));
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    reflection->SetRepeatedInt32(message, field, index, static_cast<int32_t>(value));
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    reflection->SetRepeatedEnumValue(message, field, index, static_cast<int>(random() % 12));
  }
}

TEST(FileTest, ExtremeFieldsAreHandled) {
  file::Program good;
  ASSERT_TRUE(good.ParseFromString(Serialize(FullProgram())));
  std::mt19937_64 random(6);
  for (int round = 0; round < 3000; ++round) {
    file::Program message = good;
    for (int changes = 1 + random() % 3; changes > 0; --changes) ChangeSomeField(&message, random);
    ExpectHandled(message.SerializeAsString());
  }
}

}  // namespace
}  // namespace tideline

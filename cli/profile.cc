#include "cli/profile.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/names.h"
#include "cli/table.h"
#include "models/import/load_model.h"
#include "models/ir/dtype.h"
#include "models/profile/profile.h"

namespace tideline {
namespace {

// DEFINITIONS 13: the sequence when --seq is not given.
constexpr int64_t kLongestDefaultSequence = 2048;

struct ProfileRequest {
  std::string model;
  std::string images;  // "3 x 224 x 224", of models that take images
  ModelShape shape;
  bool by_op = false;
  bool by_module = false;
};

// "724.9 TFLOP", "0 FLOP".
std::string HumanFlops(double flops) {
  const std::string count = HumanCount(flops);
  return absl::StrCat(count, count.find(' ') == std::string::npos ? " FLOP" : "FLOP");
}

std::string GroupTable(const std::string& title, const std::vector<ProfileGroup>& groups,
                       bool with_parameters) {
  std::vector<std::string> heading = {title, "nodes"};
  if (with_parameters) heading.emplace_back("parameters");
  for (const char* name : {"forward", "backward", "bytes forward", "bytes backward", "saved"}) {
    heading.emplace_back(name);
  }
  std::vector<std::vector<std::string>> rows;
  for (const ProfileGroup& group : groups) {
    std::vector<std::string> row = {group.name, absl::StrCat(group.nodes)};
    if (with_parameters) row.push_back(HumanCount(static_cast<double>(group.parameters)));
    row.push_back(HumanFlops(group.flops_forward));
    row.push_back(HumanFlops(group.flops_backward));
    row.push_back(HumanBytes(static_cast<double>(group.bytes_forward)));
    row.push_back(HumanBytes(static_cast<double>(group.bytes_backward)));
    row.push_back(HumanBytes(static_cast<double>(group.saved_bytes)));
    rows.push_back(std::move(row));
  }
  return absl::StrCat("\n", FormatTable(heading, rows));
}

std::string Text(const ProfileRequest& request, const Profile& profile) {
  const ModelShape& shape = request.shape;
  std::string text = FormatPairs({
      {"model", request.model},
      {"parameters", absl::StrCat(profile.parameters, " (",
                                  HumanCount(static_cast<double>(profile.parameters)), ")")},
      {request.images.empty() ? "batch x seq" : "images",
       absl::StrCat(shape.batch, " x ",
                    request.images.empty() ? absl::StrCat(shape.sequence) : request.images, ", ",
                    std::string(Name(shape.dtype)))},
      {"forward", HumanFlops(profile.flops_forward)},
      {"backward", HumanFlops(profile.flops_backward)},
      {"saved for backward", HumanBytes(static_cast<double>(profile.saved_activation_bytes))},
      {"peak of activations", HumanBytes(static_cast<double>(profile.peak_activation_bytes))},
  });
  if (request.by_module) text += GroupTable("module", profile.by_module, true);
  if (request.by_op) text += GroupTable("operator", profile.by_op, false);
  return text;
}

void WriteGroups(JsonWriter* json, const char* name, bool asked, bool with_parameters,
                 const std::vector<ProfileGroup>& groups) {
  if (!asked) {
    json->NullField(name);
    return;
  }
  json->Key(name).BeginArray();
  for (const ProfileGroup& group : groups) {
    json->BeginObject().Field("name", group.name).Field("nodes", group.nodes);
    if (with_parameters) json->Field("parameters", group.parameters);
    json->Field("flops_forward", group.flops_forward);
    json->Field("flops_backward", group.flops_backward);
    json->Field("forward_bytes", group.bytes_forward);
    json->Field("backward_bytes", group.bytes_backward);
    json->Field("saved_activation_bytes", group.saved_bytes).EndObject();
  }
  json->EndArray();
}

std::string Json(const ProfileRequest& request, const Profile& profile) {
  JsonWriter json;
  json.BeginObject().Field("schema_version", 1).Field("model", request.model);
  json.Field("batch", request.shape.batch).Field("seq", request.shape.sequence);
  json.Field("dtype", std::string(Name(request.shape.dtype)));
  json.Field("parameters", profile.parameters);
  json.Field("flops_forward", profile.flops_forward);
  json.Field("flops_backward", profile.flops_backward);
  json.Field("executed_flops_forward", profile.executed_flops_forward);
  json.Field("executed_flops_backward", profile.executed_flops_backward);
  json.Field("saved_activation_bytes", profile.saved_activation_bytes);
  json.Field("peak_activation_bytes", profile.peak_activation_bytes);
  WriteGroups(&json, "by_module", request.by_module, true, profile.by_module);
  WriteGroups(&json, "by_op", request.by_op, false, profile.by_op);
  json.EndObject();
  return json.Take();
}

class ProfileCommand : public Command {
 public:
  CommandInfo Info() const override {
    return {
        .name = "profile",
        .summary = "Shows what a model costs: parameters, FLOPs, bytes, saved activations",
        .description =
            "Works on shapes alone, so any size of model takes no memory. FLOPs are those of "
            "matrix products and attention, two per multiply-add, causal attention counted half; "
            "saved "
            "activations are those of training without recomputation, logits and loss included.",
        .examples = {"tideline profile gpt3-175b --seq 2048 --batch 1 --json",
                     "tideline profile llama2-7b --by-module",
                     "tideline profile gpt:layers=24,hidden=1024,heads=16 --seq 1024 --by-op",
                     "tideline profile resnet50 --batch 32 --by-op",
                     "tideline profile path/to/config.json"},
        .arguments = {{.name = "MODEL",
                       .sentence = "A name of the zoo, sizes of your own, or a config.json "
                                   "(below).",
                       .path_use = PathUse::kReadsOrName}},
        .options = {{.name = "batch",
                     .kind = OptionKind::kInteger,
                     .value_name = "N",
                     .sentence = "Sequences or images in the batch.",
                     .default_text = "1",
                     .least = 1,
                     .most = 1 << 30},
                    {.name = "seq",
                     .kind = OptionKind::kInteger,
                     .value_name = "N",
                     .sentence = "Tokens in a sequence; default the model's positions, at most "
                                 "2048.",
                     .least = 1,
                     .most = kMostRows},
                    {.name = "dtype",
                     .kind = OptionKind::kChoice,
                     .value_name = "TYPE",
                     .sentence = "Type of parameters and activations:",
                     .default_text = "bf16",
                     .choices = {"bf16", "fp16", "fp32"}},
                    {.name = "attention",
                     .kind = OptionKind::kChoice,
                     .value_name = "FORM",
                     .sentence = "Scores, softmax and context apart, or in one kernel that saves "
                                 "no probabilities:",
                     .default_text = "unfused",
                     .choices = {"unfused", "fused"}},
                    {.name = "by-module",
                     .kind = OptionKind::kFlag,
                     .sentence = "Adds a table by part of the model."},
                    {.name = "by-op",
                     .kind = OptionKind::kFlag,
                     .sentence = "Adds a table by operator."}},
        .sections = {ModelSection()}};
  }

  Status Run(CommandContext* context) const override {
    const OptionValues& options = context->options;
    const int64_t positions = options.Has("seq") ? options.Integer("seq") : 0;
    TL_ASSIGN_OR_RETURN(const LoadedModel model, LoadModel(context->arguments[0], positions));
    for (const std::string& warning : model.warnings) context->Note(warning);
    ProfileRequest request;
    const ModelTraits traits = TraitsOf(model.config);
    request.model = traits.name;
    if (traits.samples == SampleKind::kImages) request.images = absl::StrJoin(traits.image, " x ");
    request.by_module = options.Flag("by-module");
    request.by_op = options.Flag("by-op");
    request.shape.batch = options.Integer("batch");
    request.shape.sequence =
        positions > 0 ? positions : std::min(traits.longest_sequence, kLongestDefaultSequence);
    TL_ASSIGN_OR_RETURN(request.shape.dtype, ParseDType(options.Text("dtype")));
    request.shape.fused_attention = options.Text("attention") == "fused";
    TL_ASSIGN_OR_RETURN(const Profile profile, ProfileModel(model.config, request.shape));
    context->Print(context->json ? Json(request, profile) : Text(request, profile));
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Command> MakeProfileCommand() { return std::make_unique<ProfileCommand>(); }

}  // namespace tideline

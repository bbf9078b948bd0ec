// The communication part of the facade: members post their calls, meetings carry them out.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "exec/comm/collective.h"
#include "exec/emulator/machine.h"

namespace tideline {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Gives posts to the stream as one operation that touches `ranges`.
Status Submit(Stream stream, const char* name, uint64_t tag, std::vector<Post> posts,
              std::span<const Range> ranges) {
  DeviceObject* device = stream->device;
  Machine& machine = *device->machine;
  if (!machine.options.limit_memory) device->witness.Touch(ranges);
  if (machine.checks()) {
    Status checked = device->checker.Access(stream->checked, name, tag, ranges);
    if (!checked.ok()) {
      machine.scheduler.Fail(checked);
      return checked;
    }
  }
  return machine.scheduler.Meet(device->index, stream->index, name, tag, std::move(posts));
}

// Submits one post, or keeps it while a group is open.
Status Give(Stream stream, const char* name, uint64_t tag, const Post& post,
            std::span<const Range> ranges) {
  if (!stream->grouping) return Submit(stream, name, tag, {post}, ranges);
  stream->group.push_back(post);
  stream->group_ranges.insert(stream->group_ranges.end(), ranges.begin(), ranges.end());
  return absl::OkStatus();
}

Status Message(Communicator communicator, Stream stream, Post post, int32_t peer, Range range) {
  const int32_t members = static_cast<int32_t>(communicator->group->devices.size());
  if (peer < 0 || peer >= members || range.bytes < 0) {
    return RunError(absl::StrCat("'", post.name, "' names member ", peer, " and ", range.bytes,
                                 " bytes; '", communicator->group->name, "' has members 0 to ",
                                 members - 1, " and counts are not below 0"));
  }
  post.member = communicator->member;
  post.bytes = range.bytes;
  return Give(stream, post.name, post.tag, post, {&range, 1});
}

}  // namespace

StatusOr<Communicator> JoinCommunicator(Device device, std::string_view name,
                                        std::span<const int32_t> devices) {
  Machine& machine = *device->machine;
  const auto own = std::find(devices.begin(), devices.end(), device->index);
  if (own == devices.end()) {
    return RunError(
        absl::StrCat("device ", device->index, " joins '", View(name), "' without being a member"));
  }
  std::lock_guard lock(machine.mutex);
  std::unique_ptr<CommunicatorGroup>& group = machine.groups[std::string(name)];
  if (group == nullptr) {
    group = std::make_unique<CommunicatorGroup>();
    group->name = std::string(name);
    group->devices.assign(devices.begin(), devices.end());
  } else if (!std::equal(devices.begin(), devices.end(), group->devices.begin(),
                         group->devices.end())) {
    return RunError(absl::StrCat("device ", device->index, " joins '", View(name), "' with ",
                                 devices.size(), " members, another device with ",
                                 group->devices.size(), " or in another order"));
  }
  auto communicator = std::make_unique<CommunicatorObject>();
  communicator->device = device;
  communicator->group = group.get();
  communicator->member = static_cast<int32_t>(own - devices.begin());
  device->communicators.push_back(std::move(communicator));
  return device->communicators.back().get();
}

Status EnqueueCollective(Communicator communicator, Stream stream, const char* name, uint64_t tag,
                         const Collective& collective, const void* input, void* output) {
  TL_CHECK(communicator->device == stream->device, "a member uses a stream of its own device");
  const int32_t members = static_cast<int32_t>(communicator->group->devices.size());
  RecogniseInPlace(collective, communicator->member, input, output);
  const Status valid = ValidateCollective(collective, members, input, output);
  if (!valid.ok()) return Annotate(valid, absl::StrCat("'", name, "'"));
  absl::InlinedVector<Range, 6> ranges;
  AppendRanges(collective, members, communicator->member, input, output, ranges);
  Post post;
  post.key = {communicator->group, -1, -1, communicator->calls++};
  post.member = communicator->member;
  post.name = name;
  post.tag = tag;
  post.collective = collective;
  post.input = input;
  post.output = output;
  return Give(stream, name, tag, post, ranges);
}

Status Send(Communicator communicator, Stream stream, const char* name, uint64_t tag, int32_t peer,
            const void* source, int64_t bytes) {
  Post post;
  post.kind = PostKind::kSend;
  post.key = {communicator->group, communicator->member, peer, communicator->sent[peer]++};
  post.name = name;
  post.tag = tag;
  post.input = source;
  return Message(communicator, stream, post, peer, {source, bytes, Access::kRead});
}

Status Receive(Communicator communicator, Stream stream, const char* name, uint64_t tag,
               int32_t peer, void* destination, int64_t bytes) {
  Post post;
  post.kind = PostKind::kReceive;
  post.key = {communicator->group, peer, communicator->member, communicator->received[peer]++};
  post.name = name;
  post.tag = tag;
  post.output = destination;
  return Message(communicator, stream, post, peer, {destination, bytes, Access::kWrite});
}

Status GroupStart(Stream stream) {
  TL_CHECK(!stream->grouping, "groups do not nest");
  stream->grouping = true;
  return absl::OkStatus();
}

Status GroupEnd(Stream stream) {
  TL_CHECK(stream->grouping, "GroupEnd follows GroupStart");
  stream->grouping = false;
  const std::vector<Range> ranges = std::exchange(stream->group_ranges, {});
  std::vector<Post> posts = std::exchange(stream->group, {});
  if (posts.empty()) return absl::OkStatus();
  const char* name = posts[0].name;
  const uint64_t tag = posts[0].tag;
  return Submit(stream, name, tag, std::move(posts), ranges);
}

}  // namespace tideline

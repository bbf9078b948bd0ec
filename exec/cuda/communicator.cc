// The communication part of the facade: NCCL's calls, or meetings that are carried out by copies.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "exec/comm/collective.h"
#include "exec/comm/copy_collective.h"
#include "exec/cuda/machine.h"

namespace tideline {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

ncclDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kF16:
      return ncclFloat16;
    case DType::kI32:
      return ncclInt32;
    default:
      return ncclFloat32;
  }
}

// ---- NCCL ----

// The calls of one collective; more than one outer piece is a group of calls.
Status CallNccl(Machine& machine, const Collective& collective, int32_t members, int32_t member,
                const void* input, void* output, ncclComm_t native, cudaStream_t stream) {
  const Nccl& nccl = machine.nccl;
  const ncclDataType_t type = TypeOf(collective.dtype);
  const ncclRedOp_t op = collective.reduction == Reduction::kSum ? ncclSum : ncclMax;
  const size_t whole = static_cast<size_t>(collective.outer * collective.block);
  const size_t block = static_cast<size_t>(collective.block);
  if (collective.kind == CollectiveKind::kAllReduce) {
    return machine.Await(nccl.all_reduce(input, output, whole, type, op, native, stream), native,
                         "ncclAllReduce");
  }
  if (collective.kind == CollectiveKind::kBroadcast) {
    return machine.Await(nccl.broadcast(input, output, whole, type, 0, native, stream), native,
                         "ncclBroadcast");
  }
  const bool gathers = collective.kind == CollectiveKind::kAllGather;
  const bool in_place = input == output;
  const int64_t piece = collective.block * SizeOf(collective.dtype);
  const char* in = static_cast<const char*>(input);
  char* out = static_cast<char*>(output);
  ncclResult_t result = nccl.group_start();
  for (int64_t outer = 0; outer < collective.outer && result == ncclSuccess; ++outer) {
    const int64_t row = outer * members * piece;
    const int64_t own = in_place ? row + member * piece : outer * piece;
    result = gathers ? nccl.all_gather(in + own, out + row, block, type, native, stream)
                     : nccl.reduce_scatter(in + row, out + own, block, type, op, native, stream);
    if (result == ncclInProgress) result = ncclSuccess;
  }
  const ncclResult_t ended = nccl.group_end();
  return machine.Await(result == ncclSuccess ? ended : result, native,
                       gathers ? "ncclAllGather" : "ncclReduceScatter");
}

// Between GroupStart and GroupEnd the calls are one operation, timed as a whole.
Status GiveNccl(Communicator communicator, Stream stream, uint64_t tag,
                const std::function<Status(cudaStream_t)>& call) {
  Machine& machine = *communicator->device->machine;
  Status status = machine.OpenNative(*communicator);
  if (status.ok() && stream->grouping) {
    stream->group_tags.push_back(tag);
    status = call(stream->native);
  } else if (status.ok()) {
    status = stream->Give([&](cudaStream_t native) {
      return stream->device->Timed(tag, native, [&] { return call(native); });
    });
  }
  if (!status.ok()) machine.Fail(status);
  return status;
}

// ---- Copies ----

// Carries out a full meeting on one member's stream, after what every member's stream had before.
Status CarryOut(Stream stream, cudaStream_t native, const CopyMeeting& meeting) {
  TL_RETURN_IF_ERROR(CheckMeeting(meeting.posts));
  for (const MarkPtr& arrival : meeting.arrivals) {
    TL_RETURN_IF_ERROR(
        CudaStatus(cudaStreamWaitEvent(native, arrival->native, 0), "cudaStreamWaitEvent"));
  }
  const Post& first = meeting.posts.front();
  if (first.kind != PostKind::kCollective) {
    const bool send_first = first.kind == PostKind::kSend;
    const Post& send = meeting.posts[send_first ? 0 : 1];
    const Post& receive = meeting.posts[send_first ? 1 : 0];
    return CudaStatus(cudaMemcpyAsync(receive.output, send.input, static_cast<size_t>(send.bytes),
                                      cudaMemcpyDefault, native),
                      "cudaMemcpyAsync");
  }
  std::vector<MemberBuffers> members(meeting.posts.size());
  for (const Post& post : meeting.posts) members[post.member] = {post.input, post.output};
  TL_ASSIGN_OR_RETURN(const std::vector<CopyPass> passes, CopyPasses(first.collective, members));
  Status status;
  stream->meeting = true;
  for (const CopyPass& pass : passes) {
    status = LaunchCopyPass(stream, first.tag, pass, first.collective.dtype);
    if (!status.ok()) break;
  }
  stream->meeting = false;
  return status;
}

// Runs on the stream's thread: posts, waits for the other members, and goes on after the meetings.
// The last to come carries a meeting out.
Status Meet(Stream stream, cudaStream_t native, const std::vector<Post>& posts) {
  DeviceObject& device = *stream->device;
  Machine& machine = *device.machine;
  TL_ASSIGN_OR_RETURN(const MarkPtr arrival, device.MakeMark());
  TL_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(arrival->native, native), "cudaEventRecord"));
  std::vector<std::shared_ptr<CopyMeeting>> mine;
  for (const Post& post : posts) {
    std::shared_ptr<CopyMeeting> meeting;
    bool full = false;
    {
      std::lock_guard lock(machine.mutex);
      std::shared_ptr<CopyMeeting>& entry = machine.meetings[post.key];
      if (entry == nullptr) entry = std::make_shared<CopyMeeting>();
      meeting = entry;
      meeting->posts.push_back(post);
      meeting->arrivals.push_back(arrival);
      full = static_cast<int32_t>(meeting->posts.size()) == MembersOf(post);
      if (full) machine.meetings.erase(post.key);
    }
    mine.push_back(meeting);
    if (!full) continue;
    TL_RETURN_IF_ERROR(CarryOut(stream, native, *meeting));
    TL_ASSIGN_OR_RETURN(const MarkPtr done, device.MakeMark());
    TL_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(done->native, native), "cudaEventRecord"));
    std::lock_guard lock(machine.mutex);
    meeting->done = done;
  }
  for (const std::shared_ptr<CopyMeeting>& meeting : mine) {
    MarkPtr done;
    TL_RETURN_IF_ERROR(machine.Poll([&]() -> StatusOr<bool> {
      std::lock_guard lock(machine.mutex);
      done = meeting->done;
      return done != nullptr;
    }));
    TL_RETURN_IF_ERROR(
        CudaStatus(cudaStreamWaitEvent(native, done->native, 0), "cudaStreamWaitEvent"));
  }
  return absl::OkStatus();
}

Status GivePosts(Stream stream, std::vector<Post> posts) {
  const uint64_t tag = posts.front().tag;
  const Status given =
      stream->Give([stream, tag, posts = std::move(posts)](cudaStream_t native) -> Status {
        return stream->device->Timed(tag, native, [&] { return Meet(stream, native, posts); });
      });
  if (!given.ok()) Fail(stream->device, given);
  return given;
}

Status GivePost(Stream stream, const Post& post) {
  if (stream->grouping) {
    stream->group.push_back(post);
    return absl::OkStatus();
  }
  return GivePosts(stream, {post});
}

// ---- Messages ----

Status CheckPeer(Communicator communicator, const char* name, int32_t peer, int64_t bytes) {
  const int32_t members = static_cast<int32_t>(communicator->group->devices.size());
  if (peer >= 0 && peer < members && bytes >= 0) return absl::OkStatus();
  return RunError(absl::StrCat("'", name, "' names member ", peer, " and ", bytes, " bytes; '",
                               communicator->group->name, "' has members 0 to ", members - 1,
                               " and counts are not below 0"));
}

}  // namespace

Status Machine::Await(ncclResult_t result, ncclComm_t native, const char* call) {
  if (result == ncclInProgress) {
    TL_RETURN_IF_ERROR(Poll([&]() -> StatusOr<bool> {
      const ncclResult_t asked = nccl.async_error(native, &result);
      if (asked != ncclSuccess) result = asked;
      return result != ncclInProgress;
    }));
  }
  if (result == ncclSuccess) return absl::OkStatus();
  return RunError(absl::StrCat(call, ": ", nccl.error_string(result)));
}

Status Machine::OpenNative(CommunicatorObject& communicator) {
  if (communicator.native != nullptr) return failed() ? status() : absl::OkStatus();
  const std::string& name = communicator.group->name;
  ncclUniqueId id;
  {
    std::lock_guard lock(mutex);
    const auto [entry, made] = unique_ids.try_emplace(name);
    if (made) {
      const ncclResult_t result = nccl.unique_id(&entry->second);
      if (result != ncclSuccess) {
        return RunError(absl::StrCat("ncclGetUniqueId: ", nccl.error_string(result)));
      }
    }
    id = entry->second;
  }
  TL_RETURN_IF_ERROR(communicator.device->MakeCurrent());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // so that a rank that never comes can be given up
  ncclComm_t native = nullptr;
  const ncclResult_t result =
      nccl.init_rank(&native, static_cast<int>(communicator.group->devices.size()), id,
                     communicator.member, &config);
  if (native != nullptr) {
    std::lock_guard lock(mutex);
    if (!status_.ok()) return status_;
    communicators.push_back(native);
  }
  communicator.native = native;
  return Annotate(Await(result, native, "ncclCommInitRankConfig"),
                  absl::StrCat("group '", name, "'"));
}

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
  const int32_t member = communicator->member;
  RecogniseInPlace(collective, member, input, output);
  const Status valid = ValidateCollective(collective, members, input, output);
  if (!valid.ok()) return Annotate(valid, absl::StrCat("'", name, "'"));
  if (!stream->device->machine->copies()) {
    return GiveNccl(communicator, stream, tag, [&](cudaStream_t native) {
      return CallNccl(*stream->device->machine, collective, members, member, input, output,
                      communicator->native, native);
    });
  }
  Post post;
  post.key = {communicator->group, -1, -1, communicator->calls++};
  post.member = member;
  post.name = name;
  post.tag = tag;
  post.collective = collective;
  post.input = input;
  post.output = output;
  return GivePost(stream, post);
}

Status Send(Communicator communicator, Stream stream, const char* name, uint64_t tag, int32_t peer,
            const void* source, int64_t bytes) {
  TL_RETURN_IF_ERROR(CheckPeer(communicator, name, peer, bytes));
  Machine& machine = *stream->device->machine;
  if (!machine.copies()) {
    return GiveNccl(communicator, stream, tag, [&](cudaStream_t native) {
      return machine.Await(machine.nccl.send(source, static_cast<size_t>(bytes), ncclInt8, peer,
                                             communicator->native, native),
                           communicator->native, "ncclSend");
    });
  }
  Post post;
  post.kind = PostKind::kSend;
  post.key = {communicator->group, communicator->member, peer, communicator->sent[peer]++};
  post.member = communicator->member;
  post.name = name;
  post.tag = tag;
  post.input = source;
  post.bytes = bytes;
  return GivePost(stream, post);
}

Status Receive(Communicator communicator, Stream stream, const char* name, uint64_t tag,
               int32_t peer, void* destination, int64_t bytes) {
  TL_RETURN_IF_ERROR(CheckPeer(communicator, name, peer, bytes));
  Machine& machine = *stream->device->machine;
  if (!machine.copies()) {
    return GiveNccl(communicator, stream, tag, [&](cudaStream_t native) {
      return machine.Await(machine.nccl.receive(destination, static_cast<size_t>(bytes), ncclInt8,
                                                peer, communicator->native, native),
                           communicator->native, "ncclRecv");
    });
  }
  Post post;
  post.kind = PostKind::kReceive;
  post.key = {communicator->group, peer, communicator->member, communicator->received[peer]++};
  post.member = communicator->member;
  post.name = name;
  post.tag = tag;
  post.output = destination;
  post.bytes = bytes;
  return GivePost(stream, post);
}

Status GroupStart(Stream stream) {
  TL_CHECK(!stream->grouping, "groups do not nest");
  stream->grouping = true;
  Machine& machine = *stream->device->machine;
  if (machine.copies()) return absl::OkStatus();
  TL_RETURN_IF_ERROR(stream->device->MakeCurrent());
  TL_ASSIGN_OR_RETURN(stream->group_start, stream->device->TakeEvent(true));
  TL_RETURN_IF_ERROR(
      CudaStatus(cudaEventRecord(stream->group_start, stream->native), "cudaEventRecord"));
  return machine.Await(machine.nccl.group_start(), nullptr, "ncclGroupStart");
}

Status GroupEnd(Stream stream) {
  TL_CHECK(stream->grouping, "GroupEnd follows GroupStart");
  stream->grouping = false;
  Machine& machine = *stream->device->machine;
  if (machine.copies()) {
    std::vector<Post> posts = std::exchange(stream->group, {});
    return posts.empty() ? absl::OkStatus() : GivePosts(stream, std::move(posts));
  }
  const std::vector<uint64_t> tags = std::exchange(stream->group_tags, {});
  const ncclResult_t result = machine.nccl.group_end();
  // Communicators that do not block are asked one by one for the end of their launch.
  for (const std::unique_ptr<CommunicatorObject>& each : stream->device->communicators) {
    if (each->native == nullptr) continue;
    TL_RETURN_IF_ERROR(machine.Await(result == ncclSuccess ? ncclInProgress : result, each->native,
                                     "ncclGroupEnd"));
  }
  Span span{.tag = tags.empty() ? 0 : tags.front(), .start = stream->group_start};
  TL_ASSIGN_OR_RETURN(span.end, stream->device->TakeEvent(true));
  TL_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(span.end, stream->native), "cudaEventRecord"));
  std::lock_guard lock(stream->device->mutex);
  stream->device->spans.push_back(span);
  return absl::OkStatus();
}

}  // namespace tideline

#include "exec/emulator/meeting.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "exec/comm/collective.h"

namespace tideline {
namespace {

bool SameCall(const Collective& a, const Collective& b) {
  Collective aligned = b;
  aligned.group = a.group;          // an id of each rank's program
  aligned.algorithm = a.algorithm;  // cost only
  return a == aligned;
}

std::vector<const Post*> ByMember(const std::vector<Post>& posts) {
  std::vector<const Post*> sorted;
  for (const Post& post : posts) sorted.push_back(&post);
  std::sort(sorted.begin(), sorted.end(),
            [](const Post* a, const Post* b) { return a->member < b->member; });
  return sorted;
}

}  // namespace

int32_t MembersOf(const Post& post) {
  return post.kind == PostKind::kCollective ? static_cast<int32_t>(post.key.group->devices.size())
                                            : 2;
}

std::string Describe(const Post& post) {
  const std::vector<int32_t>& devices = post.key.group->devices;
  std::string text = absl::StrCat("rank ", devices[post.member], ": '", post.name,
                                  "' (instruction ", post.tag, ") calls ");
  if (post.kind == PostKind::kCollective) {
    absl::StrAppend(&text, Describe(post.collective));
  } else if (post.kind == PostKind::kSend) {
    absl::StrAppend(&text, "send of ", post.bytes, " bytes to rank ", devices[post.key.to]);
  } else {
    absl::StrAppend(&text, "receive of ", post.bytes, " bytes from rank ", devices[post.key.from]);
  }
  return text;
}

Status CheckMeeting(const std::vector<Post>& posts) {
  bool agree = true;
  for (const Post& post : posts) {
    agree = agree && post.bytes == posts[0].bytes &&
            (post.kind != PostKind::kCollective || SameCall(post.collective, posts[0].collective));
  }
  if (agree) return absl::OkStatus();
  std::string message = absl::StrCat("the members of '", posts[0].key.group->name,
                                     "' do not agree on call ", posts[0].key.sequence, ": ");
  bool first = true;
  for (const Post* post : ByMember(posts)) {
    absl::StrAppend(&message, first ? "" : "; ", Describe(*post));
    first = false;
  }
  absl::StrAppend(&message, "; every member must make the same calls in the same order");
  return RunError(message);
}

void RunMeeting(const std::vector<Post>& posts) {
  if (posts[0].kind == PostKind::kCollective) {
    std::vector<MemberBuffers> members;
    for (const Post* post : ByMember(posts)) members.push_back({post->input, post->output});
    RunCollective(posts[0].collective, members);
    return;
  }
  const bool send_first = posts[0].kind == PostKind::kSend;
  const Post& send = posts[send_first ? 0 : 1];
  const Post& receive = posts[send_first ? 1 : 0];
  if (send.bytes > 0) std::memcpy(receive.output, send.input, static_cast<size_t>(send.bytes));
}

}  // namespace tideline

// Meeting: where the members of one collective, or the two ends of one message, come together.
//
// Every member posts what it calls. A meeting whose posts disagree is an error that tells each
// rank's call; NCCL would hang or corrupt.
#ifndef TIDELINE_EXEC_EMULATOR_MEETING_H_
#define TIDELINE_EXEC_EMULATOR_MEETING_H_

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/program/program.h"

namespace tideline {

enum class PostKind : uint8_t { kCollective, kSend, kReceive };

// What all communicator handles of one group share.
struct CommunicatorGroup {
  std::string name;
  std::vector<int32_t> devices;  // by member
};

// The n-th call of a group (from = to = -1), or the n-th message of a directed pair of members.
struct MeetingKey {
  const CommunicatorGroup* group = nullptr;
  int32_t from = -1;
  int32_t to = -1;
  uint64_t sequence = 0;
  auto operator<=>(const MeetingKey&) const = default;
};

struct Post {
  MeetingKey key;
  PostKind kind = PostKind::kCollective;
  int32_t member = 0;
  const char* name = "";  // of the instruction
  uint64_t tag = 0;
  Collective collective;  // kCollective
  int64_t bytes = 0;      // kSend, kReceive
  const void* input = nullptr;
  void* output = nullptr;
};

// Members that must post.
int32_t MembersOf(const Post& post);

// "rank 1: 'sync' (instruction 7) calls all_reduce ...".
std::string Describe(const Post& post);

// Posts by arrival, all there. An error (exit 1) lists every member's call.
Status CheckMeeting(const std::vector<Post>& posts);

// Moves the bytes. Precondition: CheckMeeting held.
void RunMeeting(const std::vector<Post>& posts);

}  // namespace tideline

#endif  // TIDELINE_EXEC_EMULATOR_MEETING_H_

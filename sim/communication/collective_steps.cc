#include "sim/communication/collective_steps.h"

#include <algorithm>
#include <cmath>

#include "models/ir/dtype.h"

namespace tideline {
namespace {

// A share of the tensor in whole bytes, to the nearest.
int64_t Share(int64_t bytes, int64_t numerator, int64_t denominator) {
  return std::llround(static_cast<double>(bytes) * static_cast<double>(numerator) /
                      static_cast<double>(denominator));
}

std::vector<CollectiveStep> RingSteps(const Collective& collective, int32_t members, int32_t width,
                                      bool explicit_steps) {
  const int64_t bytes = FullBytes(collective, members);
  const int64_t hops =
      collective.kind == CollectiveKind::kAllReduce ? 2 * (int64_t{members} - 1) : members - 1;
  CollectiveStep step;
  const int64_t sent = explicit_steps ? Share(bytes, 1, members) : Share(bytes, hops, members);
  const int64_t inside = width == members ? sent : Share(sent, width - 1, width);
  for (int32_t from = 0; from < members; ++from) {
    const int32_t node_begin = from - from % width;
    const int32_t next_local = (from + 1) % width;
    if (inside > 0) step.transfers.push_back({from, node_begin + next_local, inside});
    if (width == members) continue;
    const int32_t next_node_begin = (node_begin + width) % members;
    step.transfers.push_back({from, next_node_begin + next_local, sent - inside});
  }
  if (explicit_steps) return std::vector<CollectiveStep>(hops, step);
  step.latency_hops = hops;
  return {step};
}

// The root's bytes flow down the line of members; there is no edge back to it.
std::vector<CollectiveStep> LineSteps(const Collective& collective, int32_t members) {
  CollectiveStep step;
  for (int32_t from = 0; from + 1 < members; ++from) {
    step.transfers.push_back({from, from + 1, FullBytes(collective, members)});
  }
  step.latency_hops = members - 1;
  return {step};
}

std::vector<CollectiveStep> TreeSteps(const Collective& collective, int32_t members) {
  const int64_t bytes = FullBytes(collective, members);
  std::vector<CollectiveStep> up, down;
  for (int32_t distance = 1; distance < members; distance *= 2) {
    CollectiveStep towards_root, from_root;
    for (int32_t member = distance; member < members; member += 2 * distance) {
      towards_root.transfers.push_back({member, member - distance, bytes});
      from_root.transfers.push_back({member - distance, member, bytes});
    }
    up.push_back(towards_root);
    down.push_back(from_root);
  }
  up.insert(up.end(), down.rbegin(), down.rend());
  return up;
}

std::vector<CollectiveStep> HalvingDoublingSteps(const Collective& collective, int32_t members) {
  const int64_t bytes = FullBytes(collective, members);
  int32_t core = 1;
  while (core <= members / 2) core *= 2;
  std::vector<CollectiveStep> steps;
  CollectiveStep hand_in, hand_out;
  for (int32_t extra = core; extra < members; ++extra) {
    hand_in.transfers.push_back({extra, extra - core, bytes});
    hand_out.transfers.push_back({extra - core, extra, bytes});
  }
  if (core < members) steps.push_back(hand_in);
  std::vector<CollectiveStep> halving;
  int64_t parts = 2;
  for (int32_t distance = core / 2; distance >= 1; distance /= 2, parts *= 2) {
    CollectiveStep step;
    for (int32_t member = 0; member < core; ++member) {
      step.transfers.push_back({member, member ^ distance, Share(bytes, 1, parts)});
    }
    halving.push_back(step);
  }
  steps.insert(steps.end(), halving.begin(), halving.end());
  steps.insert(steps.end(), halving.rbegin(), halving.rend());
  if (core < members) steps.push_back(hand_out);
  return steps;
}

}  // namespace

TransferPattern PatternOf(const Collective& collective) {
  if (collective.kind == CollectiveKind::kBroadcast) return TransferPattern::kLine;
  if (collective.kind != CollectiveKind::kAllReduce) return TransferPattern::kRing;
  switch (collective.algorithm) {
    case CollectiveAlgorithm::kRing:
      return TransferPattern::kRing;
    case CollectiveAlgorithm::kTree:
      return TransferPattern::kTree;
    case CollectiveAlgorithm::kHalvingDoubling:
      return TransferPattern::kHalvingDoubling;
  }
  return TransferPattern::kRing;
}

int64_t FullBytes(const Collective& collective, int64_t members) {
  const bool gathered = collective.kind == CollectiveKind::kAllGather ||
                        collective.kind == CollectiveKind::kReduceScatter;
  return collective.outer * collective.block * SizeOf(collective.dtype) * (gathered ? members : 1);
}

double MovedBytes(const Collective& collective, int64_t members) {
  const auto count = static_cast<double>(members);
  const double part = static_cast<double>(collective.outer) *
                      static_cast<double>(collective.block) *
                      static_cast<double>(SizeOf(collective.dtype));
  switch (collective.kind) {
    case CollectiveKind::kAllReduce:
      return 2 * count * part;
    case CollectiveKind::kAllGather:
      return 2 * count * count * part;
    case CollectiveKind::kReduceScatter:
      return (count + 1) * count * part;
    case CollectiveKind::kBroadcast:
      return 2 * (count - 1) * part;
  }
  return 0;
}

int32_t RingWidth(std::span<const int32_t> members, int32_t gpus_per_node) {
  int32_t width = 0, run = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    ++run;
    const bool node_ends =
        i + 1 == members.size() || members[i + 1] / gpus_per_node != members[i] / gpus_per_node;
    if (!node_ends) continue;
    if (width != 0 && run != width) return 1;
    width = run;
    run = 0;
  }
  return std::max(width, 1);
}

std::vector<CollectiveStep> StepsOf(const Collective& collective, int32_t members, int32_t width,
                                    bool explicit_steps) {
  if (members <= 1) return {};
  switch (PatternOf(collective)) {
    case TransferPattern::kRing:
      return RingSteps(collective, members, width, explicit_steps);
    case TransferPattern::kLine:
      return LineSteps(collective, members);
    case TransferPattern::kTree:
      return TreeSteps(collective, members);
    case TransferPattern::kHalvingDoubling:
      return HalvingDoublingSteps(collective, members);
  }
  return {};
}

}  // namespace tideline

#include "planner/program/live_bound.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <vector>

namespace tideline {
namespace {

int64_t WeightOf(const Instruction& instruction, std::span<const int64_t> bytes) {
  if (instruction.kind == InstructionKind::kAlloc) return bytes[instruction.what];
  if (instruction.kind == InstructionKind::kFree) return -bytes[instruction.what];
  return 0;
}

struct Edge {
  uint32_t awaited = 0;
  uint32_t waiting = 0;
};

// The waits that nothing else implies, in list order of the waiting instruction.
std::vector<Edge> NeededWaits(const Section& section, const HappensBefore& order) {
  std::vector<Edge> edges;
  for (uint32_t waiting = 0; waiting < section.instructions.size(); ++waiting) {
    for (const uint32_t awaited : section.Waits(section.instructions[waiting])) {
      if (order.Needed(section, waiting, awaited)) edges.push_back({awaited, waiting});
    }
  }
  return edges;
}

// The closure problem of a section: nodes with weights, and for each edge (node, required).
struct Closure {
  std::vector<int64_t> weights;
  std::vector<std::pair<uint32_t, uint32_t>> requires_node;
};

// Cuts the lanes into segments between needed waits: an instruction that waits starts one, an
// instruction that is awaited ends one. Within a segment a heaviest downset stops at its start, at
// its best prefix, or at its end.
class ClosureBuilder {
 public:
  ClosureBuilder(const Section& section, const HappensBefore& order, size_t lanes,
                 std::span<const int64_t> bytes)
      : section_(section), bytes_(bytes), edges_(NeededWaits(section, order)) {
    const size_t count = section.instructions.size();
    waits_.resize(count);
    awaited_.resize(count);
    last_node_.resize(count);
    first_node_.resize(count);
    open_.resize(lanes);
    newest_.assign(lanes, kNoId);
    for (const Edge& edge : edges_) {
      waits_[edge.waiting] = true;
      awaited_[edge.awaited] = true;
    }
  }

  Closure Build() {
    for (uint32_t index = 0; index < section_.instructions.size(); ++index) {
      const uint16_t lane = section_.instructions[index].lane;
      Open& open = open_[lane];
      if (waits_[index]) Close(lane);
      if (open.members == 0) open.first = index;
      ++open.members;
      open.last = index;
      open.sum += WeightOf(section_.instructions[index], bytes_);
      open.best = std::max(open.best, open.sum);
      if (awaited_[index]) Close(lane);
    }
    for (size_t lane = 0; lane < open_.size(); ++lane) Close(static_cast<uint16_t>(lane));
    for (const Edge& edge : edges_) {
      closure_.requires_node.emplace_back(first_node_[edge.waiting], last_node_[edge.awaited]);
    }
    return std::move(closure_);
  }

 private:
  struct Open {
    uint32_t members = 0, first = 0, last = 0;
    int64_t sum = 0, best = 0;
  };

  uint32_t AddNode(uint16_t lane, int64_t weight) {
    const uint32_t node = static_cast<uint32_t>(closure_.weights.size());
    closure_.weights.push_back(weight);
    if (newest_[lane] != kNoId) closure_.requires_node.emplace_back(node, newest_[lane]);
    newest_[lane] = node;
    return node;
  }

  void Close(uint16_t lane) {
    Open& open = open_[lane];
    if (open.members == 0) return;
    const bool prefix_is_better = open.best > std::max<int64_t>(open.sum, 0);
    const uint32_t first = AddNode(lane, prefix_is_better ? open.best : open.sum);
    const uint32_t last = prefix_is_better ? AddNode(lane, open.sum - open.best) : first;
    first_node_[open.first] = first;
    last_node_[open.last] = last;
    open = Open();
  }

  const Section& section_;
  std::span<const int64_t> bytes_;
  const std::vector<Edge> edges_;
  std::vector<char> waits_, awaited_;
  std::vector<uint32_t> first_node_, last_node_;  // of the segment that begins, ends there
  std::vector<Open> open_;                        // per lane
  std::vector<uint32_t> newest_;                  // per lane, its newest node
  Closure closure_;
};

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using FlowGraph = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS, boost::no_property,
    boost::property<
        boost::edge_capacity_t, int64_t,
        boost::property<boost::edge_residual_capacity_t, int64_t,
                        boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>>;

void AddFlowEdge(FlowGraph& graph, size_t from, size_t to, int64_t capacity) {
  const auto there = boost::add_edge(from, to, graph).first;
  const auto back = boost::add_edge(to, from, graph).first;
  boost::put(boost::edge_capacity, graph, there, capacity);
  boost::put(boost::edge_capacity, graph, back, 0);
  boost::put(boost::edge_reverse, graph, there, back);
  boost::put(boost::edge_reverse, graph, back, there);
}

// The largest weight of a set of nodes that holds what its nodes require: the positive weights less
// the minimum cut between them and the negative ones.
int64_t MaximumClosure(const Closure& closure) {
  const size_t nodes = closure.weights.size();
  const size_t source = nodes, sink = nodes + 1;
  FlowGraph graph(nodes + 2);
  int64_t positive = 0;
  for (size_t node = 0; node < nodes; ++node) {
    const int64_t weight = closure.weights[node];
    if (weight > 0) {
      positive += weight;
      AddFlowEdge(graph, source, node, weight);
    } else if (weight < 0) {
      AddFlowEdge(graph, node, sink, -weight);
    }
  }
  for (const auto& [node, required] : closure.requires_node) {
    AddFlowEdge(graph, node, required, INT64_MAX / 4);
  }
  std::vector<Traits::edge_descriptor> predecessor(nodes + 2);
  std::vector<boost::default_color_type> color(nodes + 2);
  std::vector<int64_t> distance(nodes + 2);
  const int64_t flow = boost::boykov_kolmogorov_max_flow(
      graph, boost::get(boost::edge_capacity, graph),
      boost::get(boost::edge_residual_capacity, graph), boost::get(boost::edge_reverse, graph),
      predecessor.data(), color.data(), distance.data(), boost::get(boost::vertex_index, graph),
      source, sink);
  return positive - flow;
}

}  // namespace

int64_t LiveBound(const Section& section, const HappensBefore& order, size_t lanes,
                  std::span<const int64_t> bytes) {
  return MaximumClosure(ClosureBuilder(section, order, lanes, bytes).Build());
}

}  // namespace tideline

#include "sim/simulate.h"

#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "models/cluster/cost_model.h"
#include "models/cluster/validate.h"
#include "sim/communication/communicators.h"
#include "sim/engine/engine.h"
#include "sim/fold/fold.h"
#include "sim/interpreter/interpreter.h"

namespace tideline {
namespace {

Status CheckFits(const Program& program, const ClusterSpec& cluster) {
  TL_RETURN_IF_ERROR(ValidateCluster(cluster));
  if (program.ranks.empty()) return InternalError("the Program has no ranks");
  const int64_t gpus = int64_t{cluster.nodes} * cluster.node.gpus;
  if (static_cast<int64_t>(program.ranks.size()) > gpus) {
    return InputError(
        absl::StrCat("cluster '", cluster.name, "' has ", gpus, " GPUs, but the plan's mesh has ",
                     program.ranks.size(), " ranks (dp ", program.mesh[0], ", pp ", program.mesh[1],
                     ", tp ", program.mesh[2], "); give a larger cluster or plan for this one"));
  }
  for (const Rank& rank : program.ranks) {
    if (rank.role >= program.roles.size()) return InternalError("a rank's role is not there");
  }
  return absl::OkStatus();
}

StatusOr<std::vector<double>> Slowdowns(const Program& program, const SimulationOptions& options) {
  std::vector<double> slowdown(program.ranks.size(), 1.0);
  for (const auto& [rank, factor] : options.slow) {
    if (rank < 0 || static_cast<size_t>(rank) >= slowdown.size()) {
      return UsageError(absl::StrCat("slow rank ", rank, ": the plan has ranks 0 to ",
                                     slowdown.size() - 1, "; name one of them"));
    }
    if (!std::isfinite(factor) || factor <= 0) {
      return UsageError(absl::StrCat("slow rank ", rank, ": factor ", factor,
                                     " is not a positive number; 1.2 makes kernels 20% longer"));
    }
    slowdown[rank] = factor;
  }
  return slowdown;
}

RankResult ResultOf(const RankPlay& play) {
  RankResult result;
  result.step_s = play.step_s;
  result.split = play.split;
  result.live_peak_bytes = play.live_peak;
  result.node_bytes_sent = play.bytes_sent[static_cast<size_t>(Medium::kInsideNode)];
  result.network_bytes_sent = play.bytes_sent[static_cast<size_t>(Medium::kNetwork)];
  result.host_bytes_copied = play.bytes_sent[static_cast<size_t>(Medium::kHost)];
  return result;
}

// Every rank gets the figures of the one that was played for it.
void Spread(const Folding& folding, const PlayResult& play, SimulationResult& result) {
  std::vector<uint32_t> player(folding.stands_for.size(), 0);
  for (uint32_t i = 0; i < folding.ranks.size(); ++i) player[folding.ranks[i]] = i;
  for (size_t rank = 0; rank < folding.stands_for.size(); ++rank) {
    const int32_t stands_for = folding.stands_for[rank];
    RankResult& added = result.ranks.emplace_back(ResultOf(play.ranks[player[stands_for]]));
    added.rank = static_cast<int32_t>(rank);
    added.simulated_as = stands_for;
    result.mean += added.split;
  }
  const double ranks = static_cast<double>(result.ranks.size());
  for (double* part : {&result.mean.compute, &result.mean.host, &result.mean.exposed_comm,
                       &result.mean.bubble, &result.mean.stall}) {
    *part /= ranks;
  }
}

}  // namespace

StatusOr<SimulationResult> Simulate(const Program& program, const ClusterSpec& cluster,
                                    const SimulationOptions& options, RunSink* sink) {
  TL_RETURN_IF_ERROR(CheckFits(program, cluster));
  TL_ASSIGN_OR_RETURN(const std::vector<double> slowdown, Slowdowns(program, options));
  std::vector<double> kernel_seconds;
  for (const Kernel& kernel : program.kernels) {
    kernel_seconds.push_back(
        KernelSeconds(cluster.device, kernel.op, kernel.work, kernel.compute_dtype));
  }
  const Communicators communicators(program);
  const Folding folding =
      options.fold ? Fold(program, communicators, cluster, slowdown) : NoFold(program, cluster);
  TL_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Make());
  const PlayInput input{.program = program,
                        .cluster = cluster,
                        .communicators = communicators,
                        .folding = folding,
                        .slowdown = slowdown,
                        .kernel_seconds = kernel_seconds,
                        .explicit_steps = options.explicit_steps,
                        .max_bodies = options.max_bodies,
                        .sink = sink};
  TL_ASSIGN_OR_RETURN(const PlayResult play, Play(input, *engine));
  SimulationResult result;
  result.step_time_s = play.step_time_s;
  result.steady = play.steady;
  result.node_classes = static_cast<int32_t>(folding.nodes.size());
  result.bodies_played = play.bodies;
  result.activities = engine->Activities();
  Spread(folding, play, result);
  return result;
}

}  // namespace tideline

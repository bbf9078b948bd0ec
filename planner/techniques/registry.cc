#include "planner/techniques/registry.h"

#include "planner/techniques/checkpoint/lower.h"
#include "planner/techniques/checkpoint/propose.h"
#include "planner/techniques/data_parallel/lower.h"
#include "planner/techniques/data_parallel/propose.h"
#include "planner/techniques/pipeline/lower.h"
#include "planner/techniques/pipeline/propose.h"
#include "planner/techniques/tensor_parallel/lower.h"
#include "planner/techniques/tensor_parallel/propose.h"
#include "planner/techniques/zero/lower.h"
#include "planner/techniques/zero/propose.h"

namespace tideline {

std::span<const Proposer> Proposers() {
  static constexpr Proposer kProposers[] = {ProposeTensorParallel, ProposeDataParallel,
                                            ProposePipeline, ProposeZero, ProposeCheckpoint};
  return kProposers;
}

std::span<const LoweringPass> LoweringPasses() {
  static constexpr LoweringPass kPasses[] = {
      {"data_parallel", UsesDataParallel, LowerDataParallel},
      {"zero", UsesZero, LowerZero},
      {"tensor_parallel", UsesTensorParallel, LowerTensorParallel},
      {"checkpoint", UsesCheckpoint, LowerCheckpoint},
      {"pipeline", UsesPipeline, LowerPipeline},
  };
  return kPasses;
}

}  // namespace tideline

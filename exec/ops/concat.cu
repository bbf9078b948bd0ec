// Joining two tensors along a dimension, and taking them apart.
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {
namespace {

// y is [outer, a_run + b_run]. One block per outer index.
template <typename Storage>
struct Concat {
  static constexpr const char* kName = "concat";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<Storage, Mode> a, In<Storage, Mode> b,
                                       Out<Storage, Mode> y, int64_t a_run, int64_t b_run) {
    const int64_t to = block.index() * (a_run + b_run);
    const int64_t from_a = block.index() * a_run;
    const int64_t from_b = block.index() * b_run;
    const auto copy = [](int64_t, Storage& element, Storage value) { element = value; };
    block.Map(a_run, copy, y.From(to), a.From(from_a));
    block.Map(b_run, copy, y.From(to + a_run), b.From(from_b));
  }
};

template <typename Storage>
struct Split {
  static constexpr const char* kName = "split";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<Storage, Mode> y,
                                       Out<Storage, Mode> a, Out<Storage, Mode> b, int64_t a_run,
                                       int64_t b_run) {
    const int64_t from = block.index() * (a_run + b_run);
    const int64_t to_a = block.index() * a_run;
    const int64_t to_b = block.index() * b_run;
    const auto copy = [](int64_t, Storage& element, Storage value) { element = value; };
    block.Map(a_run, copy, a.From(to_a), y.From(from));
    block.Map(b_run, copy, b.From(to_b), y.From(from + a_run));
  }
};

// Elements before the dimension, and from it on.
struct Runs {
  int64_t outer, run;
};

Runs RunsOf(const OpCall& call, int operand) {
  Runs runs{1, 1};
  const std::vector<int64_t>& shape = call.Shape(operand);
  for (size_t d = 0; d < shape.size(); ++d) {
    (static_cast<int32_t>(d) < call.attributes().dimension ? runs.outer : runs.run) *= shape[d];
  }
  return runs;
}

template <typename Storage>
Status LaunchConcatOf(const OpCall& call) {
  const Runs a = RunsOf(call, 0);
  return Launch<Concat<Storage>>(call.target(), a.outer, call.Read<Storage>(0),
                                 call.Read<Storage>(1), call.Write<Storage>(2), a.run,
                                 RunsOf(call, 1).run);
}

template <typename Storage>
Status LaunchSplitOf(const OpCall& call) {
  const Runs a = RunsOf(call, 1);
  return Launch<Split<Storage>>(call.target(), a.outer, call.Read<Storage>(0),
                                call.Write<Storage>(1), call.Write<Storage>(2), a.run,
                                RunsOf(call, 2).run);
}

}  // namespace

Status LaunchConcat(const OpCall& call) {
  return SizeOf(call.TypeOf(0)) == 4 ? LaunchConcatOf<uint32_t>(call)
                                     : LaunchConcatOf<uint16_t>(call);
}

Status LaunchSplit(const OpCall& call) {
  return SizeOf(call.TypeOf(0)) == 4 ? LaunchSplitOf<uint32_t>(call)
                                     : LaunchSplitOf<uint16_t>(call);
}

}  // namespace tideline::ops

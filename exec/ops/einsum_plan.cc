#include "exec/ops/einsum_plan.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "models/ops/equation.h"

namespace tideline::ops {
namespace {

// Elements from one index of `letter` to the next in a row-major tensor; 0 if it has none.
int64_t StrideOf(const std::string& letters, const std::vector<int64_t>& shape, char letter) {
  int64_t stride = 1;
  for (size_t d = letters.size(); d-- > 0;) {
    if (letters[d] == letter) return stride;
    stride *= shape[d];
  }
  return 0;
}

// Extent of `letter`; 0 if the tensor does not have it.
int64_t ExtentOf(const std::string& letters, const std::vector<int64_t>& shape, char letter) {
  const size_t d = letters.find(letter);
  return d == std::string::npos ? 0 : shape[d];
}

// Every term has one extent per letter, and equal letters have equal extents.
Status CheckExtents(std::string_view text, const std::vector<std::string>& terms,
                    const std::vector<std::vector<int64_t>>& shapes) {
  const std::string equation = absl::StrCat("equation '", std::string(text), "': ");
  if (shapes.size() != terms.size()) {
    return InputError(absl::StrCat(equation, terms.size(), " terms but ", shapes.size(),
                                   " operands; give one operand per term"));
  }
  std::map<char, int64_t> extents;
  for (size_t term = 0; term < terms.size(); ++term) {
    if (terms[term].size() != shapes[term].size()) {
      return InputError(absl::StrCat(equation, "operand ", term, " has ", shapes[term].size(),
                                     " dimensions but its term '", terms[term], "' ",
                                     terms[term].size(), " letters; they must be as many"));
    }
    for (size_t d = 0; d < terms[term].size(); ++d) {
      const auto [entry, added] = extents.emplace(terms[term][d], shapes[term][d]);
      if (added || entry->second == shapes[term][d]) continue;
      return InputError(absl::StrCat(equation, "letter '", std::string(1, terms[term][d]), "' is ",
                                     shapes[term][d], " in operand ", term, " and ", entry->second,
                                     " before; equal letters need equal extents"));
    }
  }
  return absl::OkStatus();
}

// Whether `inner` runs through what one iteration of `outer` skips, in every operand.
bool Mergeable(const EinsumLoop& outer, const EinsumLoop& inner) {
  return outer.a == inner.a * inner.extent && outer.b == inner.b * inner.extent &&
         outer.c == inner.c * inner.extent && outer.bias == inner.bias * inner.extent;
}

// Appends `loop` as the innermost of `loops`.
void Append(std::vector<EinsumLoop>& loops, const EinsumLoop& loop) {
  if (loop.extent == 1) return;
  if (!loops.empty() && Mergeable(loops.back(), loop)) {
    const int64_t extent = loops.back().extent * loop.extent;
    loops.back() = loop;
    loops.back().extent = extent;
    return;
  }
  loops.push_back(loop);
}

// Takes the loop that the product shall run over out of `loops`: the one that is contiguous in C
// if there is one, else the longest.
EinsumLoop TakeBest(std::vector<EinsumLoop>& loops) {
  if (loops.empty()) return {};
  auto best = std::max_element(
      loops.begin(), loops.end(),
      [](const EinsumLoop& x, const EinsumLoop& y) { return x.extent < y.extent; });
  for (auto loop = loops.begin(); loop != loops.end(); ++loop) {
    if (loop->c == 1) best = loop;
  }
  const EinsumLoop taken = *best;
  loops.erase(best);
  return taken;
}

}  // namespace

int64_t EinsumPlan::Batches() const {
  int64_t count = 1;
  for (const EinsumLoop& loop : batch) count *= loop.extent;
  return count;
}

StatusOr<EinsumPlan> PlanEinsum(std::string_view equation,
                                const std::vector<std::vector<int64_t>>& shapes) {
  TL_ASSIGN_OR_RETURN(const Equation parsed, ParseEquation(equation));
  std::vector<std::string> terms{parsed.a, parsed.b};
  if (parsed.has_bias) terms.push_back(parsed.bias);
  terms.push_back(parsed.c);
  TL_RETURN_IF_ERROR(CheckExtents(equation, terms, shapes));
  const auto append = [&](std::vector<EinsumLoop>& loops, const std::string& letters) {
    for (const char letter : letters) {
      Append(loops, {.extent = std::max(ExtentOf(terms[0], shapes[0], letter),
                                        ExtentOf(terms[1], shapes[1], letter)),
                     .a = StrideOf(terms[0], shapes[0], letter),
                     .b = StrideOf(terms[1], shapes[1], letter),
                     .c = StrideOf(terms.back(), shapes.back(), letter),
                     .bias = parsed.has_bias ? StrideOf(terms[2], shapes[2], letter) : 0});
    }
  };
  EinsumPlan plan;
  std::vector<EinsumLoop> rows, columns;
  append(plan.batch, parsed.batch);
  append(rows, parsed.m);
  append(columns, parsed.n);
  append(plan.summed, parsed.k);
  const EinsumLoop m = TakeBest(rows);
  const EinsumLoop n = TakeBest(columns);
  plan.batch.insert(plan.batch.end(), rows.begin(), rows.end());
  plan.batch.insert(plan.batch.end(), columns.begin(), columns.end());
  EinsumLoop k;
  if (!plan.summed.empty()) {
    k = plan.summed.back();
    plan.summed.pop_back();
  }
  plan.gemm = {.m = m.extent,
               .n = n.extent,
               .k = k.extent,
               .a_m = m.a,
               .a_k = k.a,
               .b_k = k.b,
               .b_n = n.b,
               .c_m = m.c,
               .c_n = n.c};
  plan.bias_m = m.bias;
  plan.bias_n = n.bias;
  return plan;
}

}  // namespace tideline::ops

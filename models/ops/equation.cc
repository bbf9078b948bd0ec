#include "models/ops/equation.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace tideline {
namespace {

bool Has(std::string_view letters, char letter) {
  return letters.find(letter) != std::string_view::npos;
}

Status Malformed(std::string_view text, const std::string& why) {
  return InputError(absl::StrCat("equation ", Quoted(text), ": ", why,
                                 "; write it like 'bsk,kn->bsn', one letter a-z per dimension"));
}

// Splits "x,y->z" into its terms, output last; each term has distinct letters.
StatusOr<std::vector<std::string>> Terms(std::string_view text) {
  const size_t arrow = text.find("->");
  if (arrow == std::string_view::npos) return Malformed(text, "there is no '->'");
  std::vector<std::string> terms(1);
  for (char letter : text.substr(0, arrow)) {
    if (letter == ',') {
      terms.emplace_back();
    } else {
      terms.back() += letter;
    }
  }
  terms.emplace_back(text.substr(arrow + 2));
  for (const std::string& term : terms) {
    std::string seen;
    for (char letter : term) {
      if (letter < 'a' || letter > 'z') {
        return Malformed(text, absl::StrCat(Quoted({&letter, 1}), " is no letter"));
      }
      if (Has(seen, letter)) {
        return Malformed(
            text, absl::StrCat("letter '", std::string(1, letter), "' is twice in ", Quoted(term)));
      }
      seen += letter;
    }
  }
  return terms;
}

}  // namespace

StatusOr<Equation> ParseEquation(std::string_view text) {
  TL_ASSIGN_OR_RETURN(const std::vector<std::string> terms, Terms(text));
  if (terms.size() != 3 && terms.size() != 4) {
    return Malformed(text, absl::StrCat("it has ", terms.size() - 1, " operands, not 2 or 3"));
  }
  Equation equation;
  equation.a = terms[0];
  equation.b = terms[1];
  equation.has_bias = terms.size() == 4;
  if (equation.has_bias) equation.bias = terms[2];
  equation.c = terms.back();
  for (char letter : equation.c) {
    const bool in_a = Has(equation.a, letter);
    const bool in_b = Has(equation.b, letter);
    if (!in_a && !in_b) {
      return Malformed(text, absl::StrCat("letter '", std::string(1, letter),
                                          "' of the output is in neither operand"));
    }
    (in_a && in_b ? equation.batch : in_a ? equation.m : equation.n) += letter;
  }
  for (char letter : equation.a) {
    if (Has(equation.c, letter)) continue;
    if (!Has(equation.b, letter)) {
      return Malformed(
          text, absl::StrCat("letter '", std::string(1, letter), "' is in the first operand only"));
    }
    equation.k += letter;
  }
  for (char letter : equation.b) {
    if (!Has(equation.a, letter) && !Has(equation.c, letter)) {
      return Malformed(text, absl::StrCat("letter '", std::string(1, letter),
                                          "' is in the second operand only"));
    }
  }
  for (char letter : equation.bias) {
    if (!Has(equation.c, letter)) {
      return Malformed(text, absl::StrCat("letter '", std::string(1, letter),
                                          "' of the bias is not in the output"));
    }
  }
  return equation;
}

StatusOr<RowReduction> ParseReduction(std::string_view text) {
  TL_ASSIGN_OR_RETURN(const std::vector<std::string> terms, Terms(text));
  if (terms.size() != 2) return Malformed(text, "a reduction has one operand");
  for (char letter : terms[1]) {
    if (!Has(terms[0], letter)) {
      return Malformed(text, absl::StrCat("letter '", std::string(1, letter),
                                          "' of the output is not in the operand"));
    }
  }
  return RowReduction{terms[0], terms[1]};
}

}  // namespace tideline

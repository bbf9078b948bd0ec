#include "models/ops/equation.h"

#include <gtest/gtest.h>

namespace tideline {
namespace {

TEST(EquationTest, LettersFallIntoTheLoopsOfAMatrixProduct) {
  struct Case {
    std::string text, batch, m, n, k;
  };
  const Case cases[] = {
      {"bsk,kn->bsn", "", "bs", "n", "k"},
      {"bsk,qkn,qn->qbsn", "", "bs", "qn", "k"},
      {"qbsn,qkn->bsk", "", "bs", "k", "qn"},
      {"qbsn,bsk->qkn", "", "qn", "k", "bs"},
      {"bsad,btad->bast", "ba", "s", "t", "d"},
      {"bsgrd,btgd->bgrst", "bg", "rs", "t", "d"},
      {"bgrst,bsgrd->btgd", "bg", "t", "d", "rs"},
      {"bast,btad->bsad", "ba", "s", "d", "t"},
      {"k,k->", "", "", "", "k"},
      {"m,n->mn", "", "m", "n", ""},
  };
  for (const Case& expected : cases) {
    const StatusOr<Equation> equation = ParseEquation(expected.text);
    ASSERT_TRUE(equation.ok()) << equation.status();
    // Sorted by role: the order inside a role is that of C, or of A for k.
    EXPECT_EQ(equation->batch, expected.batch) << expected.text;
    EXPECT_EQ(equation->m, expected.m) << expected.text;
    EXPECT_EQ(equation->n, expected.n) << expected.text;
    EXPECT_EQ(equation->k, expected.k) << expected.text;
  }
}

TEST(EquationTest, BiasIsAThirdTerm) {
  const Equation equation = ParseEquation("bsk,qkn,qn->qbsn").value();
  EXPECT_TRUE(equation.has_bias);
  EXPECT_EQ(equation.bias, "qn");
  EXPECT_FALSE(ParseEquation("bsk,kn->bsn")->has_bias);
}

TEST(EquationTest, MalformedOnesSayWhy) {
  const std::pair<std::string, std::string> cases[] = {
      {"bsk,kn", "no '->'"},
      {"bsk->bs", "1 operands"},
      {"bsk,kn,n,n->bsn", "4 operands"},
      {"bsk,kn->bsx", "'x' of the output"},
      {"bskz,kn->bsn", "'z' is in the first operand only"},
      {"bsk,knz->bsn", "'z' is in the second operand only"},
      {"bsk,kn,z->bsn", "'z' of the bias"},
      {"bss,sn->bn", "twice in `bss`"},
      {"b1,1n->bn", "no letter"},
      {"", "no '->'"},
  };
  for (const auto& [text, message] : cases) {
    const Status status = ParseEquation(text).status();
    EXPECT_EQ(ExitCode(status), 5) << text;
    EXPECT_NE(std::string(status.message()).find(message), std::string::npos) << status;
  }
}

TEST(EquationTest, RowReduction) {
  const RowReduction reduction = ParseReduction("qbsn->qn").value();
  EXPECT_EQ(reduction.input, "qbsn");
  EXPECT_EQ(reduction.output, "qn");
  EXPECT_EQ(ExitCode(ParseReduction("qbsn->qx").status()), 5);
  EXPECT_EQ(ExitCode(ParseReduction("a,b->a").status()), 5);
}

}  // namespace
}  // namespace tideline

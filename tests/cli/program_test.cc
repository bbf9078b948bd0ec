// The built program as a user meets it: exit codes, what goes to stdout and what to stderr.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/command.h"
#include "tests/cli/run_program.h"

namespace tideline {
namespace {

ProgramResult Tideline(std::vector<std::string> words, const ProgramOptions& options = {}) {
  words.insert(words.begin(), "cli/tideline");
  return RunProgram(words, options);
}

TEST(ProgramTest, HelpAndVersion) {
  const ProgramResult help = Tideline({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.out.find("Usage: tideline VERB"), std::string::npos);
  EXPECT_EQ(help.err, "");
  EXPECT_EQ(Tideline({"--version"}).exit_code, 0);
}

// Every verb has a help page with an example of itself.
TEST(ProgramTest, EveryVerbHasHelpWithExamples) {
  for (const auto& command : MakeCommands()) {
    const std::string name = command->Info().name;
    const ProgramResult help = Tideline({name, "--help"});
    EXPECT_EQ(help.exit_code, 0) << name;
    EXPECT_NE(help.out.find("  tideline " + name), std::string::npos) << help.out;
    EXPECT_NE(help.out.find("\nExamples:\n"), std::string::npos) << name;
  }
}

TEST(ProgramTest, BadCommandLinesExitWith2AndLeaveStdoutEmpty) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, {"doctr"}, {"doctor", "--jsn"}, {"doctor", "extra"}}) {
    const ProgramResult result = Tideline(words);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find("tideline"), std::string::npos);
  }
  EXPECT_NE(Tideline({"doctr"}).err.find("did you mean `doctor`?"), std::string::npos);
}

TEST(ProgramTest, DoctorInTextAndJson) {
  const ProgramResult text = Tideline({"doctor"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_NE(text.out.find("--device emulated works here"), std::string::npos);
  const ProgramResult json = Tideline({"doctor", "--json"});
  EXPECT_EQ(json.exit_code, 0);
  const auto document = JsonDocument::Parse(json.out, "doctor");
  ASSERT_TRUE(document.ok()) << document.status().message();
  auto object = *document->root().AsObject();
  int32_t version = 0;
  int32_t cores = 0;
  std::string simgrid;
  EXPECT_TRUE(object.Read("schema_version", &version, 1, 1).ok());
  EXPECT_TRUE(object.Read("cpu_cores", &cores, 1, 1 << 20).ok());
  EXPECT_TRUE(object.Read("simgrid_version", &simgrid).ok());
  EXPECT_EQ(simgrid.rfind("3.", 0), 0u);
}

TEST(ProgramTest, OutputGoesToTheFileInstead) {
  const std::string path = ::testing::TempDir() + "/doctor.json";
  const ProgramResult result = Tideline({"doctor", "--json", "-o", path});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(JsonDocument::Load(path).ok());
  EXPECT_NE(Tideline({"doctor", "-o", "-"}).out, "");
  const ProgramResult failed = Tideline({"doctor", "-o", "/nonexistent/x"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_EQ(failed.out, "");
}

TEST(ProgramTest, ColorsOnlyWhenWanted) {
  EXPECT_EQ(Tideline({"doctor", "-o", "/nonexistent/x"}).err.find('\x1b'), std::string::npos);
  EXPECT_NE(
      Tideline({"doctor", "-o", "/nonexistent/x", "--color", "always"}).err.find("\x1b[1;31m"),
      std::string::npos);
}

TEST(ProgramTest, AFullDiskIsAFailedRun) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  const ProgramResult result = RunProgram({"/bin/sh", "-c", "cli/tideline doctor > /dev/full"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("stdout"), std::string::npos);
}

}  // namespace
}  // namespace tideline

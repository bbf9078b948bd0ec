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

// Without a verb the page is shown too, as the complaint that it is.
TEST(ProgramTest, WithoutAVerbShowsThePage) {
  const ProgramResult result = Tideline({});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err.rfind("tideline: the verb is missing\n", 0), 0u) << result.err;
  EXPECT_NE(result.err.find(Tideline({"--help"}).out), std::string::npos) << result.err;
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

// gpt2 (DEFINITIONS 10 and 11): 124,439,808 parameters; forward 24BLsh^2(1 + s/6h) + 2BshV with
// s = 1024, h = 768, L = 12, V = 50257 and causal attention at half:
// 24 * 12 * 1024 * 768^2 + 12 * 2 * 1024^2 * 768 + 2 * 1024 * 768 * 50257.
TEST(ProgramTest, ProfileOfGpt2) {
  const ProgramResult result =
      Tideline({"profile", "gpt2", "--seq", "1024", "--json", "--by-module"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto document = JsonDocument::Parse(result.out, "profile");
  ASSERT_TRUE(document.ok()) << document.status().message();
  auto object = *document->root().AsObject();
  int64_t parameters = 0;
  double forward = 0;
  double backward = 0;
  int64_t saved = 0;
  EXPECT_TRUE(object.Read("parameters", &parameters).ok());
  EXPECT_TRUE(object.Read("flops_forward", &forward).ok());
  EXPECT_TRUE(object.Read("flops_backward", &backward).ok());
  EXPECT_TRUE(object.Read("saved_activation_bytes", &saved, 1).ok());
  EXPECT_EQ(parameters, 124439808);
  EXPECT_EQ(forward,
            24.0 * 12 * 1024 * 768 * 768 + 12.0 * 2 * 1024 * 1024 * 768 + 2.0 * 1024 * 768 * 50257);
  EXPECT_EQ(backward, 2 * forward);
  EXPECT_TRUE(object.Find("by_op")->IsNull());
  EXPECT_FALSE(object.Find("by_module")->AsArray()->empty());
  const ProgramResult text = Tideline({"profile", "gpt2", "--by-op", "--by-module"});
  EXPECT_NE(text.out.find("124439808"), std::string::npos);
  EXPECT_NE(text.out.find("operator"), std::string::npos);
  EXPECT_NE(text.out.find("attention"), std::string::npos);
}

TEST(ProgramTest, ProfileRefusesBadInput) {
  const ProgramResult unknown = Tideline({"profile", "gpt22"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("gpt2"), std::string::npos);
  EXPECT_EQ(Tideline({"profile", "gpt2", "--seq", "4096"}).exit_code, 2);
  EXPECT_EQ(Tideline({"profile", "gpt2", "--dtype", "fp8"}).exit_code, 2);
  EXPECT_EQ(Tideline({"profile", "missing/config.json"}).exit_code, 5);
  const std::string path = ::testing::TempDir() + "/config.json";
  ASSERT_TRUE(WriteFileAtomically(path, "{\"model_type\": \"gpt2\", \"n_layer\": -1}").ok());
  const ProgramResult damaged = Tideline({"profile", path});
  EXPECT_EQ(damaged.exit_code, 5);
  EXPECT_EQ(damaged.out, "");
  EXPECT_NE(damaged.err.find(path), std::string::npos);
}

// A model file that never comes: Ctrl+C and SIGTERM end the wait at once.
TEST(ProgramTest, SignalsEndTheProgramWithinASecond) {
  const std::string path = ::testing::TempDir() + "/fifo.json";
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    const ProgramResult result = Tideline({"profile", path}, {.signal = signal});
    EXPECT_EQ(result.exit_code, 128 + signal);
    EXPECT_EQ(result.out, "");
  }
}

TEST(ProgramTest, OutputGoesToTheFileInstead) {
  const std::string path = ::testing::TempDir() + "/doctor.json";
  const ProgramResult result = Tideline({"doctor", "--json", "-o", path});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err.rfind("wrote " + path + " (", 0), 0u) << result.err;
  EXPECT_EQ(Tideline({"doctor", "--json", "--quiet", "-o", path}).err, "");
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

#include "cli/outputs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tideline {
namespace {

namespace fs = std::filesystem;

class OutputsTest : public ::testing::Test {
 protected:
  OutputsTest()
      : folder_(::testing::TempDir() + "/outputs-" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/sub");
    std::ofstream(folder_ + "/file") << "old";
  }
  size_t Entries() const {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : fs::recursive_directory_iterator(folder_)) ++count;
    return count;
  }
  static CommandInfo Info() {
    CommandInfo info;
    info.arguments = {{.name = "PLAN", .sentence = "", .path_use = PathUse::kReads}};
    info.options = {
        {.name = "trace", .sentence = "", .path_use = PathUse::kWritesFile},
        {.name = "data", .sentence = "", .path_use = PathUse::kReads},
        {.name = "model", .sentence = "", .path_use = PathUse::kReadsOrName},
        {.name = "keep", .sentence = "", .path_use = PathUse::kWritesFolder},
    };
    return info;
  }
  Status Check(const std::string& option, const std::string& value,
               const std::string& output = "") const {
    CommandContext context;
    context.arguments = {folder_ + "/file"};
    context.output = output;
    const CommandInfo info = Info();
    for (const OptionRecord& record : info.options) {
      if (record.name != option) continue;
      EXPECT_TRUE(context.options.Add(record, value).ok());
    }
    return CheckOutputs(info, context);
  }

  const std::string folder_;
};

// Every option of every verb that is called FILE or DIR says what becomes of it.
TEST_F(OutputsTest, EveryPathOfEveryVerbIsDeclared) {
  for (const auto& command : MakeCommands()) {
    const CommandInfo info = command->Info();
    for (const OptionRecord& option : info.options) {
      const bool path = option.value_name == "FILE" || option.value_name == "DIR" ||
                        option.value_name == "CLUSTER";
      EXPECT_EQ(path, option.path_use != PathUse::kNone) << info.name << " --" << option.name;
      EXPECT_EQ(option.value_name == "DIR", option.path_use == PathUse::kWritesFolder);
    }
  }
}

TEST_F(OutputsTest, WritablePlacesPassAndNothingIsLeft) {
  const size_t before = Entries();
  for (const std::string& path : {folder_ + "/new", folder_ + "/sub/new"}) {
    EXPECT_TRUE(Check("trace", path).ok()) << path;
    EXPECT_TRUE(Check("", "", path).ok()) << path;
    EXPECT_TRUE(Check("keep", path + "/a/b").ok()) << path;
  }
  EXPECT_TRUE(Check("keep", folder_).ok());
  EXPECT_TRUE(Check("", "", "-").ok());
  EXPECT_EQ(Entries(), before);
}

TEST_F(OutputsTest, UnwritablePlacesAreNamedWithTheirOption) {
  const size_t before = Entries();
  for (const std::string& path :
       {folder_ + "/none/x", folder_, folder_ + "/file/x", folder_ + "/",
        folder_ + "/" + std::string(300, 'x'), std::string("/dev/null")}) {
    const Status traced = Check("trace", path);
    EXPECT_EQ(ExitCode(traced), 1) << path;
    EXPECT_NE(traced.message().find("--trace"), std::string::npos) << traced;
    const Status output = Check("", "", path);
    EXPECT_EQ(ExitCode(output), 1) << path;
    EXPECT_NE(output.message().find("-o"), std::string::npos) << output;
  }
  for (const std::string& path : {folder_ + "/sub/../file/x", std::string("/dev/null/x")}) {
    const Status kept = Check("keep", path);
    EXPECT_EQ(ExitCode(kept), 1) << path;
    EXPECT_NE(kept.message().find("--keep"), std::string::npos) << kept;
  }
  EXPECT_EQ(Entries(), before);
}

TEST_F(OutputsTest, AnOutputIsNoInputAndNoOtherOutput) {
  const std::string again = folder_ + "/sub/../file";
  fs::create_symlink(folder_ + "/file", folder_ + "/link");
  for (const std::string& path : {folder_ + "/file", again, folder_ + "/link"}) {
    EXPECT_EQ(ExitCode(Check("trace", path)), 2) << path;
    EXPECT_EQ(ExitCode(Check("", "", path)), 2) << path;
    EXPECT_TRUE(Check("data", path).ok()) << "two inputs may be one file";
  }
  EXPECT_EQ(ExitCode(Check("trace", folder_ + "/new", folder_ + "/sub/../new")), 2);
  EXPECT_EQ(ExitCode(Check("data", folder_ + "/d", folder_ + "/d")), 2);
  EXPECT_EQ(ExitCode(Check("model", folder_ + "/m.json", folder_ + "/m.json")), 2);
  EXPECT_TRUE(Check("model", "gpt2", "gpt2").ok()) << "a name is no path";
}

}  // namespace
}  // namespace tideline

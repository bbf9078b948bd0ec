// The libFuzzer program of one fuzz target; ./tideline fuzz runs it for each.
//
//   TIDELINE_FUZZ_TARGET=json fuzzer -max_total_time=60 CORPUS_FOLDER
//   fuzzer --list                    the targets' names
//   fuzzer --seeds NAME FOLDER       writes its seeds, a file each, and its dictionary FOLDER.dict
//
// A finding (a crash, a hang, or an answer that FindingOf objects to) ends it with the input saved.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fuzz/target.h"

namespace tideline {
namespace {

const FuzzTarget* FindTarget(const std::string& name) {
  static const std::vector<FuzzTarget> targets = FuzzTargets();
  const auto found = std::find_if(targets.begin(), targets.end(),
                                  [&](const FuzzTarget& target) { return target.name == name; });
  if (found != targets.end()) return &*found;
  std::fprintf(stderr, "fuzzer: there is no target '%s'; --list names them\n", name.c_str());
  std::exit(2);
}

void WriteSeeds(const FuzzTarget& target, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const std::string& seed : target.seeds()) {
    std::ofstream(folder / ("seed" + std::to_string(number++)), std::ios::binary) << seed;
  }
  std::ofstream dictionary(folder.string() + ".dict");
  for (const std::string& token : target.tokens) {
    dictionary << '"';
    for (const char c : token) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(c));
      dictionary << escaped;
    }
    dictionary << "\"\n";
  }
}

}  // namespace
}  // namespace tideline

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  const std::string first = *count > 1 ? (*arguments)[1] : "";
  if (first == "--list") {
    for (const auto& target : tideline::FuzzTargets()) std::printf("%s\n", target.name.c_str());
    std::exit(0);
  }
  if (first == "--seeds" && *count == 4) {
    tideline::WriteSeeds(*tideline::FindTarget((*arguments)[2]), (*arguments)[3]);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const tideline::FuzzTarget* target = [] {
    const char* name = std::getenv("TIDELINE_FUZZ_TARGET");
    return tideline::FindTarget(name == nullptr ? "" : name);
  }();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string finding = tideline::FindingOf(target->parse(bytes), target->exit_codes);
  if (!finding.empty()) {
    std::fprintf(stderr, "finding: %s\n", finding.c_str());
    std::abort();
  }
  return 0;
}

#include "tests/fuzz/mutate.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>

#include "tests/fuzz/target.h"

namespace tideline {
namespace {

constexpr std::array<std::string_view, 16> kExtremeNumbers = {"0",
                                                              "1",
                                                              "-1",
                                                              "-0",
                                                              "2147483648",
                                                              "9223372036854775807",
                                                              "9223372036854775808",
                                                              "18446744073709551616",
                                                              "1e308",
                                                              "1e309",
                                                              "1e-400",
                                                              "0.1",
                                                              "nan",
                                                              "inf",
                                                              "00",
                                                              "99999999999999999999999999999999"};

class Mutator {
 public:
  Mutator(const std::vector<std::string>& seeds, const std::vector<std::string>& tokens,
          std::mt19937_64* random)
      : seeds_(seeds), tokens_(tokens), random_(*random) {}

  std::string Run() {
    text_ = seeds_[Below(seeds_.size())];
    const size_t edits = 1 + Below(8);
    for (size_t edit = 0; edit < edits; ++edit) Edit();
    return std::move(text_);
  }

 private:
  static constexpr size_t kLongest = 1 << 16;

  size_t Below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  std::string_view Piece(const std::string& text) {
    const size_t start = Below(text.size() + 1);
    return std::string_view(text).substr(start, 1 + Below(32));
  }

  void ReplaceNumber() {
    const size_t start = text_.find_first_of("0123456789", Below(text_.size() + 1));
    if (start == std::string::npos) return;
    const size_t end = std::min(text_.find_first_not_of("0123456789", start), text_.size());
    text_.replace(start, end - start, kExtremeNumbers[Below(kExtremeNumbers.size())]);
  }

  void Edit() {
    const size_t place = Below(text_.size() + 1);
    const size_t length = 1 + Below(Below(4) == 0 ? 64 : 4);
    switch (Below(10)) {
      case 0:
        if (place < text_.size()) text_[place] ^= static_cast<char>(1 << Below(8));
        return;
      case 1:
        text_.insert(place, 1, static_cast<char>(Below(256)));
        return;
      case 2:
        text_.erase(std::min(place, text_.size()), length);
        return;
      case 3: {
        const std::string piece = text_.substr(place, length);
        const size_t times = Below(8) == 0 ? 300 : 1 + Below(3);
        for (size_t time = 0; time < times && text_.size() < kLongest; ++time) {
          text_.insert(place, piece);
        }
        return;
      }
      case 4: {
        const size_t other = Below(text_.size() + 1);
        if (place < text_.size() && other < text_.size()) std::swap(text_[place], text_[other]);
        return;
      }
      case 5:
      case 6:
        if (!tokens_.empty()) text_.insert(place, tokens_[Below(tokens_.size())]);
        return;
      case 7:
        text_.insert(place, Piece(seeds_[Below(seeds_.size())]));
        return;
      case 8:
        ReplaceNumber();
        return;
      default:
        if (Below(4) == 0) text_.resize(place);
    }
  }

  const std::vector<std::string>& seeds_;
  const std::vector<std::string>& tokens_;
  std::mt19937_64& random_;
  std::string text_;
};

// Keeps the present input on disk: the kernel still has it after a crash.
class LastInput {
 public:
  LastInput() {
    const char* folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
    if (folder == nullptr) return;
    std::string path = std::string(folder) + "/fuzz_last_input";
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    if (test != nullptr) path += std::string("_") + test->name();
    std::replace(path.begin() + static_cast<std::ptrdiff_t>(std::string(folder).size()) + 1,
                 path.end(), '/', '_');
    descriptor_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  }
  LastInput(const LastInput&) = delete;
  LastInput& operator=(const LastInput&) = delete;
  ~LastInput() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  void Set(std::string_view input) {
    if (descriptor_ < 0) return;
    if (pwrite(descriptor_, input.data(), input.size(), 0) < 0 ||
        ftruncate(descriptor_, static_cast<off_t>(input.size())) != 0) {
      close(descriptor_);
      descriptor_ = -1;
    }
  }

 private:
  int descriptor_ = -1;
};

}  // namespace

std::string Mutate(const std::vector<std::string>& seeds, const std::vector<std::string>& tokens,
                   std::mt19937_64* random) {
  return Mutator(seeds, tokens, random).Run();
}

FuzzResult FuzzParser(const std::vector<std::string>& seeds,
                      const std::function<Status(std::string_view)>& parse,
                      const FuzzOptions& options) {
  FuzzResult result;
  LastInput last_input;
  for (const std::string& seed : seeds) {
    last_input.Set(seed);
    const Status status = parse(seed);
    EXPECT_TRUE(status.ok()) << "a seed must be valid: " << seed << "\n" << status.message();
    if (!status.ok()) return result;
  }
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                       std::chrono::duration<double>(options.budget_s));
  while (result.cases < options.most_cases && std::chrono::steady_clock::now() < end) {
    const auto index = static_cast<uint64_t>(result.cases);
    std::mt19937_64 random(options.seed * 0x9e3779b97f4a7c15 + index);
    const std::string input = Mutate(seeds, options.tokens, &random);
    last_input.Set(input);
    const Status status = parse(input);
    const std::string finding = FindingOf(status, options.exit_codes);
    if (!finding.empty()) {
      ADD_FAILURE() << "case " << index << " of seed " << options.seed << ": " << finding
                    << "\ninput:\n"
                    << input;
      return result;
    }
    ++result.cases;
    ++(status.ok() ? result.accepted : result.rejected);
  }
  ::testing::Test::RecordProperty("fuzz_cases", std::to_string(result.cases));
  return result;
}

}  // namespace tideline

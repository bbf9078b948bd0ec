// Option records: each option is stated once (name, sentence, unit, default, range) and feeds the
// command-line flags, their checks and the documentation.
#ifndef TIDELINE_BASE_OPTIONS_H_
#define TIDELINE_BASE_OPTIONS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tideline {

enum class OptionKind : uint8_t {
  kFlag,     // no value: absent or given
  kText,     // any text
  kInteger,  // a whole number in [least, most]
  kReal,     // a number in [least, most]
  kBytes,    // a size with its unit: 80GiB
  kSeconds,  // a time with its unit: 5us
  kChoice,   // one of `choices`
};

// What a value that may be a path is for: outputs are checked before the work, and none may be an
// input as well.
enum class PathUse : uint8_t {
  kNone,         // no path
  kReads,        // a file that is read
  kReadsOrName,  // a file when it ends in .json or has a slash, else a name
  kReadsData,    // files of tokens, named as --data names them
  kWritesFile,
  kWritesFolder,
};

struct OptionRecord {
  std::string name;  // "memory-limit": the flag is --memory-limit
  OptionKind kind = OptionKind::kText;
  std::string value_name = {};    // what help calls the value: "SIZE"
  std::string sentence;           // one sentence, ending in a full stop
  std::string default_text = {};  // empty: no default, the option is then absent
  std::vector<std::string> choices = {};
  double least = std::numeric_limits<int32_t>::min();
  double most = std::numeric_limits<int32_t>::max();
  char short_name = 0;    // 'o': also -o
  bool repeated = false;  // may be given several times
  bool required = false;
  PathUse path_use = PathUse::kNone;
};

// "an integer from 1 to 4096", "one of order, kernels, none", "a size such as 80GiB".
std::string DescribeRange(const OptionRecord& record);

// The usage error, with the option's name and what to write, when `text` is no value of the option.
Status CheckOptionValue(const OptionRecord& record, std::string_view text);

// The checked values of one command line.
class OptionValues {
 public:
  // Checks `text` and adds it; a second value of an option that is not repeated is an error.
  Status Add(const OptionRecord& record, std::string_view text);
  // Puts the defaults in where nothing was given. Error: a required option is absent.
  Status FillDefaults(const std::vector<OptionRecord>& records);

  // Given on the command line, or has a default.
  bool Has(std::string_view name) const { return values_.contains(name); }
  bool Flag(std::string_view name) const { return Has(name); }

  // Asking for an option that is absent, or as another kind, is a programmer error.
  const std::string& Text(std::string_view name) const;
  const std::vector<std::string>& Texts(std::string_view name) const;
  int64_t Integer(std::string_view name) const;
  double Real(std::string_view name) const;
  int64_t Bytes(std::string_view name) const;
  double Seconds(std::string_view name) const;

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

}  // namespace tideline

#endif  // TIDELINE_BASE_OPTIONS_H_

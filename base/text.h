// Text helpers for messages and for lists on the command line: nearest names, "valid: ..." lists,
// quoting of untrusted text, and "key=value,key={a=b}" lists.
//
// All functions are pure; errors are usage errors (exit 2) unless said otherwise.
#ifndef TIDELINE_BASE_TEXT_H_
#define TIDELINE_BASE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tideline {

// Single-character insertions, deletions, replacements and swaps of neighbours that turn `a` into
// `b` (optimal string alignment distance), letters compared without case.
// O(|a| * |b|); texts are cut to their first 64 characters.
size_t EditDistance(std::string_view a, std::string_view b);

// The name in `valid` nearest to `name`, of which at most a third of the letters differ; else the
// first that begins with `name` (three letters or more); else none. Ties go to the earlier name.
std::optional<std::string> NearestName(std::string_view name,
                                       const std::vector<std::string>& valid);

// "a, b, c".
std::string JoinNames(const std::vector<std::string>& names);

// "unknown model `gpt22`; did you mean `gpt2`? valid: gpt2, opt-30b". `kind` is what is named.
std::string UnknownName(std::string_view kind, std::string_view name,
                        const std::vector<std::string>& valid);

// "1 GPU", "4 GPUs".
std::string Counted(int64_t count, std::string_view noun);

// `text` in backquotes, fit for a message: control and non-ASCII bytes as \xNN, cut after `limit`
// characters with "...".
std::string Quoted(std::string_view text, size_t limit = 60);

// One entry of a list.
struct KeyValue {
  std::string key;
  std::string value;
};

// Splits at `separator` outside braces: Split("a{b=1,c=2},d", ',') is {"a{b=1,c=2}", "d"}. Spaces
// around a part are dropped. The empty text has no parts. Errors: unbalanced braces, an empty part.
StatusOr<std::vector<std::string>> SplitOutsideBraces(std::string_view text, char separator);

// "tp=8, pp=2, offload={budget=2GiB}" in order; braces around a whole value are kept. Errors name
// the entry: no "=", empty key or value, a key given twice, unbalanced braces.
StatusOr<std::vector<KeyValue>> ParseKeyValues(std::string_view text);

// "name{list}" in its two parts; the list is empty without braces. Errors: unbalanced braces, text
// after the closing one.
struct BracedName {
  std::string name;
  std::string list;
};
StatusOr<BracedName> SplitBracedName(std::string_view text);

// `text` without the white space at both ends.
std::string_view Trim(std::string_view text);

}  // namespace tideline

#endif  // TIDELINE_BASE_TEXT_H_

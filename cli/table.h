// Plain text tables: the first column left, the others right, two spaces between.
#ifndef TIDELINE_CLI_TABLE_H_
#define TIDELINE_CLI_TABLE_H_

#include <string>
#include <utility>
#include <vector>

namespace tideline {

// Every row has as many cells as the heading. Ends in a newline; no trailing spaces.
std::string FormatTable(const std::vector<std::string>& heading,
                        const std::vector<std::vector<std::string>>& rows);

// "name       value" lines, values in one column.
std::string FormatPairs(const std::vector<std::pair<std::string, std::string>>& pairs);

}  // namespace tideline

#endif  // TIDELINE_CLI_TABLE_H_

#include "cli/table.h"

#include <algorithm>

#include "base/check.h"

namespace tideline {
namespace {

// Characters, not bytes: continuation bytes of UTF-8 take no column.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

void AppendRow(const std::vector<std::string>& row, const std::vector<size_t>& widths,
               std::string* text) {
  std::string line;
  for (size_t column = 0; column < row.size(); ++column) {
    const std::string padding(widths[column] - Width(row[column]), ' ');
    if (column > 0) line += "  ";
    line += column == 0 ? row[column] + padding : padding + row[column];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  *text += line + "\n";
}

}  // namespace

std::string FormatTable(const std::vector<std::string>& heading,
                        const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const std::string& cell : heading) widths.push_back(Width(cell));
  for (const std::vector<std::string>& row : rows) {
    TL_CHECK(row.size() == heading.size(), "every row has as many cells as the heading");
    for (size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], Width(row[column]));
    }
  }
  std::string text;
  AppendRow(heading, widths, &text);
  for (const std::vector<std::string>& row : rows) AppendRow(row, widths, &text);
  return text;
}

std::string FormatPairs(const std::vector<std::pair<std::string, std::string>>& pairs) {
  size_t width = 0;
  for (const auto& [name, value] : pairs) width = std::max(width, Width(name));
  std::string text;
  for (const auto& [name, value] : pairs) {
    text += name;
    text.append(width + 2 - Width(name), ' ');
    text += value;
    text += '\n';
  }
  return text;
}

}  // namespace tideline

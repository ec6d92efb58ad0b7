// The facts as text for a terminal or a bug report.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/words.h"
#include "tools/info/facts.h"

namespace ronde::info {
namespace {

constexpr size_t kMostPairs = 12;  // of one kind that are written out

std::string cell(const Json& value) {
  if (value.is_string()) return printable(value.get<std::string>());
  if (!value.is_array()) return value.dump();
  std::string text;
  size_t shown = 0;
  for (const Json& pair : value) {
    if (shown++ == kMostPairs) return fmt::format("{} and {} more", text, value.size() - kMostPairs);
    text += fmt::format("{}{}>{}", text.empty() ? "" : " ", pair.at(0).get<int>(), pair.at(1).get<int>());
  }
  return text;
}

std::string padded(const std::vector<std::string>& cells, const std::vector<size_t>& widths) {
  std::string line = " ";
  for (size_t i = 0; i < cells.size(); ++i) line += fmt::format(" {:<{}}", cells[i], i + 1 < cells.size() ? widths[i] : 0);
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

/// Objects with the same keys, one a line below the keys.
std::string table(const Json& rows) {
  if (rows.empty()) return "  none\n";
  std::vector<std::vector<std::string>> lines(1);
  for (const auto& [key, value] : rows.front().items()) lines[0].push_back(key);
  for (const Json& row : rows) {
    lines.emplace_back();
    for (const auto& [key, value] : row.items()) lines.back().push_back(cell(value));
  }
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) text += padded(line, widths);
  return text;
}

std::string pairs_of_words(const Json& object) {
  size_t width = 0;
  for (const auto& [key, value] : object.items()) width = std::max(width, key.size());
  std::string text;
  for (const auto& [key, value] : object.items()) text += fmt::format("  {:<{}}  {}\n", key, width, cell(value));
  return text;
}

/// Those that somebody has set, unless all are wanted.
Json shown_settings(const Json& settings, bool all) {
  Json rows = Json::array();
  for (const Json& row : settings) {
    if (all || row.at("from") != "default") rows.push_back(row);
  }
  return rows;
}

}  // namespace

std::string as_text(const Json& facts, bool all_settings) {
  std::string text;
  for (const auto& [heading, section] : facts.items()) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", heading);
    if (section.is_string()) {
      text += fmt::format("  {}\n", cell(section));
    } else if (section.is_object()) {
      text += pairs_of_words(section);
    } else if (heading == "settings") {
      const Json rows = shown_settings(section, all_settings);
      if (!rows.empty()) text += table(rows);
      if (rows.size() < section.size())
        text += fmt::format("  the other {} have their default values (--all shows them)\n", section.size() - rows.size());
    } else {
      text += table(section);
    }
  }
  return text;
}

}  // namespace ronde::info

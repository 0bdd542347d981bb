#include "config/toml_text.hpp"

#include <algorithm>
#include <optional>
#include <string>

namespace peercache::config {
namespace {

constexpr std::size_t dots_per_line_max = 8;

/// The fault of a line that begins with a bracket; empty when there is none.
std::string_view header_fault(std::string_view header) {
  constexpr std::string_view key_starts =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-\"'";
  if (header.starts_with("[["))
    return "lists of tables are not used here: write [section]";
  const auto next = header.find_first_not_of(" \t", 1);
  if (next == std::string_view::npos || key_starts.find(header[next]) == std::string_view::npos)
    return "the name of a section must follow the bracket, as in [pool]";
  return {};
}

/// Returns the position behind the closing quotation mark of the text that begins at `begin`;
/// nothing when the text does not end on this line.
std::optional<std::size_t> end_of_text(std::string_view line, std::size_t begin) {
  const char mark = line[begin];
  auto at = begin + 1;
  while (at < line.size() && line[at] != mark)
    at += mark == '"' && line[at] == '\\' ? 2 : 1;
  if (at >= line.size())
    return std::nullopt;
  return at + 1;
}

/// Whether a text may begin at `begin`: only where a value or a part of a name may begin. Elsewhere
/// the parser takes a quotation mark, and what follows, for characters of a name.
bool may_begin_text(std::string_view line, std::size_t begin) {
  const auto before = line.substr(0, begin).find_last_not_of(" \t");
  return before == std::string_view::npos ||
         std::string_view("=,[.").find(line[before]) != std::string_view::npos;
}

/// Judges the characters outside of texts and comments, one after the other.
class character_check {
public:
  /// The fault of the next character; empty when there is none.
  std::string_view fault(char c) {
    if (static_cast<unsigned char>(c) >= 0x80)
      return "only texts in quotation marks and comments may have characters that are not ASCII";
    if (c == '{' || c == '}')
      return "tables in braces are not used here: write [section]";
    if (c == '.' && ++dots_ > dots_per_line_max)
      return "no option's name has this many parts";
    if (c == '[' && ++open_ > 1)
      return "lists in lists are not used here";
    if (c == ']' && open_ > 0)
      --open_;
    return {};
  }
  void next_line() { dots_ = 0; }

private:
  std::size_t dots_ = 0;
  std::size_t open_ = 0; ///< Brackets that are not closed yet; a list may have several lines.
};

/// Looks at one line. Returns what is wrong with it, and puts the column of the fault, from 0, into
/// `at`; empty when nothing is wrong.
std::string_view line_fault(std::string_view line, character_check& check, std::size_t& at) {
  check.next_line();
  at = std::min(line.find_first_not_of(" \t"), line.size());
  if (at < line.size() && line[at] == '[')
    if (const auto fault = header_fault(line.substr(at)); !fault.empty())
      return fault;
  while (at < line.size() && line[at] != '#') {
    if (line.substr(at, 3) == "\"\"\"" || line.substr(at, 3) == "'''")
      return "texts of several lines are not used here";
    if (line[at] == '"' || line[at] == '\'') {
      const auto end = end_of_text(line, at);
      if (!end || !may_begin_text(line, at))
        return "a text stands between two quotation marks, behind `=`, a comma or a bracket";
      at = *end;
      continue;
    }
    if (const auto fault = check.fault(line[at]); !fault.empty())
      return fault;
    ++at;
  }
  return {};
}

} // namespace

error toml_fault(std::string_view path, std::size_t line, std::size_t column,
                 std::string_view what) {
  return {errc::invalid_argument, std::string(path) + ':' + std::to_string(line) + ':' +
                                      std::to_string(column) + ": " + std::string(what)};
}

result<void> check_toml_text(std::string_view content, std::string_view path) {
  if (content.starts_with("\xEF\xBB\xBF"))
    content.remove_prefix(3);
  character_check check;
  for (std::size_t line = 1; !content.empty(); ++line) {
    const auto end = content.find('\n');
    std::size_t at = 0;
    if (const auto fault = line_fault(content.substr(0, end), check, at); !fault.empty())
      return toml_fault(path, line, at + 1, fault);
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
  }
  return {};
}

} // namespace peercache::config

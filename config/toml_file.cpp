#include "config/toml_file.hpp"

// toml++ is a large header, so this file alone compiles it.
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <tuple>

namespace peercache::config {
namespace {

toml_value list_of(const toml::array& items) {
  std::vector<std::string> texts;
  for (const auto& item : items) {
    const auto* text = item.as_string();
    if (text == nullptr)
      return foreign_toml{"a list of other things than strings"};
    texts.push_back(text->get());
  }
  return texts;
}

toml_value value_of(const toml::node& node) {
  if (const auto* x = node.as_boolean())
    return x->get();
  if (const auto* x = node.as_integer())
    return x->get();
  if (const auto* x = node.as_floating_point())
    return x->get();
  if (const auto* x = node.as_string())
    return x->get();
  if (const auto* x = node.as_array())
    return list_of(*x);
  if (node.is_table())
    return foreign_toml{"a table"};
  return foreign_toml{"a date or time"};
}

void flatten(const toml::table& table, const std::string& prefix, std::vector<toml_entry>& out) {
  for (const auto& [key, node] : table) {
    const bool plain = key.str().find('.') == std::string_view::npos;
    const std::string word{key.str()};
    std::string name = prefix;
    name += plain ? word : '"' + word + '"';
    const auto* inner = node.as_table();
    if (inner != nullptr && !inner->empty()) {
      flatten(*inner, name + ".", out);
      continue;
    }
    const auto position = key.source().begin;
    out.push_back({name, value_of(node), position.line, position.column});
  }
}

error at(std::string_view path, std::size_t line, std::size_t column, std::string_view what) {
  return {errc::invalid_argument, std::string(path) + ':' + std::to_string(line) + ':' +
                                      std::to_string(column) + ": " + std::string(what)};
}

/// What is wrong with a line that begins with a bracket; empty when nothing is.
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

/// Refuses section headers without a name before the parser sees them: toml++ 3.3 breaks a
/// precondition of its own on such a header (an abort, or undefined behaviour with NDEBUG). No
/// option's value has lines that begin with a bracket, so every such line is a header.
result<void> check_headers(std::string_view content, std::string_view path) {
  if (content.starts_with("\xEF\xBB\xBF"))
    content.remove_prefix(3);
  for (std::size_t line = 1; !content.empty(); ++line) {
    const auto end = content.find('\n');
    const auto text = content.substr(0, end);
    const auto first = text.find_first_not_of(" \t");
    if (first != std::string_view::npos && text[first] == '[')
      if (const auto fault = header_fault(text.substr(first)); !fault.empty())
        return at(path, line, first + 1, fault);
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
  }
  return {};
}

} // namespace

result<std::vector<toml_entry>> read_toml(std::string_view content, std::string_view path) {
  if (auto usable = check_headers(content, path); !usable)
    return usable.error();
  const auto parsed = toml::parse(content, path);
  if (!parsed) {
    const auto& fault = parsed.error();
    const auto place = fault.source().begin;
    return at(path, place.line, place.column, fault.description());
  }
  std::vector<toml_entry> entries;
  flatten(parsed.table(), "", entries);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  return entries;
}

} // namespace peercache::config

#include "config/toml_file.hpp"

#include "config/toml_text.hpp"

// toml++ is a large header, so only this file compiles it.
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

} // namespace

result<std::vector<toml_entry>> read_toml(std::string_view content, std::string_view path) {
  if (auto usable = check_toml_text(content, path); !usable)
    return usable.error();
  const auto parsed = toml::parse(content, path);
  if (!parsed) {
    const auto& fault = parsed.error();
    const auto place = fault.source().begin;
    return toml_fault(path, place.line, place.column, fault.description());
  }
  std::vector<toml_entry> entries;
  flatten(parsed.table(), "", entries);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  return entries;
}

} // namespace peercache::config

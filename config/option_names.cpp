#include "config/options.hpp"
#include "config/suggestion.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace peercache::config {
namespace {

std::string hint(const std::optional<std::string>& meant) {
  return meant ? " (did you mean `" + *meant + "`?)" : "";
}

/// The name of the only option whose key is `key`, since people forget the section; nothing when no
/// option or several options have this key.
std::optional<std::string> only_option_with_key(std::string_view key) {
  std::optional<std::string> found;
  for (const auto& opt : options()) {
    if (opt.key() != key)
      continue;
    if (found)
      return std::nullopt;
    found = opt.name;
  }
  return found;
}

} // namespace

bool option::bounded() const noexcept {
  return type == option_type::integer || type == option_type::size ||
         type == option_type::duration || type == option_type::fraction;
}

std::string_view option::section() const noexcept {
  const auto dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view{} : name.substr(0, dot);
}

std::string_view option::key() const noexcept {
  const auto dot = name.find('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::string option::variable() const {
  std::string out = "PEERCACHE_";
  for (char c : name)
    out += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string option::flag() const {
  std::string out = "--" + std::string(name);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '.' || c == '_'; }, '-');
  return out;
}

const option* find_option(std::string_view name) noexcept {
  const auto& table = options();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [name](const option& opt) { return opt.name == name; });
  return found == table.end() ? nullptr : &*found;
}

std::string name_hint(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& opt : options())
    names.emplace_back(opt.name);
  const auto dot = name.rfind('.');
  const auto key = dot == std::string_view::npos ? name : name.substr(dot + 1);
  if (auto meant = only_option_with_key(key))
    return hint(meant);
  return hint(closest(name, names));
}

std::string flag_hint(std::string_view flag) {
  std::vector<std::string> flags;
  for (const auto& opt : options())
    flags.push_back(opt.flag());
  return hint(closest(flag, flags));
}

} // namespace peercache::config

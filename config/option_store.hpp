#pragma once

#include "common/assert.hpp"
#include "config/node_config.hpp"
#include "config/option_value.hpp"

#include <algorithm>
#include <chrono>
#include <concepts>
#include <limits>
#include <string>
#include <vector>

// Functions that put checked values into the typed fields of a node_config. Used only by the files
// of the option table.
namespace peercache::config {

inline void assign(bool& field, const option_value& value) {
  field = std::get<bool>(value);
}
inline void assign(double& field, const option_value& value) {
  field = std::get<double>(value);
}
inline void assign(std::string& field, const option_value& value) {
  field = std::get<std::string>(value);
}
inline void assign(std::chrono::milliseconds& field, const option_value& value) {
  field = std::get<std::chrono::milliseconds>(value);
}

template <std::unsigned_integral Number>
void assign(Number& field, const option_value& value) {
  const auto number = std::get<std::uint64_t>(value);
  // The option's bounds are narrower than the field.
  PEERCACHE_ASSERT(number <= std::numeric_limits<Number>::max());
  field = static_cast<Number>(number);
}

inline void assign(std::vector<std::string>& field, const option_value& value) {
  field = std::get<std::vector<std::string>>(value);
}
inline void assign(std::vector<host_port>& field, const option_value& value) {
  field.clear();
  for (const auto& item : std::get<std::vector<std::string>>(value)) {
    auto endpoint = parse_endpoint(item);
    // The parse succeeds, since `value_from_*` has parsed this item before.
    PEERCACHE_ASSERT(static_cast<bool>(endpoint));
    field.push_back(*std::move(endpoint));
  }
}

template <worded_enum Enum>
void assign(Enum& field, const option_value& value) {
  const auto& words = words_of<Enum>;
  const auto found = std::find(words.begin(), words.end(), std::get<std::string>(value));
  // The word is found, since `value_from_*` accepts only words of the enum.
  PEERCACHE_ASSERT(found != words.end());
  field = static_cast<Enum>(found - words.begin());
}

/// The `option::store` function for the field that `Field`, a lambda without captures, picks.
template <class Field>
constexpr auto into(Field) {
  return +[](node_config& config, const option_value& value) { assign(Field{}(config), value); };
}

} // namespace peercache::config

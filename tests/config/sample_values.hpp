#pragma once

#include "config/options.hpp"

#include <algorithm>
#include <vector>

namespace peercache::config::test {

inline void keep_if_new(std::vector<option_value>& values, option_value value) {
  if (std::find(values.begin(), values.end(), value) == values.end())
    values.push_back(std::move(value));
}

/// Returns two or more distinct valid values of an option, the first of which is not the default.
inline std::vector<option_value> sample_values(const option& opt) {
  std::vector<option_value> values;
  if (opt.type == option_type::boolean)
    return {!std::get<bool>(opt.default_value), opt.default_value};
  if (opt.type == option_type::text)
    return {"sample-a", "sample-b", "sample-c"};
  if (opt.type == option_type::endpoints) {
    using list = std::vector<std::string>;
    return {list{"a:1"}, list{"a:1", "[fd00::1]:65535"}, list{"c:3"}};
  }
  if (opt.type == option_type::names) {
    using list = std::vector<std::string>;
    return {list{"a"}, list{"a", "b"}, list{"c"}};
  }
  if (opt.type == option_type::choice) {
    for (auto word : opt.choices)
      if (std::string(word) != std::get<std::string>(opt.default_value))
        values.emplace_back(std::string(word));
    values.push_back(opt.default_value);
    return values;
  }
  option_value next = opt.min;
  std::visit(
      [](auto& x) {
        if constexpr (requires { x += 1; })
          x += 1;
        else if constexpr (requires { ++x; })
          ++x;
      },
      next);
  if (next > opt.max) // For a fraction, whose bound is exceeded by adding 1.
    next = std::get<double>(opt.max) / 8;
  for (auto& value : {opt.max, opt.min, next})
    if (value != opt.default_value)
      keep_if_new(values, value);
  return values;
}

} // namespace peercache::config::test

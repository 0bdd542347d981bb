#pragma once

#include "common/result.hpp"
#include "config/node_config.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace peercache::config {

struct option;

/// How a value is written and checked.
enum class option_type : std::uint8_t {
  boolean,   ///< true or false
  integer,   ///< 31998
  size,      ///< "64GiB"; kept in bytes
  duration,  ///< "500ms"
  fraction,  ///< 0.02
  text,      ///< One word of printable ASCII, at most 255 bytes
  endpoints, ///< List of "host:port"
  names,     ///< List of words such as text; a single one may stand for itself
  choice,    ///< One of a few words
};

constexpr bool is_list(option_type type) noexcept {
  return type == option_type::endpoints || type == option_type::names;
}

/// A value of any option. The type decides the alternative: bool; integer and size: uint64;
/// fraction: double; duration: milliseconds; text and choice: string; endpoints and names:
/// vector<string>.
using option_value = std::variant<bool, std::uint64_t, double, std::chrono::milliseconds,
                                  std::string, std::vector<std::string>>;

/// A TOML value of a type that no option has.
struct foreign_toml {
  std::string type; ///< "date", "table", …
};

/// A value as the configuration file holds it.
using toml_value =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>, foreign_toml>;

/// Reads what stands in an environment variable or behind a flag; lists are separated by commas.
/// Errors: a sentence that starts with the offending text, for the caller to put the option's name
/// before.
result<option_value> value_from_text(const option& opt, std::string_view text);

/// Reads what stands in the file; a size or duration is a string there, a size may be an integer.
result<option_value> value_from_toml(const option& opt, const toml_value& value);

/// The value as people write it on the command line: "64GiB", "2s", "a:1,b:2".
std::string value_text(const option& opt, const option_value& value);

/// The value as TOML: "\"64GiB\"", "[\"a:1\", \"b:2\"]", "true". `value_from_toml` reads it back.
std::string value_toml(const option& opt, const option_value& value);

/// "host:port" or "[ipv6]:port", port 1–65535.
result<host_port> parse_endpoint(std::string_view text);

} // namespace peercache::config

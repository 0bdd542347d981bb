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

/// The type of an option: how users write its value and how the value is checked.
enum class option_type : std::uint8_t {
  boolean,   ///< Written true or false.
  integer,   ///< A whole number: 31998
  size,      ///< Bytes, written with a unit: "64GiB".
  duration,  ///< A time with its unit: "500ms"
  fraction,  ///< A number such as 0.02.
  text,      ///< A word of printable ASCII, at most 255 bytes.
  endpoints, ///< A list of addresses "host:port".
  names,     ///< List of words as in `text`; a single word may stand without a list.
  choice,    ///< A word of `option::choices`.
};

constexpr bool is_list(option_type type) noexcept {
  return type == option_type::endpoints || type == option_type::names;
}

/// A value of any option. The option's type decides the alternative: bool; integer and size:
/// uint64; fraction: double; duration: milliseconds; text and choice: string; endpoints and names:
/// vector<string>.
using option_value = std::variant<bool, std::uint64_t, double, std::chrono::milliseconds,
                                  std::string, std::vector<std::string>>;

/// A TOML value of a type that no option has.
struct foreign_toml {
  std::string type; ///< Name of the type: "date", "table", …
};

/// A value as the TOML parser found it in the configuration file.
using toml_value =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>, foreign_toml>;

/// Reads the value of an option from the text of an environment variable or of a flag; lists are
/// separated by commas. Errors: a sentence that starts with the offending text; the caller puts the
/// option's name before it.
result<option_value> value_from_text(const option& opt, std::string_view text);

/// Reads the value of an option from the configuration file; a duration is a string there, a size a
/// string or an integer.
result<option_value> value_from_toml(const option& opt, const toml_value& value);

/// Writes a value as people do on the command line: "64GiB", "2s", "a:1,b:2".
std::string value_text(const option& opt, const option_value& value);

/// The value as TOML text that `value_from_toml` reads back: "\"64GiB\"", "[\"a:1\", \"b:2\"]",
/// "true".
std::string value_toml(const option& opt, const option_value& value);

/// Reads "host:port" or "[ipv6]:port", with a port from 1 to 65535.
result<host_port> parse_endpoint(std::string_view text);

} // namespace peercache::config

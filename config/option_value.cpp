#include "config/option_value.hpp"

#include "common/assert.hpp"
#include "config/options.hpp"
#include "config/units.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace peercache::config {
namespace {

constexpr std::size_t text_bytes_max = 255;
constexpr std::size_t list_items_max = 64;

error bad(std::string message) {
  return {errc::invalid_argument, std::move(message)};
}

std::string quoted(std::string_view text) {
  return '"' + std::string(text) + '"';
}

template <class Number>
result<Number> parse_number(std::string_view text, const char* kind) {
  Number number{};
  auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status == std::errc::result_out_of_range)
    return bad(quoted(text) + " is too large");
  if (status != std::errc{} || rest != text.data() + text.size())
    return bad(quoted(text) + " is not " + kind);
  return number;
}

result<option_value> parse_bool(std::string_view text) {
  for (std::string_view word : {"true", "yes", "on", "1"})
    if (text == word)
      return option_value{true};
  for (std::string_view word : {"false", "no", "off", "0"})
    if (text == word)
      return option_value{false};
  return bad(quoted(text) + " is neither true nor false");
}

/// Widens the result of a parser to an option_value.
template <class T>
result<option_value> widen(result<T> parsed) {
  if (!parsed)
    return parsed.error();
  return option_value{*std::move(parsed)};
}

result<option_value> check_text(const option& opt, std::string_view text) {
  if (text.empty() && opt.empty_means.empty())
    return bad("the value must not be empty");
  if (text.size() > text_bytes_max)
    return bad("the value has " + std::to_string(text.size()) + " bytes; at most " +
               std::to_string(text_bytes_max) + " are allowed");
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; }))
    return bad("the value has a space, or a character that is not printable ASCII");
  return option_value{std::string(text)};
}

result<option_value> check_choice(const option& opt, std::string_view text) {
  if (std::find(opt.choices.begin(), opt.choices.end(), text) != opt.choices.end())
    return option_value{std::string(text)};
  std::string words;
  for (auto word : opt.choices)
    words += (words.empty() ? "" : ", ") + std::string(word);
  return bad(quoted(text) + " is not one of: " + words);
}

result<option_value> check_list(const option& opt, std::vector<std::string> items) {
  if (items.size() > list_items_max)
    return bad("the list has " + std::to_string(items.size()) + " entries; at most " +
               std::to_string(list_items_max) + " are allowed");
  for (const auto& item : items) {
    if (opt.type == option_type::names) {
      if (auto name = check_text(opt, item); !name)
        return name.error();
    } else if (auto endpoint = parse_endpoint(item); !endpoint) {
      return endpoint.error();
    }
  }
  return option_value{std::move(items)};
}

result<option_value> check_bounds(const option& opt, result<option_value> value) {
  if (!value || !opt.bounded())
    return value;
  PEERCACHE_ASSERT(value->index() == opt.min.index() && value->index() == opt.max.index());
  // NaN compares false with both bounds, so it counts as out of bounds.
  if (*value >= opt.min && *value <= opt.max)
    return value;
  return bad(value_text(opt, *value) + " is out of bounds: " + value_text(opt, opt.min) + " to " +
             value_text(opt, opt.max) + " is allowed");
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const auto comma = text.find(',');
    items.emplace_back(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return items;
}

std::string fraction_text(double value) {
  char text[32];
  auto [end, status] = std::to_chars(text, text + sizeof text, value);
  PEERCACHE_ASSERT(status == std::errc{});
  return {text, end};
}

std::string escaped(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    out += c;
  }
  return out + '"';
}

/// Says what kind of value the file holds, for error messages: "a string", "an integer", "a date"…
std::string describe(const toml_value& value) {
  struct visitor {
    std::string operator()(bool) const { return "a boolean"; }
    std::string operator()(std::int64_t) const { return "an integer"; }
    std::string operator()(double) const { return "a floating-point number"; }
    std::string operator()(const std::string&) const { return "a string"; }
    std::string operator()(const std::vector<std::string>&) const { return "a list of strings"; }
    std::string operator()(const foreign_toml& x) const { return x.type; }
  };
  return std::visit(visitor{}, value);
}

/// The error for a TOML value of the wrong type: "the value is a string; write …", with the right
/// form. The texts of `wanted` are in the order of `option_type`.
error mistyped(const option& opt, const toml_value& value) {
  static constexpr std::array<std::string_view, 9> wanted = {
      "true or false, without quotes",
      "an integer, without quotes",
      "a size in quotes, such as \"64GiB\", or a number of bytes",
      "a duration in quotes, such as \"500ms\" or \"2s\"",
      "a fraction, such as 0.02, without quotes",
      "a text in quotes",
      "a list of texts, such as [\"host1:31998\"]",
      "a list of words, such as [\"mlx5_0\", \"mlx5_1\"]",
      "one of its words in quotes",
  };
  return bad("the value is " + describe(value) + "; write " +
             std::string(wanted.at(static_cast<std::size_t>(opt.type))));
}

} // namespace

result<host_port> parse_endpoint(std::string_view text) {
  const auto colon = text.rfind(':');
  auto host = text.substr(0, colon == std::string_view::npos ? 0 : colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed)
    host = host.substr(1, host.size() - 2);
  const bool plain = host.find_first_of(bracketed ? "[] ," : "[]: ,") == std::string_view::npos;
  const bool printable =
      std::all_of(host.begin(), host.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (host.empty() || !plain || !printable || host.size() > text_bytes_max)
    return bad(quoted(text) + " is not a host and port: write host1:31998 or [fd00::1]:31998");
  auto port = parse_number<std::uint16_t>(text.substr(colon + 1), "a port");
  if (!port || *port == 0)
    return bad(quoted(text) + " has no port between 1 and 65535");
  return host_port{std::string(host), *port};
}

result<option_value> value_from_text(const option& opt, std::string_view text) {
  switch (opt.type) {
  case option_type::boolean:
    return parse_bool(text);
  case option_type::integer:
    return check_bounds(opt, widen(parse_number<std::uint64_t>(text, "a whole number")));
  case option_type::size:
    return check_bounds(opt, widen(parse_size(text)));
  case option_type::duration:
    return check_bounds(opt, widen(parse_duration(text)));
  case option_type::fraction:
    return check_bounds(opt, widen(parse_number<double>(text, "a number")));
  case option_type::text:
    return check_text(opt, text);
  case option_type::endpoints:
  case option_type::names:
    return check_list(opt, split_list(text));
  case option_type::choice:
    return check_choice(opt, text);
  }
  return bad("unknown option type");
}

result<option_value> value_from_toml(const option& opt, const toml_value& value) {
  const auto* text = std::get_if<std::string>(&value);
  const auto* integer = std::get_if<std::int64_t>(&value);
  const bool number_allowed = opt.type == option_type::integer || opt.type == option_type::size ||
                              opt.type == option_type::fraction;
  if (integer != nullptr && number_allowed) {
    if (*integer < 0)
      return bad(std::to_string(*integer) + " is negative");
    return value_from_text(opt, std::to_string(*integer));
  }
  if (const auto* flag = std::get_if<bool>(&value); flag && opt.type == option_type::boolean)
    return option_value{*flag};
  if (const auto* real = std::get_if<double>(&value); real && opt.type == option_type::fraction)
    return check_bounds(opt, option_value{*real});
  if (const auto* list = std::get_if<std::vector<std::string>>(&value); list && is_list(opt.type))
    return check_list(opt, *list);
  const bool text_allowed = opt.type == option_type::size || opt.type == option_type::duration ||
                            opt.type == option_type::text || opt.type == option_type::choice ||
                            opt.type == option_type::names;
  if (text != nullptr && text_allowed)
    return value_from_text(opt, *text);
  return mistyped(opt, value);
}

std::string value_text(const option& opt, const option_value& value) {
  switch (opt.type) {
  case option_type::boolean:
    return std::get<bool>(value) ? "true" : "false";
  case option_type::integer:
    return std::to_string(std::get<std::uint64_t>(value));
  case option_type::size:
    return format_size(std::get<std::uint64_t>(value));
  case option_type::duration:
    return format_duration(std::get<std::chrono::milliseconds>(value));
  case option_type::fraction:
    return fraction_text(std::get<double>(value));
  case option_type::text:
  case option_type::choice:
    return std::get<std::string>(value);
  case option_type::endpoints:
  case option_type::names: {
    std::string out;
    for (const auto& item : std::get<std::vector<std::string>>(value))
      out += (out.empty() ? "" : ",") + item;
    return out;
  }
  }
  return {};
}

std::string value_toml(const option& opt, const option_value& value) {
  if (const auto* items = std::get_if<std::vector<std::string>>(&value)) {
    std::string out;
    for (const auto& item : *items)
      out += (out.empty() ? "" : ", ") + escaped(item);
    return '[' + out + ']';
  }
  const bool bare = opt.type == option_type::boolean || opt.type == option_type::integer ||
                    opt.type == option_type::fraction;
  const auto text = value_text(opt, value);
  return bare ? text : escaped(text);
}

} // namespace peercache::config

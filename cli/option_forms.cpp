#include "cli/option_forms.hpp"

#include "config/units.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace peercache::cli {

namespace {

using std::chrono::milliseconds;

/// Adds an option whose text `store` parses; an error of `store` becomes the message for the user.
CLI::Option* add(CLI::App& app, const std::string& flag, const std::string& form,
                 const std::string& help, std::function<result<void>(const std::string&)> store) {
  auto name = flag.substr(flag.find("--"));
  auto take = [name, store = std::move(store)](const CLI::results_t& texts) {
    if (auto stored = store(texts.back()); !stored)
      throw CLI::ValidationError(name, stored.error().message);
    return true;
  };
  return app.add_option(flag, CLI::callback_t(take), help)
      ->type_name(form)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

result<std::uint64_t> number_of(const std::string& text, number_bounds bounds) {
  std::uint64_t number = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed == std::errc::invalid_argument || end != text.data() + text.size())
    return {errc::invalid_argument, fmt::format("\"{}\" is not a whole number", text)};
  if (failed != std::errc{} || number < bounds.least || number > bounds.most)
    return {errc::invalid_argument, fmt::format("{} is out of bounds: {} to {} is allowed", text,
                                                bounds.least, bounds.most)};
  return number;
}

result<milliseconds> duration_of(const std::string& text, milliseconds least, milliseconds most) {
  auto given = config::parse_duration(text);
  if (given && (*given < least || *given > most))
    return {errc::invalid_argument,
            fmt::format("{} is out of bounds: {} to {} is allowed", text,
                        config::format_duration(least), config::format_duration(most))};
  return given;
}

} // namespace

CLI::Option* add_number(CLI::App& app, const std::string& flag, number_bounds bounds,
                        std::uint64_t default_value, std::function<void(std::uint64_t)> store,
                        const std::string& meaning) {
  auto help =
      fmt::format("{}; {} to {} [default: {}]", meaning, bounds.least, bounds.most, default_value);
  return add(app, flag, "NUMBER", help,
             [bounds, store = std::move(store)](const std::string& text) -> result<void> {
               auto number = number_of(text, bounds);
               if (!number)
                 return number.error();
               store(*number);
               return {};
             });
}

CLI::Option* add_size(CLI::App& app, const std::string& flag, std::uint64_t& bytes,
                      const std::string& meaning) {
  auto help = fmt::format("{} [default: {}]", meaning, config::format_size(bytes));
  return add(app, flag, "SIZE", help, [&bytes](const std::string& text) -> result<void> {
    auto given = config::parse_size(text);
    if (!given)
      return given.error();
    bytes = *given;
    return {};
  });
}

CLI::Option* add_duration(CLI::App& app, const std::string& flag, milliseconds& value,
                          milliseconds least, milliseconds most, const std::string& meaning) {
  auto help = fmt::format("{}; {} to {} [default: {}]", meaning, config::format_duration(least),
                          config::format_duration(most), config::format_duration(value));
  return add(app, flag, "DURATION", help,
             [&value, least, most](const std::string& text) -> result<void> {
               auto given = duration_of(text, least, most);
               if (!given)
                 return given.error();
               value = *given;
               return {};
             });
}

CLI::Option* add_choice(CLI::App& app, const std::string& flag,
                        std::span<const std::string_view> words, std::size_t default_index,
                        std::function<void(std::size_t)> store, const std::string& meaning) {
  auto help = fmt::format("{} [default: {}]", meaning, words[default_index]);
  auto take = [words, store = std::move(store)](const std::string& text) -> result<void> {
    auto found = std::find(words.begin(), words.end(), text);
    if (found == words.end())
      return {errc::invalid_argument,
              fmt::format("\"{}\" is none of {}", text, fmt::join(words, ", "))};
    store(static_cast<std::size_t>(found - words.begin()));
    return {};
  };
  return add(app, flag, fmt::format("{}", fmt::join(words, "|")), help, take);
}

} // namespace peercache::cli

#pragma once

#include "config/load.hpp"

#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace peercache::config {

/// The options as flags of a command line: `--pool-size 64GiB`, `--dev`, `--no-dev`, grouped by
/// section in the help. Values are taken as text; `load` checks them, so that an error reads the
/// same wherever the value came from. If a flag is repeated, its last value counts; if a list flag
/// is repeated, all its values count.
/// Threads: none. Lifetime: the app must live until the last call of `given`.
class cli_options {
public:
  /// Adds the flags of all options whose name starts with one of `prefixes`, or of all options when
  /// `prefixes` is empty.
  explicit cli_options(CLI::App& app, std::span<const std::string_view> prefixes = {});

  /// The options that the parsed command line has set, in the order of the option table. @pre the
  /// app has parsed
  std::vector<given_flag> given() const;

private:
  std::vector<std::pair<const option*, CLI::Option*>> added_;
};

} // namespace peercache::config

#pragma once

#include "common/result.hpp"
#include "config/node_config.hpp"
#include "config/options.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::config {

/// The configuration file, already read.
struct file_source {
  std::string path; ///< The file's path, for messages only.
  std::string content;
};

/// An option that was given on the command line.
struct given_flag {
  std::string name; ///< The option's name: "pool.size".
  std::string text; ///< The text behind the flag; several values joined by commas.
};

/// Everything that configuration comes from, as values: `load` itself reads neither files nor the
/// environment (config/process_sources.hpp collects them).
struct sources {
  std::optional<file_source> file;
  std::map<std::string, std::string> environment; ///< Whole; foreign variables are skipped.
  std::vector<given_flag> flags;
  std::string host_name; ///< Default of `node.name`.
};

enum class origin_kind : std::uint8_t { default_value, file, environment, flag };

/// Where a value comes from.
struct origin {
  origin_kind kind = origin_kind::default_value;
  std::string where; ///< "peercache.toml:3:1", "PEERCACHE_POOL_SIZE", "--pool-size"; of a default,
                     ///< why if not from the table.
};

/// "file peercache.toml:3:1", "environment PEERCACHE_POOL_SIZE", "flag --pool-size", "default".
std::string to_string(const origin& from);

struct effective_value {
  const option* opt = nullptr; ///< Never null; lives as long as the process.
  option_value value;
  origin from;
};

/// The configuration in force. Invariant: `values` has one entry per option, in the order of the
/// table, and `config` is made of them.
struct loaded_config {
  node_config config;
  std::vector<effective_value> values;
  std::vector<std::string> warnings; ///< Sentences for the log: what was ignored.

  /// @pre an option of this name exists
  const effective_value& value_of(std::string_view name) const;
};

inline constexpr std::size_t config_file_bytes_max = 1u << 20;

/// Merges the sources: flags > environment > file > default. Each value is checked on its own.
/// Errors: all faults at once, one line each, with what, where and what would be right. An unknown
/// key of the file and an unknown PEERCACHE_* variable are faults. Only PEERCACHE_CONFIG (the path
/// of the file), PEERCACHE_TEST_* (switches of test programs) and what Kubernetes sets for a
/// service of our name (PEERCACHE_PORT=tcp://… and the like: one warning) are no options.
result<loaded_config> merge_sources(const sources& from);

/// `merge_sources`, then the checks across options (config/validate.hpp).
result<loaded_config> load(const sources& from);

} // namespace peercache::config

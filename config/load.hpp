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

/// The configuration file, after it was read.
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
/// environment (`sources_of_process` in config/process_sources.hpp does).
struct sources {
  std::optional<file_source> file;
  /// The whole environment; variables of other programs are skipped.
  std::map<std::string, std::string> environment;
  std::vector<given_flag> flags;
  std::string host_name; ///< Name of this host, the default of `node.name`.
};

enum class origin_kind : std::uint8_t { default_value, file, environment, flag };

/// The place that an option's value comes from.
struct origin {
  origin_kind kind = origin_kind::default_value;
  /// For example "peercache.toml:3:1", "PEERCACHE_POOL_SIZE" or "--pool-size"; for a default that
  /// is not the option table's, the reason for it.
  std::string where;
};

/// Writes an origin for people: "file peercache.toml:3:1", "environment PEERCACHE_POOL_SIZE", "flag
/// --pool-size", "default".
std::string to_string(const origin& from);

struct effective_value {
  /// The option that has the value. Never null; lives as long as the process.
  const option* opt = nullptr;
  option_value value;
  origin from;
};

/// The configuration in force. Invariant: `values` has one entry per option, in the order of the
/// option table, and `config` is made of these values.
struct loaded_config {
  node_config config;
  std::vector<effective_value> values;
  std::vector<std::string> warnings; ///< Sentences for the log about settings that were ignored.

  /// The value of the option `name` and its origin. @pre an option of this name exists
  const effective_value& value_of(std::string_view name) const;
};

inline constexpr std::size_t config_file_bytes_max = 1u << 20;

/// Merges the sources: flags > environment > file > default. Each value is checked on its own.
/// Errors: all faults at once, one line each: what is wrong, where, and what would be right. An
/// unknown key of the file and an unknown PEERCACHE_* variable are faults. Variables that are not
/// options: PEERCACHE_CONFIG (the path of the file), PEERCACHE_TEST_* (switches of test programs)
/// and what Kubernetes sets for a service named "peercache" (PEERCACHE_PORT=tcp://… and the like:
/// one warning).
result<loaded_config> merge_sources(const sources& from);

/// Merges the sources as `merge_sources` does, then checks options against each other
/// (config/validate.hpp).
result<loaded_config> load(const sources& from);

} // namespace peercache::config

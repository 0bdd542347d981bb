#pragma once

#include "common/result.hpp"
#include "config/load.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace peercache::config {

/// The sources of this process's configuration: its environment, its host name, and the file at
/// `path`; without a path the file that PEERCACHE_CONFIG names, if any. `flags` is left empty.
/// Errors: a file that was named but cannot be read. Threads: not while another thread changes the
/// environment.
result<sources> sources_of_process(const std::optional<std::string>& path);

/// Loads the configuration of this process for a library, whose user gives `flags` by the options'
/// names; `flags` count before all other sources. Errors: an option name that does not exist, and
/// those of `sources_of_process`, `load` and `merge_sources`.
/// @param whole_node whether options are checked against each other (`load`); false for a client,
/// none of whose options depends on another one
result<loaded_config> load_in_process(std::vector<given_flag> flags, bool whole_node);

/// Reads a configuration file, up to `config_file_bytes_max` and one byte more, by which
/// `merge_sources` sees that the file is too long.
result<file_source> read_config_file(const std::string& path);

} // namespace peercache::config

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

/// Loads the configuration of this process, `flags` before all other sources, for a library: its
/// user names options by their names. Errors: an option that there is not, and those of
/// `sources_of_process`, `load` and `merge_sources`.
/// @param whole_node false: a client's options are wanted, none of which depends on another one, so
/// that options are not checked against each other
result<loaded_config> load_in_process(std::vector<given_flag> flags, bool whole_node);

/// Reads a configuration file; content beyond `config_file_bytes_max` bytes is cut after one byte
/// more, which `merge_sources` refuses.
result<file_source> read_config_file(const std::string& path);

} // namespace peercache::config

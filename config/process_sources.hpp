#pragma once

#include "common/result.hpp"
#include "config/load.hpp"

#include <map>
#include <optional>
#include <string>

namespace peercache::config {

/// The sources of this process's configuration: its environment, its host name, and the file at
/// `path`; without a path the file that PEERCACHE_CONFIG names, if any. `flags` is left empty.
/// Errors: a file that was named but cannot be read. Threads: not while another thread changes the
/// environment.
result<sources> sources_of_process(const std::optional<std::string>& path);

/// Reads a configuration file; content beyond `config_file_bytes_max` bytes is cut after one byte
/// more, which `merge_sources` refuses.
result<file_source> read_config_file(const std::string& path);

} // namespace peercache::config

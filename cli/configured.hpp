#pragma once

#include "cli/command.hpp"

namespace peercache::cli {

/// Takes the defaults of the options from the environment and from the file that PEERCACHE_CONFIG
/// names. Errors: those of reading and merging them. Threads: not while another thread changes the
/// environment.
result<void> take_configuration(global_options& globals);

} // namespace peercache::cli

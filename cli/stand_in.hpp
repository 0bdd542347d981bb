#pragma once

#include "common/error.hpp"

#include <string>
#include <vector>

namespace peercache::cli {

/// First word of a command line by which the program peercache-node does what `peercache` does with
/// the words behind it. Not for people: `bench disk` needs RocksDB, and loading that library takes
/// longer than all else that `peercache --help` does, so only the node is linked with it.
inline constexpr const char* stand_in_word = "--in-place-of-peercache";

/// Runs the command line of `peercache` in the program peercache-node, with RocksDB. Returns the
/// exit status. @param argv as of `main`, the first word being any. Threads: called by the main
/// thread, before any other was started.
int run_in_place_of_peercache(int argc, const char* const* argv);

/// Replaces this program by the peercache-node beside it, which goes on with this program's command
/// line. Returns only if peercache-node cannot be executed. @param words the words behind the
/// program's name
error go_on_in_node(const std::vector<std::string>& words);

} // namespace peercache::cli

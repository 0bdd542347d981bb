#pragma once

#include "actors/node/node.hpp"

namespace peercache::cli {

/// The whole program `peercache-node`: takes the words of its command line, serves until a signal,
/// and returns the exit status. Threads: called by the main thread, before any other was started.
int run_node_program(int argc, char** argv, const actors::node_decorators& decorators = {});

} // namespace peercache::cli

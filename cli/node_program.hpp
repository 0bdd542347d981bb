#pragma once

#include "actors/node.hpp"

namespace peercache::cli {

/// The program `peercache-node`: from the words of its command line to its exit status. Serves in
/// between, until a signal. Threads: of the main one, before any other was started.
int run_node_program(int argc, char** argv, const actors::node_decorators& decorators = {});

} // namespace peercache::cli

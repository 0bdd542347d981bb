#pragma once

#include "cli/bench/bench_row.hpp"
#include "cli/command.hpp"
#include "common/result.hpp"

#include <vector>

namespace peercache::cli {

/// Prints what a benchmark measured, or why it could not. With `check` a row that misses its target
/// counts as a failure.
exit_code print_outcome(const global_options& globals,
                        const result<std::vector<bench_row>>& measured, bool check);

} // namespace peercache::cli

#pragma once

#include "cli/bench/bench_row.hpp"
#include "cli/command.hpp"
#include "common/result.hpp"

#include <vector>

namespace peercache::cli {

/// Prints the rows that a benchmark measured, or the error that kept it from measuring. With
/// `check` a row that misses its target makes the exit code `failed`.
exit_code print_outcome(const global_options& globals,
                        const result<std::vector<bench_row>>& measured, bool check);

} // namespace peercache::cli

#include "cli/bench/bench_outcome.hpp"

#include <algorithm>

namespace peercache::cli {

exit_code print_outcome(const global_options& globals,
                        const result<std::vector<bench_row>>& measured, bool check) {
  if (!measured)
    return fail(globals, measured.error());
  print(globals, to_json(*measured), to_text(*measured, colour_allowed(stdout)));
  const bool met = std::all_of(measured->begin(), measured->end(),
                               [](const bench_row& row) { return row.met(); });
  return check && !met ? exit_code::failed : exit_code::ok;
}

} // namespace peercache::cli

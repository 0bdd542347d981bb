#pragma once

#include "discovery/view.hpp"

#include <string>

namespace peercache::discovery {

/// The differences of the view `after` from `before`, in words for a log line: who came, who was
/// started again, who went and why; "no node came or went" when only something else changed. Long
/// lists show only their first few names and the number of further names. Threads: any. Errors:
/// none.
std::string changes_between(const view& before, const view& after);

} // namespace peercache::discovery

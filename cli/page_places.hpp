#pragma once

#include "cli/miss_causes.hpp"
#include "common/page_key.hpp"
#include "common/page_status.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

namespace peercache::cli {

/// Asks the directory for each of some keys, by a deadline of its own: `hit`, `not_found`, or why
/// nobody answered. Called by several threads at a time.
using page_finder = std::function<std::vector<page_status>(std::span<const page_key>)>;

/// Asks the directory, for several pieces of `keys` at a time, which pages are somewhere, and notes
/// the answers in `fates`. A page for which nobody answered is noted as unknown and does not delay
/// other pages. Returns the number of keys for which nobody answered.
std::size_t find_places(const std::vector<page_key>& keys, const page_finder& find,
                        std::map<std::uint64_t, page_fate>& fates);

} // namespace peercache::cli

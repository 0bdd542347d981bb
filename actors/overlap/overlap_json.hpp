#pragma once

#include "actors/overlap/overlap.hpp"
#include "common/result.hpp"
#include "discovery/view.hpp"

#include <span>
#include <string>
#include <string_view>

namespace peercache::actors {

/// Reads the body of a query (docs/http.md): `by_hash` says whether its blocks are named by hashes,
/// or by tokens. Errors: `invalid_argument`, with what is wrong.
result<overlap_question> parse_overlap(std::string_view json, bool by_hash);

/// The answer to a query: tokens of the leading blocks by node and tier.
std::string overlap_json(const overlap_question& asked, std::span<const node_overlap> found,
                         const discovery::view& view);

} // namespace peercache::actors

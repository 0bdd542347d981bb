#pragma once

#include "client/admin_client.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace peercache::cli {

/// A slow call, and the node whose client made it.
struct slow_row {
  std::string node; ///< Name of the node whose client made the call.
  std::string client;
  std::uint64_t age_ms = 0; ///< Milliseconds since the end of the call.
  link::slow_call call;
};

/// The slowest calls of the clients of one node, added to `rows`.
void add_slow_calls(const std::string& node, const link::calls_report& told,
                    std::vector<slow_row>& rows);
/// Sorts the rows, the slowest call first, and keeps the first `most`.
void sort_slowest(std::vector<slow_row>& rows, std::size_t most);

nlohmann::json to_json(const slow_row& row);
/// A slow call as cells of a table's row: ms, call, pages, failed, what was waited for, its ms, the
/// age, client, node.
std::vector<std::string> cells_of(const slow_row& row);

} // namespace peercache::cli

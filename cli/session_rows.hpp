#pragma once

#include "client/admin_client.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace peercache::cli {

/// A session for `-o json`. A client chooses its own name, so a name that is not
/// "client-PID/VERSION" is allowed: its pid is null then.
nlohmann::json session_json(const std::string& node, const link::session_row& row);

/// A session as the cells of a table's row: node, pid (or the whole name, where that has none),
/// version, since, state, slots, hits, misses, sets. Text that the client chose is cut to 256
/// bytes, with a question mark for each byte that is not printable ASCII.
std::vector<std::string> session_cells(const std::string& node, const link::session_row& row);

/// Facts that a session's row has no room for, a line each: why the client is on a slow path, and
/// its key spaces.
std::string session_lines(const std::string& node, const link::session_row& row);

} // namespace peercache::cli

#pragma once

#include <spdlog/spdlog.h>

namespace peercache {

/// Sends spdlog's default logger to stderr in our format: "2026-11-20T12:00:00.123Z info node-1 message",
/// or one JSON object a line. Call once, before threads start.
/// @param level trace | debug | info | warn | error | off
void init_log(const std::string& node_name, const std::string& level, bool json);

namespace log = spdlog; ///< log::info("pool: {} bytes", n): use fmt's syntax.

} // namespace peercache

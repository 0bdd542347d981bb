#pragma once

#include <memory>
#include <spdlog/formatter.h>
#include <spdlog/spdlog.h>
#include <string>

namespace peercache {

/// Sends spdlog's default logger to stderr in our format: "2026-11-20T12:00:00.123Z info node-1
/// message", or one JSON object per line. Call once, before threads start. A record is one line
/// whatever its message holds: control characters are escaped.
/// @param level trace | debug | info | warn | error | off; anything else counts as info
void init_log(const std::string& node_name, const std::string& level, bool json);

/// Changes the level of the default logger from the next record on. Returns false, and changes
/// nothing, for an unknown level. Threads: any.
bool set_log_level(const std::string& level);
/// The level of the default logger, as a word of `init_log`.
std::string log_level();

/// The formatter that `init_log` uses, for any other sink.
std::unique_ptr<spdlog::formatter> make_log_formatter(const std::string& node_name, bool json);

/// Namespace of the log functions, such as log::info("pool: {} bytes", n), with fmt's syntax.
namespace log = spdlog;

} // namespace peercache

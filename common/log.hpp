#pragma once

#include "common/result.hpp"

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

/// Lets the default logger write to this file and no longer to stderr. Lines are appended; a
/// missing file is made (mode 0640). Lines that the file does not take go to stderr. Call once,
/// after `init_log` and before threads start. Errors: the file cannot be opened (the path and
/// errno); the log then stays where it was.
/// @param node_name, json as those of `init_log`
result<void> log_to_file(const std::string& path, const std::string& node_name, bool json);

/// Opens the file of `log_to_file` again under its path, after somebody (log rotation) has moved it
/// away. Returns false when the log goes to no file. Errors: as those of `log_to_file`; the log
/// then goes on in the file that is open. Threads: any.
result<bool> reopen_log();

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

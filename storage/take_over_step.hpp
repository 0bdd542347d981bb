#pragma once

#include <cstdint>

namespace peercache::storage {

/// The steps in which a process takes a dead process's pool over. A test can have it killed after
/// each; see `fault::take_over_kill_point`.
enum class take_over_step : std::uint32_t {
  locked = 1,      ///< The leftover is locked by the new process, and otherwise as it was.
  renamed,         ///< The object has the new process's name, but still the dead process's header.
  sessions_moved,  ///< The sessions of the new owner have locks of their own.
  owner_written,   ///< The header names the new owner.
  index_cleared,   ///< The host index is empty.
  entry_withdrawn, ///< The first entry that no page can have was withdrawn.
  page_compared,   ///< The first page was compared with its checksum.
  page_refused     ///< The first page that does not match its checksum was given up.
};

/// Kills the process at this step if a test asks for it; does nothing in a program that users run.
/// Threads: any.
void reached(take_over_step step) noexcept;

} // namespace peercache::storage

#pragma once

#include <cstdint>

namespace peercache::storage {

/// Where a process that takes a dead one's pool over may be killed; see
/// `fault::take_over_kill_point`.
enum class take_over_step : std::uint32_t {
  locked = 1,      ///< The leftover is ours, and as it was.
  renamed,         ///< The object has our name and the dead process's header.
  sessions_moved,  ///< Our sessions have locks of their own.
  owner_written,   ///< The header names us.
  index_cleared,   ///< The index of the host is empty.
  entry_withdrawn, ///< The first entry that can be no page's was taken back.
  page_compared,   ///< The first page was compared with its checksum.
  page_refused     ///< The first page whose bytes are others was taken back.
};

/// Kills the process where a test wants it to; nothing in a program that users run. Threads: any.
void reached(take_over_step step) noexcept;

} // namespace peercache::storage

#pragma once

#include "actors/link_names.hpp"
#include "common/ids.hpp"
#include "link/protocol/gateway.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace peercache::actors {

/// Local clients and the slots that each of them is filling. Threads: one, in a node the gateway's.
/// Bounds: `sessions_max`, `series_max`.
///
/// A slot goes from the pool to a session with `granted` and leaves it with `returned`. A session
/// that went silent keeps its slots until its process is known to be dead: a frozen client may wake
/// up and go on writing.
class session_table {
public:
  struct session {
    session() = default;
    std::string client_name;
    session_listener events;
    std::uint32_t lock_index = 0;
    std::uint64_t opened_ms = 0; ///< Unix time of the session's begin, in ms; set by the gateway.
    std::unordered_set<std::uint32_t> slots;
    metrics::samples totals; ///< What the client has counted since its start; see `report`.
    bool mapped = false; ///< The process was seen to hold its lock, so it has had the pool mapped.
    bool told = false;   ///< The client has reported its totals; it does so only after it has
                         ///< mapped the pool.
    bool silent = false; ///< The connection is lost; the process may live.
  };

  static constexpr std::uint32_t sessions_max = 1024;
  /// Most metric series that the totals of all open sessions may have together.
  static constexpr std::size_t series_max = std::size_t{1} << 18;

  /// Whether some process holds the lock of this index.
  using lock_held = std::function<bool(std::uint32_t lock_index)>;

  /// Opens a session; nothing when there are too many. The id is random, so that nobody speaks for
  /// a session that it did not open. The session gets a lock that no process holds (a client that
  /// has just closed its session may hold its lock for a moment): whoever holds the lock later must
  /// have been given it with this session.
  std::optional<std::uint64_t> open(std::string client_name, session_listener events,
                                    const lock_held& held = nullptr);

  session* find(std::uint64_t id) noexcept;

  /// Gives `slots` (packed slot_id) to the session.
  void granted(session& to, std::string_view slots);
  /// Takes `slot` from the session. True when it belonged to the session.
  bool returned(session& from, slot_id slot);

  /// Takes the totals that the session's client has counted since its start. False, and the
  /// previous totals stay, when all sessions together would have more than `series_max` series.
  bool report(session& from, metrics::samples totals);

  /// Marks the sessions of the client with this address as silent: its connection is gone. Returns
  /// their ids.
  std::vector<std::uint64_t> went_silent(const caf::actor_addr& events);

  /// Ends the session. Returns its slots, packed, for the pool to take back.
  std::string close(std::uint64_t id);

  /// Returns the ids of the sessions whose connection is gone.
  std::vector<std::uint64_t> silent() const;

  /// Returns a row for each session, in the order of `all`.
  sessions_report list() const;

  const std::map<std::uint64_t, session>& all() const noexcept { return sessions_; }
  /// Returns the added totals of all sessions, including those that have ended.
  metrics::samples totals() const;

private:
  std::map<std::uint64_t, session> sessions_;
  std::unordered_set<std::uint32_t> locks_in_use_;
  std::size_t series_ = 0; ///< Series of the totals of all sessions that are open.
  metrics::samples ended_; ///< Totals of the sessions that ended; their gauges are 0.
};

} // namespace peercache::actors

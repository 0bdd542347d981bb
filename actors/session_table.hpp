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

/// Local clients and the slots that each of them is filling. Plain class, the gateway's own.
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
    std::unordered_set<std::uint32_t> slots;
    client_report totals;
    bool mapped = false; ///< Its process was seen to hold its lock, hence to have the pool mapped.
    bool silent = false; ///< The connection is gone; the process may live.
  };

  static constexpr std::uint32_t sessions_max = 1024;

  /// Whether some process holds the lock of this index.
  using lock_held = std::function<bool(std::uint32_t lock_index)>;

  /// Opens a session; nothing when there are too many. Its id is drawn, so that nobody speaks for a
  /// session that it did not open. Its lock is one that nobody holds (a client that has just closed
  /// its session may, for a moment): who holds it later is who was told of it.
  std::optional<std::uint64_t> open(std::string client_name, session_listener events,
                                    const lock_held& held = nullptr);

  session* find(std::uint64_t id) noexcept;

  /// The slots of `blob` (an array of slot_id) belong to the session now.
  void granted(session& owner, std::string_view slots);
  /// True when `slot` belonged to the session; it does not any more.
  bool returned(session& owner, slot_id slot);

  /// The connection to a client is gone.
  void went_silent(const caf::actor_addr& events);

  /// Ends the session: its slots, packed, for the pool to take back.
  std::string close(std::uint64_t id);

  /// Ids of silent sessions.
  std::vector<std::uint64_t> silent() const;

  const std::map<std::uint64_t, session>& all() const noexcept { return sessions_; }
  /// Totals of all sessions, the ended ones included.
  client_report totals() const;

private:
  std::map<std::uint64_t, session> sessions_;
  std::unordered_set<std::uint32_t> locks_in_use_;
  client_report ended_;
};

} // namespace peercache::actors

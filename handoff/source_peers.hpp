#pragma once

#include "common/result.hpp"
#include "handoff/kv_layout.hpp"
#include "handoff/messages.hpp"
#include "handoff/peer_id.hpp"
#include "handoff/receiver_rooms.hpp"
#include "handoff/room_ids.hpp"
#include "handoff/source_role.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace peercache::handoff {

/// The prefill workers that a decode worker has connections to, and the rooms that wait until all
/// of their workers have said hello and described their memory. The `transfer_plan` between a
/// worker and this one is made once for each connection.
///
/// Threads: one owner. Errors: a worker that does not fit, or is lost, fails the rooms that wait
/// for it (`take_failed`); a worker that does not fit also fails rooms that want it later. A room
/// fails as well when its workers are not all that have something for it (`check_sources`). Bounds:
/// one entry for each connection and for each room that waits.
class source_peers {
public:
  /// @param own the layout of this worker; checked
  explicit source_peers(kv_layout own) : own_(std::move(own)) {}

  /// Notes a new connection; its worker is known when `joined` and `described` have followed.
  void dialed(peer_id peer) { peers_.try_emplace(peer); }
  void joined(peer_id peer, const hello& who);
  /// Notes a worker's description of its memory. False when the worker had described its memory
  /// before, or has not said hello.
  bool described(peer_id peer, const kv_layout& layout);
  void lost(peer_id peer, const std::string& reason);

  /// Lets the room wait until all of these workers have described their memory.
  /// @pre each source was `dialed`
  void wait(room_id room, std::vector<peer_id> sources);
  /// Ends the wait of the room, for whatever reason.
  void forget(room_id room) { waiting_.erase(room); }

  /// Rooms that are ready, with their sources in the order of `wait`.
  std::vector<std::pair<room_id, std::vector<receiver_rooms::source>>> take_ready();
  /// Rooms that can no longer be ready, with the reason.
  std::vector<std::pair<room_id, room_failure>> take_failed() { return std::exchange(failed_, {}); }

  bool has(peer_id peer) const { return peers_.contains(peer); }
  bool is_waiting(room_id room) const { return waiting_.contains(room); }
  std::size_t size() const noexcept { return peers_.size(); }
  /// The hello of the worker; null when it has not said hello.
  const hello* who(peer_id peer) const noexcept;

private:
  struct source_peer {
    std::optional<hello> who;
    std::shared_ptr<const transfer_plan> plan;
    source_place place; ///< Place of the worker; known with `plan`.
    std::string fault;  ///< Why the worker does not fit; empty when it does.
  };
  bool is_ready(const std::vector<peer_id>& sources) const;
  result<void> check(const std::vector<peer_id>& sources) const;
  void fail_waiting(peer_id peer, const room_failure& why);

  kv_layout own_;
  std::map<peer_id, source_peer> peers_;
  std::map<room_id, std::vector<peer_id>> waiting_;
  std::vector<room_id> changed_; ///< Rooms of `waiting_` that may be ready.
  std::vector<std::pair<room_id, room_failure>> failed_;
};

} // namespace peercache::handoff

#pragma once

#include "client/members/close_signal.hpp"
#include "client/members/member_channels.hpp"
#include "client/notes/call_log.hpp"
#include "client/notes/gpu_ledger.hpp"
#include "client/notes/hold_releases.hpp"
#include "client/notes/rdma_uses.hpp"
#include "client/notes/stale_records.hpp"
#include "client/pool/call_start.hpp"
#include "client/pool/commit_queue.hpp"
#include "client/pool/own_pool.hpp"
#include "client/pool/pool_unmapper.hpp"
#include "client/pool/set_window.hpp"
#include "client/pool/slot_request.hpp"
#include "client/session/prefetch_allowance.hpp"
#include "client/values/client_options.hpp"
#include "client/values/pages.hpp"
#include "common/page_key.hpp"
#include "common/result.hpp"
#include "directory/page_location.hpp"
#include "link/calling_actor.hpp"
#include "link/links_actor.hpp"
#include "link/protocol/message_types.hpp"
#include "link/protocol/topology.hpp"
#include "link/system_config.hpp"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace peercache::client {

/// State that the session's actor shares with the callers' threads. Threads: any; a call waits only
/// where its comment says so. Ownership: shared by the session, its actor and the links, so it
/// outlives them all. Errors: a caller's wait ends when the board is closed or the thread is
/// interrupted.
class session_board {
public:
  explicit session_board(std::uint64_t unacknowledged_bytes_max)
      : window(unacknowledged_bytes_max) {}

  link::topology_ptr topology() const;
  own_pool_ptr pool() const;
  /// Returns the state that a call begins with now.
  call_start start_call() const;
  void set_topology(link::topology_ptr next);
  void set_pool(own_pool_ptr next);
  /// Names of members that some earlier topology had and `now` does not have.
  std::vector<std::string> nodes_gone(const link::topology& now) const;

  /// Sets the reason why there is no session; the next pool resets it.
  void set_fault(error why);

  enum class readiness : std::uint8_t {
    no_node, ///< This host's pool is not mapped, or its node not linked.
    linking, ///< Some member was not even tried: it would count as unreachable.
    settled, ///< Each member is linked, or unreachable.
  };
  readiness ready() const;
  /// Waits until `ready` is `settled`; for members besides this host's node no longer than one dial
  /// may take. Errors: the last fault of this host's node. A node that refuses us (`incompatible`)
  /// will not change its mind, so that error returns at once.
  result<void> wait_ready(deadline until) const;
  /// Waits for a view that is at least as new as `wanted`, and until its members are linked or were
  /// tried. False: the time passed, or the thread was interrupted.
  bool wait_view(const directory::view_number& wanted, deadline until) const;
  /// Ends all waits of callers, at the board and at the window, for good.
  void close();

  set_window window;
  commit_queue commits;
  prefetch_allowance prefetches;
  stale_records stale;
  rdma_uses uses;
  hold_releases releases;
  hold_clock holding;
  gpu_ledger gpu;
  /// Names this client to the pools whose pages it holds.
  const storage::holder_tag hold_tag{static_cast<std::uint32_t>(incarnation::random().low)};
  const std::shared_ptr<pool_unmapper> unmapper = std::make_shared<pool_unmapper>();

private:
  readiness ready_now() const; ///< Decides what `ready` returns; the caller holds lock_.

  mutable std::mutex lock_;
  mutable std::condition_variable changed_;
  link::topology_ptr topology_; ///< Guarded by lock_. Never null after construction of the session.
  std::set<std::string> nodes_seen_; ///< Guarded by lock_.
  own_pool_ptr pool_;                ///< Guarded by lock_. Null while there is no session.
  /// Guarded by lock_. Epochs of the pool before the current one, or null.
  std::shared_ptr<storage::epoch_block> last_epochs_;
  std::optional<error> fault_; ///< Guarded by lock_.
  bool closed_ = false;        ///< Guarded by lock_.
};

/// The session's own actor, as the callers' threads see it.
using session_actor =
    caf::typed_actor<caf::reacts_to<link::view_atom, std::string>,
                     caf::reacts_to<link::beat_atom, link::from_here>,
                     // Callers: ask to send the commits in the board's queue.
                     caf::reacts_to<link::commit_atom, link::from_here>,
                     // Callers: ask for slots, which the actor requests from the node.
                     caf::reacts_to<link::reserve_atom, slot_request_ptr>,
                     // Callers: tell the node what the engine holds on its GPU, soon.
                     caf::reacts_to<link::gpu_atom, link::from_here>,
                     // Callers: find out where these pages (packed keys) are, ahead of need. The
                     // board's allowance for them was taken and is given back.
                     caf::reacts_to<link::lookup_atom, std::string, link::from_here>,
                     // Member channels: the keys (packed) that an owner was asked for, and its
                     // answer; empty when it does not answer.
                     caf::reacts_to<link::lookup_atom, std::string, std::string, link::from_here>,
                     // The session's destructor: asks to say goodbye to the node. Answers when that
                     // is done.
                     caf::replies_to<link::leave_atom, link::from_here>::with<bool>>;

/// The CAF half of a client: an actor system, the session with this host's node, and the
/// connections to all members, which are not CAF's. Threads: any, except construction and
/// destruction. Destruction: takes at most a second, even with frozen peers; a thread ends the
/// rest. Actors: the session's actor, links and connector, all on the scheduler; unmapping pools
/// and the connections to members have threads of their own.
class session {
public:
  /// @param tls null: connections are plain
  /// @param closing borrowed; closing the client ends the waits of callers
  /// @param calls borrowed; the session tells the node of them
  session(const client_options& options, std::shared_ptr<net::tls_context> tls,
          close_signal& closing, call_log& calls, std::function<metrics::samples()> report_totals,
          std::function<void(const page_key&, const directory::page_location&)> remember);
  ~session();

  session_board& board() noexcept { return *board_; }
  close_signal& closing() noexcept { return closing_; }
  session_actor& actor() noexcept { return actor_; }
  caf::actor_system& system() noexcept { return *system_; }
  member_channels& members() noexcept { return *members_; }

  /// Asks a member for its view, adopts it, and waits until the board has a view that is at least
  /// as new as `wanted`. False when that did not happen in time. Threads: any.
  bool refresh_view(const incarnation& whom, const directory::view_number& wanted, deadline until);

  /// A blocking actor to wait with. Used by one thread at a time; returns to the stock at the end
  /// of its life.
  class caller {
  public:
    explicit caller(session& owner);
    ~caller();
    caller(const caller&) = delete;
    caller& operator=(const caller&) = delete;
    caf::blocking_actor* operator->() noexcept { return actor_->operator->(); }
    /// Call when an answer may still arrive: the actor and its mailbox are then thrown away.
    void spoil() noexcept { spoiled_ = true; }
    /// While the result lives, closing the client answers these requests with an error, and so
    /// does an interruption of this thread.
    close_signal::waiter fail_at_close(std::vector<caf::message_id> requests);

  private:
    session& owner_;
    std::unique_ptr<link::calling_actor> actor_;
    bool spoiled_ = false;
  };

private:
  close_signal& closing_;
  std::unique_ptr<link::system_config> config_;
  std::unique_ptr<caf::actor_system> system_;
  std::shared_ptr<session_board> board_;
  session_actor actor_;
  link::connector_actor connector_;
  link::links_actor links_;
  /// Shared with the actors above, which end before `members_thread_`.
  const std::shared_ptr<member_channels> members_;
  caf::actor unmapping_thread_;
  caf::actor members_thread_;
  std::mutex callers_lock_;
  /// Guarded by callers_lock_. Idle actors, from which `caller` takes its own.
  std::vector<std::unique_ptr<link::calling_actor>> callers_;
};

} // namespace peercache::client

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(peercache::client::slot_request_ptr)

#pragma once

#include "client/handoff/room_watch.hpp"
#include "client/handoff/worker_options.hpp"
#include "common/result.hpp"
#include "handoff/kv_layout.hpp"
#include "handoff/sender_rooms.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace peercache::client {

/// A room that a prefill worker has opened.
struct prefill_room {
  handoff::send_id id;
  room_watch state;
};

struct prefill_stats {
  std::uint64_t opened = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  /// Bytes of rooms that succeeded, which decode workers said they had read.
  std::uint64_t bytes = 0;
  std::size_t rooms = 0; ///< Rooms that are open now.
  std::size_t peers = 0; ///< Decode workers that are connected now.
};

/// One prefill worker (a process of the engine, one for each rank): it announces its KV pages room
/// by room, and decode workers read them (`handoff::sender_rooms` has the rules of rooms). Works
/// with or without a node on the host.
///
/// Threads: any thread may call all methods; the worker has an actor with a thread for its
/// connections, one for each server, and under TLS one for handshakes. Ownership: the memory of the
/// layout is lent from `start` or `lend_memory` to `give_memory_back` or the destructor. A room's
/// pages are the engine's again as soon as its state is seen to be `success` or `failed`, or a call
/// that ends the room has returned: decode discards bytes that are read from them after that.
/// Errors: nothing throws; `closed` in a forked child, where the worker has no threads. A call
/// takes the time of its own work: it waits for no peer.
class prefill_worker {
public:
  /// Starts a worker and lends it the memory of the layout. Errors: `refused` (a `host` beyond
  /// loopback without `insecure_cluster`), `invalid_argument` (an impossible layout), `io_failed`
  /// (a port, a device).
  static result<std::unique_ptr<prefill_worker>> start(const worker_options& options,
                                                       handoff::kv_layout layout);
  ~prefill_worker();
  prefill_worker(const prefill_worker&) = delete;
  prefill_worker& operator=(const prefill_worker&) = delete;

  /// Port to which decode workers connect.
  std::uint16_t port() const noexcept;
  /// The chosen data plane and the reason, for people.
  const std::string& data_plane() const noexcept;

  /// Opens a room for `required` decode workers; without a number, for as many as their joins say.
  /// Errors: as `sender_rooms::open`; `refused` when the memory is given back.
  result<prefill_room> open(handoff::room_id room,
                            std::optional<std::uint32_t> required = std::nullopt);
  std::optional<std::uint32_t> prefix_pages(handoff::send_id id) const;
  result<void> init(handoff::send_id id, std::uint32_t pages);
  result<void> send(handoff::send_id id, std::span<const std::uint32_t> pages, bool last,
                    std::vector<handoff::state_items> states = {}, std::uint32_t aux_row = 0);
  void abort(handoff::send_id id, std::string reason,
             handoff::failure_kind kind = handoff::failure_kind::aborted);
  void clear(handoff::send_id id);
  std::optional<handoff::room_failure> failure(handoff::send_id id) const;
  handoff::transfer_metric metric(handoff::send_id id) const;

  /// Fails all rooms and ends the registration of the memory: when this returns, nobody reads the
  /// memory.
  void give_memory_back();
  /// Lends the memory of the layout again. Errors: a device cannot register it.
  result<void> lend_memory();

  prefill_stats stats() const;

private:
  class impl;
  explicit prefill_worker(std::unique_ptr<impl> made);
  std::unique_ptr<impl> impl_;
};

} // namespace peercache::client

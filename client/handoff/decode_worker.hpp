#pragma once

#include "client/handoff/room_watch.hpp"
#include "client/handoff/worker_options.hpp"
#include "common/result.hpp"
#include "handoff/kv_layout.hpp"
#include "handoff/links/worker_links.hpp"
#include "handoff/receiver_rooms.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace peercache::client {

struct decode_stats {
  std::uint64_t opened = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::uint64_t reads = 0;   ///< Reads that have ended, each of about 64 MiB at most.
  std::uint64_t refused = 0; ///< Reads whose lease had ended.
  std::uint64_t bytes = 0;   ///< Bytes that were read for rooms that succeeded.
  std::size_t turns = 0;     ///< Rooms that are open now, and cleared rooms that wait for a read.
  std::size_t peers = 0;     ///< Connections to prefill workers.
};

/// A prefill worker to which the connection has ended, or did not come about.
struct lost_worker {
  handoff::worker_address address;
  std::string reason; ///< Why there is no connection, for people.
};

/// One decode worker (a process of the engine, one for each rank): it reads the KV pages that
/// prefill workers offer it, room by room (`handoff::receiver_rooms` has the rules of rooms). Works
/// with or without a node on the host.
///
/// Threads: any thread may call all methods; the worker has an actor with a thread for its
/// connections and what it reads over TCP, one for each rail, and under TLS one for handshakes.
/// Ownership: the memory of the layout is lent from `start` or `lend_memory` to `give_memory_back`
/// or the destructor. The pages of a room are the worker's to write from `allocate` until the
/// room's state is seen to be `success` or `failed`, or `end` or `clear` has returned: no device
/// and no thread writes to them after that. Errors: nothing throws; `closed` in a forked child,
/// where the worker has no threads. `end`, `clear` and `give_memory_back` wait until the reads of
/// the rooms in question are cancelled, which takes a turn of the data plane; no other call waits.
class decode_worker {
public:
  /// Starts a worker and lends it the memory of the layout. Errors: `invalid_argument` (an
  /// impossible layout), `io_failed` (a port, a device).
  static result<std::unique_ptr<decode_worker>> start(const worker_options& options,
                                                      handoff::kv_layout layout);
  ~decode_worker();
  decode_worker(const decode_worker&) = delete;
  decode_worker& operator=(const decode_worker&) = delete;

  /// The chosen data plane and the reason, for people.
  const std::string& data_plane() const noexcept;

  /// Opens a room. Errors: as `receiver_rooms::open`; `refused` when the memory is given back.
  result<room_watch> open(handoff::room_id room);
  /// Says which prefill workers have the room, by the address at which each listens. The room is
  /// `waiting_for_input` when all of them are connected and fit this worker; it fails when a worker
  /// does not fit, or is lost. Errors: `invalid_argument` (the room is not open, or was connected
  /// before).
  result<void> connect(handoff::room_id room, std::vector<handoff::worker_address> sources);
  /// Joins all prefill workers of the room with these pages. Errors: as `receiver_rooms::allocate`.
  result<void> allocate(handoff::room_id room, handoff::allocated_pages pages);
  /// Fails the room. Its state becomes `failed` as soon as nothing writes to its pages.
  void abort(handoff::room_id room, std::string reason,
             handoff::failure_kind kind = handoff::failure_kind::aborted);
  /// Fails the room as `abort` does, and waits until nothing writes to its pages. Returns why the
  /// room has failed, which may be an earlier reason; nothing when the room has succeeded or is not
  /// open.
  std::optional<handoff::room_failure>
  end(handoff::room_id room, std::string reason,
      handoff::failure_kind kind = handoff::failure_kind::aborted);
  /// Forgets the room, aborting it first if it has not ended, and waits as `end` does.
  void clear(handoff::room_id room);

  /// Fails all rooms and ends the registration of the memory: when this returns, nothing writes to
  /// the memory.
  void give_memory_back();
  /// Lends the memory of the layout again. Errors: a device cannot register it.
  result<void> lend_memory();

  /// Prefill workers that were lost since the last call, each address once.
  std::vector<lost_worker> take_lost();
  decode_stats stats() const;

private:
  class impl;
  explicit decode_worker(std::unique_ptr<impl> made);
  std::unique_ptr<impl> impl_;
};

} // namespace peercache::client

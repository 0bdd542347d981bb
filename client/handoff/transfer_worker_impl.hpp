#pragma once

#include "client/handoff/host_names.hpp"
#include "client/handoff/memory_server.hpp"
#include "client/handoff/room_reads.hpp"
#include "client/handoff/transfer_worker.hpp"
#include "client/read/read_plane.hpp"
#include "common/forks.hpp"
#include "handoff/lease_table.hpp"
#include "handoff/links/worker_links.hpp"
#include "handoff/transfers.hpp"
#include "link/thread_actors.hpp"
#include "net/socket.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace peercache::client {

/// The parts of a transfer worker, and the turn of its loop. Threads of the engine call `machine`
/// themselves, under `lock`; only the loop uses connections and reads.
class transfer_worker::impl {
public:
  impl(worker_options opts, worker_tls let_in, std::unique_ptr<memory_server> server,
       std::unique_ptr<read_plane> reader, std::unique_ptr<handoff::worker_links> connections,
       const incarnation& process);

  void spawn();
  /// Refuses further calls, and ends calls that are open. Does not wait.
  void shut();
  /// Ends the worker: waits until nothing is under way, then ends servers, threads and connections.
  void end();
  result<void> register_memory(const handoff::memory_range& memory);
  result<void> unregister_memory(std::uint64_t address);
  transfer_outcome wait(handoff::call_id id);
  /// The state of the call, which is forgotten if it has ended. @pre the caller holds `lock`
  transfer_outcome take_outcome(handoff::call_id id);

  const home_process home;
  const worker_options options;
  const worker_tls among_workers; ///< Used by `served` and `links`.
  const std::unique_ptr<memory_server> served;
  const std::unique_ptr<read_plane> plane;
  /// Connections to other workers. Only the loop uses them, but any thread may call `wake`.
  const std::unique_ptr<handoff::worker_links> links;
  host_names names{net::resolve_host};

  /// Guards the members from `moved` to `closed`. Engines' calls change the machine themselves
  /// instead of asking the loop: a lease that a call ends has ended when the call returns.
  mutable std::mutex lock;
  std::condition_variable moved; ///< Signals that calls or reads have ended.
  handoff::lease_table leases;
  handoff::transfers machine;
  transfer_stats counted;
  bool closed = false;

private:
  using time_point = std::chrono::steady_clock::time_point;

  result<void> add_to_devices(std::span<std::byte> memory);
  bool turn(const std::vector<handoff::link_event>& events, time_point now);

  // Handlers of what has happened to connections. @pre the caller holds `lock`
  void take(const handoff::peer_joined& event, time_point now);
  void take(const handoff::peer_said& event, time_point now);
  void take(const handoff::peer_lost& event, time_point now);
  void refuse(handoff::peer_id peer, const std::string& why, time_point now);
  void lose(handoff::peer_id peer, const std::string& why);
  void finish(const room_reads::finished& read);
  void dial(time_point now);

  bool begin_reads(); ///< @pre the caller does not hold `lock`

  /// Addresses that this worker has dialed, by peer; only the loop uses them.
  std::map<handoff::peer_id, handoff::worker_address> addresses;
  /// Where the memory of each peer that has joined is read; only the loop uses it.
  std::map<handoff::peer_id, rdma::peer_endpoint> endpoints;
  room_reads reads;
  std::atomic<bool> progress{false}; ///< Some read has progressed since the loop's last look.
  /// Held while memory is registered or unregistered, which may both take seconds.
  std::mutex memory_lock;
  std::map<std::uint64_t, std::uint64_t>
      registered; ///< Length of each registered range, by address; guarded by `memory_lock`.
  std::atomic<bool> stop{false};
  /// Threads of the worker; they end before the other members, which they use.
  link::thread_actors threads;
};

} // namespace peercache::client

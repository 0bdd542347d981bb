#pragma once

#include "client/handoff/decode_worker.hpp"
#include "client/handoff/hand_over_counts.hpp"
#include "client/handoff/node_reporter.hpp"
#include "client/handoff/room_reads.hpp"
#include "client/handoff/worker_tls.hpp"
#include "client/read/read_plane.hpp"
#include "common/forks.hpp"
#include "handoff/distinct_memory.hpp"
#include "handoff/source_peers.hpp"
#include "link/thread_actors.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace peercache::client {

/// The parts of a decode worker, and the turn of its loop. Threads of the engine call the rooms
/// themselves, under `lock`; only the loop uses connections and reads.
class decode_worker::impl {
public:
  impl(worker_options opts, worker_tls let_in, std::unique_ptr<read_plane> reader,
       std::unique_ptr<handoff::worker_links> connections, handoff::kv_layout own);

  /// Begins the worker's threads. Errors: `io_failed`, when no thread has begun.
  result<void> spawn();
  void close();
  void give_memory_back();
  /// @param starting whether an interruption of this thread ends the call between two buffers,
  /// which is right while nobody else has the worker
  result<void> lend_memory(bool starting);
  /// Waits until no read of the room is under way. @pre the room has failed, or ended
  void wait_until_quiet(handoff::room_id room);

  /// Runs an engine's call on the rooms under `lock`, publishes what has changed, and wakes the
  /// loop.
  template <class Call>
  auto call(Call&& of_engine) {
    std::lock_guard guard{lock};
    auto answer = of_engine();
    publish();
    links->wake();
    return answer;
  }

  const home_process home;
  const worker_options options;
  const worker_tls among_workers; ///< Used by `links`.
  const std::vector<std::span<std::byte>> memory;
  const std::unique_ptr<read_plane> plane; ///< Lanes to read over; the loop runs the TCP lane.
  /// Connections to prefill workers. Only the loop uses them, but any thread may call `wake`.
  const std::unique_ptr<handoff::worker_links> links;

  /// Guards the members from `quiet` to `lent`. Engines' calls change rooms themselves instead of
  /// asking the loop, so that they need not wait for it.
  mutable std::mutex lock;
  std::condition_variable quiet; ///< Signals that reads have ended.
  handoff::receiver_rooms rooms;
  handoff::source_peers peers;
  room_watches<handoff::room_id> watches;
  /// Rooms whose sources are not dialed yet.
  std::map<handoff::room_id, std::vector<handoff::worker_address>> to_dial;
  /// Address at which each of `peers` listens.
  std::map<handoff::peer_id, handoff::worker_address> addresses;
  /// Lost prefill workers, with the reason, for `take_lost`.
  std::map<handoff::worker_address, std::string> lost;
  hand_over_counts counted;
  bool lent = false; ///< The memory is lent, so that rooms may be opened.

private:
  using time_point = std::chrono::steady_clock::time_point;

  void run_loop();
  bool turn(const std::vector<handoff::link_event>& events, time_point now);
  void note_progress() noexcept;

  // Handlers of what has happened to connections and reads. @pre the caller holds `lock`
  void take(const handoff::peer_joined& event, time_point now);
  void take(const handoff::peer_said& event, time_point now);
  void take(const handoff::peer_lost& event, time_point now);
  void refuse(handoff::peer_id peer, time_point now);
  void lose(handoff::peer_id peer, const std::string& why);
  void finish(const room_reads::finished& read, time_point now);

  // Steps that follow from events of connections and reads. @pre the caller holds `lock`
  void dial(time_point now);
  void dial_for(handoff::room_id room, const std::vector<handoff::worker_address>& sources,
                time_point now);
  void connect_rooms();
  void publish();

  // Functions that do what the rooms ask for. @pre the caller does not hold `lock`
  void carry_out(const handoff::receiver_rooms::outgoing& message, time_point now);
  void carry_out(const handoff::receiver_rooms::cancel_reads& wanted, time_point now);
  bool begin_reads(time_point now);
  rdma::peer_endpoint endpoint_of(handoff::peer_id peer) const;

  /// The plane of the TCP lane, which the loop runs, so that offers are read and arrived bytes are
  /// judged without a hand-over to another thread. Null when pages travel only over rails.
  rdma::data_plane* const tcp;
  room_reads reads;                      ///< Reads under way; only the loop uses them.
  std::atomic<bool> progress{false};     ///< Some read has progressed since the loop's last look.
  std::atomic<std::thread::id> looper{}; ///< The loop's thread.
  std::mutex memory_lock;  ///< Held while memory is registered, which may take seconds.
  bool registered = false; ///< The memory is registered with the devices; guarded by `memory_lock`.
  std::atomic<bool> stop{false};
  /// Threads of the worker; they end before the members above, which they use.
  link::thread_actors threads{options.tls};
  /// Reports counts to the node of this host; null: the worker reports to nobody.
  std::unique_ptr<node_reporter> reporter;
};

} // namespace peercache::client

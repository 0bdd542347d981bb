#pragma once

#include "common/published.hpp"
#include "common/result.hpp"
#include "net/stream_socket.hpp"
#include "rdma/verbs/binding_turns.hpp"
#include "rdma/verbs/rail_completions.hpp"
#include "rdma/verbs/region_registry.hpp"
#include "rdma/verbs/served_chunks.hpp"
#include "rdma/verbs/span_registry.hpp"
#include "rdma/verbs/verbs_inbox.hpp"
#include "rdma/verbs/verbs_server_options.hpp"
#include "rdma/verbs/verbs_server_session.hpp"
#include "rdma/verbs/verbs_server_stats.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace peercache::rdma {

/// Lets other hosts READ one pool with the areas beside it, or memory under leases, through one
/// device: owns the device, the registered regions and a queue pair for each channel of each
/// reader. No CPU takes part in a READ; this object does the handshakes, with `windows` it binds
/// each session's memory windows, and it ends the sessions of readers that are gone, and all
/// sessions when memory that was announced to readers is removed.
///
/// Threads: `poll` and `wait` belong to the one thread that runs it, which owns the device from its
/// first `poll` on; any thread may call `accept`, `wake`, `regions`, `spans`, `add_area`, `stats`
/// and `readers`. Starts none. Any thread may destroy it when no other thread still uses it.
/// Ownership: the memory of the pool and of areas is lent and outlives this object. Errors: a
/// faulty reader loses its session, and all readers do when the device is down; `stats` says why.
/// Limits: `verbs_server_options`; a reader above them is told `busy`. Invariant: readers get no
/// right but to READ the regions.
class verbs_rail_server {
public:
  /// Takes the device and makes the server; no chunk is registered yet. Errors: `incompatible` for
  /// `windows` on a device that has none. @pre no other thread uses
  /// the device
  static result<std::unique_ptr<verbs_rail_server>> create(std::unique_ptr<verbs::device> device,
                                                           const verbs_server_options& options,
                                                           const served_region& pool);
  ~verbs_rail_server();
  verbs_rail_server(const verbs_rail_server&) = delete;
  verbs_rail_server& operator=(const verbs_rail_server&) = delete;

  /// Takes a connection on which a reader has said `greeting`. When the inbox is full, the reader
  /// is told `busy` at once.
  /// @param came_at when the connection was accepted: from then on the reader's time-out runs
  void accept(net::stream_socket socket, const verbs_hello& greeting, clock::time_point came_at);

  /// The registry of memory under leases, for a rail that serves a table of leases: any thread may
  /// add and remove.
  span_registry& spans() noexcept { return spans_; }

  /// Registers an area beside the pool, which may be added while the rail serves and is served
  /// until the rail ends; readers that are connected are told soon after, others with the pool.
  /// Errors: `invalid_argument` on a rail that serves a table of leases, `refused` for memory that
  /// overlaps the pool, or lies above the lowest area when that one has failed, because readers
  /// count from there; all others are `span_registry::add`'s. The next call tries again what was
  /// not registered. Registering pins all of the memory.
  result<void> add_area(std::span<std::byte> memory);

  /// The registry of the pool's chunks: chunks can be READ once somebody has called its
  /// `register_next`.
  region_registry& regions() noexcept { return regions_; }

  /// Accepts, receives and sends what is possible without blocking. Returns true when something
  /// moved.
  bool poll(clock::time_point now);
  /// Sleeps until there is something to poll, `wake` is called, or `at_most` has passed.
  void wait(clock::duration at_most);
  void wake() const noexcept { events_.wake(); }

  /// Statistics of this rail, at most 100 ms older than the last `poll`.
  verbs_rail_stats stats() const { return latest_.load()->stats; }
  std::vector<verbs_reader_stats> readers() const { return latest_.load()->readers; }

private:
  /// A reading process, with the sessions that it has now.
  struct reader {
    incarnation inc;
    std::vector<std::uint64_t> sessions;
  };
  struct entry {
    std::unique_ptr<verbs_server_session> session;
    std::string reader; ///< The reader's name: its key in `readers_`.
  };
  struct retired_session {
    std::unique_ptr<verbs_server_session> session;
    std::uint32_t bindings = 0; ///< Bindings that were under way when the session ended.
  };
  struct snapshot {
    verbs_rail_stats stats;
    std::vector<verbs_reader_stats> readers;
  };

  verbs_rail_server(std::unique_ptr<verbs::device> device, rail_completions completions,
                    net::event_poll events, const verbs_server_options& options,
                    const served_region& pool, const chunk_plan& plan);

  using missing_area = std::pair<const std::uintptr_t, std::span<std::byte>>;
  result<void> add_missing_area(const missing_area& one);
  bool take_events(clock::time_point now);
  void take_device_events();
  bool take_regions();
  bool take_bindings(clock::time_point now);
  bool bind_windows(std::uint64_t id, verbs_server_session& session, clock::time_point now);
  void forget_unbound(std::uint64_t id);
  void pass_turn(clock::time_point now);
  void wake_unbound();
  void look_at_waiting(clock::time_point now);
  void turn_away(std::uint64_t id, verbs_verdict why);
  void retire(std::unique_ptr<verbs_server_session> session);
  bool bury(clock::time_point now);
  void note_no_window(clock::time_point now, const std::string& why);
  bool admit(clock::time_point now);
  void admit_one(clock::time_point now, verbs_arrival each);
  verbs_verdict verdict_of(const verbs_hello& greeting) const noexcept;
  result<verbs::queue_pair> connect_to(const verbs_hello& greeting, verbs_answer& answer);
  void add(clock::time_point now, verbs_arrival from, verbs::queue_pair pair,
           const verbs_answer& answer);
  bool run_sessions(clock::time_point now);
  bool step(std::uint64_t id, clock::time_point now);
  void reap(clock::time_point now);
  void end(std::uint64_t id, session_end why);
  void end_all(session_end why);
  void end_older(const std::string& name, const incarnation& reader);
  void refuse(net::stream_socket& socket, verbs_verdict verdict);
  verbs_answer answer_of(verbs_verdict verdict) const;
  queue_pair_end own_end() const noexcept;
  void publish(clock::time_point now);

  // Members that stay constant after construction.
  const std::unique_ptr<verbs::device> device_;
  const verbs_server_options options_;
  const std::uint64_t cluster_;
  const served_region pool_;

  // Members that any thread may use.
  net::event_poll events_; ///< Epoll of this rail; other threads may call `wake` only.
  region_registry regions_;
  span_registry spans_;
  verbs_inbox inbox_;
  std::atomic<std::uint64_t> inbox_overflows_{0};
  published<snapshot> latest_{snapshot{}};
  /// Held while areas are added, by the device as well: no area may come before a lower one that is
  /// still under way. Guards the two members after it.
  std::mutex areas_mutex_;
  /// Address of the lowest area that is served; without areas the largest number.
  std::uintptr_t lowest_area_ = std::numeric_limits<std::uintptr_t>::max();
  /// Areas that could not be registered, by their addresses: no more than callers have added.
  std::map<std::uintptr_t, std::span<std::byte>> missing_areas_;

  // Members of the rail's thread. Queue pairs are destroyed before what they were made from.
  bool owns_device_ = false;
  rail_completions completions_;           ///< Completions of all queue pairs.
  std::span<const epoll_event> collected_; ///< Events that `wait` took, for the next `poll`.
  /// All registered chunks; every session without windows sends them to its reader from here.
  served_chunks announced_;
  binding_turns unbound_; ///< The sessions that lack windows, of which the first one gets some.
  std::set<std::uint64_t> waiting_; ///< Sessions with windows whose answer has not begun.
  /// Sessions that have ended, whose queue pairs have stopped and whose windows still have to end;
  /// those with bindings under way come first.
  std::deque<retired_session> retired_;
  std::unordered_map<std::uint64_t, entry> sessions_;
  /// Readers by name; each has at least one session.
  std::unordered_map<std::string, reader> readers_;
  std::vector<std::uint64_t> ready_;
  std::uint64_t next_id_ = 1;
  clock::time_point reap_at_{};
  clock::time_point publish_at_{};
  clock::time_point say_no_window_at_{}; ///< When `on_no_window` may be called again.
  bool changed_ = true;                  ///< Whether statistics changed since the last `publish`.
  verbs_rail_stats stats_;
};

} // namespace peercache::rdma

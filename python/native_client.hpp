#pragma once

#include "client/cache_client.hpp"
#include "client/notes/call_log.hpp"
#include "python/arguments.hpp"
#include "python/loan_gate.hpp"
#include "python/open_cache.hpp"
#include "python/page_results.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace peercache::python {

/// The client as Python sees it: `peercache._native.Client`.
///
/// Threads: any number of Python threads at once; each method is entered with the GIL and gives it
/// up for all that takes longer than to convert its arguments. Ownership: memory is named by
/// address and lent for the duration of the call: after a method has returned nothing reads or
/// writes it (client/calls/get_call waits for every batch, and a data plane closes what could still
/// write before it completes one). `close` ends the client, and an embedded node, when the last
/// running call has ended; called by the handler of a signal that interrupts a call, `close`
/// returns earlier. Errors: Python exceptions for arguments that make no sense, and what handlers
/// of signals raise, which end a call of Python's main thread at once; nothing else. After `close`,
/// and in a forked child, every page is `closed`.
class native_client {
public:
  explicit native_client(opened_cache opened);
  ~native_client();
  native_client(const native_client&) = delete;
  native_client& operator=(const native_client&) = delete;

  using spaces = std::vector<key_space>;
  /// Seconds that a call may take, from its begin; nothing: the option client.timeout.
  using timeout = std::optional<double>;

  page_results set(const spaces& in, py::handle keys, py::handle addresses, py::handle sizes,
                   timeout within);
  page_results get(const spaces& in, py::handle keys, py::handle addresses, py::handle sizes,
                   timeout within);
  /// @param hold seconds for which pages are kept from eviction; nothing: no page is. The pages of
  /// one key, in all spaces, are held all or none. @param chain only the pages before the first one
  /// that is not found are of use: later ones may be left out (`pending`), and are not held
  page_results exists(const spaces& in, py::handle keys, timeout within, std::optional<double> hold,
                      bool chain);
  page_results remove(const spaces& in, py::handle keys, timeout within);
  void prefetch(const spaces& in, py::handle keys);

  /// Tells the node which blocks the engine has evicted from its GPU and then stored there; a block
  /// is each key in each space.
  void report_gpu(const spaces& in, py::handle stored, py::handle evicted, bool all_evicted,
                  std::optional<std::uint32_t> rank);

  /// A node's share of a prompt: its name, tokens in any tier, on GPUs, in memory and on disk, and
  /// tokens on GPUs by rank of data parallelism.
  using node_match =
      std::tuple<std::string, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t,
                 std::vector<std::pair<std::uint32_t, std::uint64_t>>>;
  /// Asks how much of a prompt each node has. @param in fields of key spaces. @param tokens the
  /// prompt; nothing: `hashes` give it. Errors: `peercache.Error` for those of
  /// cache_client::overlap.
  std::vector<node_match> overlap(std::vector<std::vector<std::string>> in, py::handle hashes,
                                  std::optional<std::vector<std::uint32_t>> tokens,
                                  std::uint32_t block_tokens, std::string node, timeout within);

  /// The tiers in which the directory knows each page: bit 0 memory, bit 1 disk, of any node;
  /// bits 2 and 3 the same of this host's node, also while the session to it is broken; bit 7: no
  /// owner of the page's key has answered. Nothing when the client is closed, when this host's node
  /// died in the middle of a clear, or when the time is over before all keys are known.
  std::optional<py::bytes> tiers(const spaces& in, py::handle keys, timeout within);

  /// Waits until all pages set so far are published. Returns (everything is published, pages that
  /// failed, pages that were duplicates).
  std::tuple<bool, std::uint64_t, std::uint64_t> flush(timeout within);

  /// Clears the space of all key spaces with this first field. Returns whether the clear is
  /// certain, and why not.
  std::pair<bool, std::string> clear(const std::string& space, timeout within);

  /// Registers memory with the RDMA devices. Returns why that failed; nothing when it worked.
  std::optional<std::string> register_memory(std::uint64_t address, std::uint64_t bytes);
  void unregister_memory(std::uint64_t address);

  /// Describes a key space for `peercache why`: who made it, its fields, and settings of the
  /// engine.
  void describe(const key_space& space, const std::string& door, py::handle fields,
                const std::map<std::string, std::string>& facts);
  /// Notes pages that were called missing without asking the cache, and why, for `peercache why`.
  void note_unasked(const key_space& space, const std::string& reason, std::uint64_t pages);

  py::dict stats();
  /// The nodes of the view as (name, host, control port).
  py::list members();
  std::string data_plane();
  const std::string& node_address() const noexcept { return node_address_; }
  double default_timeout_seconds() const noexcept;
  bool closed() const noexcept { return !gate_.is_open(); }
  void close();
  /// The gate of the client, so that several clients can be ended at once without the GIL.
  closable& gate() noexcept { return gate_; }

  /// Total times of set, get, exists and remove so far: (calls, seconds within them, seconds of
  /// these without the GIL).
  std::tuple<std::uint64_t, double, double> call_times() const;

private:
  using clock = std::chrono::steady_clock;
  /// Measures one call, from the method's first line to its last.
  class timed_call;

  client::deadline until(timeout within) const;

  /// Whether a call may begin. While the interpreter ends, a refused call takes a moment: threads
  /// that go on calling would otherwise keep the GIL from the thread that ends the interpreter.
  bool may_begin() const;
  /// Runs `work(cache)` without the GIL and returns its result; returns `otherwise` when the client
  /// is closed.
  template <class Result, class Work>
  Result borrow(Result otherwise, Work&& work);
  /// Runs `work(cache, digests, results)` without the GIL, and notes the call in the client's log
  /// where it has a kind. Without a client every page is `closed`; pages whose keys were not made
  /// by the deadline are `timed_out`.
  template <class Work>
  page_results run(timed_call& timing, std::optional<link::call_kind> kind, const key_strings& keys,
                   const spaces& in, client::deadline limit, Work&& work);
  /// The common part of `set` and `get`: calls `move(cache, pages, results, limit)`.
  template <class Part, class Page, class Move>
  page_results move_pages(link::call_kind kind, const spaces& in, py::handle keys,
                          py::handle addresses, py::handle sizes, timeout within, Move&& move);

  using cache_gate = loan_gate<client::cache_client>;
  cache_gate gate_;
  const std::string node_address_;
  const std::chrono::milliseconds default_timeout_;
  std::mutex home_lock_;
  std::optional<incarnation>
      last_home_; ///< The process of this host's node that was known last. Guarded by home_lock_.
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> call_ns_{0};
  std::atomic<std::uint64_t> released_ns_{0};
};

} // namespace peercache::python

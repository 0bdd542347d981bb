#pragma once

#include "python/arguments.hpp"
#include "python/cache_gate.hpp"
#include "python/open_cache.hpp"
#include "python/page_results.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace peercache::python {

/// The client as Python sees it: `peercache._native.Client`.
///
/// Threads: any number of Python's at once; each method is entered with the GIL and gives it up for
/// all that takes longer than to convert its arguments. Ownership: memory is named by address, lent
/// for the duration of the call: when a method returns nothing reads or writes it any more
/// (client/get_call waits for every batch, and a data plane closes what could still write before it
/// completes one). `close` ends the client, and an embedded node, when the last running call has
/// ended. Errors: Python exceptions for arguments that make no sense, and nothing else; after
/// `close`, and in a child that was forked since, every page is `closed`.
class native_client {
public:
  explicit native_client(opened_cache opened);
  ~native_client();
  native_client(const native_client&) = delete;
  native_client& operator=(const native_client&) = delete;

  using spaces = std::vector<key_space>;
  /// Seconds from the call's begin; nothing: the option client.timeout.
  using timeout = std::optional<double>;

  page_results set(const spaces& in, py::handle keys, py::handle addresses, py::handle sizes,
                   timeout within);
  page_results get(const spaces& in, py::handle keys, py::handle addresses, py::handle sizes,
                   timeout within);
  page_results exists(const spaces& in, py::handle keys, timeout within);
  page_results remove(const spaces& in, py::handle keys, timeout within);
  void prefetch(const spaces& in, py::handle keys);

  /// The tiers in which the directory knows each page, on any node: bit 0 memory, bit 1 disk.
  /// Nothing when a part of the directory could not be asked.
  std::optional<py::bytes> tiers(const spaces& in, py::handle keys, timeout within);

  /// (everything is published, pages that failed, pages that were duplicates)
  std::tuple<bool, std::uint64_t, std::uint64_t> flush(timeout within);

  /// Clears the space of all key spaces with this first field: whether that is certain, and why
  /// not.
  std::pair<bool, std::string> clear(const std::string& space, timeout within);

  /// Errors: a sentence; nothing when it worked.
  std::optional<std::string> register_memory(std::uint64_t address, std::uint64_t bytes);
  void unregister_memory(std::uint64_t address);

  py::dict stats();
  /// (name, host, control port) of each node of the view.
  py::list members();
  std::string data_plane();
  const std::string& node_address() const noexcept { return node_address_; }
  double default_timeout_seconds() const noexcept;
  bool closed() const noexcept { return !gate_.is_open(); }
  void close();
  /// The gate, for ending several clients at once without the GIL.
  cache_gate& gate() noexcept { return gate_; }

  /// (calls, seconds within them, seconds of these without the GIL) of set, get, exists and remove.
  std::tuple<std::uint64_t, double, double> call_times() const;

private:
  using clock = std::chrono::steady_clock;
  /// Begins with a call's first line, ends with its last.
  class timed_call;

  client::deadline until(timeout within) const;

  /// Whether a call may begin. While the interpreter ends, a call that may not takes a moment:
  /// threads that go on calling would keep the GIL from the thread that ends it.
  bool may_begin() const;
  /// The result of `work(cache)`, which runs without the GIL; `otherwise` when the client is
  /// closed.
  template <class Result, class Work>
  Result borrow(Result otherwise, Work&& work);
  /// Runs `work(cache, digests, results)` without the GIL; without a client every page is `closed`,
  /// and those whose keys were not made by the deadline are `timed_out`.
  template <class Work>
  page_results run(timed_call& timing, const key_strings& keys, const spaces& in,
                   client::deadline limit, Work&& work);
  /// `set` and `get`: calls `move(cache, pages, results, limit)`.
  template <class Part, class Page, class Move>
  page_results move_pages(const spaces& in, py::handle keys, py::handle addresses, py::handle sizes,
                          timeout within, Move&& move);

  cache_gate gate_;
  const std::string node_address_;
  const std::chrono::milliseconds default_timeout_;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> call_ns_{0};
  std::atomic<std::uint64_t> released_ns_{0};
};

} // namespace peercache::python

#pragma once

#include "stress_ledger.hpp"
#include "stress_plan.hpp"

#include "common/tls_paths.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::stress {

/// Returns the page key with number `key` in the working set.
page_key key_of(std::uint32_t key);

/// The node that a worker's client connects to.
struct worker_home {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  std::string cluster;
  tls_paths tls; ///< The client's certificate and key, and the CA that it trusts; empty: no TLS.
  /// The worker's thread calls this first, for example to enter the node's network; may be empty.
  std::function<void()> enter;
};

/// One writer or reader with a client of its own, which makes calls until the ledger says stop.
/// Threads: the worker's own. Ownership: owns its client and the memory of one batch; plan and
/// ledger outlive the worker.
class stress_worker {
public:
  stress_worker(const stress_plan& plan, stress_ledger& ledger, std::uint32_t number,
                worker_home home);

  void write_until_stopped();
  void read_until_stopped();

private:
  static constexpr std::size_t batch_pages_max = 8;

  /// Returns the client, or a new one when the old one has lost its node; null while the node is
  /// down.
  client::cache_client* client();
  void note(std::span<const client::page_result> results);
  /// Draws the deadline of the next call; nothing: the client's default.
  std::optional<client::deadline> draw_deadline();
  /// Makes a call and notes in the ledger how late it returned. Returns the call's number in the
  /// history.
  template <class Call>
  tests::history::call_number timed(std::string_view what, Call call);
  void watch_view(const client::cache_client& client);
  /// Does one round of the worker's loop, unless workers of its kind are told to rest.
  template <class Round>
  void round(const std::atomic<bool>& rests, Round work);

  void put_some(client::cache_client& client);
  void get_some(client::cache_client& client);
  void remove_some(client::cache_client& client);
  void check(std::uint32_t key, std::size_t index, const client::page_result& result);
  void record_puts();

  void draw_keys(std::uint32_t recent_percent);
  /// Draws a key: half of the time one that was put lately, half of the time one that this reader
  /// has read, whose location its client knows.
  std::uint32_t draw_recent();
  std::span<std::byte> page(std::size_t index) {
    return {memory_.data() + index * page_stride_, sizes_[index]};
  }
  std::uint64_t draw() { return random_(); }

  const stress_plan& plan_;
  stress_ledger& ledger_;
  worker_home home_;
  std::mt19937_64 random_;
  const std::uint32_t number_;
  std::uint32_t clients_ = 0; ///< Number of clients that the worker has had.
  std::string name_;          ///< Name of the current client in the history.
  std::unique_ptr<client::cache_client> client_;
  static constexpr std::size_t known_keys = 512;
  std::vector<std::uint32_t> known_; ///< Keys of pages that this reader has got.
  std::uint32_t puts_since_flush_ = 0;
  std::uint32_t lost_calls_ = 0; ///< Number of calls in a row that found no node.
  discovery::view last_view_;    ///< The last view that the current client has told.
  static constexpr std::size_t page_stride_ = 65536;
  std::vector<std::byte> memory_;
  std::vector<std::uint32_t> drawn_;
  std::vector<std::uint32_t> sizes_;
  std::vector<page_key> keys_;
  std::vector<client::page_result> results_;
};

} // namespace peercache::stress

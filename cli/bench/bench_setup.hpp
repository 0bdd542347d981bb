#pragma once

#include "bench/raw_limits.hpp"
#include "cli/bench/bench_row.hpp"
#include "cli/node_process.hpp"
#include "client/cache_client.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace peercache::cli {

struct bench_options {
  std::uint32_t rounds = 5;
  std::uint64_t memory_bytes = 512u << 20; ///< Size of each buffer: far more than the caches hold.
  std::uint64_t round_bytes = 1u << 30;    ///< Moved by each side in one round of a copy.
  std::uint64_t pool_bytes = 1u << 30;     ///< Pool of each node.
  std::uint32_t calls = 300;               ///< Calls of a latency measurement in one round.
  bool pin = true;
  std::vector<std::string> only; ///< Names of rows; empty: all.
  std::string node_program;

  bool wants(const std::string& name) const;
};

enum class pinning : std::uint8_t {
  none,
  apart, ///< This process runs on one CPU, nodes and raw server on another.
};

/// The setup of a measurement: two nodes, the raw server, and memory of our own that both sides of
/// each comparison use. Threads: one. Errors: results; a failed step ends the whole run.
class bench_setup {
public:
  static result<std::unique_ptr<bench_setup>> make(const bench_options& options);
  ~bench_setup();

  /// A client of node 0 (this host) or node 1 (the other host), with defaults besides what
  /// `options` says.
  result<std::unique_ptr<client::cache_client>> connect(std::size_t node,
                                                        client::client_options options) const;
  result<bench::raw_client> connect_raw() const { return bench::raw_client::connect(raw_port_); }

  std::uint16_t control_port(std::size_t node) const { return nodes_[node].ports().control_port; }
  const std::string& cluster() const { return nodes_.front().launch().cluster; }

  const bench_options& options() const { return options_; }
  std::span<std::byte> own_memory() const { return own_.bytes(); }
  std::span<std::byte> pool_like_memory() const { return shared_.bytes(); }

  void pin(pinning how);

  /// Keys that were never used before.
  std::vector<page_key> fresh_keys(std::size_t count);

private:
  bench_setup(bench_options options, run_folder folder, bench::big_memory own,
              bench::big_memory shared)
      : options_(std::move(options)), folder_(std::move(folder)), own_(std::move(own)),
        shared_(std::move(shared)) {}
  result<void> start();

  bench_options options_;
  run_folder folder_;
  bench::big_memory own_;
  bench::big_memory shared_;
  std::vector<node_process> nodes_;
  std::vector<child_process> raw_server_; ///< Empty, or the server that was started.
  std::uint16_t raw_port_ = 0;
  std::vector<int> cpus_ = usable_cpus();
  std::uint64_t keys_made_ = 0;
};

/// Pieces of `page_bytes` that walk through `memory` and start over at its end.
/// Invariant: the pages of one `next` do not overlap. @pre memory holds `count` pages
class page_walk {
public:
  page_walk(std::span<std::byte> memory, std::size_t page_bytes, std::size_t count);
  std::span<const std::span<std::byte>> next();

private:
  std::span<std::byte> memory_;
  std::size_t page_bytes_;
  std::size_t position_ = 0;
  std::vector<std::span<std::byte>> pages_;
};

/// Runs `call` `count` times and keeps each call's time; `call` returns false when it failed.
template <class Call>
result<bench::round_sample> timed_calls(std::size_t count, double units_per_call, Call&& call) {
  bench::round_sample sample;
  sample.call_us.reserve(count);
  auto begin = bench::clock::now();
  auto last = begin;
  for (std::size_t i = 0; i < count; ++i) {
    if (result<void> done = call(); !done)
      return done.error();
    auto now = bench::clock::now();
    sample.call_us.push_back(bench::seconds_between(last, now) * 1e6);
    last = now;
  }
  sample.seconds = bench::seconds_between(begin, last);
  sample.units = units_per_call * static_cast<double>(count);
  return sample;
}

/// A client enters a pool into its page tables in the background, 2 GiB in some 300 ms: what is
/// measured is the state after that.
inline constexpr double warm_up_seconds = 0.5;

/// Takes turns: operation and limit in even rounds, limit and operation in odd ones. Rounds that
/// begin within the first `warm_up_seconds` do not count.
template <class Operation, class Limit>
result<void> measure(bench_row& row, std::uint32_t rounds, Operation&& operation, Limit&& limit) {
  auto begin = bench::clock::now();
  for (std::uint32_t round = 0, counted = 0; counted < rounds; ++round) {
    bool counts = bench::seconds_between(begin, bench::clock::now()) > warm_up_seconds;
    bool limit_first = round % 2 == 1;
    auto before = limit_first ? limit() : result<bench::round_sample>(bench::round_sample{});
    auto measured = operation();
    auto after = limit_first ? std::move(before) : limit();
    if (!measured)
      return measured.error();
    if (!after)
      return after.error();
    if (!counts)
      continue;
    row.rounds.add(std::move(*measured), std::move(*after));
    ++counted;
  }
  return {};
}

/// A failure that says what a page met instead of `wanted`.
result<void> all_are(std::span<const client::page_result> results, page_status wanted,
                     const char* what);

/// The measurements, each adding its rows.
/// @pre page_bytes is one of copy_page_sizes
result<void> bench_sets(bench_setup& setup, std::size_t page_bytes, std::vector<bench_row>& rows);
result<void> bench_gets(bench_setup& setup, std::size_t page_bytes, std::vector<bench_row>& rows);
inline constexpr std::size_t copy_page_sizes[] = {1u << 20, 4u << 20, 64u << 10};
result<void> bench_network(bench_setup& setup, std::vector<bench_row>& rows);
result<void> bench_exists(bench_setup& setup, std::vector<bench_row>& rows);

/// Puts one page per key through `client`, taken from `memory` in turn, and waits until all are
/// published.
result<void> store_pages(client::cache_client& client, std::span<const page_key> keys,
                         std::span<std::byte> memory, std::size_t page_bytes);

/// Gets one batch; @pre as many destinations as keys
result<void> get_pages(client::cache_client& client, std::span<const page_key> keys,
                       std::span<const std::span<std::byte>> destinations);

} // namespace peercache::cli

#pragma once

#include "bench/raw_limits.hpp"
#include "cli/bench/bench_row.hpp"
#include "cli/bench/process_cost.hpp"
#include "cli/node_process.hpp"
#include "client/cache_client.hpp"
#include "common/limits.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::cli {

/// Which part of the nodes' connections is inside TLS: nothing, all but the pages, or all.
enum class bench_tls : std::uint8_t { off, handshake, full };
inline constexpr std::array<std::string_view, 3> bench_tls_words{"off", "handshake", "full"};

struct bench_options {
  std::uint32_t rounds = 5;
  std::uint64_t memory_bytes = 512u << 20; ///< Size of each buffer: far more than the caches hold.
  /// Bytes that operation and limit each move in one round of a copy.
  std::uint64_t round_bytes = 1u << 30;
  std::uint64_t pool_bytes = 1u << 30; ///< Bytes of each node's pool.
  std::uint32_t calls = 300;           ///< Calls of a latency measurement in one round.
  bool pin = true;
  bench_tls tls = bench_tls::off;
  std::vector<std::string> only; ///< Names of the rows to measure; empty: all.
  /// The folder for the nodes' disk tiers, each four times as large as a pool; empty: there are
  /// none.
  std::string disk_path;
  std::string node_program;
  /// How many nodes keep the record of a page: directory.replicas. With one, there are keys that
  /// the client's own node cannot answer for.
  std::uint32_t directory_replicas = limits::directory_replicas_default;

  bool wants(const std::string& name) const;
};

enum class pinning : std::uint8_t {
  none,
  apart, ///< This process runs on one CPU, nodes and raw server on another.
};

/// The setup of a measurement: two nodes, the raw server, and memory of this process that an
/// operation and its limit both use. Threads: one. Errors: results; a failed step ends the whole
/// run.
class bench_setup {
public:
  static result<std::unique_ptr<bench_setup>> make(const bench_options& options);
  ~bench_setup();

  /// Connects a client to node 0 (this host) or node 1 (the other host). The node's port, cluster
  /// and TLS files, and a time-out of 10 s, replace those of `options`.
  result<std::unique_ptr<client::cache_client>> connect(std::size_t node,
                                                        client::client_options options) const;
  result<bench::raw_client> connect_raw() const { return bench::raw_client::connect(raw_port_); }

  std::uint16_t control_port(std::size_t node) const { return nodes_[node].ports().control_port; }
  const std::string& cluster() const { return nodes_.front().launch().cluster; }
  const tls_paths& tls(std::size_t node) const { return nodes_[node].launch().tls; }

  const bench_options& options() const { return options_; }
  std::span<std::byte> own_memory() const { return own_.bytes(); }
  std::span<std::byte> pool_like_memory() const { return shared_.bytes(); }

  void pin(pinning how);
  /// Puts another process where `pin(pinning::apart)` puts the nodes.
  void pin_with_nodes(pid_t pid) const;
  /// This process and the nodes: those that take part in a call.
  std::vector<pid_t> callers_and_nodes();
  /// Node 1 (the other host) alone: who is asked.
  std::vector<pid_t> other_node();
  /// This process and the raw server: those that take part in an exchange of the limit.
  std::vector<pid_t> callers_and_raw_server();

  /// Makes keys that were never used before.
  std::vector<page_key> fresh_keys(std::size_t count);
  /// Makes such keys whose records only node 1 (the other host) keeps, so that a client of node 0
  /// has to ask it. @pre options().directory_replicas is 1
  result<std::vector<page_key>> fresh_keys_of_other_host(std::size_t count);

private:
  bench_setup(bench_options options, run_folder folder, bench::big_memory own,
              bench::big_memory shared)
      : options_(std::move(options)), folder_(std::move(folder)), own_(std::move(own)),
        shared_(std::move(shared)) {}
  result<void> start();

  bench_options options_;
  run_folder folder_;
  std::filesystem::path disk_folder_; ///< Holds the nodes' disk tiers; removed at the end.
  bench::big_memory own_;
  bench::big_memory shared_;
  std::vector<node_process> nodes_;
  /// The process of the server that sends bytes without PeerCache, against which nodes are
  /// compared; empty until it has started, then one element.
  std::vector<child_process> raw_server_;
  std::uint16_t raw_port_ = 0;
  std::vector<int> cpus_ = usable_cpus();
  std::uint64_t keys_made_ = 0;
};

/// The port on which a raw server that was just started says it listens.
result<std::uint16_t> raw_server_port(child_process& server);

/// Walks through `memory` in batches of `count` pages of `page_bytes`, and starts over at its end.
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

/// Runs `call` `count` times and keeps each call's time in microseconds. Errors: the first one that
/// `call` returns.
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

/// What one of `calls` calls, which `run` makes, costs these processes. Errors: that of `run`.
template <class Run>
result<call_cost> cost_of_calls(std::span<const pid_t> processes, std::size_t calls, Run&& run) {
  const auto before = cost_of(processes);
  if (auto done = run(); !done)
    return done.error();
  const auto after = cost_of(processes);
  const auto count = static_cast<double>(calls);
  return call_cost{(after.cpu_seconds - before.cpu_seconds) * 1e6 / count,
                   (static_cast<double>(after.switches) - static_cast<double>(before.switches)) /
                       count};
}

/// Seconds at the start of a measurement that do not count: a client enters a pool into its page
/// tables in the background, 2 GiB in some 300 ms, and the state after that is to be measured.
inline constexpr double warm_up_seconds = 0.5;

/// Adds `rounds` rounds to the row. Operation and limit take turns: operation first in even rounds,
/// limit first in odd ones. Rounds that begin within the first `warm_up_seconds` do not count.
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

/// An error when a page has another status than `wanted`; `what` is the call that the message
/// names.
result<void> all_are(std::span<const client::page_result> results, page_status wanted,
                     const char* what);

/// The measurements of `peercache bench`; each appends its rows.
/// @pre page_bytes is one of copy_page_sizes
result<void> bench_sets(bench_setup& setup, std::size_t page_bytes, std::vector<bench_row>& rows);
/// Sets of one page of 64 KiB each, one after the other, and what they cost all processes.
result<void> bench_single_sets(bench_setup& setup, std::vector<bench_row>& rows);
/// @pre page_bytes is one of copy_page_sizes
result<void> bench_gets(bench_setup& setup, std::size_t page_bytes, std::vector<bench_row>& rows);
inline constexpr std::size_t copy_page_sizes[] = {1u << 20, 4u << 20, 64u << 10};
result<void> bench_network(bench_setup& setup, std::vector<bench_row>& rows);
result<void> bench_exists(bench_setup& setup, std::vector<bench_row>& rows);
/// @pre The options have a `disk_path`.
result<void> bench_other_host_disk(bench_setup& setup, std::vector<bench_row>& rows);

/// Puts one page for each key through `client`, with bytes from `memory` in turn, and waits until
/// all pages are published.
result<void> store_pages(client::cache_client& client, std::span<const page_key> keys,
                         std::span<std::byte> memory, std::size_t page_bytes);

/// Counts the look-ups that a client asks the other host for, by questions or by READs. Lifetime:
/// the client outlives it. Threads: one.
class lookup_count {
public:
  explicit lookup_count(client::cache_client& client);

  /// Notes in the row how many there were since this object was made. An error if the client
  /// answered some itself, from the shard of its own node: then the row would not say what it is to
  /// say.
  result<void> note(bench_row& row) const;

private:
  client::cache_client& client_;
  client::client_stats before_;
};

/// Gets one batch of pages, all of which must be hits. @pre as many destinations as keys
result<void> get_pages(client::cache_client& client, std::span<const page_key> keys,
                       std::span<const std::span<std::byte>> destinations);

} // namespace peercache::cli

#include "late_watch.hpp"
#include "survival_ring.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace peercache::real::late_calls_test {

namespace {

constexpr milliseconds grace(50);
constexpr std::uint32_t pages_known = 256;
constexpr std::uint32_t large_page = 512u << 10;

std::uint32_t setting(const char* name, std::uint32_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<std::uint32_t>(std::atoi(text));
}

/// Measures how long after their deadlines calls return. Environment variables set the number of
/// calls (PEERCACHE_LATE_CALLS, by default 600), of nodes (PEERCACHE_LATE_NODES, by default 3, the
/// minimum) and of calling threads (PEERCACHE_LATE_THREADS, by default 4).
class late_calls : public survival_ring {
protected:
  /// Upper bounds of the histogram's ranges, in milliseconds after the deadline; the last range has
  /// no bound.
  static constexpr std::array<int, 8> bounds{0, 1, 5, 10, 20, 30, 40, 50};

  /// The memory and the random numbers of one calling thread.
  struct caller {
    explicit caller(std::uint32_t number) : random(number) {}

    std::mt19937 random;
    std::vector<std::byte> memory = std::vector<std::byte>(64u * large_page);
    std::vector<client::page_result> results = std::vector<client::page_result>(200'000);
    std::uint32_t kind = 0;          ///< Number of the last call's kind.
    std::optional<late_watch> watch; ///< Measures the last call.
    /// The client that the last call has connected, if it was a `connect`.
    std::unique_ptr<client::cache_client> connected;

    std::uint32_t below(std::uint32_t limit) {
      return static_cast<std::uint32_t>(random() % limit);
    }
  };

  template <class Page, class Part>
  std::vector<Page> pages_in(caller& by, std::vector<Part>& parts, std::uint32_t pages) {
    std::vector<Page> made;
    parts.reserve(pages);
    for (std::uint32_t i = 0; i < pages; ++i) {
      parts.push_back({by.memory.data() + std::size_t{i} * large_page, large_page});
      made.push_back({key_of(by.below(pages_known)), {&parts.back(), 1}});
    }
    return made;
  }

  std::vector<page_key> any_keys(caller& by, std::uint32_t most) {
    std::vector<page_key> keys;
    for (std::uint32_t i = by.below(most) + 1; i > 0; --i)
      keys.push_back(key_of(by.below(2 * pages_known)));
    return keys;
  }

  /// Kinds of calls that do not take the calling thread's batch of pages.
  enum class other_kind : std::uint32_t {
    remove_everywhere,
    flush,
    locate,
    clear,
    prefetch,
    connect
  };
  static constexpr std::uint32_t other_kinds = 6;

  /// Begins to measure a call whose arguments are ready. Returns the call's deadline, `patience`
  /// from now.
  clock::time_point deadline_of(caller& by, milliseconds patience) {
    return by.watch.emplace(stalls).begin() + patience;
  }

  /// Makes a call of a random kind and returns its deadline. @param at the index of the client's
  /// node @param patience time from the call's start to its deadline
  clock::time_point call(std::size_t at, client::cache_client& client, caller& by,
                         milliseconds patience) {
    const auto kind = by.kind = by.below(8 + other_kinds);
    by.connected.reset();
    if (kind >= 8)
      return call_other(static_cast<other_kind>(kind - 8), at, client, by, patience);
    std::vector<client::const_part> from;
    std::vector<page_part> to;
    std::vector<client::set_page> sets;
    std::vector<client::get_page> gets;
    std::vector<page_key> keys;
    if (kind < 3)
      gets = pages_in<client::get_page>(by, to, by.below(64) + 1);
    else if (kind < 5)
      sets = pages_in<client::set_page>(by, from, by.below(16) + 1);
    else
      keys = any_keys(by, kind == 5 ? 200'000 : 64);
    const auto results = std::span(by.results).first(gets.size() + sets.size() + keys.size());
    const auto until = deadline_of(by, patience);
    if (kind < 3)
      client.get(gets, results, until);
    else if (kind < 5)
      client.set(sets, results, until);
    else if (kind < 7)
      client.exists(keys, results, until);
    else
      client.remove(keys, results, until);
    return until;
  }

  /// Connects a client to node `at`; null when the node does not answer within `patience`.
  std::unique_ptr<client::cache_client> connect(std::size_t at, milliseconds patience) {
    client::client_options options;
    options.node_host = addresses.at(at).host;
    options.node_port = addresses[at].port;
    options.cluster = cluster();
    options.timeout = patience;
    auto made = client::cache_client::connect(options);
    return made ? std::move(*made) : nullptr;
  }

  clock::time_point call_other(other_kind kind, std::size_t at, client::cache_client& client,
                               caller& by, milliseconds patience) {
    const auto keys = any_keys(by, 64);
    const auto results = std::span(by.results).first(keys.size());
    const auto until = deadline_of(by, patience);
    switch (kind) {
    case other_kind::remove_everywhere:
      client.remove(keys, results, until, client::remove_scope::every_node);
      break;
    case other_kind::flush:
      (void)client.flush(until);
      break;
    case other_kind::locate:
      (void)client.locate(keys, until);
      break;
    case other_kind::clear:
      client.clear("a space without pages", until);
      break;
    case other_kind::prefetch:
      client.prefetch(keys);
      break;
    case other_kind::connect:
      by.connected = connect(at, patience);
      break;
    }
    return until;
  }

  void call_often(std::size_t at, std::uint32_t number, std::uint32_t calls) {
    caller by{number};
    auto client = client_of(at);
    ASSERT_NE(client, nullptr);
    for (std::uint32_t i = 0; i < calls; ++i) {
      const milliseconds patience(by.below(496) + 5);
      const auto until = call(at, *client, by, patience);
      const auto late_ms = by.watch->behind_ms(until, grace);
      count(late_ms);
      EXPECT_LE(late_ms, grace.count()) << "kind " << by.kind;
    }
  }

  void count(double late_ms) {
    const auto above =
        std::find_if(bounds.begin(), bounds.end(), [&](int bound) { return late_ms <= bound; });
    ++histogram[static_cast<std::size_t>(above - bounds.begin())];
  }

  void print_histogram() {
    std::cout << "late by at most ";
    for (std::size_t i = 0; i < bounds.size(); ++i)
      std::cout << bounds[i] << " ms: " << histogram[i] << ", ";
    std::cout << "more: " << histogram[bounds.size()] << " (without stalls of the machine)\n";
  }

  stress::stall_watch stalls;
  std::array<std::atomic<std::uint32_t>, bounds.size() + 1> histogram{};
  std::vector<discovery::endpoint> addresses; ///< Control ports of all nodes; a restarted node
                                              ///< keeps its port.
};

} // namespace

TEST_F(late_calls, of_all_kinds_end_in_time_while_nodes_die_and_freeze) {
  const auto calls = setting("PEERCACHE_LATE_CALLS", 600);
  const auto nodes = std::max(setting("PEERCACHE_LATE_NODES", 3), 3u);
  start_ring({.count = nodes, .pool_bytes = 64u << 20});
  if (HasFatalFailure())
    return;
  const auto callers = std::max(setting("PEERCACHE_LATE_THREADS", 4), 1u);
  for (std::uint32_t i = 0; i < nodes; ++i)
    addresses.push_back({node(i).launch().host, node(i).ports().control_port});
  std::atomic<std::uint32_t> calling{callers};
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < callers; ++i)
    threads.emplace_back([&, i] {
      call_often(i % 2, i, calls / callers);
      --calling;
    });
  // All nodes but the first one, also the node of half of the callers, are frozen for a while, or
  // killed and started again, one after another.
  for (std::uint32_t turn = 0; calling > 0; ++turn) {
    const auto victim = 1 + turn / 2 % (nodes - 1);
    if (turn % 2 == 0) {
      freeze(victim);
      within(milliseconds(1500), [&] { return calling == 0; });
      thaw(victim);
    } else {
      kill(victim);
      within(milliseconds(300), [&] { return calling == 0; });
      EXPECT_TRUE(restart(victim));
    }
    within(milliseconds(500), [&] { return calling == 0; });
  }
  for (auto& thread : threads)
    thread.join();
  print_histogram();
}

} // namespace peercache::real::late_calls_test

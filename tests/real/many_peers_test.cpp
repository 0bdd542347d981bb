// Tests of large gets whose pages lie at many nodes.

#include "late_watch.hpp"
#include "survival_ring.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>
#include <sys/resource.h>
#include <vector>

namespace peercache::real::many_peers_test {

namespace {

constexpr std::uint32_t pages = 64;
constexpr std::uint32_t large_page = 4u << 20; ///< Bytes of a page; 64 pages together are 256 MiB.
constexpr milliseconds grace(50);

/// 64 pages, distributed in turn over the peers of one node, and memory to read all of them into.
class many_peers : public survival_ring {
protected:
  many_peers() {
    for (std::uint32_t id = 0; id < pages; ++id)
      parts.push_back({memory.data() + std::size_t{id} * large_page, large_page});
    for (std::uint32_t id = 0; id < pages; ++id)
      wanted.push_back({key_of(id), {&parts[id], 1}});
  }

  std::span<std::byte> bytes_of(std::uint32_t id) { return {parts[id].data, large_page}; }

  /// Starts a node for the reader and the peers, and puts the pages at the peers.
  void start_peers(std::uint32_t peers) {
    start_ring({.count = peers + 1,
                .heartbeat = milliseconds(500),
                .expiry = milliseconds(30'000), // Long, so that no frozen peer is expelled.
                .pool_bytes = std::uint64_t{pages / peers + 1} * 3 / 2 * large_page});
    if (HasFatalFailure())
      return;
    for (std::uint32_t peer = 1; peer <= peers; ++peer) {
      const auto writer = client_of(peer);
      for (std::uint32_t id = peer - 1; id < pages; id += peers) {
        bench::fill_page(id, 0, bytes_of(id));
        const client::const_part from{parts[id].data, large_page};
        const client::set_page page{key_of(id), {&from, 1}};
        client::page_result result;
        writer->set({&page, 1}, {&result, 1});
        ASSERT_EQ(to_string(result.status), to_string(page_status::stored));
        ASSERT_TRUE(writer->flush());
      }
    }
  }

  /// Lowers the priority of every thread of the peers a little, because real peers, on other hosts,
  /// would not use the reader's processors. Only a little: peers must still send so fast that a
  /// turn of the reader's data plane without a budget would find many bytes.
  void give_way(std::uint32_t peers) {
    for (std::uint32_t peer = 1; peer <= peers; ++peer) {
      const auto threads = "/proc/" + std::to_string(node(peer).process().pid()) + "/task";
      for (const auto& thread : std::filesystem::directory_iterator(threads))
        ::setpriority(PRIO_PROCESS,
                      static_cast<id_t>(std::stoul(thread.path().filename().string())), 5);
    }
  }

  std::uint32_t hits() const {
    return static_cast<std::uint32_t>(
        std::count_if(results.begin(), results.end(),
                      [](const auto& page) { return page.status == page_status::hit; }));
  }

  void expect_right_bytes() {
    for (std::uint32_t id = 0; id < pages; ++id)
      if (results[id].status == page_status::hit) {
        EXPECT_EQ(bench::check_page(id, bytes_of(id)).wrong_bytes, 0u) << id;
      }
  }

  /// Outcome of gets of all pages at once, with deadlines of 5 to 105 ms.
  struct tally {
    int late = 0, cut_short = 0;
    double latest_ms = 0;
  };
  tally get_all(client::cache_client& reader, int calls) {
    std::mt19937 random(1);
    tally found;
    for (int call = 0; call < calls; ++call) {
      const late_watch watch(stalls);
      const auto until = watch.begin() + milliseconds(5 + random() % 100);
      reader.get(wanted, results, until);
      const auto behind_ms = watch.behind_ms(until, grace);
      found.late += behind_ms > grace.count() ? 1 : 0;
      found.latest_ms = std::max(found.latest_ms, behind_ms);
      found.cut_short += hits() < pages ? 1 : 0;
      expect_right_bytes();
    }
    std::cout << found.late << " of " << calls << " gets were late, the latest by "
              << found.latest_ms << " ms; " << found.cut_short << " were cut short\n";
    return found;
  }

  static std::uint32_t peers_wanted() {
    const char* text = std::getenv("PEERCACHE_MANY_PEERS");
    return text == nullptr ? 16 : std::clamp<std::uint32_t>(std::stoul(text), 2, pages);
  }
  static int calls_wanted() {
    const char* text = std::getenv("PEERCACHE_MANY_PEERS_CALLS");
    return text == nullptr ? 60 : std::atoi(text);
  }

  std::vector<std::byte> memory = std::vector<std::byte>(std::size_t{pages} * large_page);
  std::vector<page_part> parts;
  stress::stall_watch stalls;
  std::vector<client::get_page> wanted;
  std::vector<client::page_result> results = std::vector<client::page_result>(pages);
};

} // namespace

/// The environment variable PEERCACHE_MANY_PEERS_CALLS is the number of gets. One get in twenty may
/// be late, because other programs use the machine, too: the test cannot tell time in which the
/// data plane's thread waits for a processor from time in which it runs.
TEST_F(many_peers, a_get_of_256_mebibytes_from_five_peers_ends_in_time) {
  ASSERT_NO_FATAL_FAILURE(start_peers(5));
  const auto reader = client_of(0);
  EXPECT_TRUE(within(milliseconds(20'000), [&] {
    reader->get(wanted, results, clock::now() + milliseconds(5000));
    return hits() == pages;
  }));
  const auto calls = calls_wanted();
  const auto found = get_all(*reader, calls);
  EXPECT_GT(found.cut_short, calls / 10) << "deadlines were to come while bytes do";
  EXPECT_LE(found.late, calls / 20);
}

/// The environment variable PEERCACHE_MANY_PEERS is the number of peers, at most 64. Gets must end
/// in time while all peers send, and while half of them are frozen. Where 64 nodes share a few
/// processors, the data plane's thread waits for a processor for longer than the grace in one get
/// of eight. If a turn of the data plane took all bytes that had arrived, at least four gets of ten
/// would be late.
TEST_F(many_peers, a_get_ends_in_time_while_half_of_the_peers_hang) {
  const auto peers = peers_wanted();
  ASSERT_NO_FATAL_FAILURE(start_peers(peers));
  give_way(peers);
  const auto reader = client_of(0);
  EXPECT_TRUE(within(milliseconds(20'000), [&] {
    reader->get(wanted, results, clock::now() + milliseconds(5000));
    return hits() == pages;
  }));
  const auto calls = calls_wanted();
  const auto sent = get_all(*reader, calls);
  EXPECT_GT(sent.cut_short, calls / 10) << "deadlines were to come while bytes do";
  EXPECT_LE(sent.late, calls / (peers > 16 ? 4 : 20));
  for (std::uint32_t peer = 1; peer <= peers; peer += 2)
    freeze(peer);
  const auto frozen = get_all(*reader, calls);
  for (std::uint32_t peer = 1; peer <= peers; peer += 2)
    thaw(peer);
  EXPECT_EQ(frozen.cut_short, calls);
  EXPECT_LE(frozen.late, calls / 20);
}

} // namespace peercache::real::many_peers_test

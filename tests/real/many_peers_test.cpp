// A large get whose pages lie at many nodes.

#include "stress/thread_times.hpp"
#include "survival_ring.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

namespace peercache::real::many_peers_test {

namespace {

constexpr std::uint32_t peers = 5;
constexpr std::uint32_t pages = 60;
constexpr std::uint32_t large_page = 4u << 20; ///< All pages together are 240 MiB.
constexpr milliseconds grace(50);

/// Pages that lie at the peers of one node, in turn, and memory for all of them.
class many_peers : public survival_ring {
protected:
  many_peers() {
    for (std::uint32_t id = 0; id < pages; ++id)
      parts.push_back({memory.data() + std::size_t{id} * large_page, large_page});
    for (std::uint32_t id = 0; id < pages; ++id)
      wanted.push_back({key_of(id), {&parts[id], 1}});
  }

  std::span<std::byte> bytes_of(std::uint32_t id) { return {parts[id].data, large_page}; }

  void put_at_peers() {
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

  std::vector<std::byte> memory = std::vector<std::byte>(std::size_t{pages} * large_page);
  std::vector<page_part> parts;
  std::vector<client::get_page> wanted;
  std::vector<client::page_result> results = std::vector<client::page_result>(pages);
};

} // namespace

/// PEERCACHE_MANY_PEERS_CALLS is the number of gets. One get in twenty may be later on a machine
/// that other programs use too: time in which the data plane's thread waits for a processor cannot
/// be told from time that the thread uses.
TEST_F(many_peers, a_get_of_240_mebibytes_from_five_peers_ends_in_time) {
  start_ring({.count = peers + 1,
              .heartbeat = milliseconds(500),
              .expiry = milliseconds(5000),
              .pool_bytes = 96u << 20});
  if (HasFatalFailure())
    return;
  ASSERT_NO_FATAL_FAILURE(put_at_peers());
  const auto reader = client_of(0);
  EXPECT_TRUE(within(milliseconds(20'000), [&] {
    reader->get(wanted, results, clock::now() + milliseconds(5000));
    return hits() == pages;
  }));
  const char* text = std::getenv("PEERCACHE_MANY_PEERS_CALLS");
  const int calls = text == nullptr ? 60 : std::atoi(text);
  std::mt19937 random(1);
  int late = 0, cut_short = 0;
  clock::duration latest{};
  for (int call = 0; call < calls; ++call) {
    const milliseconds patience(5 + random() % 100);
    const auto before = stress::thread_times::now();
    const auto begin = clock::now();
    reader->get(wanted, results, begin + patience);
    const auto end = clock::now() - (stress::thread_times::now().waited - before.waited);
    late += took_at_most(patience + grace, begin, end) ? 0 : 1;
    latest = std::max(latest, end - begin - patience);
    cut_short += hits() < pages ? 1 : 0;
    expect_right_bytes();
  }
  std::cout << late << " of " << calls << " gets were late, the latest by "
            << std::chrono::duration<double, std::milli>(latest).count() << " ms (with stalls); "
            << cut_short << " were cut short\n";
  EXPECT_GT(cut_short, calls / 10) << "deadlines were to come while bytes do";
  EXPECT_LE(late, calls / 20);
}

} // namespace peercache::real::many_peers_test

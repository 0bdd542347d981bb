#include "client/pool/set_window.hpp"
#include "survival_ring.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace peercache::real::frozen_neighbour_test {

namespace {

constexpr std::uint32_t batch = 64; ///< Number of pages in one set, together 1 MiB.

/// Tests that set pages at one node while another node is frozen for PEERCACHE_FROZEN_MS
/// milliseconds (by default 1500, too short for the other nodes to expel it).
class frozen_neighbour : public survival_ring {
protected:
  static milliseconds frozen_for() {
    const char* text = std::getenv("PEERCACHE_FROZEN_MS");
    return milliseconds(text == nullptr ? 1500 : std::atoi(text));
  }

  struct outcome {
    std::uint32_t sets = 0;
    std::uint32_t refused = 0; ///< Pages that were not stored.
    std::uint64_t failed = 0, duplicates = 0;
    /// For every 16th set: how long the flush after it took, and how long after it another host
    /// found its pages.
    std::vector<clock::duration> acknowledged, visible;
  };

  /// Sets a batch every 4 ms for `how_long`, and counts the pages that are refused. Looks for the
  /// pages by `other`, a client of another host.
  outcome set_for(client::cache_client& client, client::cache_client& other,
                  milliseconds how_long) {
    outcome all;
    std::vector<std::byte> bytes(std::size_t{batch} * page_bytes);
    std::vector<client::const_part> parts(batch);
    std::vector<client::set_page> pages(batch);
    std::vector<client::page_result> results(batch);
    const auto begin = clock::now();
    for (; clock::now() < begin + how_long; ++all.sets) {
      for (std::uint32_t i = 0; i < batch; ++i) {
        const auto memory = std::span(bytes).subspan(std::size_t{i} * page_bytes, page_bytes);
        bench::fill_page(next_, 0, memory);
        parts[i] = {memory.data(), page_bytes};
        pages[i] = {key_of(next_++), {&parts[i], 1}};
      }
      client.set(pages, results);
      all.refused += static_cast<std::uint32_t>(
          std::count_if(results.begin(), results.end(),
                        [](const auto& page) { return page.status != page_status::stored; }));
      if (all.sets % 16 == 0)
        flush(client, all);
      else if (all.sets % 16 == 8)
        look_for_last(other, all);
      std::this_thread::sleep_until(begin + (all.sets + 1) * milliseconds(4));
    }
    flush(client, all);
    return all;
  }

  /// Returns the number of the first page of a new round: other numbers than in earlier rounds, so
  /// that no page is set twice.
  static std::uint32_t first_of_round() {
    static std::atomic<std::uint32_t> rounds{0};
    return (rounds++ << 20) & ((1u << 26) - 1);
  }

  /// For each page status: how many pages had it.
  using tally = std::array<std::uint64_t, page_status_count>;

  /// Sets batches without a pause, of pages that no other client sets. @param number number of the
  /// client, below 64
  static tally set_until(client::cache_client& client, std::uint32_t number,
                         clock::time_point until) {
    tally all{};
    const std::vector<std::byte> bytes(page_bytes);
    const client::const_part part{bytes.data(), page_bytes};
    std::vector<client::set_page> pages(batch);
    std::vector<client::page_result> results(batch);
    for (auto next = (number << 26) + first_of_round(); clock::now() < until;) {
      for (auto& page : pages)
        page = {key_of(next++), {&part, 1}};
      client.set(pages, results, until + publish_patience);
      for (const auto& each : results)
        ++all[static_cast<std::size_t>(each.status)];
    }
    return all;
  }

  /// Has all clients set pages at the same time, each in a thread of its own. Returns the sum of
  /// their tallies.
  static tally set_together(std::span<const std::unique_ptr<client::cache_client>> engines) {
    std::vector<std::thread> threads;
    std::vector<tally> tallies(engines.size());
    const auto until = clock::now() + frozen_for();
    for (std::uint32_t i = 0; i < engines.size(); ++i)
      threads.emplace_back([&, i] { tallies[i] = set_until(*engines[i], i, until); });
    for (auto& thread : threads)
      thread.join();
    tally all{};
    for (const auto& each : tallies)
      for (std::size_t status = 0; status < all.size(); ++status)
        all[status] += each[status];
    for (const auto& engine : engines) {
      const auto flushed = engine->flush(clock::now() + publish_patience);
      EXPECT_TRUE(flushed && flushed->failed == 0);
    }
    return all;
  }

  void look_for_last(client::cache_client& other, outcome& all) {
    const auto begin = clock::now();
    while (count_existing(other, next_ - batch, batch) != batch) {
      ASSERT_LT(clock::now() - begin, milliseconds(5'000));
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    all.visible.push_back(clock::now() - begin);
  }

  void flush(client::cache_client& client, outcome& all) {
    const auto begin = clock::now();
    const auto flushed = client.flush();
    ASSERT_TRUE(flushed) << flushed.error().message;
    all.acknowledged.push_back(clock::now() - begin);
    all.failed += flushed->failed;
    all.duplicates += flushed->duplicates;
  }

  /// Returns the time in milliseconds that the share `of` of these times, below 1, does not reach.
  static double quantile_ms(std::vector<clock::duration> times, double of) {
    const auto at = times.begin() + static_cast<std::ptrdiff_t>(of * double(times.size()));
    std::nth_element(times.begin(), at, times.end());
    return std::chrono::duration<double, std::milli>(*at).count();
  }
  static double median_ms(const std::vector<clock::duration>& times) {
    return quantile_ms(times, 0.5);
  }

  static std::string describe(const std::vector<clock::duration>& times) {
    std::string text;
    for (const auto of : {0.5, 0.99, 0.999})
      text += std::to_string(quantile_ms(times, of)) + (of < 0.999 ? "/" : " ms (50/99/99.9 %)");
    return text;
  }

  std::uint32_t next_ = 0;
};

} // namespace

TEST_F(frozen_neighbour, costs_no_set_and_no_time) {
  start_ring(
      {.heartbeat = milliseconds(500), .expiry = milliseconds(2000), .pool_bytes = 256u << 20});
  if (HasFatalFailure())
    return;
  const auto client = client_of(0), other = client_of(1);
  const auto quiet = set_for(*client, *other, frozen_for());
  freeze(2);
  const auto frozen = set_for(*client, *other, frozen_for());
  std::cout << "quiet: " << quiet.sets << " sets, acknowledged after "
            << describe(quiet.acknowledged) << ", visible after " << describe(quiet.visible)
            << "\nfrozen: " << frozen.sets << " sets, acknowledged after "
            << describe(frozen.acknowledged) << ", visible after " << describe(frozen.visible)
            << "\n";
  for (const auto& each : {quiet, frozen}) {
    EXPECT_EQ(each.refused, 0u);
    EXPECT_EQ(each.failed, 0u) << "an owner that answers has recorded it";
  }
  EXPECT_GE(frozen.sets, quiet.sets * 9 / 10);
  EXPECT_LE(median_ms(frozen.acknowledged), 20);
  EXPECT_LE(median_ms(frozen.visible), 20);
  EXPECT_LE(quantile_ms(frozen.visible, 0.9), std::max(20.0, 2 * quantile_ms(quiet.visible, 0.9)))
      << "only what delays all pages may delay these";
}

/// The clients may together have more unpublished pages than the pool holds. Their pages must be
/// published although one of the two owners of a key does not answer, and a set waits until pages
/// of others can be evicted.
TEST_F(frozen_neighbour, costs_no_set_of_many_clients_together) {
  constexpr std::uint64_t pool_bytes = 64u << 20;
  constexpr std::uint32_t clients = 16;
  static_assert(clients * pool_bytes / client::set_window::parts_of_pool > pool_bytes);
  start_ring(
      {.heartbeat = milliseconds(500), .expiry = milliseconds(2000), .pool_bytes = pool_bytes});
  if (HasFatalFailure())
    return;
  std::vector<std::unique_ptr<client::cache_client>> engines;
  for (std::uint32_t i = 0; i < clients; ++i)
    engines.push_back(client_of(0));
  const auto quiet = set_together(engines);
  freeze(2);
  const auto frozen = set_together(engines);
  const auto refused_per_mille = [](const tally& all) {
    const auto pages = std::accumulate(all.begin(), all.end(), std::uint64_t{0});
    return (pages - all[static_cast<std::size_t>(page_status::stored)]) * 1000 / pages;
  };
  EXPECT_GT(frozen[static_cast<std::size_t>(page_status::stored)] * page_bytes, pool_bytes)
      << "the pool was to be filled";
  std::cout << "refused of a thousand pages: quiet " << refused_per_mille(quiet) << ", frozen "
            << refused_per_mille(frozen) << "\n";
  EXPECT_LE(refused_per_mille(frozen), refused_per_mille(quiet) + 1);
}

TEST_F(frozen_neighbour, leaves_what_only_this_host_has_to_be_found_here_and_is_told_by_flush) {
  start_ring(
      {.heartbeat = milliseconds(500), .expiry = milliseconds(2000), .pool_bytes = 64u << 20});
  if (HasFatalFailure())
    return;
  constexpr std::uint32_t pages = 300;
  const auto client = client_of(0), neighbour = client_of(0);
  freeze(1);
  freeze(2);
  for (std::uint32_t id = 0; id < pages; ++id)
    ASSERT_EQ(to_string(put_one(*client, id, 0)), to_string(page_status::stored)) << id;
  const auto outcome = client->flush(clock::now() + milliseconds(20'000));
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_GT(outcome->unpublished, 0u) << "a third of the keys has no owner that answers";
  EXPECT_LT(outcome->unpublished, pages);
  EXPECT_EQ(outcome->failed, outcome->unpublished);
  for (const auto& reader : {client.get(), neighbour.get()}) {
    EXPECT_EQ(count_existing(*reader, 0, pages), pages);
    for (std::uint32_t id = 0; id < pages; ++id)
      ASSERT_EQ(to_string(get(*reader, id).result.status), to_string(page_status::hit)) << id;
  }
  thaw(1);
  thaw(2);
  const auto there = client_of(1, milliseconds(20'000));
  ASSERT_NE(there, nullptr);
  EXPECT_TRUE(
      within(milliseconds(20'000), [&] { return count_existing(*there, 0, pages) == pages; }));
}

} // namespace peercache::real::frozen_neighbour_test

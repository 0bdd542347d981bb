#include "survival_ring.hpp"

#include "discovery/hash_ring.hpp"

#include <algorithm>
#include <array>
#include <future>
#include <span>
#include <vector>

namespace peercache::real::client_deadline_test {

using metrics::metric;

namespace {

constexpr std::uint32_t large_page = 2u << 20;
constexpr std::uint32_t batch_pages = 128;
constexpr std::uint64_t batch_bytes = std::uint64_t{batch_pages} * large_page;
constexpr milliseconds grace(50);
constexpr milliseconds long_enough(10'000);
/// Rounds of each measurement; the best one counts, because other programs use the processor too.
constexpr std::uint32_t rounds = 3;

/// Measures how long calls for one batch of pages (256 MiB in this process's memory) take. The
/// calls write the pages' results to `results_`.
class deadlines : public survival_ring {
protected:
  std::span<std::byte> page(std::uint32_t index) {
    return std::span(memory_).subspan(std::size_t{index} * large_page, large_page);
  }

  void fill_memory(std::uint32_t first) {
    for (std::uint32_t i = 0; i < batch_pages; ++i)
      bench::fill_page(first + i, 0, page(i));
  }
  void clear_memory() { std::fill(memory_.begin(), memory_.end(), std::byte{0xa5}); }

  /// Returns how long `call` takes with the batch of pages from number `first` on, each in one
  /// part.
  template <class Part, class Page, class Call>
  clock::duration time_batch(std::uint32_t first, Call&& call) {
    std::vector<Part> parts;
    std::vector<Page> pages;
    parts.reserve(batch_pages);
    for (std::uint32_t i = 0; i < batch_pages; ++i) {
      parts.push_back({page(i).data(), large_page});
      pages.push_back({key_of(first + i), {&parts.back(), 1}});
    }
    const auto begin = clock::now();
    call(pages, begin);
    return clock::now() - begin;
  }

  clock::duration set_batch(client::cache_client& client, std::uint32_t first,
                            clock::duration patience) {
    fill_memory(first);
    return time_batch<client::const_part, client::set_page>(
        first,
        [&](const auto& pages, auto begin) { client.set(pages, results_, begin + patience); });
  }

  clock::duration get_batch(client::cache_client& client, std::uint32_t first,
                            clock::duration patience) {
    clear_memory();
    return time_batch<page_part, client::get_page>(first, [&](const auto& pages, auto begin) {
      client.get(pages, results_, begin + patience);
    });
  }

  void remove_batch(client::cache_client& client, std::uint32_t first) {
    std::vector<page_key> keys;
    for (std::uint32_t i = 0; i < batch_pages; ++i)
      keys.push_back(key_of(first + i));
    client.remove(keys, results_);
  }

  std::uint32_t count(page_status wanted) const {
    return static_cast<std::uint32_t>(std::count_if(
        results_.begin(), results_.end(), [&](const auto& each) { return each.status == wanted; }));
  }

  void expect_right_hits(std::uint32_t first) {
    for (std::uint32_t i = 0; i < batch_pages; ++i)
      if (results_[i].status == page_status::hit) {
        EXPECT_EQ(bench::check_page(first + i, page(i)).wrong_bytes, 0u) << "page " << first + i;
      }
  }

  void expect_flushed(client::cache_client& client) {
    const auto unpublished = client.flush(clock::now() + long_enough);
    ASSERT_TRUE(unpublished);
    EXPECT_EQ(unpublished->failed, 0u);
  }

  /// Bytes used in the pool of the only node, reserved slots included.
  std::uint64_t bytes_used() {
    auto admin = client::admin_client::connect(node(0).launch().host, node(0).ports().control_port,
                                               cluster(), milliseconds(2000));
    if (!admin)
      return UINT64_MAX;
    const auto status = (*admin)->status();
    return status ? status->count(metric::pool_bytes_used) : UINT64_MAX;
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(batch_bytes);
  std::vector<client::page_result> results_ = std::vector<client::page_result>(batch_pages);
};

} // namespace

TEST_F(deadlines, a_large_get_from_the_own_host_ends_in_time) {
  start_ring({.count = 1, .pool_bytes = batch_bytes + batch_bytes / 4});
  if (HasFatalFailure())
    return;
  auto client = client_of(0);
  ASSERT_NE(client, nullptr);
  set_batch(*client, 0, long_enough);
  ASSERT_EQ(count(page_status::stored), batch_pages);
  expect_flushed(*client);
  auto whole = clock::duration::max();
  for (std::uint32_t round = 0; round < rounds; ++round) {
    whole = std::min(whole, get_batch(*client, 0, long_enough));
    ASSERT_EQ(count(page_status::hit), batch_pages);
  }
  const auto patience = whole / 4;
  auto overrun = clock::duration::max();
  std::uint32_t late = 0;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    overrun = std::min(overrun, get_batch(*client, 0, patience) - patience);
    late += count(page_status::timed_out);
    EXPECT_EQ(count(page_status::hit) + count(page_status::timed_out), batch_pages);
    expect_right_hits(0);
  }
  EXPECT_LE(overrun, grace);
  EXPECT_GE(late, 1u) << "a quarter of the time is not enough for all of it";
  get_batch(*client, 0, milliseconds(-1));
  EXPECT_EQ(count(page_status::timed_out), batch_pages);
  EXPECT_EQ(client->stats().directory_messages, 0u)
      << "the own host's pages are found without the directory, and a time-out is no reason to ask";
  get_batch(*client, 0, long_enough);
  EXPECT_EQ(count(page_status::hit), batch_pages);
  expect_right_hits(0);
}

TEST_F(deadlines, a_large_set_ends_in_time_and_keeps_no_slot_that_it_did_not_fill) {
  start_ring({.count = 1, .pool_bytes = batch_bytes + batch_bytes / 4});
  if (HasFatalFailure())
    return;
  auto client = client_of(0);
  ASSERT_NE(client, nullptr);
  const auto uses_at_most = [&](std::uint64_t bytes) {
    return within(milliseconds(3000), [&] { return bytes_used() <= bytes; });
  };
  std::uint32_t first = 0;
  auto whole = clock::duration::max();
  for (std::uint32_t round = 0; round < rounds; ++round, first += batch_pages) {
    whole = std::min(whole, set_batch(*client, first, long_enough));
    ASSERT_EQ(count(page_status::stored), batch_pages);
    expect_flushed(*client);
    remove_batch(*client, first);
    ASSERT_EQ(count(page_status::hit), batch_pages);
    // Waits until only the slots that the client has leased for its next set are in use. Slots of
    // removed pages are zeroed before they are free; a set that waited for them would take longer.
    ASSERT_TRUE(uses_at_most(batch_bytes / 8));
  }
  const auto before = bytes_used();
  const auto patience = whole / 4;
  auto overrun = clock::duration::max();
  std::uint32_t late = 0;
  for (std::uint32_t round = 0; round < rounds; ++round, first += batch_pages) {
    overrun = std::min(overrun, set_batch(*client, first, patience) - patience);
    const auto stored = count(page_status::stored);
    late += count(page_status::timed_out);
    EXPECT_EQ(stored + count(page_status::timed_out), batch_pages);
    expect_flushed(*client);
    EXPECT_TRUE(uses_at_most(before + std::uint64_t{stored} * large_page));
    const auto set = results_;
    get_batch(*client, first, long_enough);
    for (std::uint32_t i = 0; i < batch_pages; ++i)
      EXPECT_EQ(to_string(results_[i].status),
                to_string(set[i].status == page_status::stored ? page_status::hit
                                                               : page_status::not_found));
    expect_right_hits(first);
    remove_batch(*client, first);
  }
  EXPECT_LE(overrun, grace);
  EXPECT_GE(late, 1u) << "a quarter of the time is not enough for all of it";
  set_batch(*client, first, milliseconds(-1));
  EXPECT_EQ(count(page_status::timed_out), batch_pages);
  EXPECT_TRUE(uses_at_most(before));
  // This set needs four fifths of the pool: if earlier calls had lost slots, it would find no room.
  set_batch(*client, first, long_enough);
  EXPECT_EQ(count(page_status::stored), batch_pages);
}

TEST_F(deadlines, a_holder_that_does_not_answer_a_removal_holds_up_no_other) {
  // The long expiry keeps the frozen node in the view for the whole test.
  start_ring({.count = 3, .heartbeat = milliseconds(1000), .expiry = milliseconds(60'000)});
  if (HasFatalFailure())
    return;
  const auto view = view_of(0);
  ASSERT_TRUE(view);
  // The node that is frozen later holds the first page that is removed, so `remove` asks it first.
  const auto& frozen = view->members.front();
  std::size_t silent = 0;
  while (node(silent).launch().name != frozen.name)
    ++silent;
  const auto living = (silent + 1) % 3;
  // Chooses pages whose records are at the two nodes that are not frozen, so that look-ups take no
  // time.
  const discovery::hash_ring ring{view->members};
  std::vector<std::uint32_t> ids;
  for (std::uint32_t id = 0; ids.size() < 2 && id < 1000; ++id)
    if (!ring.owns(frozen.id, key_of(id), 2))
      ids.push_back(id);
  ASSERT_EQ(ids.size(), 2u);
  put(*client_of(silent), ids[0], 1);
  auto watcher = client_of(living);
  put(*watcher, ids[1], 1);
  auto remover = client_of((silent + 2) % 3);
  ASSERT_EQ(count_existing(*remover, ids[0], 1) + count_existing(*remover, ids[1], 1), 2u);
  ASSERT_EQ(to_string(get(*watcher, ids[1]).result.status), "hit");
  freeze(silent);

  const std::array keys{key_of(ids[0]), key_of(ids[1])};
  std::array<client::page_result, 2> removed;
  constexpr milliseconds patience(4000);
  const auto begin = clock::now();
  auto call = std::async(std::launch::async, [&] {
    remover->remove(keys, removed, begin + patience);
    return clock::now();
  });
  EXPECT_TRUE(within(long_enough, [&] {
    return get(*watcher, ids[1], milliseconds(100)).result.status != page_status::hit;
  }));
  EXPECT_EQ(call.wait_for(milliseconds(0)), std::future_status::timeout)
      << "it waited for one that is silent";
  EXPECT_TRUE(took_at_most(patience + grace, begin, call.get()));
  // The client may give up the link to the frozen node before the deadline, which makes the page
  // `unreachable`.
  EXPECT_TRUE(removed[0].status == page_status::timed_out ||
              removed[0].status == page_status::unreachable)
      << to_string(removed[0].status);
  EXPECT_EQ(to_string(removed[1].status), "hit");
  EXPECT_TRUE(within(milliseconds(3000), [&] { return count_existing(*watcher, ids[1], 1) == 0; }));
}

} // namespace peercache::real::client_deadline_test

#include "processor_waits.hpp"
#include "survival_ring.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iostream>
#include <thread>
#include <unistd.h>
#include <vector>

namespace peercache::real::read_after_write_test {

namespace {

constexpr std::uint32_t other_length = 2 * 16384;
constexpr std::uint64_t owners_of_a_key = 2;

/// Tests of calls for pages that were set a moment ago. The environment variable PEERCACHE_WRITES
/// is the number of pages (by default 2000).
class read_after_write : public survival_ring {
protected:
  static std::uint32_t writes() {
    const char* text = std::getenv("PEERCACHE_WRITES");
    return text == nullptr ? 2000 : static_cast<std::uint32_t>(std::atoi(text));
  }

  /// Starts nodes with room for all pages. A full pool might evict the youngest page, if all others
  /// were read in the meantime.
  void start() {
    start_ring(
        {.count = 3, .pool_bytes = (64u << 20) + std::uint64_t{writes()} * page_bytes * 5 / 4});
  }

  pid_t process_of(std::size_t index) { return node(index).process().pid(); }

  static page_status exists(client::cache_client& client, std::uint32_t id) {
    const auto key = key_of(id);
    client::page_result result;
    client.exists({&key, 1}, {&result, 1});
    return result.status;
  }

  /// Whether `reader`, which must not have asked for the page before, finds it now. Expects that it
  /// then reads the page without another message to the directory.
  static bool is_found(client::cache_client& reader, std::uint32_t id) {
    const auto before = reader.stats().directory_messages;
    if (exists(reader, id) != page_status::hit)
      return false;
    const auto after = reader.stats().directory_messages;
    EXPECT_LE(after - before, owners_of_a_key) << id;
    const auto read = get(reader, id);
    EXPECT_EQ(to_string(read.result.status), to_string(page_status::hit)) << id;
    EXPECT_EQ(read.check.wrong_bytes, 0u) << id;
    EXPECT_EQ(reader.stats().directory_messages, after)
        << "the client remembers where " << id << " is";
    return true;
  }

  /// Returns the number of records in the shards of all nodes.
  std::uint64_t records() {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      all += records_of(i).value_or(0);
    return all;
  }

  /// Puts page `id` with another length than `put` gives to pages.
  static page_status put_long(client::cache_client& client, std::uint32_t id) {
    std::vector<std::byte> bytes(other_length);
    bench::fill_page(id, 0, bytes);
    const client::const_part part{bytes.data(), other_length};
    const client::set_page page{key_of(id), {&part, 1}};
    client::page_result result;
    client.set({&page, 1}, {&result, 1});
    return result.status;
  }
  static page_status get_long(client::cache_client& client, std::uint32_t id) {
    std::vector<std::byte> bytes(other_length);
    const page_part part{bytes.data(), other_length};
    const client::get_page page{key_of(id), {&part, 1}};
    client::page_result result;
    client.get({&page, 1}, {&result, 1});
    EXPECT_TRUE(result.status != page_status::hit || bench::check_page(id, bytes).wrong_bytes == 0);
    return result.status;
  }
};

} // namespace

TEST_F(read_after_write, a_page_is_there_when_its_set_returns) {
  start();
  if (HasFatalFailure())
    return;
  const auto writer = client_of(0), neighbour = client_of(0);
  for (std::uint32_t id = 0; id < writes(); ++id) {
    ASSERT_EQ(to_string(put_one(*writer, id, 0)), to_string(page_status::stored)) << id;
    for (const auto& reader : {writer.get(), neighbour.get()}) {
      ASSERT_EQ(to_string(exists(*reader, id)), to_string(page_status::hit)) << id;
      const auto read = get(*reader, id);
      ASSERT_EQ(to_string(read.result.status), to_string(page_status::hit)) << id;
      ASSERT_EQ(read.check.wrong_bytes, 0u) << id;
    }
  }
  EXPECT_EQ(writer->stats().directory_messages, 0u);
  EXPECT_EQ(neighbour->stats().directory_messages, 0u) << "nobody need be asked";
}

/// Time in which threads of this process or of the nodes waited for a processor is subtracted,
/// because other programs use the processors, too: otherwise 40 of 100,000 pages are found late on
/// two processors. One page more than the allowed share may be late, because of few pages one may
/// be a large share.
TEST_F(read_after_write, another_host_finds_a_page_five_milliseconds_later) {
  start();
  if (HasFatalFailure())
    return;
  constexpr milliseconds patience(5), pause(1);
  const auto writer = client_of(0), reader = client_of(1);
  const processor_waits waits({::getpid(), process_of(0), process_of(1), process_of(2)});
  struct written {
    std::uint32_t id;
    clock::time_point begin;
    processor_waits::reading waited;
  };
  std::deque<written> set;
  std::uint32_t missed = 0, missed_in_waits = 0;
  std::vector<double> found_after_ms; ///< Time from set to hit of each missed page.
  const auto look = [&] {
    const auto page = std::move(set.front());
    set.pop_front();
    std::this_thread::sleep_until(page.begin + patience);
    if (is_found(*reader, page.id))
      return;
    while (exists(*reader, page.id) != page_status::hit)
      ASSERT_LT(clock::now() - page.begin, milliseconds(2000)) << page.id;
    const auto found = clock::now();
    const auto waited = processor_waits::between(page.waited, waits.read());
    found_after_ms.push_back(std::chrono::duration<double, std::milli>(found - page.begin).count());
    ++(found - page.begin - waited <= patience ? missed_in_waits : missed);
  };
  for (std::uint32_t id = 0; id < writes(); ++id) {
    auto waited = waits.read();
    ASSERT_EQ(to_string(put_one(*writer, id, 0)), to_string(page_status::stored)) << id;
    ASSERT_EQ(to_string(get(*writer, id).result.status), to_string(page_status::hit)) << id;
    set.push_back({id, clock::now(), std::move(waited)});
    std::this_thread::sleep_for(pause);
    while (!set.empty() && set.front().begin + patience <= clock::now())
      look();
  }
  while (!set.empty())
    look();
  std::cout << missed << " of " << writes() << " pages were not found after 5 ms, "
            << missed_in_waits << " more while threads waited for a processor\n";
  if (std::ranges::sort(found_after_ms); !found_after_ms.empty())
    std::cout << "they were found after " << found_after_ms[found_after_ms.size() / 2]
              << " ms (50 %), " << found_after_ms.back() << " ms at most\n";
  EXPECT_LE(missed, writes() / 10'000 + 1) << "of " << writes();
}

/// On a machine at rest the median is at most a millisecond. The test allows five times as much,
/// because other programs, and the reader's own look-ups, use the processors.
TEST_F(read_after_write, another_host_finds_a_page_within_a_millisecond_at_rest) {
  start();
  if (HasFatalFailure())
    return;
  const auto writer = client_of(0), reader = client_of(1);
  put(*writer, 0, 8);
  double median = 1e9;
  for (std::uint32_t round = 0, id = 1000; round < rounds_max && median > 1; ++round) {
    std::vector<double> found_after_ms;
    for (const auto last = id + 200; id < last; ++id) {
      ASSERT_EQ(to_string(put_one(*writer, id, 0)), to_string(page_status::stored));
      const auto begin = clock::now();
      while (exists(*reader, id) != page_status::hit)
        ASSERT_LT(clock::now() - begin, milliseconds(5000));
      found_after_ms.push_back(
          std::chrono::duration<double, std::milli>(clock::now() - begin).count());
      ASSERT_TRUE(writer->flush());
    }
    std::sort(found_after_ms.begin(), found_after_ms.end());
    median = found_after_ms[found_after_ms.size() / 2];
    std::cout << "another host finds a page after " << median << " ms (50 %), "
              << found_after_ms[found_after_ms.size() * 99 / 100] << " ms (99 %)\n";
  }
  EXPECT_LE(median, 5);
}

TEST_F(read_after_write, another_host_asks_once_for_a_page_that_it_gets) {
  start();
  if (HasFatalFailure())
    return;
  constexpr std::uint32_t pages = 200;
  const auto writer = client_of(0), reader = client_of(1);
  put(*writer, 0, pages);
  // A flush waits for one owner of a key; the other owner may hear of the page a moment later.
  ASSERT_TRUE(within(milliseconds(5000), [&] { return records() == pages * owners_of_a_key; }));
  // A look-up that has no answer after 4 ms asks another owner, too, so it must end in time.
  constexpr milliseconds patience(4);
  std::uint32_t asked_in_time = 0;
  for (std::uint32_t id = 0; id < pages; ++id) {
    const auto before = reader->stats().directory_messages;
    const auto begin = clock::now();
    ASSERT_EQ(to_string(get(*reader, id).result.status), to_string(page_status::hit)) << id;
    if (clock::now() - begin >= patience)
      continue;
    EXPECT_EQ(reader->stats().directory_messages, before + 1) << id;
    ++asked_in_time;
  }
  EXPECT_GT(asked_in_time, 0u);
  const auto asked = reader->stats().directory_messages;
  for (std::uint32_t id = 0; id < pages; ++id)
    ASSERT_EQ(to_string(get(*reader, id).result.status), to_string(page_status::hit)) << id;
  EXPECT_EQ(reader->stats().directory_messages, asked) << "pages that were found are remembered";
}

TEST_F(read_after_write, a_page_that_was_just_set_can_be_removed) {
  start();
  if (HasFatalFailure())
    return;
  const auto writer = client_of(0), reader = client_of(1);
  for (std::uint32_t id = 0; id < 200; ++id) {
    ASSERT_EQ(put_one(*writer, id, 0), page_status::stored);
    const auto key = key_of(id);
    client::page_result result;
    writer->remove({&key, 1}, {&result, 1});
    ASSERT_EQ(to_string(result.status), to_string(page_status::hit)) << id;
    ASSERT_NE(get(*writer, id).result.status, page_status::hit) << id;
    ASSERT_EQ(to_string(exists(*writer, id)), to_string(page_status::not_found)) << id;
  }
  ASSERT_TRUE(writer->flush());
  EXPECT_EQ(count_existing(*reader, 0, 200), 0u) << "none comes back";
}

TEST_F(read_after_write, a_page_of_another_length_does_not_block_its_key) {
  start();
  if (HasFatalFailure())
    return;
  const auto one = client_of(0), same_host = client_of(0), other = client_of(1);
  constexpr std::uint32_t pages = 16;
  put(*one, 0, 2 * pages);
  for (std::uint32_t id = 0; id < pages; ++id) {
    ASSERT_EQ(to_string(put_long(*same_host, id)), to_string(page_status::stored));
    ASSERT_EQ(to_string(put_long(*other, pages + id)), to_string(page_status::stored));
  }
  for (const auto& writer : {same_host.get(), other.get()}) {
    const auto outcome = writer->flush();
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->failed + outcome->duplicates, 0u);
  }
  const auto third = client_of(2);
  // A flush waits for one owner of a key; the other owner may hear of the page a moment later.
  const auto soon = [](const std::function<bool()>& condition) {
    return within(milliseconds(5000), condition);
  };
  for (const auto& reader : {one.get(), same_host.get(), other.get(), third.get()})
    for (std::uint32_t id = 0; id < 2 * pages; ++id)
      EXPECT_TRUE(soon([&] { return get_long(*reader, id) == page_status::hit; })) << id;
  for (std::uint32_t id = 0; id < pages; ++id) {
    const auto short_page = [&](std::uint32_t which) { return get(*third, which).result.status; };
    EXPECT_TRUE(soon([&] { return short_page(pages + id) == page_status::hit; }))
        << "the shorter one is where it was";
    EXPECT_TRUE(soon([&] { return short_page(id) == page_status::bad_size; }))
        << "of one host the newest counts";
  }
}

} // namespace peercache::real::read_after_write_test

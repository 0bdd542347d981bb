#include "storage/host_index.hpp"

#include "common/test_guards.hpp"
#include "heap_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <new>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace peercache::storage::host_index_test {
namespace {

constexpr std::uint32_t length = 100;

class host_index_test : public testing::Test {
protected:
  void make(std::uint32_t granules) {
    memory = std::make_unique<heap_pool>(granules, false);
    slots = memory->slots();
    index = memory->index();
  }
  void fill(std::uint32_t slot, std::uint64_t number, std::uint32_t bytes = length) {
    slots.begin_fill({slot});
    slots.fill({slot}, key_of(number), bytes, number);
  }
  bool put(std::uint32_t slot, std::uint64_t number) {
    fill(slot, number);
    return index.insert(key_of(number), {slot});
  }

  std::unique_ptr<heap_pool> memory;
  slot_table slots;
  host_index index;
};

TEST_F(host_index_test, a_page_is_found_once_it_is_filled_and_still_when_it_is_published) {
  make(64);
  EXPECT_FALSE(index.find(key_of(1)));
  ASSERT_TRUE(put(7, 1));
  const auto filled = index.find(key_of(1), length);
  ASSERT_TRUE(filled);
  EXPECT_EQ(filled->slot, slot_id{7});
  EXPECT_EQ(filled->contents.checksum, 1u);
  const auto gen = slots.publish({7}, key_of(1), length, 1);
  EXPECT_EQ(index.find(key_of(1))->contents.gen, gen);
}

TEST_F(host_index_test, a_page_of_another_length_is_another_page) {
  make(64);
  put(7, 1);
  EXPECT_FALSE(index.find(key_of(1), length + 1));
  fill(8, 1, length + 1);
  index.insert(key_of(1), {8});
  EXPECT_EQ(index.find(key_of(1), length + 1)->slot, slot_id{8});
  EXPECT_EQ(index.find(key_of(1), length)->slot, slot_id{7});
}

TEST_F(host_index_test, what_is_dropped_or_given_up_is_found_no_more) {
  make(64);
  put(7, 1);
  slots.drop({7});
  EXPECT_FALSE(index.find(key_of(1)));
  put(8, 2);
  slots.publish({8}, key_of(2), length, 2);
  slots.give_up({8});
  EXPECT_FALSE(index.find(key_of(2)));
}

TEST_F(host_index_test, a_slot_that_holds_another_page_now_is_found_under_its_key_only) {
  make(64);
  put(7, 1);
  slots.drop({7});
  put(7, 2);
  EXPECT_FALSE(index.find(key_of(1)));
  EXPECT_EQ(index.find(key_of(2))->slot, slot_id{7});
}

TEST_F(host_index_test, a_slot_that_is_being_filled_anew_is_not_found_by_a_cell_that_was_left) {
  make(64);
  put(7, 1);
  slots.publish({7}, key_of(1), length, 1);
  slots.give_up({7});
  // Begins to fill the slot anew, while its entry still has the old page's key.
  slots.begin_fill({7});
  EXPECT_FALSE(index.find(key_of(1)));
  guard_switched_off off(guard::filled);
  EXPECT_TRUE(index.find(key_of(1))) << "the guard is what keeps wrong bytes away";
}

TEST_F(host_index_test, a_full_pool_of_the_smallest_pages_is_found) {
  constexpr std::uint32_t granules = 1u << 14;
  make(granules);
  for (std::uint32_t slot = 0; slot < granules; ++slot)
    ASSERT_TRUE(put(slot, slot + 1));
  for (std::uint32_t slot = 0; slot < granules; ++slot)
    ASSERT_EQ(index.find(key_of(slot + 1))->slot, slot_id{slot});
}

TEST_F(host_index_test, cells_of_pages_that_are_gone_are_used_again) {
  constexpr std::uint32_t granules = 256;
  make(granules);
  for (std::uint64_t number = 1; number <= 100 * granules; ++number) {
    const auto slot = static_cast<std::uint32_t>(number % granules);
    if (const auto page = slots.page_in({slot})) {
      slots.drop({slot});
      index.erase(page->key, {slot});
    }
    ASSERT_TRUE(put(slot, number)) << number;
    ASSERT_TRUE(index.find(key_of(number))) << number;
  }
}

TEST_F(host_index_test, what_killed_fillers_left_makes_room) {
  constexpr std::uint32_t granules = 256;
  make(granules);
  for (std::uint64_t number = 1; number <= 8 * granules; ++number) {
    ASSERT_TRUE(put(0, number)) << number;
    slots.drop({0});
  }
  for (std::uint32_t slot = 0; slot < granules / 2; ++slot)
    ASSERT_TRUE(put(slot, 100000 + slot)) << slot;
}

TEST_F(host_index_test, full_buckets_take_no_more_and_lose_nothing) {
  make(1); // Makes a small pool; `small` below is an index of two buckets, which have 16 cells.
  heap_pool many(64, false);
  const auto buckets = std::make_unique<std::array<host_index::bucket, 2>>();
  host_index small({buckets->data(), buckets->size()}, many.slots());
  auto table = many.slots();
  std::vector<std::uint32_t> in;
  for (std::uint32_t slot = 0; slot < 64; ++slot) {
    table.begin_fill({slot});
    table.fill({slot}, key_of(slot + 1), length, 1);
    if (small.insert(key_of(slot + 1), {slot}))
      in.push_back(slot);
  }
  EXPECT_LE(in.size(), 16u);
  EXPECT_GE(in.size(), 8u);
  for (const auto slot : in)
    EXPECT_TRUE(small.find(key_of(slot + 1))) << slot;
}

TEST_F(host_index_test, without_memory_it_finds_nothing_and_takes_nothing) {
  host_index none;
  EXPECT_FALSE(none.insert(key_of(1), {1}));
  EXPECT_FALSE(none.find(key_of(1)));
}

TEST_F(host_index_test, threads_that_write_at_once_lose_no_page) {
  constexpr std::uint32_t writers = 4, each = 4096;
  make(writers * each);
  std::vector<std::thread> threads;
  for (std::uint32_t writer = 0; writer < writers; ++writer)
    threads.emplace_back([&, writer] {
      for (std::uint32_t i = 0; i < each; ++i) {
        const auto slot = i * writers + writer;
        ASSERT_TRUE(put(slot, slot + 1));
        ASSERT_TRUE(index.find(key_of(slot + 1)));
      }
    });
  for (auto& thread : threads)
    thread.join();
  for (std::uint32_t slot = 0; slot < writers * each; ++slot)
    ASSERT_TRUE(index.find(key_of(slot + 1))) << slot;
}

/// A host index and its slots, in memory that forked processes share.
struct shared_pool {
  static constexpr std::uint32_t granules = 4096;
  std::array<slot_entry, granules> entries;
  std::array<client_entry, granules> clients;
  std::array<host_index::bucket, granules / 4> buckets;
  std::atomic<std::uint32_t> inserted;

  slot_table slots() {
    static std::byte none; // A byte in place of the pages, which no test of this pool touches.
    return {entries, clients, {&none, granules * std::size_t{limits::granule_bytes}}};
  }
  host_index index() { return {buckets, slots()}; }
};

TEST(host_index_processes, a_writer_that_is_killed_anywhere_leaves_a_whole_index) {
  auto* memory = ::mmap(nullptr, sizeof(shared_pool), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* pool = new (memory) shared_pool{};
  for (std::uint32_t round = 0; round < 20; ++round) {
    const auto before = pool->inserted.load();
    const auto writer = ::fork();
    if (writer == 0) {
      for (auto slot = before % shared_pool::granules;; slot = (slot + 1) % shared_pool::granules) {
        auto slots = pool->slots();
        if (slots.page_in({slot}))
          slots.drop({slot});
        slots.begin_fill({slot});
        slots.fill({slot}, key_of(slot + 1), length, slot + 1);
        pool->index().insert(key_of(slot + 1), {slot});
        pool->inserted.fetch_add(1);
      }
    }
    while (pool->inserted.load() < before + 1000 * (round % 3 + 1))
      std::this_thread::yield();
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    for (std::uint32_t slot = 0; slot < shared_pool::granules; ++slot)
      if (const auto found = pool->index().find(key_of(slot + 1))) {
        ASSERT_EQ(found->contents.key, key_of(slot + 1));
        ASSERT_EQ(found->slot, slot_id{slot});
      }
    auto slots = pool->slots();
    const slot_id mine{round};
    if (slots.page_in(mine))
      slots.drop(mine);
    slots.begin_fill(mine);
    slots.fill(mine, key_of(mine.value + 1), length, 1);
    ASSERT_TRUE(pool->index().insert(key_of(mine.value + 1), mine));
    ASSERT_TRUE(pool->index().find(key_of(mine.value + 1)));
  }
  ::munmap(memory, sizeof(shared_pool));
}

} // namespace
} // namespace peercache::storage::host_index_test

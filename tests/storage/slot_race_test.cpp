// Tests with reading threads and a pool's owner that evicts and refills slots all the time. The
// bytes of a page tell which page it is, so readers notice a wrong byte. With any guard switched
// off there must be wrong bytes.

#include "common/copy.hpp"
#include "common/test_guards.hpp"
#include "heap_pool.hpp"
#include "storage/page_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

namespace peercache::storage::slot_race_test {
namespace {

constexpr std::uint32_t length = 8 * limits::granule_bytes;
constexpr std::uint64_t keys = 16;
constexpr std::uint32_t slots_in_pool = 4;

/// Where the page of a key is, or was: the owner writes this for readers, as a directory would
/// record it.
struct bulletin {
  std::atomic<std::uint64_t> gen{0};
  std::atomic<std::uint32_t> slot{0};
};

/// Runs the owner on this thread and two readers on other threads. Ends after `hits_wanted` hits
/// or, if the test wants wrong bytes, at the first wrong byte; after 100 s at the latest.
class race {
public:
  /// How readers read a page: as a copy, under a pin, or (`found`) as a copy of what the host index
  /// names, even if the owner does not know the page yet.
  enum class reading : std::uint8_t { copied, pinned, found };

  /// `scrubbing`: the owner zeroes the bytes of each slot before it fills the slot again.
  explicit race(reading how, bool scrubbing = false) : how_(how), scrubbing_(scrubbing) {}

  void run(std::uint64_t hits_wanted, bool stop_at_wrong) {
    auto until = std::chrono::steady_clock::now() + std::chrono::seconds(100);
    std::thread first([this] { read(1); });
    std::thread second([this] { read(2); });
    while (hits_.load() < hits_wanted && !(stop_at_wrong && wrong_.load() > 0) &&
           std::chrono::steady_clock::now() < until)
      refill();
    stop_ = true;
    first.join();
    second.join();
  }

  std::uint64_t hits() const { return hits_; }
  std::uint64_t wrong() const { return wrong_; }
  std::uint64_t misses() const { return misses_; }
  std::uint64_t filling_hits() const { return filling_hits_; }

private:
  /// Writes the page's number into each word. The stores are not atomic, like those of memcpy: the
  /// protocol must keep readers from using bytes that they read during a write.
  void write(std::span<std::byte> bytes, std::uint64_t number) {
    auto* words = reinterpret_cast<volatile std::uint64_t*>(bytes.data());
    for (std::size_t i = 0; i < bytes.size() / 8; ++i)
      words[i] = number;
  }

  void refill() {
    auto number = 1 + random_() % keys;
    auto slot = pool_.reserve(length, victims_);
    victims_.clear();
    if (!slot)
      return; // The pool has no room for now: readers have two slots pinned, and the other slots
              // must not be reused yet.
    write(slots_.bytes(*slot, length), number);
    fill page{*slot, key_of(number), length, 0};
    copy_fence();
    slots_.fill(page.slot, page.key, length, 0);
    if (how_ == reading::found) {
      memory_.index().insert(page.key, page.slot);
      if (random_() % 4 == 0) {
        pool_.abandon(page.slot);
        return;
      }
    }
    commit_outcome outcome;
    pool_.commit({&page, 1}, {&outcome, 1}, fill_origin::producer);
    auto& note = notes_[number - 1];
    note.slot.store(outcome.slot.value, std::memory_order_relaxed);
    note.gen.store(outcome.gen.value, std::memory_order_release);
  }

  void read(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::uint64_t> copy(length / 8);
    while (!stop_.load()) {
      auto number = 1 + random() % keys;
      auto& note = notes_[number - 1];
      generation gen{note.gen.load(std::memory_order_acquire)};
      slot_id slot{note.slot.load(std::memory_order_relaxed)};
      auto hit = how_ == reading::copied   ? copy_page(slot, gen, number, copy)
                 : how_ == reading::pinned ? pin_page(slot, gen, number, copy)
                                           : find_page(number, copy);
      if (!hit) {
        ++misses_;
        continue;
      }
      ++hits_;
      for (auto word : copy)
        if (word != number) {
          ++wrong_;
          break;
        }
    }
  }

  void copy_words(slot_id slot, std::vector<std::uint64_t>& copy) {
    auto bytes = slots_.bytes(slot, length);
    const auto* words = reinterpret_cast<const volatile std::uint64_t*>(bytes.data());
    for (std::size_t i = 0; i < copy.size(); ++i)
      copy[i] = words[i];
  }

  bool copy_page(slot_id slot, generation gen, std::uint64_t number,
                 std::vector<std::uint64_t>& copy) {
    if (slots_.check(slot, gen, key_of(number), length) != page_status::hit)
      return false;
    copy_words(slot, copy);
    return slots_.still_readable(slot, gen);
  }

  bool find_page(std::uint64_t number, std::vector<std::uint64_t>& copy) {
    const auto found = memory_.index().find(key_of(number), length);
    if (!found || !copy_page(found->slot, found->contents.gen, number, copy))
      return false;
    filling_hits_ += found->contents.gen.readable() ? 0 : 1;
    return true;
  }

  bool pin_page(slot_id slot, generation gen, std::uint64_t number,
                std::vector<std::uint64_t>& copy) {
    if (slots_.pin_if(slot, gen, key_of(number), length) != page_status::hit)
      return false;
    copy_words(slot, copy);
    slots_.unpin(slot);
    return true;
  }

  const reading how_;
  const bool scrubbing_;
  heap_pool memory_{slots_in_pool * 8};
  slot_table slots_ = memory_.slots();
  page_pool pool_{slots_,
                  make_eviction_policy(eviction_kind::lru, slots_in_pool* length),
                  {.scrub_evicted = scrubbing_},
                  how_ == reading::found ? memory_.index() : host_index{}};
  std::vector<evicted> victims_;
  std::mt19937_64 random_{42};
  bulletin notes_[keys];
  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::uint64_t> wrong_{0};
  std::atomic<std::uint64_t> misses_{0};
  /// Hits of pages that were filled but not yet published.
  std::atomic<std::uint64_t> filling_hits_{0};
  std::atomic<bool> stop_{false};
};

constexpr std::uint64_t enough = 100'000;

TEST(slot_race, a_copied_page_is_never_wrong) {
  race it(race::reading::copied);
  it.run(enough, false);
  EXPECT_EQ(it.wrong(), 0u);
  EXPECT_GE(it.hits(), enough);
  EXPECT_GT(it.misses(), 0u);
}

TEST(slot_race, a_pinned_page_is_never_wrong) {
  race it(race::reading::pinned);
  it.run(enough, false);
  EXPECT_EQ(it.wrong(), 0u);
  EXPECT_GE(it.hits(), enough);
  EXPECT_GT(it.misses(), 0u);
}

TEST(slot_race, a_page_that_the_host_finds_is_never_wrong) {
  race it(race::reading::found);
  it.run(enough, false);
  EXPECT_EQ(it.wrong(), 0u);
  EXPECT_GE(it.hits(), enough);
  EXPECT_GT(it.misses(), 0u);
  EXPECT_GT(it.filling_hits(), 0u);
}

TEST(slot_race, a_page_is_never_wrong_where_slots_are_scrubbed) {
  for (const auto how : {race::reading::copied, race::reading::pinned, race::reading::found}) {
    race it(how, /*scrubbing=*/true);
    it.run(enough, false);
    EXPECT_EQ(it.wrong(), 0u);
    EXPECT_GE(it.hits(), enough);
    EXPECT_GT(it.misses(), 0u);
  }
}

TEST(slot_race, without_the_generation_guard_a_page_that_the_host_finds_is_wrong) {
  guard_switched_off off(guard::generation);
  race it(race::reading::found);
  it.run(UINT64_MAX, true);
  EXPECT_GT(it.wrong(), 0u);
}

TEST(slot_race, without_the_generation_guard_a_copied_page_is_wrong) {
  guard_switched_off off(guard::generation);
  race it(race::reading::copied);
  it.run(UINT64_MAX, true);
  EXPECT_GT(it.wrong(), 0u);
}

TEST(slot_race, without_the_generation_guard_a_pinned_page_is_wrong) {
  guard_switched_off off(guard::generation);
  race it(race::reading::pinned);
  it.run(UINT64_MAX, true);
  EXPECT_GT(it.wrong(), 0u);
}

TEST(slot_race, without_the_pin_guard_a_pinned_page_is_wrong) {
  guard_switched_off off(guard::pin);
  race it(race::reading::pinned);
  it.run(UINT64_MAX, true);
  EXPECT_GT(it.wrong(), 0u);
}

} // namespace
} // namespace peercache::storage::slot_race_test

// The protocol of slots (storage/slot_table) and of leases (handoff/lease_table, rdma/served_spans)
// by C++20's memory model. Each test has the orders that the code has, and each of them weaker in
// turn: with every order that docs/memory_order.md calls needed the checker finds the wrong reading
// again. Page bytes are relaxed words here, which they are for the CPUs that we run on.

#include "litmus.hpp"

#include <gtest/gtest.h>

namespace peercache::litmus {
namespace {

using enum order;

constexpr int generation = 0;
constexpr int bytes = 1;
constexpr int filled = 2;
constexpr int pins = 3;
constexpr int other_bytes = 4;

/// The orders of a copying reader (`page_in`, the copy, `still_readable`) and of the owner, who
/// gives a page up (`give_up`, `drop`, `refuse_fill`, lease_table's `close`) and lets others
/// overwrite it.
struct copying {
  order odd_fence = seq_cst; ///< `fence_before_overwriting`
  order last_fence = acquire;
  order last_look = acquire;
};

/// Whether a reader may take bytes of the next page for those of generation 0.
bool takes_overwritten_bytes(const copying& how) {
  return allows({{store(generation, 1, relaxed), fence(how.odd_fence), store(bytes, 1, relaxed)},
                 {load(generation, acquire), load(bytes, relaxed), fence(how.last_fence),
                  load(generation, how.last_look)}},
                [](const readings& read) { return read.at(1, 1) == 1 && read.at(1, 3) == 0; });
}

TEST(slot_orders, a_reader_that_took_overwritten_bytes_sees_another_generation) {
  EXPECT_FALSE(takes_overwritten_bytes({}));
  EXPECT_TRUE(takes_overwritten_bytes({.odd_fence = relaxed}));
  EXPECT_TRUE(takes_overwritten_bytes({.last_fence = relaxed})) << "an acquire load is not enough";
}

TEST(slot_orders, for_copies_alone_the_owners_fence_could_be_weaker) {
  EXPECT_FALSE(takes_overwritten_bytes({.odd_fence = release}));
  EXPECT_FALSE(takes_overwritten_bytes({.last_look = relaxed}));
}

/// A reader as above where another thread overwrites what the generation covers: bytes that a
/// client fills (or another message of the pool zeroes), the words of a key. The slot came to it by
/// a message, which is a release and an acquire.
bool takes_bytes_of_another_thread(order storing_fence) {
  constexpr int message = filled;
  return allows({{store(generation, 1, relaxed), fence(seq_cst), store(message, 1, release)},
                 {load(message, acquire), fence(storing_fence), store(bytes, 1, relaxed)},
                 {load(generation, acquire), load(bytes, relaxed), fence(acquire),
                  load(generation, acquire)}},
                [](const readings& read) {
                  return read.at(1, 0) == 1 && read.at(2, 1) == 1 && read.at(2, 3) == 0;
                });
}

TEST(slot_orders, the_fence_of_the_thread_that_made_a_generation_odd_does_not_serve_others) {
  EXPECT_FALSE(takes_bytes_of_another_thread(release)); // `fence_before_storing`
  EXPECT_TRUE(takes_bytes_of_another_thread(relaxed));
}

/// Whether a reader sees the generation of `publish` without the bytes, or the key, before it.
bool sees_half_a_page(order published, order looked) {
  return allows({{store(bytes, 1, relaxed), store(generation, 2, published)},
                 {load(generation, looked), load(bytes, relaxed)}},
                [](const readings& read) { return read.at(1, 0) == 2 && read.at(1, 1) == 0; });
}

TEST(slot_orders, who_sees_a_published_generation_sees_the_page) {
  EXPECT_FALSE(sees_half_a_page(release, acquire));
  EXPECT_TRUE(sees_half_a_page(relaxed, acquire));
  EXPECT_TRUE(sees_half_a_page(release, relaxed));
}

/// A page over three processes: a client fills and says `filled`, the owner sees it and
/// publishes.
bool loses_bytes_on_the_way(order said, order heard, order published) {
  return allows({{store(bytes, 1, relaxed), store(filled, 1, said)},
                 {load(filled, heard), store(generation, 2, published)},
                 {load(generation, acquire), load(bytes, relaxed)}},
                [](const readings& read) {
                  return read.at(1, 0) == 1 && read.at(2, 0) == 2 && read.at(2, 1) == 0;
                });
}

TEST(slot_orders, the_bytes_of_a_client_are_there_when_the_owner_publishes_them) {
  EXPECT_FALSE(loses_bytes_on_the_way(release, acquire, release));
  EXPECT_TRUE(loses_bytes_on_the_way(relaxed, acquire, release));
  EXPECT_TRUE(loses_bytes_on_the_way(release, relaxed, release));
  EXPECT_TRUE(loses_bytes_on_the_way(release, acquire, relaxed));
}

/// The orders of a pinning reader (`pin_if`) and of the owner (`give_up`, then `pins`).
struct pinning {
  order pin = seq_cst;
  order look = seq_cst;
  order odd_fence = seq_cst;
  order counted = seq_cst;
};

/// Whether the reader keeps its pin while the owner sees none, and overwrites what is being sent.
bool overlooks_a_pin(const pinning& how) {
  return allows({{exchange(pins, 1, how.pin), load(generation, how.look)},
                 {store(generation, 1, relaxed), fence(how.odd_fence), load(pins, how.counted)}},
                [](const readings& read) { return read.at(0, 1) == 0 && read.at(1, 2) == 0; });
}

TEST(slot_orders, either_the_owner_sees_the_pin_or_the_reader_sees_that_the_page_is_gone) {
  EXPECT_FALSE(overlooks_a_pin({}));
  EXPECT_TRUE(overlooks_a_pin({.pin = acq_rel}));
  EXPECT_TRUE(overlooks_a_pin({.look = acquire}));
  EXPECT_TRUE(overlooks_a_pin({.odd_fence = acq_rel}));
}

TEST(slot_orders, behind_the_owners_fence_the_look_at_the_pins_could_be_relaxed) {
  EXPECT_FALSE(overlooks_a_pin({.counted = relaxed}));
}

/// A sender's last read of the bytes and its `unpin`, before the owner that sees no pin overwrites
/// them.
bool sends_overwritten_bytes(order unpinned, order counted) {
  return allows({{load(bytes, relaxed), store(pins, 1, unpinned)},
                 {load(pins, counted), store(bytes, 1, relaxed)}},
                [](const readings& read) { return read.at(0, 0) == 1 && read.at(1, 0) == 1; });
}

TEST(slot_orders, bytes_are_overwritten_only_behind_the_unpin_that_was_seen) {
  EXPECT_FALSE(sends_overwritten_bytes(release, seq_cst));
  EXPECT_TRUE(sends_overwritten_bytes(relaxed, seq_cst));
  EXPECT_TRUE(sends_overwritten_bytes(release, relaxed));
}

/// The orders by which a reader that found a page of this host under its odd generation finds out
/// that the slot has another page: `begin_fill`, `publish`, and the end of `still_readable`.
struct unpublished {
  order filling = release;
  order published = release;
  order last_look = acquire;
};

/// The page is in generation 1, is dropped to 3 and the slot filled again (5) and published (6).
/// Whether the reader takes the next page's bytes for those of generation 1, because it sees an
/// even generation and the `filled` of its own.
bool takes_the_next_page(const unpublished& how) {
  return allows({{store(generation, 1, relaxed), store(filled, 1, release)},
                 {load(filled, acquire), store(generation, 3, relaxed), fence(seq_cst),
                  store(filled, 0, relaxed), store(generation, 5, how.filling),
                  store(bytes, 1, relaxed), store(generation, 6, how.published)},
                 {load(filled, acquire), load(bytes, relaxed), fence(acquire),
                  load(generation, how.last_look), load(filled, relaxed)}},
                [](const readings& read) {
                  return read.at(1, 0) == 1 && read.at(2, 0) == 1 && read.at(2, 1) == 1 &&
                         read.at(2, 3) == 6 && read.at(2, 4) == 1;
                });
}

TEST(slot_orders, an_even_generation_is_not_that_of_a_page_whose_filled_is_gone) {
  EXPECT_FALSE(takes_the_next_page({}));
  EXPECT_TRUE(takes_the_next_page({.published = relaxed}));
  EXPECT_TRUE(takes_the_next_page({.last_look = relaxed}));
  EXPECT_FALSE(takes_the_next_page({.filling = relaxed})) << "the release of `publish` does for it";
}

/// A slot whose generations began again (`refuse_fill`): whether a reader takes the `filled` of the
/// first generation 1 for that of the second one.
bool takes_the_first_filled(order filling, order looked) {
  return allows({{store(filled, 1, relaxed), store(generation, 0, relaxed), fence(seq_cst),
                  store(filled, 0, relaxed), store(generation, 1, filling)},
                 {load(generation, looked), load(filled, acquire)}},
                [](const readings& read) { return read.at(1, 0) == 1 && read.at(1, 1) == 1; });
}

TEST(slot_orders, generation_1_that_comes_again_comes_without_its_filled) {
  EXPECT_FALSE(takes_the_first_filled(release, acquire));
  EXPECT_TRUE(takes_the_first_filled(release, relaxed));
}

/// A key is four words. Whether a reader takes half of one key and half of the next for one.
bool takes_a_torn_key(order odd_fence, order last_fence) {
  return allows({{store(generation, 1, relaxed), fence(odd_fence), store(bytes, 1, relaxed),
                  store(other_bytes, 1, relaxed), store(generation, 2, release)},
                 {load(generation, acquire), load(bytes, relaxed), load(other_bytes, relaxed),
                  fence(last_fence), load(generation, acquire)}},
                [](const readings& read) {
                  const bool trusted = read.at(1, 0) == read.at(1, 4) && read.at(1, 0) % 2 == 0;
                  return trusted && read.at(1, 1) != read.at(1, 2);
                });
}

TEST(slot_orders, a_key_between_two_equal_generations_is_whole) {
  EXPECT_FALSE(takes_a_torn_key(seq_cst, acquire));
  EXPECT_TRUE(takes_a_torn_key(relaxed, acquire));
  EXPECT_TRUE(takes_a_torn_key(seq_cst, relaxed));
}

} // namespace
} // namespace peercache::litmus

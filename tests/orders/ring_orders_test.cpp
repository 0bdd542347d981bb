// Rings, sleeping threads and tables of several words by C++20's memory model: rdma/submit_ring,
// rdma/read_batch with net/futex, storage/epoch_table, storage/host_index, storage/hold_table. Each
// order that docs/memory_order.md calls needed is weakened, and the checker finds what it prevents.

#include "litmus.hpp"

#include <gtest/gtest.h>

namespace peercache::litmus {
namespace {

using enum order;

constexpr int sequence = 0;
constexpr int sleeping = 1;
constexpr int batch = 2;
constexpr int state = 3;

/// The orders of `submit_ring::push` and `wake_plane`, and of `prepare_sleep`.
struct sleepers {
  order pushed = seq_cst;
  order asked = seq_cst;
  order slept = seq_cst;
  order looked = seq_cst;
};

/// Whether the plane goes to sleep over a batch whose submitter takes it for awake.
bool sleeps_over_a_batch(const sleepers& how) {
  return allows({{store(sequence, 1, how.pushed), load(sleeping, how.asked)},
                 {store(sleeping, 1, how.slept), load(sequence, how.looked)}},
                [](const readings& read) { return read.at(0, 1) == 0 && read.at(1, 1) == 0; });
}

TEST(ring_orders, no_batch_is_slept_over) {
  EXPECT_FALSE(sleeps_over_a_batch({}));
  EXPECT_TRUE(sleeps_over_a_batch({.pushed = release}));
  EXPECT_TRUE(sleeps_over_a_batch({.asked = acquire}));
  EXPECT_TRUE(sleeps_over_a_batch({.slept = release}));
  EXPECT_TRUE(sleeps_over_a_batch({.looked = acquire}));
}

/// Whether `pop` takes a cell of which `push` has stored the sequence and not yet the batch.
bool takes_an_empty_cell(order pushed, order looked) {
  return allows({{store(batch, 1, relaxed), store(sequence, 1, pushed)},
                 {load(sequence, looked), load(batch, relaxed)}},
                [](const readings& read) { return read.at(1, 0) == 1 && read.at(1, 1) == 0; });
}

TEST(ring_orders, a_cell_with_its_number_has_its_batch) {
  EXPECT_FALSE(takes_an_empty_cell(seq_cst, seq_cst));
  EXPECT_TRUE(takes_an_empty_cell(relaxed, seq_cst));
  EXPECT_TRUE(takes_an_empty_cell(seq_cst, relaxed));
}

/// Whether `pop` reads the batch of the producer that gets the cell after it.
bool takes_the_next_batch(order given_back, order looked) {
  return allows({{load(batch, relaxed), store(sequence, 2, given_back)},
                 {load(sequence, looked), store(batch, 2, relaxed)}},
                [](const readings& read) { return read.at(0, 0) == 2 && read.at(1, 0) == 2; });
}

TEST(ring_orders, a_cell_is_filled_again_only_when_it_was_read) {
  EXPECT_FALSE(takes_the_next_batch(release, acquire));
  EXPECT_TRUE(takes_the_next_batch(relaxed, acquire));
  EXPECT_TRUE(takes_the_next_batch(release, relaxed));
}

/// `read_batch::finish` exchanges the state; a waiter exchanges it for "slept on" before it sleeps,
/// and the kernel compares it once more (futex_wait). Whether both go on as if the other had not
/// been there.
bool sleeps_on_a_finished_batch(bool by_exchange) {
  const auto finish = by_exchange
                          ? std::vector<step>{exchange(state, 2, acq_rel), fence(relaxed)}
                          : std::vector<step>{load(state, acquire), store(state, 2, release)};
  return allows({finish, {exchange(state, 1, acq_rel), load(state, relaxed)}},
                [](const readings& read) {
                  const bool nobody_is_woken = read.at(0, 0) == 0;
                  const bool sleeps = read.at(1, 0) == 0 && read.at(1, 1) == 1;
                  return nobody_is_woken && sleeps;
                });
}

TEST(ring_orders, a_batch_that_finishes_wakes_who_slept_on_it) {
  EXPECT_FALSE(sleeps_on_a_finished_batch(true));
  EXPECT_TRUE(sleeps_on_a_finished_batch(false));
}

bool finishes_without_results(order finished, order looked) {
  return allows({{store(batch, 1, relaxed), exchange(state, 2, finished)},
                 {load(state, looked), load(batch, relaxed)}},
                [](const readings& read) { return read.at(1, 0) == 2 && read.at(1, 1) == 0; });
}

TEST(ring_orders, who_sees_a_finished_batch_sees_its_pages) {
  EXPECT_FALSE(finishes_without_results(acq_rel, acquire));
  EXPECT_TRUE(finishes_without_results(acquire, acquire));
  EXPECT_TRUE(finishes_without_results(acq_rel, relaxed));
}

/// The orders of `epoch_table`: `change`, `epoch_of`.
struct epochs {
  order begun = seq_cst; ///< the fence behind the odd count of changes
  order ended = release;
  order first_look = acquire;
  order between = acquire; ///< the reader's fence
};

/// Two words that change together, between an odd and an even count of changes.
bool reads_half_a_change(const epochs& how) {
  constexpr int changes = 0;
  constexpr int space = 1;
  constexpr int epoch = 2;
  return allows({{store(changes, 1, seq_cst), fence(how.begun), store(epoch, 1, relaxed),
                  store(space, 1, relaxed), store(changes, 2, how.ended)},
                 {load(changes, how.first_look), load(space, relaxed), load(epoch, relaxed),
                  fence(how.between), load(changes, relaxed)}},
                [](const readings& read) {
                  const bool trusted = read.at(1, 0) == read.at(1, 4) && read.at(1, 0) % 2 == 0;
                  return trusted && read.at(1, 1) != read.at(1, 2);
                });
}

TEST(ring_orders, an_epoch_is_read_between_two_equal_even_counts) {
  EXPECT_FALSE(reads_half_a_change({}));
  EXPECT_TRUE(reads_half_a_change({.begun = relaxed}));
  EXPECT_TRUE(reads_half_a_change({.ended = relaxed}));
  EXPECT_TRUE(reads_half_a_change({.first_look = relaxed}));
  EXPECT_TRUE(reads_half_a_change({.between = relaxed}));
}

/// A hold on a slot that has another page by now: the owner closes the word of the page that goes,
/// and opens it for the next one behind the next generation. Whether the holder, who looks at the
/// generation behind its hold, still sees that of the page that it wanted.
bool holds_the_page_before(order opened, order held) {
  constexpr int generation = 0;
  constexpr int word = 1;
  return allows({{store(generation, 1, relaxed), store(word, 1, opened)},
                 {exchange(word, 2, held), load(generation, relaxed)}},
                [](const readings& read) { return read.at(1, 0) == 1 && read.at(1, 1) == 0; });
}

TEST(ring_orders, who_holds_the_next_page_sees_that_it_is_the_next_one) {
  EXPECT_FALSE(holds_the_page_before(release, acq_rel));
  EXPECT_TRUE(holds_the_page_before(relaxed, acq_rel));
  EXPECT_TRUE(holds_the_page_before(release, release));
}

/// `host_index`: a cell that names a slot, and the slot's `filled` before it.
bool finds_a_slot_that_is_not_filled(order inserted, order found) {
  constexpr int filled = 0;
  constexpr int cell = 1;
  return allows({{store(filled, 1, release), exchange(cell, 1, inserted)},
                 {load(cell, found), load(filled, acquire)}},
                [](const readings& read) { return read.at(1, 0) == 1 && read.at(1, 1) == 0; });
}

TEST(ring_orders, a_cell_of_the_index_names_a_slot_that_is_filled) {
  EXPECT_FALSE(finds_a_slot_that_is_not_filled(release, acquire));
  EXPECT_TRUE(finds_a_slot_that_is_not_filled(relaxed, acquire));
  EXPECT_TRUE(finds_a_slot_that_is_not_filled(release, relaxed));
}

} // namespace
} // namespace peercache::litmus

// Rings, sleeping threads and tables of several words by C++20's memory model: rdma/submit_ring,
// rdma/read_batch with net/futex, storage/epoch_table, storage/host_index, storage/hold_table,
// storage/pool_header. Each order that docs/memory_order.md calls needed is weakened, and the
// checker finds what it prevents.

#include "litmus.hpp"

#include <gtest/gtest.h>

namespace peercache::litmus {
namespace {

using enum order;

constexpr int sequence = 0;
constexpr int sleeping = 1;
constexpr int batch = 2;
constexpr int state = 3;
constexpr int tail = 4;

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
  EXPECT_FALSE(takes_an_empty_cell(seq_cst, acquire));
  EXPECT_FALSE(takes_an_empty_cell(release, acquire)) << "seq_cst is for `wake_plane`";
  EXPECT_TRUE(takes_an_empty_cell(relaxed, acquire));
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

/// Whether the plane sleeps over the batch of a producer that takes it for awake because another
/// producer wakes it: the other one woke it from the sleep before this one.
bool sleeps_over_the_second_producer(order woken, const sleepers& how) {
  constexpr int second_sleep = 2;
  return allows({{store(sleeping, 1, how.slept), store(sleeping, 0, relaxed),
                  store(sleeping, second_sleep, how.slept), load(sequence, how.looked)},
                 {exchange(sleeping, 0, woken)},
                 {store(sequence, 1, how.pushed), load(sleeping, how.asked)}},
                [](const readings& read) {
                  const bool woke_from_the_first = read.at(1, 0) == 1;
                  const bool taken_for_awake = read.at(2, 1) == 0;
                  return woke_from_the_first && taken_for_awake && read.at(0, 3) == 0;
                });
}

TEST(ring_orders, a_wake_up_for_one_batch_does_not_hide_another) {
  EXPECT_FALSE(sleeps_over_the_second_producer(relaxed, {}));
  EXPECT_TRUE(sleeps_over_the_second_producer(relaxed, {.pushed = release}));
  EXPECT_TRUE(sleeps_over_the_second_producer(relaxed, {.asked = acquire}));
  EXPECT_TRUE(sleeps_over_the_second_producer(relaxed, {.slept = release}));
  EXPECT_TRUE(sleeps_over_the_second_producer(relaxed, {.looked = acquire}));
}

/// How a producer claims the position that it has read as free, and how `close` shuts the ring:
/// each as one exchange, as the code does, or as a load and a store.
std::vector<step> claim(int value, bool by_exchange) {
  if (by_exchange)
    return {exchange(tail, value, relaxed)};
  return {load(tail, relaxed), store(tail, value, relaxed)};
}

/// Whether both of two claims find the tail as it was at first. A `compare_exchange` that succeeds
/// is an exchange that has read what was expected.
bool both_find_the_first_tail(bool one_by_exchange, bool other_by_exchange) {
  return allows({claim(1, one_by_exchange), claim(2, other_by_exchange)},
                [](const readings& read) { return read.at(0, 0) == 0 && read.at(1, 0) == 0; });
}

TEST(ring_orders, two_producers_never_claim_one_cell) {
  EXPECT_FALSE(both_find_the_first_tail(true, true));
  EXPECT_TRUE(both_find_the_first_tail(false, false));
}

/// The end that `close` waits for has every position that was claimed, and no claim succeeds behind
/// it: a producer whose claim has read the tail without the closed bit is in front of it.
TEST(ring_orders, no_cell_is_claimed_once_the_ring_is_closed) {
  EXPECT_FALSE(both_find_the_first_tail(true, true));
  EXPECT_TRUE(both_find_the_first_tail(false, true)) << "a producer that stores its claim";
  EXPECT_TRUE(both_find_the_first_tail(true, false)) << "a close that stores its bit";
}

/// The orders by which a cell goes from one producer to the plane and on to the next producer.
struct laps {
  order pushed = seq_cst;
  order popped = acquire;
  order given_back = release;
  order claimed = acquire;
};

/// Whether the plane finds the batch of the first lap in a cell that the producer of the second lap
/// has filled. The producers share nothing but the cell's sequence: what the first one wrote is
/// before what the second one writes by way of the plane alone.
bool finds_the_batch_of_the_lap_before(const laps& how) {
  return allows(
      {{store(batch, 1, relaxed), store(sequence, 1, how.pushed)},
       {load(sequence, how.popped), store(sequence, 2, how.given_back), load(sequence, seq_cst),
        load(batch, relaxed)},
       {load(sequence, how.claimed), store(batch, 2, relaxed), store(sequence, 3, seq_cst)}},
      [](const readings& read) {
        const bool in_turn = read.at(1, 0) == 1 && read.at(2, 0) == 2 && read.at(1, 2) == 3;
        return in_turn && read.at(1, 3) == 1;
      });
}

TEST(ring_orders, a_producer_writes_behind_the_producer_of_the_lap_before) {
  EXPECT_FALSE(finds_the_batch_of_the_lap_before({}));
  EXPECT_TRUE(finds_the_batch_of_the_lap_before({.pushed = relaxed}));
  EXPECT_TRUE(finds_the_batch_of_the_lap_before({.popped = relaxed}));
  EXPECT_TRUE(finds_the_batch_of_the_lap_before({.given_back = relaxed}));
  EXPECT_TRUE(finds_the_batch_of_the_lap_before({.claimed = relaxed}));
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

/// `pool_memory::create` marks an object as unfinished, fills the header, and marks it as a pool;
/// `read_layout` looks for the second mark. Whether it takes a header that is not filled.
bool attaches_half_a_header(order unfinished, order finished, order looked) {
  constexpr int magic = 0;
  constexpr int layout = 1;
  constexpr int pool = 2;
  return allows(
      {{store(magic, 1, unfinished), store(layout, 1, relaxed), store(magic, pool, finished)},
       {load(magic, looked), load(layout, relaxed)}},
      [](const readings& read) { return read.at(1, 0) == pool && read.at(1, 1) == 0; });
}

TEST(ring_orders, a_pool_that_is_marked_as_one_has_its_header) {
  EXPECT_FALSE(attaches_half_a_header(relaxed, release, acquire));
  EXPECT_TRUE(attaches_half_a_header(release, relaxed, acquire));
  EXPECT_TRUE(attaches_half_a_header(release, release, relaxed));
}

} // namespace
} // namespace peercache::litmus

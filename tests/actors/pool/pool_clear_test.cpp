// Tests of how the pool gives up the pages of cleared spaces.

#include "actors/pool/pool_clear.hpp"

#include "common/test_guards.hpp"
#include "tests/actors/pool_disk_fixture.hpp"

namespace peercache::actors {
namespace {

class pool_clear_test : public pool_disk_test {
protected:
  std::unique_ptr<storage::epoch_block> block = std::make_unique<storage::epoch_block>();
  storage::epoch_table epochs{*block};

  pool_clear_test() {
    stop(pool);
    pool_actor_options options;
    options.self = here.id;
    options.inc = here.inc;
    options.epochs = epochs;
    options.disk.gate = &gate;
    options.disk.slots = memory.slots();
    storage::page_pool_options taken_in;
    taken_in.epochs = epochs;
    pool = system.spawn(run_pool, options,
                        std::make_unique<storage::page_pool>(
                            memory.slots(),
                            storage::make_eviction_policy(storage::eviction_kind::lru, 64u << 12),
                            taken_in));
    caf::anon_send(pool, hello_atom_v, actor, from_here{});
    tell_everyone(both());
  }

  static page_key key_in(std::string_view space, int number, epoch_number epoch = 0) {
    auto key = key_space{std::span{&space, 1}}.key_of(std::to_string(number));
    set_epoch(key, epoch);
    return key;
  }
  std::uint64_t pages() { return count_of(pool, metric::pool_pages); }
  std::uint64_t give_up() {
    const auto pages_given_up = ask<std::uint64_t>(pool, clear_atom_v, from_here{});
    EXPECT_TRUE(pages_given_up);
    return *pages_given_up;
  }
  std::size_t known(const page_key& key) {
    return locations(shard_here, key).size() + locations(shard_there, key).size();
  }
};

TEST_F(pool_clear_test, gives_up_the_pages_of_the_space_and_no_others) {
  for (int number = 0; number < 10; ++number) {
    ASSERT_EQ(put(key_in("a", number)), page_status::stored);
    ASSERT_EQ(put(key_in("b", number)), page_status::stored);
  }
  epochs.raise(space_named("a"), 1);
  EXPECT_EQ(give_up(), 10u);
  EXPECT_EQ(pages(), 10u);
  for (int number = 0; number < 10; ++number) {
    EXPECT_EQ(known(key_in("a", number)), 0u) << "its records are withdrawn";
    EXPECT_EQ(known(key_in("b", number)), 2u);
  }
  EXPECT_EQ(disk->clears, 1u) << "and the disk is told";
  EXPECT_EQ(give_up(), 0u);
  epochs.raise(space_named("b"), 1);
  EXPECT_EQ(give_up(), 10u);
  EXPECT_EQ(count_of(pool, metric::cleared_pages_total, {"memory"}), 20u);
}

TEST_F(pool_clear_test, without_its_guard_pages_of_before_stay) {
  ASSERT_EQ(put(key_in("a", 1)), page_status::stored);
  epochs.raise(space_named("a"), 1);
  guard_switched_off off(guard::epoch);
  EXPECT_EQ(give_up(), 0u);
  EXPECT_EQ(pages(), 1u);
}

TEST_F(pool_clear_test, a_page_that_was_being_filled_is_not_taken_in) {
  const auto slot = reserve();
  epochs.raise(space_named("a"), 1);
  EXPECT_EQ(give_up(), 0u);
  EXPECT_EQ(commit(key_in("a", 1), slot), page_status::stored)
      << "as if it had been withdrawn since";
  EXPECT_EQ(pages(), 0u);
  EXPECT_EQ(known(key_in("a", 1)), 0u);
  EXPECT_EQ(count_of(pool, metric::pool_pages_filling), 0u) << "its slot is free";
  EXPECT_EQ(put(key_in("a", 1, 1)), page_status::stored) << "of the new epoch";
}

TEST_F(pool_clear_test, a_page_on_its_way_from_the_disk_is_not_taken_in) {
  std::string filled;
  append_record(filled, filled_slot{key_in("a", 1), 7, reserve(), 4096});
  epochs.raise(space_named("a"), 1);
  const auto answer = ask<std::string>(pool, restore_atom_v, filled, from_here{});
  ASSERT_TRUE(answer);
  std::array<directory::page_location, limits::locations_per_key_max> found;
  std::size_t count = 9;
  directory::answer_reader reader{*answer};
  ASSERT_TRUE(reader.next(found, count));
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(pages(), 0u);
  EXPECT_EQ(count_of(pool, metric::pool_pages_filling), 0u) << "its slot is free";
}

TEST_F(pool_clear_test, a_page_that_is_pinned_by_its_reader_is_given_up_all_the_same) {
  ASSERT_EQ(put(key_in("a", 1)), page_status::stored);
  const auto page = locations(shard_here, key_in("a", 1)).at(0);
  auto slots = memory.slots();
  ASSERT_EQ(slots.pin_if(page.slot, page.gen, key_in("a", 1), 4096), page_status::hit);
  epochs.raise(space_named("a"), 1);
  EXPECT_EQ(give_up(), 1u);
  EXPECT_NE(slots.check(page.slot, page.gen, key_in("a", 1), 4096), page_status::hit);
  slots.unpin(page.slot);
}

/// The pool clears by a walk over its pages. A caller that asks during a walk is answered after one
/// more walk, because the walk may already have passed pages of the space that the caller means.
TEST_F(pool_clear_test, who_asks_during_a_walk_is_answered_after_another_one) {
  ASSERT_EQ(put(key_in("a", 1)), page_status::stored);
  epochs.raise(space_named("a"), 1);
  auto first = self->request(pool, caf::infinite, clear_atom_v, from_here{});
  auto second = self->request(pool, caf::infinite, clear_atom_v, from_here{});
  settle();
  std::vector<std::uint64_t> given_up;
  for (auto* each : {&first, &second})
    each->receive([&](std::uint64_t count) { given_up.push_back(count); },
                  [](const caf::error&) { FAIL(); });
  EXPECT_EQ(given_up, (std::vector<std::uint64_t>{1, 0}));
}

} // namespace
} // namespace peercache::actors

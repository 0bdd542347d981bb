#include "actors/pool/pool_adoption.hpp"

#include "common/test_guards.hpp"
#include "tests/actors/pool_disk_fixture.hpp"
#include "tests/storage/left_pool.hpp"

#include <set>

namespace peercache::actors::pool_adoption_test {
namespace {

using storage::key_of;
constexpr std::uint32_t length = 4096;

/// A pool that an ended process has left, and the pool actor of the next process, which adopts its
/// pages.
class pool_adoption : public pool_disk_test {
protected:
  pool_adoption() { stop(pool); }

  void put_before(std::uint64_t first, std::uint64_t count) {
    for (auto number = first; number < first + count; ++number)
      storage::put(*before, memory.slots(), number, length);
  }

  void take_over(bool with_disk = false) {
    remains = storage::survey(memory.slots());
    pool_actor_options options;
    options.self = here.id;
    options.inc = here.inc;
    options.republish_rate = republish_rate;
    if (with_disk)
      options.disk = {&gate, memory.slots(), /*write_through=*/true};
    for (const auto& extent : remains.extents)
      if (extent.as == storage::claimed_extent::use::being_filled)
        options.adoption.being_filled.push_back(extent.slot);
    options.adoption.former_clients_are_dead = [this] { return former_clients_are_dead; };
    auto pages = storage::pool_of(memory.slots());
    pages->claim(remains);
    pool = system.spawn(run_pool, options, std::move(pages));
    if (with_disk)
      caf::anon_send(pool, hello_atom_v, actor, from_here{});
    settle();
  }

  void compare() {
    storage::remains_check check(memory.slots(), remains.extents);
    const std::atomic<bool> never{false};
    compare_remains(check, never, [this](std::string compared) {
      caf::anon_send(pool, adopt_atom_v, std::move(compared), from_here{});
    });
    settle();
  }

  std::uint64_t count(metric id, metrics::label_words words = {}) {
    return count_of(pool, id, words);
  }
  std::size_t known_at(const directory_actor& shard, std::uint64_t first, std::uint64_t count) {
    std::size_t known = 0;
    for (auto number = first; number < first + count; ++number)
      known += locations(shard, key_of(number)).size();
    return known;
  }

  std::unique_ptr<storage::page_pool> before = storage::pool_of(memory.slots());
  storage::pool_remains remains;
  bool former_clients_are_dead = true;
};

TEST_F(pool_adoption, pages_of_the_process_before_are_published_as_they_are) {
  put_before(1, 20);
  const auto page = *before->find(key_of(7));
  take_over();
  tell_everyone(both(2));
  EXPECT_EQ(known_at(shard_here, 1, 20), 0u) << "nobody has compared them";
  compare();
  EXPECT_EQ(known_at(shard_here, 1, 20), 20u);
  EXPECT_EQ(known_at(shard_there, 1, 20), 20u);
  const auto found = locations(shard_there, key_of(7)).at(0);
  EXPECT_EQ(found.holder, here.inc);
  EXPECT_EQ(found.gen, page.gen);
  EXPECT_EQ(found.slot, page.slot);
  EXPECT_EQ(found.checksum, page.checksum);
  EXPECT_EQ(count(metric::adopted_pages_total), 20u);
  EXPECT_EQ(count(metric::pool_pages_filling), 0u);
}

TEST_F(pool_adoption, pages_that_were_there_before_the_node_was_in_a_view_are_published_by_it) {
  put_before(1, 20);
  take_over();
  compare();
  tell_everyone(topology_of({{there, shard_there}}, 2)); // View 2 does not have the node yet.
  tell_everyone(both(3));
  pass(std::chrono::milliseconds(100));
  EXPECT_EQ(known_at(shard_here, 1, 20), 20u);
  EXPECT_EQ(known_at(shard_there, 1, 20), 20u);
}

TEST_F(pool_adoption, a_page_with_other_bytes_than_its_checksum_says_is_nobodys) {
  put_before(1, 20);
  const auto torn = before->find(key_of(7))->slot;
  memory.slots().bytes(torn, length)[100] ^= std::byte{4};
  take_over();
  tell_everyone(both(2));
  compare();
  EXPECT_TRUE(locations(shard_here, key_of(7)).empty());
  EXPECT_EQ(known_at(shard_here, 1, 20), 19u);
  EXPECT_EQ(count(metric::adopted_refused_total), 1u);
  EXPECT_EQ(count(metric::pool_bytes_used), 19u * length);
}

TEST_F(pool_adoption, without_its_guard_a_page_with_other_bytes_is_published) {
  put_before(1, 1);
  memory.slots().bytes(before->find(key_of(1))->slot, length)[100] ^= std::byte{4};
  guard_switched_off off(guard::adoption);
  take_over();
  tell_everyone(both(2));
  compare();
  EXPECT_EQ(known_at(shard_here, 1, 1), 1u);
}

TEST_F(pool_adoption, the_directory_hears_of_them_no_faster_than_the_budget_allows) {
  republish_rate = 200;
  put_before(1, 30);
  take_over();
  tell_everyone(both(2));
  compare();
  const auto known = [this] { return known_at(shard_here, 1, 30) + known_at(shard_there, 1, 30); };
  EXPECT_GE(known(), 1u);
  EXPECT_LE(known(), 50u) << "a quarter of a second's budget at once";
  for (int i = 0; i < 10; ++i)
    pass(std::chrono::milliseconds(50));
  EXPECT_EQ(known(), 60u);
}

TEST_F(pool_adoption, a_page_that_was_set_again_meanwhile_stays) {
  put_before(1, 3);
  take_over();
  tell_everyone(both(2));
  const auto slot = reserve();
  ASSERT_EQ(commit(key_of(2), slot), page_status::stored);
  compare();
  EXPECT_EQ(locations(shard_here, key_of(2)).at(0).slot, slot);
  EXPECT_EQ(count(metric::pool_pages), 3u);
  EXPECT_EQ(count(metric::pool_bytes_used), 3u * length);
}

TEST_F(pool_adoption, what_former_clients_may_write_to_is_nobodys_until_they_are_dead) {
  put_before(1, 3);
  const auto open = storage::filled(*before, memory.slots(), 4, length).slot;
  former_clients_are_dead = false;
  take_over();
  tell_everyone(both(2));
  compare();
  EXPECT_TRUE(locations(shard_here, key_of(4)).empty());
  const auto put_all_around = [&] {
    std::set<std::uint32_t> slots;
    for (std::uint64_t number = 100; number < 200; ++number) {
      const auto slot = reserve();
      slots.insert(slot.value);
      EXPECT_EQ(commit(key_of(number), slot), page_status::stored);
      pass(std::chrono::milliseconds(50));
    }
    return slots;
  };
  EXPECT_FALSE(put_all_around().contains(open.value));
  EXPECT_EQ(count(metric::pool_pages_filling), 1u);
  former_clients_are_dead = true;
  pass(std::chrono::milliseconds(50));
  EXPECT_EQ(count(metric::pool_pages_filling), 0u);
}

TEST_F(pool_adoption, pages_that_are_on_disk_too_are_known_to_be_there) {
  put_before(1, 20);
  for (std::uint64_t number = 1; number <= 20; ++number) {
    const auto page = *before->find(key_of(number));
    disk->pages[page.key] = {page.key, page.checksum, page.length_bytes, 0};
  }
  take_over(/*with_disk=*/true);
  tell_everyone(both(2));
  compare();
  pass(std::chrono::milliseconds(2000));
  EXPECT_EQ(kept(), 0u) << "nothing is written a second time";
  for (std::uint64_t number = 100; number < 180; ++number)
    put(key_of(number));
  pass(std::chrono::milliseconds(100));
  const auto found = locations(shard_here, key_of(1));
  ASSERT_EQ(found.size(), 1u) << "it left memory, and its place on disk is known";
  EXPECT_EQ(found[0].where, directory::tier::disk);
}

TEST_F(pool_adoption, ends_when_the_node_does) {
  put_before(1, 20);
  take_over();
  storage::remains_check check(memory.slots(), remains.extents);
  const std::atomic<bool> at_once{true};
  compare_remains(check, at_once, [](const std::string&) { FAIL() << "nobody listens"; });
}

} // namespace
} // namespace peercache::actors::pool_adoption_test

#include "common/test_guards.hpp"
#include "left_pool.hpp"
#include "storage/pool_header.hpp"
#include "storage/shared_object.hpp"
#include "storage/take_over_step.hpp"

#include <fcntl.h>
#include <filesystem>

namespace peercache::storage::pool_take_over_test {
namespace {

constexpr std::uint32_t length = 5000;
constexpr std::uint64_t pages = 100;

class pool_take_over : public testing::Test {
protected:
  ~pool_take_over() override { pool_memory::remove_leftovers(options); }

  void leave_pages() {
    leave_pool(options, [](page_pool& pool, slot_table slots) {
      for (std::uint64_t number = 1; number <= pages; ++number)
        put(pool, slots, number, length);
    });
  }
  /// Returns the names of all shared memory objects with the test's prefix.
  std::vector<std::string> objects() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      if (auto name = entry.path().filename().string(); name.starts_with(options.name_prefix))
        names.push_back("/" + name);
    return names;
  }
  static std::uint64_t count_held(const page_pool& pool, const slot_table& slots) {
    std::uint64_t held = 0;
    for (std::uint64_t number = 1; number <= pages; ++number)
      held += holds(pool, slots, number, length) ? 1 : 0;
    return held;
  }

  pool_memory_options options = pool_options_for("take-over");
};

TEST_F(pool_take_over, what_a_killed_process_left_is_there_with_all_its_pages) {
  leave_pages();
  auto memory = pool_memory::take_over(options);
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_EQ(memory->owner(), options.owner);
  EXPECT_EQ(objects(), std::vector{options.object_name()});
  EXPECT_EQ(memory->name(), options.object_name());
  adopted_pool after(memory->slots());
  EXPECT_EQ(after.adopted, pages);
  EXPECT_EQ(count_held(*after.pool, memory->slots()), pages);
  auto engine = pool_memory::attach(memory->name(), options.owner);
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_EQ(count_held(*after.pool, engine->slots()), pages);
}

TEST_F(pool_take_over, no_byte_of_a_removed_page_outlives_its_process_in_a_slot_that_is_free) {
  leave_pool(options, [](page_pool& pool, slot_table slots) {
    for (std::uint64_t number = 1; number <= pages; ++number)
      put(pool, slots, number, length);
    for (std::uint64_t number = 1; number <= pages; number += 2)
      ASSERT_TRUE(pool.remove(key_of(number), bytes_after::zeroed));
    // Zeroes only some of the removed pages before the process is killed.
    ASSERT_TRUE(pool.scrub(10 * length));
  });
  auto memory = pool_memory::take_over(options);
  ASSERT_TRUE(memory) << memory.error().message;
  adopted_pool after(memory->slots());
  EXPECT_EQ(count_held(*after.pool, memory->slots()), pages / 2);
  std::vector<evicted> victims;
  std::uint64_t room = 0;
  for (auto slot = after.pool->reserve(length, victims); victims.empty() && slot;
       slot = after.pool->reserve(length, victims), ++room)
    EXPECT_TRUE(is_all_zero(memory->slots().bytes(*slot, 2 * limits::granule_bytes)));
  EXPECT_EQ(room, options.size_bytes / limits::granule_bytes / 2 - pages / 2) << "all of it";
}

TEST_F(pool_take_over, no_byte_of_a_fill_outlives_its_process_where_that_is_wanted) {
  const page_pool_options zeroing{.scrub_evicted = true};
  leave_pool(
      options,
      [](page_pool& pool, slot_table slots) {
        for (std::uint64_t number = 1; number <= pages; ++number) {
          const auto slot = filled(pool, slots, number, length).slot;
          EXPECT_EQ(number % 2 == 0 && pool.abandon(slot), number % 2 == 0);
        }
        // Zeroes only some of the abandoned fills before the process is killed.
        ASSERT_TRUE(pool.scrub(10 * length));
      },
      zeroing);
  auto memory = pool_memory::take_over(options);
  ASSERT_TRUE(memory) << memory.error().message;
  adopted_pool after(memory->slots(), zeroing);
  after.end_fills();
  std::vector<evicted> victims;
  std::uint64_t room = 0;
  for (auto slot = after.pool->reserve(length, victims); slot;
       slot = after.pool->reserve(length, victims), ++room)
    EXPECT_TRUE(is_all_zero(memory->slots().bytes(*slot, 2 * limits::granule_bytes)));
  EXPECT_EQ(room, options.size_bytes / limits::granule_bytes / 2) << "all of it";
}

TEST_F(pool_take_over, nothing_left_is_not_found_and_a_living_process_is_left_alone) {
  EXPECT_EQ(pool_memory::take_over(options).error().code, errc::not_found);
  auto first = options;
  first.owner = incarnation::random();
  auto living = pool_memory::create(first);
  ASSERT_TRUE(living);
  EXPECT_EQ(pool_memory::take_over(options).error().code, errc::not_found);
  EXPECT_TRUE(pool_memory::attach(living->name(), first.owner));
}

TEST_F(pool_take_over, a_pool_outlives_its_owner_when_it_is_told_to) {
  auto first = options;
  first.owner = incarnation::random();
  {
    auto memory = pool_memory::create(first);
    ASSERT_TRUE(memory);
    auto pool = pool_of(memory->slots());
    put(*pool, memory->slots(), 1, length);
    memory->outlive(true);
  }
  auto memory = pool_memory::take_over(options);
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_EQ(adopted_pool(memory->slots()).adopted, 1u);
}

TEST_F(pool_take_over, other_options_are_refused_and_said) {
  leave_pages();
  const auto why_not = [](const pool_memory_options& others) {
    auto memory = pool_memory::take_over(others);
    EXPECT_FALSE(memory);
    return memory ? std::string{} : to_string(memory.error());
  };
  auto larger = options;
  larger.size_bytes *= 2;
  EXPECT_NE(why_not(larger).find("pool.size"), std::string::npos);
  auto elsewhere = options;
  elsewhere.cluster_name = "another";
  EXPECT_NE(why_not(elsewhere).find("another node or cluster"), std::string::npos);
  auto namesake = options;
  // A node called "node_1" gives its objects the same names as "node 1".
  namesake.node_name = "node_1";
  EXPECT_NE(why_not(namesake).find("another node or cluster"), std::string::npos);
  EXPECT_TRUE(pool_memory::take_over(options)) << "it is still there";
}

TEST_F(pool_take_over, what_a_node_of_a_longer_prefix_left_is_its_own) {
  leave_pages();
  auto shorter = options;
  shorter.name_prefix = options.name_prefix.substr(0, options.name_prefix.rfind('-'));
  ASSERT_TRUE(options.name_prefix.starts_with(shorter.name_prefix + "-"));
  EXPECT_EQ(pool_memory::remove_leftovers(shorter), 0u);
  EXPECT_TRUE(pool_memory::take_over(options)) << "it is still there";
}

TEST_F(pool_take_over, another_layout_version_is_refused_and_said) {
  leave_pages();
  ASSERT_EQ(objects().size(), 1u);
  const auto file = shared_object::open(objects().front(), O_RDWR);
  const std::uint32_t version = pool_layout_version - 1;
  ASSERT_EQ(::pwrite(file, &version, sizeof version, offsetof(pool_header, layout_version)), 4);
  ::close(file);
  const auto memory = pool_memory::take_over(options);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, errc::incompatible);
  EXPECT_NE(memory.error().message.find("layout version"), std::string::npos);
  ASSERT_TRUE(pool_memory::create(options));
  EXPECT_TRUE(objects().empty()) << "the new pool is over, the old one is freed";
}

TEST_F(pool_take_over, the_index_of_the_host_leads_to_nothing_that_was_not_adopted) {
  auto crashed = options;
  crashed.owner = incarnation::random();
  ASSERT_TRUE(was_killed(status_of([&] {
    auto memory = pool_memory::create(crashed);
    auto pool = pool_of(memory->slots());
    const auto slot = put(*pool, memory->slots(), 1, length);
    if (!memory->index().insert(key_of(1), slot) || !memory->index().find(key_of(1)))
      ::_exit(1);
    (void)std::raise(SIGKILL);
  })));
  auto memory = pool_memory::take_over(options);
  ASSERT_TRUE(memory);
  EXPECT_FALSE(memory->index().find(key_of(1)));
}

TEST_F(pool_take_over, clients_of_the_dead_process_are_known_until_they_let_go) {
  auto crashed = options;
  crashed.owner = incarnation::random();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const auto node = ::fork();
  if (node == 0) {
    auto memory = pool_memory::create(crashed);
    [[maybe_unused]] auto said = ::write(ready[1], "y", 1);
    for (;;)
      ::pause();
  }
  char said = 'n';
  ASSERT_EQ(::read(ready[0], &said, 1), 1);
  auto engine = pool_memory::attach(crashed.object_name(), crashed.owner);
  ASSERT_TRUE(engine) << engine.error().message;
  ASSERT_TRUE(engine->lock_session(3));
  ::kill(node, SIGKILL);
  ::waitpid(node, nullptr, 0);
  auto memory = pool_memory::take_over(options);
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_FALSE(memory->former_clients_are_dead());
  {
    guard_switched_off off(guard::session_lock);
    EXPECT_TRUE(memory->former_clients_are_dead());
  }
  // In the new pool nobody has locked session 3. The former process's session 3 may still be
  // locked.
  EXPECT_TRUE(memory->session_is_dead(3));
  auto own = pool_memory::attach(memory->name(), options.owner);
  ASSERT_TRUE(own);
  EXPECT_TRUE(own->lock_session(3));
  EXPECT_FALSE(memory->session_is_dead(3));
  { [[maybe_unused]] const auto gone = std::move(*engine); }
  EXPECT_TRUE(memory->former_clients_are_dead());
}

TEST_F(pool_take_over, memory_that_is_made_anew_is_not_what_was_mapped_before) {
  leave_pages();
  auto memory = pool_memory::take_over(options);
  ASSERT_TRUE(memory);
  const auto slots = memory->slots();
  ASSERT_NE(slots.bytes({0}, 1)[0], std::byte{0});
  const auto beside = slots.bytes({2}, 1)[0];
  ASSERT_TRUE(memory->make_anew({0}, 2));
  for (const auto byte : slots.bytes({0}, 2 * limits::granule_bytes))
    ASSERT_EQ(byte, std::byte{0});
  EXPECT_EQ(slots.bytes({2}, 1)[0], beside);
}

class killed_take_over : public pool_take_over,
                         public testing::WithParamInterface<take_over_step> {};

TEST_P(killed_take_over, leaves_a_pool_that_the_next_one_takes_over) {
  leave_pool(options, [](page_pool& pool, slot_table slots) {
    for (std::uint64_t number = 1; number <= pages; ++number)
      put(pool, slots, number, length);
    const auto torn = put(pool, slots, pages + 1, length);
    slots.bytes(torn, length)[9] ^= std::byte{1};
    put(pool, slots, pages + 2, length); // The page is published again below without a checksum.
    const auto none = pool.find(key_of(pages + 2));
    slots.give_up(none->slot);
    slots.publish(none->slot, none->key, length, 0, pool.newest());
  });
  for (int times = 0; times < 2; ++times) {
    auto killed = options;
    killed.owner = incarnation::random();
    EXPECT_TRUE(was_killed(status_of([&] {
      const fault_injected here(fault::take_over_kill_point,
                                static_cast<std::uint32_t>(GetParam()));
      auto memory = pool_memory::take_over(killed);
      if (memory)
        adopted_pool after(memory->slots());
    }))) << "a step that nobody reaches";
    if (GetParam() >= take_over_step::entry_withdrawn)
      // One process has died after this step, so the next one does not come to the step again.
      break;
  }
  auto memory = pool_memory::take_over(options);
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_EQ(objects(), std::vector{options.object_name()});
  adopted_pool after(memory->slots());
  EXPECT_EQ(count_held(*after.pool, memory->slots()), pages);
  EXPECT_EQ(after.adopted, pages);
  EXPECT_TRUE(memory->session_is_dead(0));
  EXPECT_TRUE(memory->former_clients_are_dead());
}

INSTANTIATE_TEST_SUITE_P(
    at, killed_take_over,
    testing::Values(take_over_step::locked, take_over_step::renamed, take_over_step::sessions_moved,
                    take_over_step::owner_written, take_over_step::index_cleared,
                    take_over_step::entry_withdrawn, take_over_step::page_compared,
                    take_over_step::page_refused),
    [](const auto& info) {
      return "step_" + std::to_string(static_cast<std::uint32_t>(info.param));
    });

TEST_F(pool_take_over, what_was_cleared_is_known_to_who_comes_after) {
  auto crashed = options;
  crashed.owner = incarnation::random();
  ASSERT_TRUE(was_killed(status_of([&] {
    auto memory = pool_memory::create(crashed);
    if (!memory)
      ::_exit(1);
    memory->epochs().raise(space_named("a"), 3);
    memory->epochs().close();
    (void)std::raise(SIGKILL);
  })));
  auto memory = pool_memory::take_over(options);
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_EQ(memory->epochs().epoch_of(space_named("a")), 3u);
  EXPECT_TRUE(memory->epochs().closed()) << "it has not heard what was cleared since";
}

} // namespace
} // namespace peercache::storage::pool_take_over_test

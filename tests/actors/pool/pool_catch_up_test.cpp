// Tests that pages which are only in memory are written to disk when the disk has time, and before
// the node leaves.

#include "actors/gateway/gateway_actor.hpp"
#include "link/beats.hpp"
#include "tests/actors/pool_disk_fixture.hpp"

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;

class pool_catch_up_test : public pool_disk_test {
protected:
  void put_some(int count) {
    for (int i = 0; i < count; ++i)
      ASSERT_EQ(put(key_named("page " + std::to_string(i))), page_status::stored);
  }

  /// Puts pages while the gate to the disk is full, so that they are not written at once.
  void put_past_the_gate(int count) {
    ASSERT_TRUE(gate.enter(1u << 20));
    put_some(count);
    ASSERT_EQ(kept(), 0u);
    gate.leave(1u << 20);
  }

  struct outcome {
    std::uint64_t written = UINT64_MAX;
    std::uint64_t left = UINT64_MAX;
    bool answered() const { return written != UINT64_MAX; }
  };

  /// Asks the pool to write all pages to disk, calls `meanwhile` before the pool answers, and
  /// returns the answer.
  outcome write_out(std::uint32_t within_ms, const std::function<void()>& meanwhile) {
    auto pending = self->request(pool, caf::infinite, write_atom_v, within_ms, from_here{});
    settle();
    meanwhile();
    outcome said;
    pending.receive(
        [&](std::uint64_t written, std::uint64_t left) {
          said = {written, left};
        },
        [](const caf::error&) {});
    return said;
  }
};

TEST_F(pool_catch_up_test, what_found_the_queue_full_is_written_when_it_is_empty) {
  put_past_the_gate(20);
  pass(60ms);
  EXPECT_EQ(kept(), 20u);
  write_all();
  for (int i = 0; i < 40; ++i)
    pass(60ms);
  EXPECT_EQ(kept(), 0u) << "and once only";
}

TEST_F(pool_catch_up_test, what_the_disk_gave_up_for_others_is_not_written_again_at_leisure) {
  put_some(3);
  write_all();
  caf::anon_send(pool, gone_atom_v, std::uint64_t{7}, keys_of({"page 0", "page 1"}), from_here{});
  for (int i = 0; i < 40; ++i)
    pass(60ms);
  EXPECT_EQ(kept(), 0u);
  const auto said = write_out(1000, [this] {
    EXPECT_EQ(kept(), 2u) << "the node goes";
    write_all();
  });
  EXPECT_EQ(said.left, 0u);
}

TEST_F(pool_catch_up_test, what_a_full_device_refused_is_written_when_it_takes_pages_again) {
  gate.set_open(false);
  put_some(20);
  for (int i = 0; i < 40; ++i)
    pass(60ms);
  EXPECT_EQ(kept(), 0u);
  gate.set_open(true);
  pass(link::rest_period); // The time between two beats of a pool that has nothing to do.
  EXPECT_EQ(kept(), 20u);
}

TEST_F(pool_catch_up_test, half_of_the_way_to_the_disk_is_for_what_is_set) {
  put_past_the_gate(20);
  const std::uint64_t others = (1u << 19) - 4 * 4096;
  ASSERT_TRUE(gate.enter(others));
  pass(60ms);
  EXPECT_EQ(kept(), 4u);
  ASSERT_EQ(put(key_named("new")), page_status::stored);
  EXPECT_EQ(kept(), 5u);
  gate.leave(others);
  pass(60ms);
  EXPECT_EQ(kept(), 21u) << "it goes on with the first one that had no room";
}

TEST_F(pool_catch_up_test, a_disk_that_loses_what_it_is_given_is_not_asked_without_a_pause) {
  put_past_the_gate(20);
  std::size_t given = 0;
  for (int i = 0; i < 200; ++i) { // Ten seconds.
    pass(50ms);
    given += kept();
    lose_all();
  }
  EXPECT_GE(given, 40u) << "it is tried again";
  EXPECT_LE(given, 100u) << "after 1, 2 and 4 s";
}

TEST_F(pool_catch_up_test, with_on_evict_pages_stay_in_memory_until_somebody_asks) {
  use(/*write_through=*/false);
  tell_everyone(both(2));
  put_some(20);
  for (int i = 0; i < 40; ++i)
    pass(60ms);
  EXPECT_EQ(kept(), 0u);
  const auto said = write_out(10'000, [&] {
    EXPECT_EQ(kept(), 20u);
    write_all();
  });
  EXPECT_EQ(said.written, 20u);
  EXPECT_EQ(said.left, 0u);
}

TEST_F(pool_catch_up_test, whoever_waits_hears_what_is_left_when_the_time_is_over) {
  for (const auto* name : {"a", "b", "c"})
    ASSERT_EQ(put(key_named(name)), page_status::stored);
  // Leaves room for three pages at the gate to the disk. The disk takes these pages, and then
  // hangs.
  ASSERT_TRUE(gate.enter((1u << 20) - 3 * 4096));
  put_some(20);
  const auto said = write_out(500, [&] {
    for (int i = 0; i < 8; ++i)
      pass(50ms);
    write_all();
    for (int i = 0; i < 4; ++i)
      pass(50ms);
  });
  EXPECT_EQ(said.written, 3u);
  EXPECT_EQ(kept(), 3u) << "in the room that the first three had had";
  EXPECT_EQ(said.left, 20u) << "what is on its way is not there";
  lose_all();
}

TEST_F(pool_catch_up_test, nobody_waits_for_a_disk_that_takes_nothing) {
  gate.set_open(false);
  put_some(20);
  const auto shut = write_out(60'000, [] {});
  EXPECT_EQ(shut.written, 0u);
  EXPECT_EQ(shut.left, 20u);
  gate.set_open(true);
  const auto failing = write_out(60'000, [&] {
    lose_all();
    pass(60ms);
  });
  EXPECT_EQ(failing.left, 20u);
}

TEST_F(pool_catch_up_test, a_pool_without_a_disk_has_nothing_to_write) {
  stop(pool);
  pool = spawn_pool();
  tell_everyone(both());
  put_some(3);
  EXPECT_EQ(write_out(60'000, [] {}).left, 0u);
}

// -- tests of pools of a node that leaves

membership_actor::behavior_type membership_of_one(membership_actor::pointer, bool* left) {
  return {[](packet_atom, const std::string&) {},
          [](beat_atom, from_here) {},
          [left](leave_atom, from_here) { return *left = true; },
          [](drain_atom, bool, from_here) { return true; },
          [](forget_atom, const std::string&, from_here) { return false; },
          [](stats_atom) { return nothing_of_membership(); },
          [](view_atom) { return std::string{}; }};
}

class node_with_a_disk : public pool_catch_up_test {
protected:
  node_with_a_disk() {
    use(/*write_through=*/false);
    tell_everyone(both(2));
    gateway_options options;
    options.cluster = "test";
    options.self = here;
    options.directory = shard_here;
    options.membership = membership;
    options.pool = pool;
    options.promoter = promoter;
    options.drain_timeout = 1000ms;
    options.hand_over_timeout = 100ms;
    options.session_is_dead = [](std::uint32_t) { return false; };
    options.ready = [](bool, const std::string&) {};
    gateway = system.spawn(run_gateway, std::move(options));
    promoter_options promotes;
    promotes.pool = pool;
    promotes.disk = actor;
    stop(promoter);
    promoter = system.spawn(run_promoter, promotes);
  }
  ~node_with_a_disk() override {
    stop(gateway);
    stop(membership);
  }

  bool found(const std::string& name) { return !locations(shard_there, key_named(name)).empty(); }

  bool left = false;
  membership_actor membership = system.spawn(membership_of_one, &left);
  gateway_actor gateway;
};

TEST_F(node_with_a_disk, writes_its_pages_before_it_withdraws_them) {
  put_some(20);
  auto leaving = self->request(gateway, caf::infinite, drain_atom_v);
  settle();
  EXPECT_EQ(kept(), 20u);
  EXPECT_TRUE(found("page 7")) << "readers are still served";
  EXPECT_FALSE(left);
  write_all();
  for (int i = 0; i < 10; ++i)
    pass(50ms);
  EXPECT_FALSE(found("page 7"));
  EXPECT_TRUE(left);
  leaving.receive([](bool) {}, [](const caf::error&) { FAIL(); });
}

TEST_F(node_with_a_disk, goes_in_time_though_the_disk_hangs) {
  put_some(20);
  auto leaving = self->request(gateway, caf::infinite, drain_atom_v);
  settle();
  for (int i = 0; i < 13; ++i)
    pass(50ms);
  EXPECT_TRUE(found("page 7"));
  for (int i = 0; i < 5; ++i)
    pass(50ms);
  EXPECT_TRUE(left) << "0.9 s of its 1 s";
  leaving.receive([](bool) {}, [](const caf::error&) { FAIL(); });
  lose_all();
}

TEST_F(node_with_a_disk, that_is_drained_has_its_pages_on_disk_and_serves_them) {
  put_some(20);
  auto drained = self->request(gateway, caf::infinite, drain_atom_v, true);
  settle();
  EXPECT_EQ(kept(), 20u);
  write_all();
  for (int i = 0; i < 10; ++i)
    pass(50ms);
  drained.receive([](const drain_report& came_to) { EXPECT_TRUE(came_to.complete()); },
                  [](const caf::error&) { FAIL(); });
  EXPECT_TRUE(found("page 7"));
}

} // namespace
} // namespace peercache::actors

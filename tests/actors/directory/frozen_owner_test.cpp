// Tests of a pool when one of its directory owners is frozen.

#include "common/beat_time.hpp"
#include "link/beats.hpp"
#include "tests/actors/cluster_fixture.hpp"

namespace peercache::actors {
namespace {

/// The shard of the node `there` is frozen, and connections to it still stand.
class frozen_owner_test : public cluster_fixture {
protected:
  void SetUp() override {
    const auto freeze = [](caf::event_based_actor* frozen, const std::string&) -> caf::behavior {
      frozen->set_default_handler(caf::skip);
      return {[](caf::ok_atom) {}};
    };
    // `freeze` takes an argument: without one CAF binds a reference to null, which UBSan reports.
    stopped = system.spawn(freeze, std::string{});
    send_topology(shard_there, both());
    tell_everyone(
        topology_of({{here, shard_here}, {there, caf::actor_cast<directory_actor>(stopped)}}, 1));
  }
  void TearDown() override {
    caf::anon_send_exit(stopped, caf::exit_reason::kill);
    settle();
  }

  using response = decltype(self->request(pool, caf::infinite, commit_atom_v, std::string{},
                                          std::uint8_t{}, std::string{}, from_here{}));
  response begin_commit(const page_key& key) {
    auto pending =
        self->request(pool, caf::infinite, commit_atom_v, fill_slot(key, reserve()),
                      static_cast<std::uint8_t>(commit_mode::skip), std::string{}, from_here{});
    settle();
    return pending;
  }
  static page_status answer_to(response& pending) {
    auto status = page_status::pending;
    pending.receive([&](const std::string& statuses,
                        const std::string&) { status = static_cast<page_status>(statuses.at(0)); },
                    [](const caf::error&) { FAIL() << "commit was refused"; });
    return status;
  }
  bool is_answered() { return self->has_next_message(); }

  caf::actor stopped;
};

/// Once a removal is answered, no owner names the page to anybody, except an owner that is frozen.
TEST_F(frozen_owner_test,
       a_removal_is_answered_when_the_others_have_withdrawn_and_time_has_passed) {
  auto stored = begin_commit(key_named("a"));
  ASSERT_EQ(answer_to(stored), page_status::stored);
  std::string keys;
  append_record(keys, key_named("a"));
  auto removal = self->request(pool, caf::infinite, remove_atom_v, keys, from_here{});
  settle();
  ASSERT_FALSE(is_answered());
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
  pass(std::chrono::milliseconds(300));
  ASSERT_TRUE(is_answered());
  removal.receive(
      [](const std::string& statuses) {
        EXPECT_EQ(static_cast<page_status>(statuses.at(0)), page_status::hit);
      },
      [](const caf::error&) { FAIL() << "removal was refused"; });
}

TEST_F(frozen_owner_test, a_removal_is_answered_in_time_though_the_pool_had_nothing_to_do) {
  tell_everyone(both(1));
  auto stored = begin_commit(key_named("a"));
  ASSERT_EQ(answer_to(stored), page_status::stored);
  for (int i = 0; i < 60; ++i)
    pass(std::chrono::milliseconds(50));
  tell_everyone(
      topology_of({{here, shard_here}, {there, caf::actor_cast<directory_actor>(stopped)}}, 1));
  while (next_beat(scheduler().clock().now(), link::rest_period) - scheduler().clock().now() <
         std::chrono::milliseconds(450))
    pass(std::chrono::milliseconds(10));
  std::string keys;
  append_record(keys, key_named("a"));
  auto removal = self->request(pool, caf::infinite, remove_atom_v, keys, from_here{});
  settle();
  ASSERT_FALSE(is_answered());
  pass(std::chrono::milliseconds(300));
  ASSERT_TRUE(is_answered());
  removal.receive([](const std::string&) {},
                  [](const caf::error&) { FAIL() << "removal was refused"; });
}

TEST_F(frozen_owner_test, a_commit_is_done_when_one_owner_has_it) {
  auto pending = begin_commit(key_named("a"));
  ASSERT_TRUE(is_answered()) << "no time has passed";
  EXPECT_EQ(answer_to(pending), page_status::stored);
  EXPECT_EQ(locations(shard_here, key_named("a")).size(), 1u);
  pass(std::chrono::milliseconds(1000)); // The request to the frozen owner times out.
  tell_everyone(both(1));
  pass(std::chrono::milliseconds(50)); // The pool tells the owner again.
  EXPECT_EQ(locations(shard_there, key_named("a")).size(), 1u);
}

TEST_F(frozen_owner_test, a_page_that_one_owner_knows_elsewhere_waits_a_quarter_of_a_second) {
  ask<std::string>(shard_here, publish_atom_v, publication(key_named("a"), there));
  auto pending = begin_commit(key_named("a"));
  EXPECT_FALSE(is_answered()) << "the other owner may rely on this copy";
  for (int i = 0; i < 6; ++i)
    pass(std::chrono::milliseconds(50));
  ASSERT_TRUE(is_answered());
  EXPECT_EQ(answer_to(pending), page_status::stored) << "and others find it";
}

TEST_F(frozen_owner_test, a_page_that_no_owner_has_heard_of_is_not_published) {
  tell_everyone(topology_of({{here, caf::actor_cast<directory_actor>(stopped)}, {there, {}}}, 1));
  auto pending = begin_commit(key_named("a"));
  EXPECT_FALSE(is_answered());
  for (int i = 0; i < 6; ++i)
    pass(std::chrono::milliseconds(50));
  ASSERT_TRUE(is_answered());
  EXPECT_EQ(answer_to(pending), page_status::unreachable);
  EXPECT_EQ(count_of(pool, metric::pool_pages), 1u) << "its own host has it";
  pass(std::chrono::milliseconds(1000));
  tell_everyone(both(1));
  pass(std::chrono::milliseconds(50));
  for (const auto& shard : {shard_here, shard_there})
    EXPECT_EQ(locations(shard, key_named("a")).size(), 1u);
}

} // namespace
} // namespace peercache::actors

#include "actors/directory_door.hpp"

#include "tests/actors/cluster_fixture.hpp"

#include <gtest/gtest.h>

namespace peercache::actors {
namespace {

/// The door of the directory `here`, behind which nobody answers until `end_keeper`.
class directory_door_test : public cluster_fixture {
protected:
  ~directory_door_test() override {
    end_keeper();
    stop(door);
  }

  directory_actor mute() {
    const auto freeze = [](caf::event_based_actor* frozen, const std::string&) -> caf::behavior {
      frozen->set_default_handler(caf::skip);
      return {[](caf::ok_atom) {}};
    };
    // `freeze` takes an argument: without one CAF binds a reference to null, which UBSan reports.
    return caf::actor_cast<directory_actor>(system.spawn(freeze, std::string{}));
  }
  /// All that was passed on fails.
  void end_keeper() {
    if (keeper)
      caf::anon_send_exit(keeper, caf::exit_reason::kill);
    keeper = nullptr;
    settle();
  }
  /// Publishes the first record, for which the shard grows.
  void make_memory() {
    EXPECT_TRUE(own_shard->lock()->publish(publication(key_named("first"), there)));
  }
  std::size_t records() { return own_shard->lock()->records().locations(); }
  void send_publication(const std::string& name) {
    caf::anon_send(door, publish_atom_v, publication(key_named(name), there), std::uint64_t{1},
                   std::uint64_t{1});
    settle();
  }

  directory_actor keeper = mute();
  directory_actor door =
      system.spawn(run_directory_door, directory_door_options{own_shard, keeper});
};

TEST_F(directory_door_test, makes_small_changes_without_the_keeper) {
  tell_everyone(both());
  make_memory();
  const auto said = ask<std::string>(door, publish_atom_v, publication(key_named("a"), there),
                                     std::uint64_t{1}, std::uint64_t{1});
  ASSERT_TRUE(said);
  EXPECT_EQ(*said, std::string(1, static_cast<char>(directory::publish_outcome::accepted)));
  EXPECT_EQ(records(), 2u);
  std::string withdrawal;
  directory::append_withdraw(withdrawal, {key_named("a"), there.inc, {2}});
  EXPECT_EQ(ask<std::uint64_t>(door, withdraw_atom_v, withdrawal), 1u);
  EXPECT_EQ(records(), 1u);
  EXPECT_FALSE(ask<std::string>(door, publish_atom_v, std::string("no batch")));
}

TEST_F(directory_door_test, lets_nothing_overtake_what_the_keeper_has_not_answered) {
  tell_everyone(both());
  make_memory();
  caf::anon_send(door, compare_atom_v, std::string("a comparison"));
  settle();
  send_publication("a");
  EXPECT_EQ(records(), 1u) << "the keeper has it, behind the comparison";
  end_keeper();
  send_publication("b");
  EXPECT_EQ(records(), 2u) << "nothing is left behind which it would have to wait";
}

TEST_F(directory_door_test, passes_large_batches_on) {
  tell_everyone(both());
  std::string batch;
  for (int i = 0; i < 64; ++i)
    batch += publication(key_named(std::to_string(i)), there);
  make_memory();
  caf::anon_send(door, publish_atom_v, batch, std::uint64_t{1}, std::uint64_t{1});
  settle();
  EXPECT_EQ(records(), 1u);
}

TEST_F(directory_door_test, answers_as_the_keeper_does) {
  auto whole = system.spawn(run_directory_door, directory_door_options{own_shard, shard_here});
  tell_everyone(both());
  std::string batch;
  for (int i = 0; i < 64; ++i)
    batch += publication(key_named(std::to_string(i)), there);
  const auto said = ask<std::string>(whole, publish_atom_v, batch);
  ASSERT_TRUE(said);
  EXPECT_EQ(*said, std::string(64, static_cast<char>(directory::publish_outcome::accepted)));
  EXPECT_EQ(records(), 64u);
  EXPECT_EQ(locations(whole, key_named("7")).size(), 1u);
  EXPECT_EQ(count_of(whole, metric::directory_publishes_total), 64u);
  stop(whole);
}

} // namespace
} // namespace peercache::actors

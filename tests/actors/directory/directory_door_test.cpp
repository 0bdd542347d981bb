#include "actors/directory/directory_door.hpp"

#include "link/system_config.hpp"
#include "storage/epoch_table.hpp"
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
  /// Returns more publications than the door applies at once.
  std::string many_publications() {
    std::string batch;
    for (int i = 0; i < 64; ++i)
      batch += publication(key_named(std::to_string(i)), there);
    return batch;
  }
  std::string publication_if_absent(const page_key& key, const discovery::member& owner) {
    auto batch = publication(key, owner);
    batch[batch.size() - 4] = static_cast<char>(directory::publish_mode::if_absent);
    return batch;
  }
  /// Returns the answer to the publication of one record.
  static std::string said(directory::publish_outcome outcome) {
    return std::string(1, static_cast<char>(outcome));
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

TEST_F(directory_door_test, lets_no_change_overtake_one_that_the_keeper_has_not_answered) {
  tell_everyone(both());
  make_memory();
  caf::anon_send(door, publish_atom_v, many_publications());
  settle();
  send_publication("a");
  EXPECT_EQ(records(), 1u) << "the keeper has it, behind the others";
  end_keeper();
  send_publication("b");
  EXPECT_EQ(records(), 2u) << "nothing is left behind which it would have to wait";
}

/// Questions change nothing, so a comparison of all nodes' records does not slow changes down.
TEST_F(directory_door_test, makes_changes_while_the_keeper_has_yet_to_answer_questions) {
  tell_everyone(both());
  make_memory();
  caf::anon_send(door, compare_atom_v, std::string("a comparison"));
  caf::anon_send(door, list_atom_v, std::string("a request"));
  settle();
  send_publication("a");
  EXPECT_EQ(records(), 2u);
}

/// A holder is lost, of which the directory has yet to hear: its copy makes no other one useless.
TEST_F(directory_door_test, lets_no_change_overtake_a_lost_connection_of_which_the_keeper_hears) {
  auto whole = system.spawn(run_directory_door, directory_door_options{own_shard, shard_here});
  tell_everyone(both());
  make_memory();
  auto cut_off = std::make_shared<topology>(*both());
  for (auto& peer : cut_off->peers) {
    peer.tried = true;
    if (peer.self.inc == there.inc)
      peer.directory = nullptr;
  }
  const auto if_absent = publication_if_absent(key_named("first"), here);
  EXPECT_EQ(*ask<std::string>(whole, publish_atom_v, if_absent),
            said(directory::publish_outcome::duplicate));
  send_topology(shard_here, cut_off);
  auto pending = self->request(whole, caf::infinite, publish_atom_v, if_absent);
  scheduler().prioritize(whole);
  scheduler().run_once();
  settle();
  pending.receive(
      [](const std::string& outcome) {
        EXPECT_EQ(outcome, said(directory::publish_outcome::accepted));
      },
      [](const caf::error&) { ADD_FAILURE() << "no answer"; });
  stop(whole);
}

TEST_F(directory_door_test, passes_large_batches_on) {
  tell_everyone(both());
  make_memory();
  caf::anon_send(door, publish_atom_v, many_publications(), std::uint64_t{1}, std::uint64_t{1});
  settle();
  EXPECT_EQ(records(), 1u);
}

/// Small batches, which the door mostly applies itself, and the same ones at a shard like it.
TEST_F(directory_door_test, answers_as_the_keeper_does) {
  storage::epoch_block block;
  storage::epoch_table epochs{block};
  directory_options options;
  options.self = here.id;
  options.epochs = epochs;
  auto twin = spawn_shard(options);
  auto other = spawn_shard(options);
  const auto shard = shards.at(other.id());
  auto whole = system.spawn(run_directory_door, directory_door_options{shard, other});
  for (const auto& each : {twin, other})
    send_topology(each, both(2));
  settle();
  const auto publish_at_both = [&](const std::string& batch, std::uint64_t version = 2) {
    const auto expected = ask<std::string>(twin, publish_atom_v, batch, std::uint64_t{1}, version);
    const auto got = ask<std::string>(whole, publish_atom_v, batch, std::uint64_t{1}, version);
    EXPECT_EQ(expected ? *expected : "refused", got ? *got : "refused");
    return expected ? *expected : "refused";
  };
  const auto withdraw_at_both = [&](const std::string& batch) {
    const auto expected = ask<std::uint64_t>(twin, withdraw_atom_v, batch);
    const auto got = ask<std::uint64_t>(whole, withdraw_atom_v, batch);
    EXPECT_EQ(expected ? *expected : 99, got ? *got : 99);
    return expected ? *expected : 99;
  };
  const auto withdrawal = [&](std::uint64_t gen) {
    std::string batch;
    directory::append_withdraw(batch, {key_named("a"), there.inc, {gen}});
    return batch;
  };
  using directory::publish_outcome;
  EXPECT_EQ(publish_at_both(many_publications()), std::string(64, '\0'));
  EXPECT_EQ(shard->counted().published, 0u);
  EXPECT_EQ(publish_at_both(publication(key_named("a"), there, 4)),
            said(publish_outcome::accepted));
  EXPECT_EQ(shard->counted().published, 1u) << "the door has done it";
  EXPECT_EQ(publish_at_both(publication_if_absent(key_named("a"), here)),
            said(publish_outcome::duplicate));
  publish_at_both(publication(key_named("a"), there, 2)); // An older page of the holder.
  EXPECT_EQ(publish_at_both(publication(key_named("b"), link::member_named("other", 9))),
            said(publish_outcome::unknown_holder));
  EXPECT_EQ(publish_at_both("no batch"), "refused");
  EXPECT_EQ(shard->counted().published, 4u);
  EXPECT_EQ(publish_at_both(publication(key_named("b"), there), 9), said(publish_outcome::behind));
  EXPECT_EQ(withdraw_at_both(withdrawal(2)), 0u);
  EXPECT_EQ(withdraw_at_both(withdrawal(4)), 1u);
  EXPECT_EQ(withdraw_at_both("no batch"), 99u);
  EXPECT_EQ(locations(whole, key_named("7")).size(), 1u);
  epochs.raise(space_of(key_named("c")), 1);
  publish_at_both(publication(key_named("c"), there)); // A cleared page.
  EXPECT_EQ(count_of(whole, metric::directory_publishes_total),
            count_of(twin, metric::directory_publishes_total));
  stop(whole);
  stop(other);
  stop(twin);
}

/// A node spawns its door with this call.
TEST(directory_door, runs_in_the_loop_of_the_sockets) {
  link::system_config config{1};
  caf::actor_system system{config};
  directory_options options;
  const auto shard = make_shard(options);
  auto keeper = system.spawn(run_directory, options, shard);
  auto door = spawn_directory_door(system, {shard, keeper});
  const auto* spawned = dynamic_cast<caf::resumable*>(caf::actor_cast<caf::abstract_actor*>(door));
  ASSERT_NE(spawned, nullptr);
  EXPECT_EQ(spawned->subtype(), caf::resumable::io_actor);
  caf::anon_send_exit(door, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(keeper, caf::exit_reason::user_shutdown);
}

} // namespace
} // namespace peercache::actors

#include "tests/actors/cluster_fixture.hpp"

namespace peercache::actors {
namespace {

using directory_actor_test = cluster_fixture;

TEST_F(directory_actor_test, answers_a_lookup_with_what_was_published) {
  tell_everyone(both());
  auto outcome = ask<std::string>(shard_here, publish_atom_v, publication(key_named("a"), there));
  ASSERT_TRUE(outcome);
  EXPECT_EQ(static_cast<directory::publish_outcome>(outcome->at(0)),
            directory::publish_outcome::accepted);
  auto found = locations(shard_here, key_named("a"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].owner, there.inc);
}

TEST_F(directory_actor_test, answers_a_malformed_batch_with_an_error) {
  tell_everyone(both());
  EXPECT_FALSE(ask<std::string>(shard_here, publish_atom_v, std::string{"short"}));
  EXPECT_FALSE(ask<std::string>(shard_here, lookup_atom_v, std::string(33, 'x')));
}

TEST_F(directory_actor_test, knows_nobody_before_the_first_view) {
  auto outcome = ask<std::string>(shard_here, publish_atom_v, publication(key_named("a"), there));
  EXPECT_EQ(static_cast<directory::publish_outcome>(outcome->at(0)),
            directory::publish_outcome::unknown_owner);
}

TEST_F(directory_actor_test, forgets_the_records_of_a_member_that_is_gone) {
  tell_everyone(both(1));
  ask<std::string>(shard_here, publish_atom_v, publication(key_named("a"), there));
  tell_everyone(topology_of({{here, shard_here}}, 2));
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
}

TEST_F(directory_actor_test, knows_nothing_while_the_cluster_goes_on_without_it) {
  using directory::publish_outcome;
  auto outcome_of_publish = [&] {
    auto outcome = ask<std::string>(shard_here, publish_atom_v, publication(key_named("a"), there));
    return static_cast<publish_outcome>(outcome->at(0));
  };
  tell_everyone(both(1));
  ASSERT_EQ(outcome_of_publish(), publish_outcome::accepted);
  expel(shard_here, topology_of({{there, shard_there}}, 2));
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
  EXPECT_EQ(outcome_of_publish(), publish_outcome::unknown_owner);
  tell_everyone(both(1)); // A connection changed.
  EXPECT_EQ(outcome_of_publish(), publish_outcome::unknown_owner);
  tell_everyone(both(3));
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
  EXPECT_EQ(outcome_of_publish(), publish_outcome::accepted);
}

TEST_F(directory_actor_test, keeps_foreign_keys_for_the_grace_time_only) {
  // With one replica and two members every key has one owner, and some key is not ours.
  directory_options options;
  options.self = here.id;
  options.replicas = 1;
  auto shard = system.spawn(run_directory, options);
  caf::anon_send(shard, topology_atom_v, topology_of({{here, shard}}, 1));
  auto cluster = both(2);
  page_key foreign;
  for (int i = 0; cluster->ring.owns(here.id, foreign = key_named(std::to_string(i)), 1); ++i) {
  }
  ask<std::string>(shard, publish_atom_v, publication(foreign, here));
  caf::anon_send(shard, topology_atom_v, cluster);
  settle();
  EXPECT_EQ(locations(shard, foreign).size(), 1u);
  pass(options.grace);
  EXPECT_TRUE(locations(shard, foreign).empty());
  stop(shard);
}

} // namespace
} // namespace peercache::actors

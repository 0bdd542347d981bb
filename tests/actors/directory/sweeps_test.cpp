// Tests of when a directory forgets records, and of others that use it meanwhile.

#include "common/key_epoch.hpp"
#include "tests/actors/cluster_fixture.hpp"

namespace peercache::actors {
namespace {

/// A shard of a cluster with one owner for each key: of some keys this shard, of the others its
/// neighbour.
class lone_owner : public cluster_fixture {
protected:
  lone_owner() {
    options.self = here.id;
    options.replicas = 1;
    options.epochs = epochs;
    shard = spawn_shard(options);
    kept = shards.at(shard.id());
  }
  ~lone_owner() override { stop(shard); }

  void tell(const topology_ptr& cluster) {
    send_topology(shard, cluster);
    settle();
  }
  topology_ptr alone(std::uint64_t version) { return topology_of({{here, shard}}, version); }
  /// Returns keys that `who` owns beside the other member.
  std::vector<page_key> keys_of(const discovery::member& who, std::size_t count) {
    const auto cluster = both();
    std::vector<page_key> keys;
    for (int i = 0; keys.size() < count; ++i)
      if (const auto key = key_named(std::to_string(i)); cluster->ring.owns(who.id, key, 1))
        keys.push_back(key);
    return keys;
  }
  void publish_foreign_key() {
    foreign = keys_of(there, 1)[0];
    ask<std::string>(shard, publish_atom_v, publication(foreign, here));
  }
  bool knows_foreign_key() { return locations(shard, foreign).size() == 1; }

  std::size_t records() const { return kept->lock()->records().locations(); }
  /// Lets the shard have two slices of records of foreign keys, and their sweep be due.
  void begin_sweep() {
    tell(alone(1));
    pass(options.grace); // The first view's sweep.
    std::string foreign_keys;
    for (const auto& key : keys_of(there, std::size_t{2} * slice))
      foreign_keys += publication(key, here);
    ask<std::string>(shard, publish_atom_v, foreign_keys);
    ASSERT_EQ(records(), 2 * slice);
    tell(both(2));
    scheduler().advance_time(options.grace);
  }
  void run_until_there_are(std::size_t wanted) {
    while (records() != wanted)
      ASSERT_TRUE(scheduler().try_run_once());
  }

  static constexpr std::size_t slice = 4096;
  std::unique_ptr<storage::epoch_block> block = std::make_unique<storage::epoch_block>();
  storage::epoch_table epochs{*block};
  directory_options options;
  std::shared_ptr<shared_shard> kept;
  directory_actor shard;
  page_key foreign;
};

TEST_F(lone_owner, keeps_foreign_keys_for_the_grace_time_only) {
  tell(alone(1));
  publish_foreign_key();
  tell(both(2));
  EXPECT_TRUE(knows_foreign_key());
  pass(options.grace);
  EXPECT_FALSE(knows_foreign_key());
}

TEST_F(lone_owner, forgets_keys_of_others_that_no_view_gives_it) {
  tell(both(1));
  pass(2 * options.grace);
  publish_foreign_key();
  EXPECT_TRUE(knows_foreign_key()) << "a view may follow that says so";
  pass(options.grace);
  EXPECT_FALSE(knows_foreign_key());
}

TEST_F(lone_owner, gives_foreign_keys_their_time_from_each_view_on) {
  tell(alone(2));
  pass(options.grace - std::chrono::milliseconds(100));
  publish_foreign_key();
  tell(both(3));
  pass(std::chrono::milliseconds(200));
  EXPECT_TRUE(knows_foreign_key());
  pass(options.grace);
  EXPECT_FALSE(knows_foreign_key());
}

TEST_F(lone_owner, hears_others_between_two_slices_of_a_sweep) {
  ASSERT_EQ(slice, directory::member_shard::options{}.sweep_slice);
  begin_sweep();
  caf::anon_send(shard, publish_atom_v, publication(keys_of(here, 1)[0], here));
  run_until_there_are(slice);
  run_until_there_are(slice + 1); // The record that came late.
  settle();
  EXPECT_EQ(records(), 1u);
}

TEST_F(lone_owner, ends_a_sweep_of_which_two_beats_do_the_slices) {
  begin_sweep();
  caf::anon_send(shard, beat_atom_v, from_here{});
  const auto own = keys_of(here, 1)[0];
  caf::anon_send(shard, publish_atom_v, publication(own, here));
  run_until_there_are(slice);
  run_until_there_are(0); // By the second beat, before the first one's next slice.
  run_until_there_are(1);
  settle();
  EXPECT_EQ(locations(shard, own).size(), 1u);
  publish_foreign_key();
  pass(options.grace);
  EXPECT_EQ(records(), 1u) << "the next sweep begins";
}

TEST_F(lone_owner, may_leave_between_two_slices_of_a_sweep) {
  begin_sweep();
  tell_directory_to_leave(shard, *kept, topology_of({{there, shard_there}}, 3)->view);
  run_until_there_are(slice);
  run_until_there_are(0);
  settle();
  tell(both(4));
  const auto own = keys_of(here, 1)[0];
  ask<std::string>(shard, publish_atom_v, publication(own, here));
  publish_foreign_key();
  EXPECT_EQ(records(), 2u);
  pass(options.grace);
  EXPECT_EQ(records(), 1u);
  EXPECT_EQ(locations(shard, own).size(), 1u);
}

TEST_F(lone_owner, forgets_cleared_pages_between_two_slices_of_a_sweep) {
  begin_sweep();
  auto own = keys_of(here, 1)[0];
  epochs.raise(space_of(own), 1);
  caf::anon_send(shard, clear_atom_v, from_here{});
  set_epoch(own, 1);
  caf::anon_send(shard, publish_atom_v, publication(own, here));
  run_until_there_are(slice);
  run_until_there_are(0);
  run_until_there_are(1);
  settle();
  EXPECT_EQ(locations(shard, own).size(), 1u);
}

} // namespace
} // namespace peercache::actors

#include "actors/clearing/cleared_spaces.hpp"
#include "common/test_guards.hpp"
#include "tests/actors/cluster_fixture.hpp"

namespace peercache::actors {
namespace {

using directory_actor_test = cluster_fixture;

/// A fake shard that answers nothing, and counts the bytes of the withdrawals that it gets.
caf::behavior answers_nothing(caf::event_based_actor* self, std::uint64_t* withdrawn_bytes) {
  return {[self](publish_atom, const std::string&) { return self->make_response_promise(); },
          [self, withdrawn_bytes](withdraw_atom, const std::string& batch) {
            *withdrawn_bytes += batch.size();
            return self->make_response_promise();
          }};
}

TEST_F(directory_actor_test, answers_a_lookup_with_what_was_published) {
  tell_everyone(both());
  auto outcome = ask<std::string>(shard_here, publish_atom_v, publication(key_named("a"), there));
  ASSERT_TRUE(outcome);
  EXPECT_EQ(static_cast<directory::publish_outcome>(outcome->at(0)),
            directory::publish_outcome::accepted);
  auto found = locations(shard_here, key_named("a"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].holder, there.inc);
}

TEST_F(directory_actor_test, answers_a_malformed_batch_with_an_error) {
  tell_everyone(both());
  EXPECT_FALSE(ask<std::string>(shard_here, publish_atom_v, std::string{"short"}));
  EXPECT_FALSE(ask<std::string>(shard_here, lookup_atom_v, std::string(33, 'x')));
}

TEST_F(directory_actor_test, takes_no_more_records_than_its_option_says) {
  directory_options options;
  options.self = here.id;
  options.records_max = 3;
  auto shard = spawn_shard(options);
  send_topology(shard, topology_of({{here, shard}}, 1));
  std::string outcomes;
  for (const auto* name : {"a", "b", "c", "d"})
    outcomes += *ask<std::string>(shard, publish_atom_v, publication(key_named(name), here));
  EXPECT_EQ(outcomes, std::string("\0\0\0\3", 4)) << "the last one is refused";
  stop(shard);
}

TEST_F(directory_actor_test, knows_nobody_before_the_first_view) {
  auto outcome = ask<std::string>(shard_here, publish_atom_v, publication(key_named("a"), there));
  EXPECT_EQ(static_cast<directory::publish_outcome>(outcome->at(0)),
            directory::publish_outcome::unknown_holder);
}

TEST_F(directory_actor_test, forgets_the_records_of_a_member_that_is_gone) {
  tell_everyone(both(1));
  ask<std::string>(shard_here, publish_atom_v, publication(key_named("a"), there));
  tell_everyone(topology_of({{here, shard_here}}, 2));
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
}

/// A shard may see a view without a member between two views with it. The member, which was always
/// in its own view, does not publish its pages again, so the shard must still have their records.
TEST_F(directory_actor_test, has_the_records_again_of_a_member_that_one_view_lacked) {
  tell_everyone(both(1));
  ask<std::string>(shard_here, publish_atom_v, publication(key_named("a"), there));
  tell_everyone(topology_of({{here, shard_here}}, 2));
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
  tell_everyone(both(3));
  EXPECT_EQ(locations(shard_here, key_named("a")).size(), 1u);
  tell_everyone(topology_of({{here, shard_here}}, 4));
  pass(directory_options{}.grace);
  tell_everyone(both(5));
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty()) << "it was away for long";
}

TEST_F(directory_actor_test, remembers_the_pages_whose_holder_is_gone) {
  tell_everyone(both(1));
  ask<std::string>(shard_here, publish_atom_v, publication(key_named("a"), there));
  ask<std::string>(shard_here, publish_atom_v, publication(key_named("b"), here));
  pass(std::chrono::seconds(1));
  tell_everyone(topology_of({{here, shard_here}}, 2));
  pass(std::chrono::seconds(6));
  std::string prefixes;
  for (const auto* name : {"a", "b"})
    append_record(prefixes, key_named(name).prefix());
  const auto lost = ask<lost_report>(shard_here, lost_atom_v, prefixes, from_here{});
  ASSERT_TRUE(lost);
  ASSERT_EQ(lost->pages.size(), 1u);
  EXPECT_EQ(lost->pages[0].prefix, key_named("a").prefix());
  EXPECT_EQ(lost->pages[0].how, static_cast<std::uint8_t>(page_loss::holder_gone));
  EXPECT_EQ(lost->pages[0].age_ms, 6000u);
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
  EXPECT_EQ(outcome_of_publish(), publish_outcome::unknown_holder);
  tell_everyone(both(1)); // The topology of view 1 again, after a change of connections only.
  EXPECT_EQ(outcome_of_publish(), publish_outcome::unknown_holder);
  tell_everyone(both(3));
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
  EXPECT_EQ(outcome_of_publish(), publish_outcome::accepted);
}

TEST_F(directory_actor_test, records_nothing_of_one_that_knows_a_later_view) {
  using directory::publish_outcome;
  auto outcome_by_view = [&](std::uint64_t term, std::uint64_t version) {
    auto outcome = ask<std::string>(shard_here, publish_atom_v, publication(key_named("a"), there),
                                    term, version);
    return static_cast<publish_outcome>(outcome->at(0));
  };
  tell_everyone(both(1));
  // The shard gets the view without `there` late, when `there` is already back and publishes again.
  EXPECT_EQ(outcome_by_view(1, 3), publish_outcome::behind);
  EXPECT_EQ(outcome_by_view(2, 1), publish_outcome::behind);
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
  tell_everyone(topology_of({{here, shard_here}}, 2));
  tell_everyone(both(3));
  EXPECT_EQ(outcome_by_view(1, 3), publish_outcome::accepted);
  EXPECT_EQ(outcome_by_view(1, 2), publish_outcome::accepted) << "who is behind itself is heard";
}

TEST_F(directory_actor_test, takes_a_page_again_whose_holder_it_cannot_reach) {
  tell_everyone(both(1));
  auto if_absent = publication(key_named("a"), here);
  if_absent[if_absent.size() - 4] = static_cast<char>(directory::publish_mode::if_absent);
  ask<std::string>(shard_here, publish_atom_v, publication(key_named("a"), there));
  auto again = [&] {
    auto outcome = ask<std::string>(shard_here, publish_atom_v, if_absent);
    return static_cast<directory::publish_outcome>(outcome->at(0));
  };
  EXPECT_EQ(again(), directory::publish_outcome::duplicate);
  auto cut_off = std::make_shared<topology>(*both(1));
  for (auto& peer : cut_off->peers)
    if (peer.self.inc == there.inc)
      peer.directory = nullptr;
  for (auto& peer : cut_off->peers)
    peer.tried = true;
  send_topology(shard_here, topology_ptr(cut_off));
  settle();
  EXPECT_EQ(again(), directory::publish_outcome::accepted);
}

TEST_F(directory_actor_test, gives_its_records_to_those_who_will_own_them) {
  auto third = member_named("third", 3);
  auto shard_third = spawn_shard(third);
  auto cluster = topology_of({{here, shard_here}, {there, shard_there}, {third, shard_third}}, 2);
  tell_everyone(cluster);
  send_topology(shard_third, cluster);
  settle();
  std::uint64_t mine = 0;
  for (int i = 0; i < 2000; ++i) {
    auto key = key_named(std::to_string(i));
    if (!cluster->ring.owns(here.id, key, 2))
      continue;
    ++mine;
    ask<std::string>(shard_here, publish_atom_v, publication(key, i % 2 == 0 ? here : there));
  }
  auto theirs = [&] {
    return count_of(shard_there, metric::directory_records) +
           count_of(shard_third, metric::directory_records);
  };
  ASSERT_EQ(theirs(), 0u);
  auto leaving = ask<drain_report>(shard_here, give_atom_v, true, std::uint32_t{1000}, from_here{});
  ASSERT_TRUE(leaving);
  EXPECT_GT(leaving->given, mine / 3);
  EXPECT_LT(leaving->given, mine) << "without those of the node that leaves";
  EXPECT_EQ(theirs(), leaving->given);
  auto staying =
      ask<drain_report>(shard_here, give_atom_v, false, std::uint32_t{1000}, from_here{});
  ASSERT_TRUE(staying);
  EXPECT_EQ(staying->given, mine);
  EXPECT_EQ(theirs(), mine);
  EXPECT_EQ(count_of(shard_here, metric::directory_handed_over_total), leaving->given + mine);
  stop(shard_third);
}

TEST_F(directory_actor_test, a_drain_ends_although_nobody_takes_its_records) {
  directory_options options;
  options.self = here.id;
  options.replicas = 1;
  auto shard = spawn_shard(options);
  send_topology(shard, topology_of({{here, shard}, {there, {}}}, 2));
  settle();
  for (int i = 0; i < 100; ++i)
    ask<std::string>(shard, publish_atom_v, publication(key_named(std::to_string(i)), there));
  const auto drain = [&](bool leaving, std::uint32_t within_ms) {
    return *ask<drain_report>(shard, give_atom_v, leaving, within_ms, from_here{});
  };
  const auto unlinked = drain(false, 1000);
  EXPECT_EQ(unlinked.given, 0u);
  EXPECT_GT(unlinked.left, 0u);
  EXPECT_FALSE(unlinked.complete());
  EXPECT_EQ(drain(false, 0).left, 100u) << "there was no time to look at them";
  send_topology(shard, topology_of({{here, shard}}, 3));
  settle();
  const auto alone = drain(true, 1000);
  EXPECT_EQ(alone.given, 0u);
  EXPECT_EQ(alone.left, 0u) << "there is nobody to give them to";
  stop(shard);
}

/// A directory that refuses what is published to it.
caf::behavior refuses_all(caf::event_based_actor* self, const bool*) {
  self->set_default_handler(caf::drop);
  return {[](publish_atom, const std::string& batch) {
    return std::string(batch.size() / directory::wire::publish_record_bytes,
                       static_cast<char>(directory::publish_outcome::refused));
  }};
}

TEST_F(directory_actor_test, a_drain_counts_records_that_a_new_owner_refuses_as_left) {
  auto full = system.spawn(refuses_all, nullptr);
  directory_options options;
  options.self = here.id;
  options.replicas = 1;
  auto shard = spawn_shard(options);
  send_topology(shard,
                topology_of({{here, shard}, {there, caf::actor_cast<directory_actor>(full)}}, 1));
  settle();
  for (int i = 0; i < 100; ++i)
    ask<std::string>(shard, publish_atom_v, publication(key_named(std::to_string(i)), there));
  const auto came_to =
      *ask<drain_report>(shard, give_atom_v, false, std::uint32_t{1000}, from_here{});
  EXPECT_EQ(came_to.given, 0u);
  EXPECT_GT(came_to.left, 0u);
  EXPECT_EQ(count_of(shard, metric::directory_handed_over_total), 0u);
  stop(shard);
  caf::anon_send_exit(full, caf::exit_reason::kill);
  settle();
}

TEST_F(directory_actor_test, passes_no_more_withdrawals_on_than_a_new_owner_answers) {
  std::uint64_t withdrawn_bytes = 0;
  auto frozen = system.spawn(answers_nothing, &withdrawn_bytes);
  directory_options options;
  options.self = here.id;
  options.replicas = 1;
  auto shard = spawn_shard(options);
  auto cluster = topology_of({{here, shard}, {there, caf::actor_cast<directory_actor>(frozen)}}, 1);
  send_topology(shard, cluster);
  std::string batch;
  for (int i = 0; batch.size() < options.forwarded_bytes_max / 8; ++i) {
    auto key = key_named(std::to_string(i));
    if (!cluster->ring.owns(here.id, key, 1))
      continue;
    if (batch.empty())
      ask<std::string>(shard, publish_atom_v, publication(key, there));
    directory::append_withdraw(batch, {key, there.inc, {1}});
  }
  const auto withdraw_during_a_drain = [&](int times) {
    caf::anon_send(shard, give_atom_v, false, std::uint32_t{60'000}, from_here{});
    for (int i = 0; i < times; ++i)
      EXPECT_TRUE(ask<std::uint64_t>(shard, withdraw_atom_v, batch));
  };
  withdraw_during_a_drain(30);
  EXPECT_GT(withdrawn_bytes, options.forwarded_bytes_max / 2);
  EXPECT_LE(withdrawn_bytes, options.forwarded_bytes_max);
  const auto before = withdrawn_bytes;
  pass(options.hand_over_timeout);
  withdraw_during_a_drain(1);
  EXPECT_EQ(withdrawn_bytes, before + batch.size()) << "the others are given up";
  stop(shard);
  stop(frozen);
}

TEST_F(directory_actor_test, says_not_mine_of_what_other_nodes_own_and_by_which_view) {
  directory_options options;
  options.self = here.id;
  options.replicas = 1;
  auto shard = spawn_shard(options);
  auto said_not_mine = [&](const page_key& key, directory::view_number& by) {
    std::string request;
    directory::append_lookup(request, key);
    auto answer = *ask<std::string>(shard, lookup_atom_v, request);
    directory::answer_reader reader{answer};
    std::array<directory::page_location, limits::locations_per_key_max> found;
    std::size_t count = 0;
    EXPECT_TRUE(reader.next(found, count));
    by = reader.view();
    return reader.not_mine();
  };
  directory::view_number by;
  EXPECT_TRUE(said_not_mine(key_named("a"), by)) << "it is in no view yet";
  EXPECT_EQ(by, directory::view_number{});
  auto cluster = both(2);
  send_topology(shard, cluster);
  settle();
  std::uint64_t foreign = 1;
  for (int i = 0; i < 50; ++i) {
    auto key = key_named(std::to_string(i));
    auto mine = cluster->ring.owns(here.id, key, 1);
    EXPECT_EQ(said_not_mine(key, by), !mine);
    if (!mine) {
      EXPECT_EQ(by, (directory::view_number{1, 2}));
      ++foreign;
    }
  }
  EXPECT_EQ(count_of(shard, metric::directory_foreign_lookups_total), foreign);
  expel(shard, topology_of({{there, shard_there}}, 3));
  EXPECT_TRUE(said_not_mine(key_named("a"), by));
  EXPECT_EQ(by, directory::view_number{}) << "its node follows no view that others could learn";
  stop(shard);
}

class cleared_directory_test : public cluster_fixture {
protected:
  std::unique_ptr<storage::epoch_block> block = std::make_unique<storage::epoch_block>();
  storage::epoch_table epochs{*block};

  cleared_directory_test() {
    stop(shard_here);
    directory_options options;
    options.self = here.id;
    options.epochs = epochs;
    shard_here = spawn_shard(options);
    tell_everyone(both());
    ask<std::string>(shard_here, publish_atom_v, publication(key_named("a"), there));
  }
};

TEST_F(cleared_directory_test, a_key_of_before_a_clear_is_not_found) {
  ASSERT_EQ(locations(shard_here, key_named("a")).size(), 1u);
  epochs.raise(space_of(key_named("a")), 1);
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
  guard_switched_off off(guard::epoch);
  EXPECT_EQ(locations(shard_here, key_named("a")).size(), 1u) << "its record is there still";
}

TEST_F(cleared_directory_test, nothing_is_found_at_a_node_that_has_left) {
  epochs.close();
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
}

/// The shard has a record, and the shard's node is in the view. But the node has not heard yet
/// which spaces were cleared, so the shard must not name any location.
TEST_F(cleared_directory_test, nothing_is_found_before_its_node_knows_what_was_cleared) {
  cleared_spaces known(epochs, here.inc);
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
  known.open();
  EXPECT_EQ(locations(shard_here, key_named("a")).size(), 1u);
}

} // namespace
} // namespace peercache::actors

#include "tests/actors/cluster_fixture.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace peercache::actors {
namespace {

using pool_actor_test = cluster_fixture;

TEST_F(pool_actor_test, a_committed_page_is_known_to_both_owners) {
  tell_everyone(both());
  EXPECT_EQ(put(key_named("a")), page_status::stored);
  for (const auto& shard : {shard_here, shard_there}) {
    auto found = locations(shard, key_named("a"));
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].holder, here.inc);
    EXPECT_TRUE(found[0].gen.readable());
  }
}

TEST_F(pool_actor_test, bytes_of_evicted_pages_are_zeroed_where_that_is_wanted) {
  scrub_evicted = true;
  restart_pool();
  tell_everyone(both());
  const auto bytes = memory.slots().bytes({0}, memory.slots().granules() * 4096);
  std::fill(bytes.begin(), bytes.end(), std::byte{1});
  for (int number = 0; count_of(pool, metric::evictions_total) == 0; ++number)
    ASSERT_EQ(put(key_named(std::to_string(number))), page_status::stored);
  pass(std::chrono::milliseconds(1000));
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{0}),
            4096 * std::ptrdiff_t(count_of(pool, metric::evictions_total)));
}

TEST_F(pool_actor_test, a_page_that_another_node_has_is_dropped_again) {
  tell_everyone(both());
  for (const auto& shard : {shard_here, shard_there})
    ask<std::string>(shard, publish_atom_v, publication(key_named("a"), there));
  EXPECT_EQ(put(key_named("a")), page_status::duplicate);
  pass(std::chrono::milliseconds(100));
  EXPECT_EQ(count_of(pool, metric::pool_pages), 0u);
  for (const auto& shard : {shard_here, shard_there}) {
    auto found = locations(shard, key_named("a"));
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].holder, there.inc);
  }
}

TEST_F(pool_actor_test, puts_of_one_key_at_once_lose_no_page_whoever_is_heard_first) {
  for (const auto& heard_there_first : {shard_here, shard_there}) {
    tell_everyone(both());
    auto key = key_named(heard_there_first == shard_here ? "a" : "b");
    auto if_absent = publication(key, there);
    if_absent[if_absent.size() - 4] = static_cast<char>(directory::publish_mode::if_absent);
    ask<std::string>(heard_there_first, publish_atom_v, if_absent);
    EXPECT_EQ(put(key), page_status::stored) << "one owner has recorded this copy";
    // At the second owner the other producer's message comes second, so this owner tells the other
    // producer to drop its copy.
    const auto& other = heard_there_first == shard_here ? shard_there : shard_here;
    auto outcome = ask<std::string>(other, publish_atom_v, if_absent);
    EXPECT_EQ(static_cast<directory::publish_outcome>(outcome->at(0)),
              directory::publish_outcome::duplicate);
    pass(std::chrono::milliseconds(100));
    for (const auto& shard : {shard_here, shard_there}) {
      auto found = locations(shard, key);
      EXPECT_TRUE(std::any_of(found.begin(), found.end(), [&](const auto& location) {
        return location.holder == here.inc;
      })) << "both owners know the copy that stayed";
    }
  }
}

TEST_F(pool_actor_test, a_page_stays_while_an_owner_has_not_said_what_it_did_with_it) {
  send_topology(shard_there, both());
  tell_everyone(topology_of({{here, shard_here}, {there, {}}}, 1));
  ask<std::string>(shard_here, publish_atom_v, publication(key_named("a"), there));
  EXPECT_EQ(put(key_named("a")), page_status::stored);
}

TEST_F(pool_actor_test, store_keeps_a_page_that_another_node_has) {
  tell_everyone(both());
  ask<std::string>(shard_there, publish_atom_v, publication(key_named("a"), there));
  EXPECT_EQ(commit(key_named("a"), reserve(), commit_mode::store), page_status::stored);
  EXPECT_EQ(locations(shard_there, key_named("a")).size(), 2u);
}

TEST_F(pool_actor_test, a_page_whose_owner_is_out_of_reach_is_published_later) {
  send_topology(shard_there, both());
  tell_everyone(topology_of({{here, shard_here}, {there, {}}}, 1));
  EXPECT_EQ(put(key_named("a")), page_status::stored);
  EXPECT_TRUE(locations(shard_there, key_named("a")).empty());
  tell_everyone(both(1));
  pass(std::chrono::milliseconds(200));
  EXPECT_EQ(locations(shard_there, key_named("a")).size(), 1u);
}

TEST_F(pool_actor_test, the_newest_page_of_a_key_is_the_one_that_is_known) {
  tell_everyone(both());
  const auto set = [&](std::uint32_t length_bytes) {
    const auto filled = fill_slot(key_named("a"), reserve(length_bytes), length_bytes);
    auto pending =
        self->request(pool, caf::infinite, commit_atom_v, filled,
                      static_cast<std::uint8_t>(commit_mode::skip), std::string{}, from_here{});
    settle();
    auto status = page_status::pending;
    pending.receive([&](const std::string& statuses,
                        const std::string&) { status = static_cast<page_status>(statuses.at(0)); },
                    [](const caf::error&) {});
    return status;
  };
  for (const std::uint32_t length_bytes : {4096u, 8192u}) {
    EXPECT_EQ(set(length_bytes), page_status::stored);
    pass(std::chrono::milliseconds(200)); // Time in which the displaced page is withdrawn.
    for (const auto& shard : {shard_here, shard_there}) {
      const auto found = locations(shard, key_named("a"));
      ASSERT_EQ(found.size(), 1u);
      EXPECT_EQ(found[0].length_bytes, length_bytes);
    }
  }
}

TEST_F(pool_actor_test, evicted_pages_are_withdrawn) {
  tell_everyone(both());
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(put(key_named(std::to_string(i))), page_status::stored);
  pass(std::chrono::milliseconds(200));
  const auto said = samples_of(pool);
  EXPECT_GE(said.count(metric::evictions_total), 36u);
  EXPECT_EQ(count_of(shard_here, metric::directory_records), said.count(metric::pool_pages));
  EXPECT_TRUE(locations(shard_here, key_named("0")).empty());
  EXPECT_EQ(locations(shard_here, key_named("99")).size(), 1u);
}

TEST_F(pool_actor_test, an_unreachable_shard_does_not_stall_eviction) {
  tell_everyone(topology_of({{here, shard_here}, {there, {}}}, 1));
  for (int i = 0; i < 200; ++i)
    ASSERT_EQ(put(key_named(std::to_string(i))), page_status::stored);
}

TEST_F(pool_actor_test, a_new_owner_is_told_of_the_pages_it_owns_now) {
  tell_everyone(topology_of({{here, shard_here}}, 1));
  put(key_named("a"));
  tell_everyone(both(2));
  pass(std::chrono::milliseconds(100));
  EXPECT_EQ(locations(shard_there, key_named("a")).size(), 1u);
}

TEST_F(pool_actor_test, only_new_owners_are_told_and_no_faster_than_the_budget_allows) {
  republish_rate = 200;
  restart_pool();
  tell_everyone(topology_of({{here, shard_here}}, 1));
  for (int i = 0; i < 60; ++i)
    ASSERT_EQ(put(key_named(std::to_string(i))), page_status::stored);
  auto told_here = count_of(shard_here, metric::directory_publishes_total);
  tell_everyone(both(2));
  auto told_there = [&] { return count_of(shard_there, metric::directory_publishes_total); };
  EXPECT_LE(told_there(), 50u) << "a quarter of a second's budget at once";
  EXPECT_GE(told_there(), 1u);
  pass(std::chrono::milliseconds(25));
  EXPECT_LT(told_there(), 60u);
  for (int i = 0; i < 10; ++i)
    pass(std::chrono::milliseconds(50));
  EXPECT_EQ(told_there(), 60u);
  EXPECT_EQ(count_of(shard_here, metric::directory_publishes_total), told_here);
  EXPECT_EQ(count_of(pool, metric::directory_republished_total), 60u);
}

/// The process of one owner is frozen, and the connection to it still stands.
TEST_F(pool_actor_test, an_owner_that_does_not_answer_holds_up_no_other) {
  republish_rate = 100;
  restart_pool();
  auto mute = member_named("mute", 3);
  // Finds a name whose id is below `there`'s, so that the pool serves the mute owner's queue first.
  for (int number = 0; mute.id > there.id; ++number)
    mute = member_named("mute-" + std::to_string(number), 3);
  const auto freeze = [](caf::event_based_actor* frozen, const std::string&) -> caf::behavior {
    frozen->set_default_handler(caf::skip);
    return {[](caf::ok_atom) {}};
  };
  // `freeze` takes an argument: without one CAF binds a reference to null, which UBSan reports.
  const auto stopped = system.spawn(freeze, std::string{});
  tell_everyone(topology_of({{here, shard_here}}, 1));
  for (int i = 0; i < 60; ++i)
    ASSERT_EQ(put(key_named(std::to_string(i))), page_status::stored);
  const auto three = topology_of(
      {{here, shard_here}, {there, shard_there}, {mute, caf::actor_cast<directory_actor>(stopped)}},
      2);
  tell_everyone(three);
  for (int i = 0; i < 18; ++i)
    pass(std::chrono::milliseconds(50)); // In total 900 ms, too short for a time-out.
  for (int i = 0; i < 60; ++i) {
    const auto key = key_named(std::to_string(i));
    if (three->ring.owns(there.id, key, 2)) {
      EXPECT_EQ(locations(shard_there, key).size(), 1u);
    }
  }
  EXPECT_GT(count_of(pool, metric::directory_republished_total), 25u) << "both had a part of it";
  caf::anon_send_exit(stopped, caf::exit_reason::kill);
  settle();
}

TEST_F(pool_actor_test, a_removed_page_is_gone_everywhere) {
  tell_everyone(both());
  put(key_named("a"));
  std::string keys;
  append_record(keys, key_named("a"));
  append_record(keys, key_named("b"));
  auto statuses = ask<std::string>(pool, remove_atom_v, keys, from_here{});
  EXPECT_EQ(static_cast<page_status>(statuses->at(0)), page_status::hit);
  EXPECT_EQ(static_cast<page_status>(statuses->at(1)), page_status::not_found);
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
  EXPECT_TRUE(locations(shard_there, key_named("a")).empty());
}

/// Tests with four more members, which have no shards; the topology has the handles of both real
/// shards, or of one.
class crowded_key_test : public pool_actor_test {
protected:
  topology_ptr crowd(const directory_actor& there_or_null, std::uint64_t version) {
    std::vector<std::pair<discovery::member, directory_actor>> nodes = {{here, shard_here},
                                                                        {there, there_or_null}};
    for (const auto& other : others)
      nodes.emplace_back(other, directory_actor{});
    return topology_of(nodes, version);
  }

  /// Returns a key that `here` and `there` own, and whose page all other members have in memory.
  page_key key_of_the_others() {
    const auto ring = crowd(shard_there, 1)->ring;
    page_key key;
    std::array<node_id, 2> owners{};
    for (int i = 0;
         !std::is_permutation(owners.begin(), owners.end(), std::array{here.id, there.id}.begin());
         ++i) {
      key = key_named(std::to_string(i));
      ring.owners(key, owners);
    }
    for (const auto& other : others)
      for (const auto& shard : {shard_here, shard_there})
        ask<std::string>(shard, publish_atom_v, publication(key, other));
    EXPECT_EQ(locations(shard_here, key).size(), limits::locations_per_key_max);
    return key;
  }

  std::vector<discovery::member> others{member_named("a", 11), member_named("b", 12),
                                        member_named("c", 13), member_named("d", 14)};
};

TEST_F(crowded_key_test, a_page_that_no_owner_can_record_is_not_kept) {
  tell_everyone(crowd(shard_there, 1));
  const auto key = key_of_the_others();
  EXPECT_EQ(commit(key, reserve(), commit_mode::store), page_status::duplicate);
  EXPECT_EQ(count_of(pool, metric::pool_pages), 0u);
}

TEST_F(crowded_key_test, a_page_that_its_owners_refuse_later_is_not_kept) {
  tell_everyone(crowd(shard_there, 1));
  const auto key = key_of_the_others();
  tell_everyone(crowd({}, 2));
  EXPECT_EQ(commit(key, reserve(), commit_mode::store), page_status::stored) << "others find it";
  EXPECT_EQ(count_of(pool, metric::pool_pages), 1u) << "the other owner may know it";
  tell_everyone(crowd(shard_there, 3));
  pass(std::chrono::milliseconds(500));
  EXPECT_EQ(count_of(pool, metric::pool_pages), 0u);
}

TEST_F(pool_actor_test, a_drain_withdraws_every_page) {
  tell_everyone(both());
  for (int i = 0; i < 10; ++i)
    put(key_named(std::to_string(i)));
  EXPECT_TRUE(ask<bool>(pool, withdraw_atom_v, from_here{}));
  EXPECT_EQ(count_of(shard_there, metric::directory_records), 0u);
}

TEST_F(pool_actor_test, what_was_withdrawn_stays_so_while_the_node_waits_to_leave) {
  tell_everyone(both());
  put(key_named("before"));
  EXPECT_TRUE(ask<bool>(pool, withdraw_atom_v, from_here{}));
  // The node gets view 5, in which it is a member, without the views between.
  tell_everyone(both(5));
  put(key_named("after"));
  pass(std::chrono::seconds(1));
  EXPECT_EQ(count_of(shard_here, metric::directory_records), 0u);
  EXPECT_EQ(count_of(shard_there, metric::directory_records), 0u);
}

TEST_F(pool_actor_test, a_page_that_went_while_a_shard_was_out_is_no_duplicate_afterwards) {
  tell_everyone(both(1));
  put(key_named("a"));
  auto without = topology_of({{here, shard_here}}, 2);
  expel(shard_there, without);
  send_topology(shard_here, without);
  caf::anon_send(pool, topology_atom_v, without);
  settle();
  std::string keys;
  append_record(keys, key_named("a"));
  ask<std::string>(pool, remove_atom_v, keys, from_here{});
  put(key_named("b"));
  tell_everyone(both(3));
  EXPECT_TRUE(locations(shard_there, key_named("a")).empty());
  EXPECT_EQ(locations(shard_there, key_named("b")).size(), 1u) << "published again, to it alone";
  EXPECT_EQ(put(key_named("a")), page_status::stored);
}

TEST_F(pool_actor_test, after_a_view_that_was_missed_everything_is_published_again) {
  tell_everyone(both(1));
  put(key_named("a"));
  expel(shard_there, topology_of({{here, shard_here}}, 2));
  tell_everyone(both(3)); // The pool gets view 3 without having got view 2.
  EXPECT_EQ(locations(shard_there, key_named("a")).size(), 1u);
}

TEST_F(pool_actor_test, a_shard_that_learns_late_that_the_node_was_out_is_told_again) {
  tell_everyone(both(1));
  put(key_named("a"));
  // View 2 lacked the node. In view 3 the node is a member again, so its pool publishes its pages
  // again.
  caf::anon_send(pool, topology_atom_v, both(3));
  settle();
  send_topology(shard_there, topology_of({{there, shard_there}}, 2));
  pass(directory_options{}.grace); // After this grace the shard forgets a member that is gone.
  EXPECT_TRUE(locations(shard_there, key_named("a")).empty());
  send_topology(shard_there, both(3));
  settle();
  pass(std::chrono::milliseconds(50));
  EXPECT_EQ(locations(shard_there, key_named("a")).size(), 1u);
}

TEST_F(pool_actor_test, an_expelled_node_publishes_everything_again) {
  tell_everyone(both(1));
  put(key_named("a"));
  send_topology(shard_there, topology_of({{there, shard_there}}, 2));
  settle();
  EXPECT_TRUE(locations(shard_there, key_named("a")).empty());
  tell_everyone(both(3));
  caf::anon_send(pool, publish_atom_v, from_here{});
  settle();
  EXPECT_EQ(locations(shard_there, key_named("a")).size(), 1u);
}

TEST_F(pool_actor_test, remembers_how_pages_left_it) {
  tell_everyone(both());
  put(key_named("a"));
  put(key_named("b"));
  std::string keys, prefixes;
  for (const auto* name : {"a", "c"})
    append_record(keys, key_named(name));
  for (const auto* name : {"a", "b", "c"})
    append_record(prefixes, key_named(name).prefix());
  ask<std::string>(pool, remove_atom_v, keys, from_here{});
  const auto lost = ask<lost_report>(pool, lost_atom_v, prefixes, from_here{});
  ASSERT_TRUE(lost);
  ASSERT_EQ(lost->pages.size(), 1u);
  EXPECT_EQ(lost->pages[0].prefix, key_named("a").prefix());
  EXPECT_EQ(lost->pages[0].how, static_cast<std::uint8_t>(page_loss::removed));
}

TEST_F(pool_actor_test, remembers_that_a_page_of_another_length_took_a_key) {
  tell_everyone(both());
  put(key_named("a"));
  EXPECT_EQ(commit(key_named("a"), reserve(8192), commit_mode::skip, 8192), page_status::stored);
  std::string prefixes;
  append_record(prefixes, key_named("a").prefix());
  const auto lost = ask<lost_report>(pool, lost_atom_v, prefixes, from_here{});
  ASSERT_TRUE(lost);
  ASSERT_EQ(lost->pages.size(), 1u);
  EXPECT_EQ(lost->pages[0].how, static_cast<std::uint8_t>(page_loss::replaced));
}

TEST_F(pool_actor_test, tells_what_lies_in_it_and_what_is_read_most) {
  tell_everyone(both());
  put(key_named("a"));
  const auto slot = reserve(8192);
  commit(key_named("b"), slot, commit_mode::skip, 8192);
  memory.slots().count_use(slot);
  // In each beat the pool's walk passes all pages of this small pool.
  for (int beat = 0; beat < 3; ++beat)
    pass(std::chrono::milliseconds(50));
  const auto census = ask<page_census>(pool, census_atom_v, from_here{});
  ASSERT_TRUE(census);
  ASSERT_EQ(census->hot.size(), 1u);
  EXPECT_EQ(census->hot[0].reads, 1u);
  EXPECT_EQ(census->hot[0].bytes, 8192u);
  ASSERT_EQ(census->big.size(), 2u);
  EXPECT_EQ(census->big[0].digest, census->hot[0].digest);
  EXPECT_EQ(census->big[1].bytes, 4096u);
  ASSERT_EQ(census->spaces.size(), 1u);
  EXPECT_EQ(census->spaces[0].pages, 2u);
  EXPECT_EQ(census->spaces[0].bytes, 12288u);
}

} // namespace
} // namespace peercache::actors

#include "directory/mirror_share.hpp"
#include "tests/actors/cluster_fixture.hpp"

namespace peercache::actors {
namespace {

class pool_mirror_test : public cluster_fixture {
protected:
  void SetUp() override {
    mirrored_bytes_max = 4 * 4096;
    restart_pool();
    tell_everyone(both());
  }

  page_status mirror(const page_key& key) {
    ask<std::string>(shard_here, publish_atom_v, publication(key, there));
    ask<std::string>(shard_there, publish_atom_v, publication(key, there));
    return commit(key, reserve(), commit_mode::mirror);
  }

  std::uint64_t count(metric id, metrics::label_words words = {}) {
    return count_of(pool, id, words);
  }
};

TEST_F(pool_mirror_test, a_mirrored_page_is_one_more_location_that_says_so) {
  ASSERT_EQ(mirror(key_named("a")), page_status::stored);
  for (const auto& shard : {shard_here, shard_there}) {
    auto found = locations(shard, key_named("a"));
    ASSERT_EQ(found.size(), 2u);
    for (const auto& location : found)
      EXPECT_EQ(location.mirrored, location.holder == here.inc);
  }
  EXPECT_EQ(count(metric::mirrored_pages_total, {"mirrored"}), 1u);
  EXPECT_EQ(count(metric::mirrored_bytes), 4096u);
}

TEST_F(pool_mirror_test, takes_no_more_than_its_share_and_gives_the_other_slots_back) {
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(mirror(key_named(std::to_string(i))), page_status::stored);
  EXPECT_EQ(mirror(key_named("one too many")), page_status::no_space);
  EXPECT_EQ(count(metric::mirrored_bytes), mirrored_bytes_max);
  EXPECT_EQ(count(metric::mirrored_pages_total, {"refused"}), 1u);
  EXPECT_EQ(count(metric::pool_pages_filling), 0u);
  EXPECT_EQ(locations(shard_here, key_named("one too many")).size(), 1u);
}

TEST_F(pool_mirror_test, a_page_that_leaves_makes_room_for_another) {
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(mirror(key_named(std::to_string(i))), page_status::stored);
  std::string keys;
  append_record(keys, key_named("0"));
  ask<std::string>(pool, remove_atom_v, keys, from_here{});
  EXPECT_EQ(count(metric::mirrored_bytes), 3 * 4096u);
  EXPECT_EQ(mirror(key_named("next")), page_status::stored);
}

TEST_F(pool_mirror_test, mirrored_pages_go_before_the_pools_own) {
  for (int i = 0; i < 56; ++i)
    ASSERT_EQ(put(key_named("own " + std::to_string(i))), page_status::stored);
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(mirror(key_named(std::to_string(i))), page_status::stored);
  for (int i = 0; i < 24; ++i)
    ASSERT_EQ(put(key_named("new " + std::to_string(i))), page_status::stored);
  pass(std::chrono::milliseconds(100));
  EXPECT_LT(count(metric::mirrored_bytes), 4 * 4096u);
}

TEST_F(pool_mirror_test, a_copy_that_no_owner_takes_is_dropped_again) {
  auto key = key_named("a");
  std::vector<std::pair<discovery::member, directory_actor>> nodes{{here, shard_here},
                                                                   {there, shard_there}};
  for (std::uint64_t i = 3; i < 6; ++i)
    nodes.push_back({member_named("other" + std::to_string(i), i), {}});
  auto cluster = topology_of(nodes, 2);
  tell_everyone(cluster);
  // Searches for a key whose two owners are these shards, so that only they record its pages.
  for (int i = 0; !cluster->ring.owns(here.id, key, 2) || !cluster->ring.owns(there.id, key, 2);
       ++i)
    key = key_named(std::to_string(i));
  for (const auto& shard : {shard_here, shard_there})
    for (const auto& [member, handle] : nodes)
      if (member.inc != here.inc)
        ask<std::string>(shard, publish_atom_v, publication(key, member));
  EXPECT_NE(commit(key, reserve(), commit_mode::mirror), page_status::stored);
  EXPECT_EQ(count(metric::pool_pages), 0u);
  EXPECT_EQ(count(metric::mirrored_bytes), 0u);
}

TEST(mirror_share, counts_a_slot_once) {
  directory::mirror_share share(8192);
  EXPECT_TRUE(share.has_room(8192));
  share.add({7}, 4096);
  share.add({7}, 4096);
  EXPECT_EQ(share.bytes(), 4096u);
  EXPECT_FALSE(share.has_room(8192));
  share.remove({8});
  share.remove({7});
  EXPECT_EQ(share.bytes(), 0u);
  EXPECT_FALSE(share.contains({7}));
}

} // namespace
} // namespace peercache::actors

#include "tests/actors/cluster_fixture.hpp"

namespace peercache::actors {
namespace {

/// A pool that compares its pages with the records of two real shards.
class pool_repair_test : public cluster_fixture {
protected:
  void SetUp() override {
    repair_rate = 1u << 20;
    restart_pool();
    tell_everyone(both());
    for (int i = 0; i < 20; ++i)
      ASSERT_EQ(put(key_named(std::to_string(i))), page_status::stored);
  }

  std::uint64_t count(metric id, metrics::label_words words = {}) {
    return count_of(pool, id, words);
  }
  std::uint64_t records(const directory_actor& shard) {
    return count_of(shard, metric::directory_records);
  }

  void let_a_pass_go_by() {
    auto before = count(metric::repair_passes_total);
    for (int i = 0; i < 2000 && count(metric::repair_passes_total) == before; ++i)
      pass(std::chrono::milliseconds(50));
    ASSERT_GT(count(metric::repair_passes_total), before);
    pass(std::chrono::milliseconds(50));
  }
};

TEST_F(pool_repair_test, finds_nothing_to_do_where_all_is_well) {
  let_a_pass_go_by();
  EXPECT_EQ(count(metric::repair_differing_ranges_total), 0u);
  EXPECT_GT(count(metric::repair_bytes_total), 0u);
}

TEST_F(pool_repair_test, publishes_what_a_shard_has_lost) {
  std::string lost;
  for (int i = 0; i < 7; ++i)
    directory::append_withdraw(lost, {key_named(std::to_string(i)), here.inc, {1u << 20}});
  ask<std::uint64_t>(shard_there, withdraw_atom_v, lost);
  ASSERT_EQ(records(shard_there), 13u);
  let_a_pass_go_by();
  EXPECT_EQ(records(shard_there), 20u);
  EXPECT_EQ(count(metric::repair_records_total, {"published"}), 7u);
}

TEST_F(pool_repair_test, withdraws_what_it_no_longer_holds) {
  // Publishes records of pages that nobody holds, as if their withdrawals had been lost.
  for (int i = 100; i < 105; ++i)
    ask<std::string>(shard_here, publish_atom_v, publication(key_named(std::to_string(i)), here));
  ASSERT_EQ(records(shard_here), 25u);
  let_a_pass_go_by();
  EXPECT_EQ(records(shard_here), 20u);
  EXPECT_EQ(count(metric::repair_records_total, {"withdrawn"}), 5u);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(locations(shard_here, key_named(std::to_string(i))).size(), 1u);
}

TEST_F(pool_repair_test, leaves_the_records_of_other_nodes_alone) {
  ask<std::string>(shard_here, publish_atom_v, publication(key_named("theirs"), there));
  let_a_pass_go_by();
  EXPECT_EQ(locations(shard_here, key_named("theirs")).size(), 1u);
}

TEST_F(pool_repair_test, a_shard_out_of_reach_holds_nothing_up) {
  tell_everyone(topology_of({{here, shard_here}, {there, {}}}, 1));
  let_a_pass_go_by();
  EXPECT_EQ(count(metric::repair_records_total, {"withdrawn"}), 0u);
}

} // namespace
} // namespace peercache::actors

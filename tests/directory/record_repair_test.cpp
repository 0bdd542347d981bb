#include "directory/record_repair.hpp"

#include "directory/shard_batch.hpp"
#include "directory/shard_repair.hpp"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <set>

namespace peercache::directory {
namespace {

using namespace std::chrono_literals;

/// A `record_repair` of a producer with pages in memory and on disk, and the shards of three
/// owners.
class record_repair_test : public testing::Test {
protected:
  static constexpr std::uint32_t replicas = 2;
  static constexpr std::size_t pages_count = 600;

  void SetUp() override {
    for (std::size_t i = 0; i < 3; ++i) {
      discovery::member m;
      m.name = "node" + std::to_string(i);
      m.id = node_id_of(m.name);
      m.inc = {1, i + 1};
      members.push_back(m);
      living.push_back(m.inc);
    }
    ring = discovery::hash_ring(members);
    for (const auto& m : members) {
      owners.push_back(m.id);
      shards[m.id].set_members(living);
    }
    options.self = members[0].id;
    options.inc = members[0].inc;
    options.replicas = replicas;
    options.bytes_per_second = 100u << 20;
    for (std::size_t i = 0; i < pages_count; ++i)
      hold(i, i % 3 == 0 ? tier::disk : tier::memory, 2 * (i + 1));
    publish_all();
  }

  static page_key key_of(std::size_t i) { return key_space{}.key_of(std::to_string(i)); }

  void hold(std::size_t i, tier where, std::uint64_t gen) {
    auto& pages = where == tier::memory ? memory : disk;
    pages[key_of(i)] = {key_of(i), {where == tier::memory ? gen : 0}, where, 4096, i};
    newest = std::max(newest, gen);
  }

  page_location location_of(const held_page& page) const {
    return {.node = options.self,
            .holder = options.inc,
            .gen = page.gen,
            .checksum = page.checksum,
            .slot = {},
            .length_bytes = 4096,
            .where = page.where};
  }

  void publish(node_id owner, const held_page& page) {
    shards.at(owner).publish(page.key, location_of(page), publish_mode::always);
  }

  void publish_all() {
    for (const auto* pages : {&memory, &disk})
      for (const auto& [key, page] : *pages)
        for (auto owner : owners)
          if (ring.owns(owner, key, replicas))
            publish(owner, page);
  }

  /// Answers a `walk_pages` order with the producer's next `step` pages.
  void walk(record_repair& job, const record_repair::walk_pages& order) {
    std::vector<held_page> piece;
    std::uint64_t at = 0;
    std::uint64_t next = 0;
    for (const auto& [key, page] : order.on_disk ? disk : memory) {
      if (order.on_disk && memory.count(key) > 0)
        continue;
      if (at++ < order.place)
        continue;
      if (piece.size() == step) {
        next = at - 1;
        break;
      }
      piece.push_back(page);
    }
    job.walked(piece, next);
  }

  void carry_out(record_repair& job, const record_repair::action& what) {
    if (const auto* order = std::get_if<record_repair::walk_pages>(&what))
      walk(job, *order);
    else if (const auto* order = std::get_if<record_repair::compare_with>(&what)) {
      if (deaf.count(order->owner) > 0)
        return job.failed();
      job.compared(*compare_digests(shards.at(order->owner), order->comparison));
    } else if (const auto* order = std::get_if<record_repair::list_of>(&what)) {
      if (before_list)
        std::exchange(before_list, nullptr)();
      job.listed(*list_records(shards.at(order->owner), order->request));
    } else if (const auto* order = std::get_if<record_repair::repair_owner>(&what)) {
      for (const auto& page : order->publish)
        if (order->owner == full_owner)
          offered.insert(page.key);
        else
          publish(order->owner, page);
      for (const auto& record : order->withdraw)
        shards.at(order->owner).withdraw(record.key, record.holder, record.gen, record.where);
    }
  }

  /// Carries out one pass of the comparison; returns its simulated duration.
  std::chrono::milliseconds pass(record_repair& job) {
    auto begun = now;
    for (auto before = job.totals().passes; job.totals().passes == before; now += 1ms) {
      EXPECT_LT(now - begun, 1h);
      if (now - begun >= 1h)
        break;
      for (auto what = job.tick(now, {newest});
           !std::holds_alternative<record_repair::nothing>(what); what = job.tick(now, {newest}))
        carry_out(job, what);
    }
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - begun);
  }

  record_repair started() {
    record_repair job(options);
    job.follow(ring, owners, now);
    return job;
  }

  /// Whether each shard knows exactly the pages that the producer holds.
  bool all_is_right() {
    for (auto owner : owners) {
      std::size_t expected = 0;
      std::array<page_location, limits::locations_per_key_max> found;
      for (const auto* pages : {&memory, &disk})
        for (const auto& [key, page] : *pages) {
          if (!ring.owns(owner, key, replicas) || (pages == &disk && memory.count(key) > 0))
            continue;
          ++expected;
          if (shards.at(owner).lookup(key, found) != 1 || found[0].where != page.where ||
              (page.where == tier::memory && found[0].gen != page.gen))
            return false;
        }
      if (shards.at(owner).locations() != expected)
        return false;
    }
    return true;
  }

  std::vector<discovery::member> members;
  std::vector<incarnation> living;
  std::vector<node_id> owners;
  discovery::hash_ring ring;
  std::map<node_id, shard> shards;
  std::map<page_key, held_page> memory;
  std::map<page_key, held_page> disk;
  std::set<node_id> deaf;
  node_id full_owner;         ///< The owner that refuses all records.
  std::set<page_key> offered; ///< Keys that were offered to `full_owner`.
  std::function<void()> before_list;
  std::uint64_t newest = 0;
  std::size_t step = 100;
  record_repair::options options;
  record_repair::time_point now{1h};
};

TEST_F(record_repair_test, where_all_agree_only_digests_travel) {
  auto job = started();
  pass(job);
  EXPECT_EQ(job.totals().differing_ranges, 0u);
  EXPECT_EQ(job.totals().published + job.totals().withdrawn, 0u);
  EXPECT_EQ(job.totals().bytes, 3 * (16u + sizeof(holder_digest)));
}

TEST_F(record_repair_test, records_that_an_owner_lost_are_published_to_it_again) {
  auto& shard = shards.at(owners[1]);
  shard.set_members({});
  shard.set_members(living);
  ASSERT_FALSE(all_is_right());
  auto job = started();
  pass(job);
  EXPECT_TRUE(all_is_right());
  EXPECT_EQ(job.totals().published, shard.locations());
  EXPECT_EQ(job.totals().withdrawn, 0u);
}

TEST_F(record_repair_test, records_of_pages_that_are_gone_are_withdrawn) {
  std::size_t gone = 0;
  for (std::size_t i = 0; i < pages_count; i += 7)
    gone += memory.erase(key_of(i)) + disk.erase(key_of(i));
  auto job = started();
  pass(job);
  EXPECT_TRUE(all_is_right());
  EXPECT_EQ(job.totals().withdrawn, replicas * gone);
  EXPECT_EQ(job.totals().published, 0u);
}

TEST_F(record_repair_test, an_owner_that_should_know_nothing_of_this_node_is_asked_too) {
  memory.clear();
  disk.clear();
  auto job = started();
  pass(job);
  EXPECT_TRUE(all_is_right());
}

TEST_F(record_repair_test, older_fillings_are_replaced_and_pages_that_went_to_disk_are_said_to) {
  hold(1, tier::memory, 10'000);
  memory.erase(key_of(2));
  hold(2, tier::disk, 0);
  auto job = started();
  pass(job);
  EXPECT_TRUE(all_is_right());
}

TEST_F(record_repair_test, what_is_set_or_changes_meanwhile_is_left_alone) {
  memory.erase(key_of(1)); // Makes an owner list records, because one page differs.
  auto job = started();
  std::vector<std::size_t> fresh;
  before_list = [&] {
    for (std::size_t i = pages_count; i < pages_count + 200; ++i) {
      hold(i, tier::memory, newest + 2);
      fresh.push_back(i);
    }
    hold(2, tier::memory, newest + 2);
    publish_all();
  };
  pass(job);
  EXPECT_TRUE(all_is_right());
  EXPECT_LE(job.totals().withdrawn, replicas) << "nothing but the page that is gone";
}

TEST_F(record_repair_test, an_owner_out_of_reach_is_left_for_the_next_pass) {
  for (auto owner : owners) {
    shards.at(owner).set_members({});
    shards.at(owner).set_members(living);
  }
  deaf = {owners[0]};
  auto job = started();
  pass(job);
  EXPECT_FALSE(all_is_right());
  deaf.clear();
  pass(job);
  EXPECT_TRUE(all_is_right());
}

TEST_F(record_repair_test, takes_its_time) {
  shards.at(owners[1]).set_members({});
  shards.at(owners[1]).set_members(living);
  options.bytes_per_second = 4096;
  auto job = started();
  auto took = pass(job) - options.settling;
  EXPECT_TRUE(all_is_right());
  auto at_least = std::chrono::seconds((job.totals().bytes - 2 * 4096) / 4096);
  EXPECT_GE(took, std::chrono::duration_cast<std::chrono::milliseconds>(at_least) * 9 / 10);
}

TEST_F(record_repair_test, collects_no_more_at_once_than_its_bound_and_gets_round_all_the_same) {
  for (auto owner : owners) {
    shards.at(owner).set_members({});
    shards.at(owner).set_members(living);
  }
  options.collected_max = 20;
  auto job = started();
  pass(job);
  EXPECT_LE(job.totals().published, 3 * 30u);
  for (int i = 0; i < 80 && !all_is_right(); ++i)
    pass(job);
  EXPECT_TRUE(all_is_right());
}

TEST_F(record_repair_test, ranges_that_differ_for_ever_do_not_keep_others_waiting) {
  // The shard of owners[1] takes no more locations of any key, as if each key had enough of them.
  auto& full = shards.at(owners[1]);
  full.set_members({});
  full.set_members(living);
  full_owner = owners[1];
  options.collected_max = 20;
  auto job = started();
  std::size_t due = 0;
  for (const auto* pages : {&memory, &disk})
    for (const auto& [key, page] : *pages)
      due += ring.owns(full_owner, key, replicas) ? 1 : 0;
  // The owner has about six pages in each of 64 ranges; one pass takes two or three ranges.
  for (int i = 0; i < 40; ++i)
    pass(job);
  EXPECT_EQ(offered.size(), due) << "each was offered, though none was ever taken";
}

TEST_F(record_repair_test, compares_soon_after_a_change_of_view_and_then_at_leisure) {
  auto job = started();
  for (int views = 0; views < 2; ++views) {
    // Makes a shard forget all records, as when it learns late that a view lacked the producer's
    // node.
    shards.at(owners[1]).set_members({});
    shards.at(owners[1]).set_members(living);
    job.follow(ring, owners, now);
    const auto took = pass(job);
    EXPECT_GE(took, options.settling);
    EXPECT_LT(took, options.pause / 2);
    EXPECT_TRUE(all_is_right());
  }
  EXPECT_GE(pass(job), options.pause / 2);
}

TEST_F(record_repair_test, a_new_view_ends_the_pass_and_a_late_answer_is_ignored) {
  auto job = started();
  now += options.pause;
  auto first = job.tick(now, {newest});
  ASSERT_TRUE(std::holds_alternative<record_repair::walk_pages>(first));
  job.follow(ring, owners, now);
  job.walked({}, 0);
  EXPECT_TRUE(std::holds_alternative<record_repair::nothing>(job.tick(now, {newest})));
  pass(job);
  EXPECT_TRUE(all_is_right());
}

TEST_F(record_repair_test, what_a_pass_had_collected_is_forgotten_with_it) {
  auto publish_to_owners = [this](std::size_t i) {
    for (auto owner : owners)
      if (ring.owns(owner, key_of(i), replicas))
        publish(owner, memory.at(key_of(i)));
  };
  memory.erase(key_of(1)); // Makes the repair collect pages, because one page differs.
  auto job = started();
  before_list = [&] {
    // The collection saw every page of this range on disk only; the pages are in memory again
    // before the next collection.
    job.follow(ring, owners, now);
    for (std::size_t i = 0; i < pages_count; i += 3) {
      hold(i, tier::memory, newest + 2);
      publish_to_owners(i);
    }
  };
  pass(job);
  pass(job);
  EXPECT_TRUE(all_is_right()) << "no page in memory is said to be on disk only";
}

TEST_F(record_repair_test, malformed_answers_and_requests_change_nothing) {
  shards.at(owners[0]).set_members({});
  shards.at(owners[0]).set_members(living);
  shard any;
  EXPECT_FALSE(compare_digests(any, "short"));
  EXPECT_FALSE(list_records(any, std::string(31, 'x')));
  EXPECT_FALSE(list_records(any, std::string(32, 'x')));
  EXPECT_FALSE(split_list("1234567"));
  EXPECT_FALSE(split_list(std::string(9, '\0')));
  auto job = started();
  now += options.pause;
  for (auto what = job.tick(now, {newest}); !std::holds_alternative<record_repair::nothing>(what);
       what = job.tick(now, {newest})) {
    if (std::holds_alternative<record_repair::list_of>(what))
      job.listed("garbage");
    else
      carry_out(job, what);
  }
  EXPECT_EQ(job.totals().published + job.totals().withdrawn, 0u);
}

TEST_F(record_repair_test, is_off_without_a_budget) {
  options.bytes_per_second = 0;
  auto job = started();
  EXPECT_TRUE(
      std::holds_alternative<record_repair::nothing>(job.tick(now + 10 * options.pause, {newest})));
}

} // namespace
} // namespace peercache::directory

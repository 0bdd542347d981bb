#include "local_ring.hpp"

#include <algorithm>
#include <csignal>

namespace peercache::real::node_loss_test {

namespace {

using node_loss = local_ring;

constexpr std::uint32_t pages = 64;

bool is_miss_with_a_reason(page_status status) {
  return !is_success(status) && status != page_status::pending && status != page_status::corrupt &&
         status != page_status::bad_size;
}

} // namespace

TEST_F(node_loss, a_stopped_node_costs_misses_in_time_and_serves_again_afterwards) {
  auto producer = client_of(1);
  auto reader = client_of(0);
  put(*producer, 0, pages);
  ASSERT_EQ(count_existing(*reader, 0, pages), pages);
  ASSERT_EQ(get(*reader, 0).result.status, page_status::hit);
  freeze(1);
  constexpr milliseconds deadline(300);
  for (std::uint32_t id = 0; id < pages; ++id) {
    auto read = get(*reader, id, deadline);
    EXPECT_TRUE(is_miss_with_a_reason(read.result.status)) << to_string(read.result.status);
    EXPECT_TRUE(took_at_most(deadline + milliseconds(50), read))
        << "page " << id << ": " << to_string(read.result.status);
  }
  node(1).process().signal(SIGCONT);
  EXPECT_TRUE(within(milliseconds(15'000), [&] {
    auto read = get(*reader, 1);
    EXPECT_TRUE(read.result.status != page_status::hit || read.check.wrong_bytes == 0);
    return read.result.status == page_status::hit;
  }));
}

TEST_F(node_loss, readers_of_other_nodes_are_not_slowed_by_a_stopped_one) {
  auto stopped = client_of(1);
  auto healthy = client_of(2);
  auto reader = client_of(0);
  put(*stopped, 0, pages);
  put(*healthy, pages, pages);
  ASSERT_EQ(count_existing(*reader, 0, 2 * pages), 2 * pages);
  auto median_get = [&] {
    std::vector<clock::duration> took;
    for (int round = 0; round < 8; ++round)
      for (std::uint32_t id = pages; id < 2 * pages; ++id) {
        auto read = get(*reader, id);
        EXPECT_EQ(read.result.status, page_status::hit);
        took.push_back(read.took);
      }
    std::nth_element(took.begin(), took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2),
                     took.end());
    return took[took.size() / 2];
  };
  median_get();
  // The speed of the machine varies: each measurement with a frozen node is compared with the
  // measurements right before and after it, and the median of these ratios counts.
  std::vector<double> slower;
  for (std::uint32_t round = 0; round < 9; ++round) {
    auto before = median_get();
    freeze(1);
    get(*reader, round, milliseconds(100));
    auto while_stopped = median_get();
    node(1).process().signal(SIGCONT);
    auto after = median_get();
    slower.push_back(2.0 * static_cast<double>(while_stopped.count()) /
                     static_cast<double>((before + after).count()));
  }
  std::nth_element(slower.begin(), slower.begin() + 4, slower.end());
  EXPECT_LE(slower[4], 1.2);
}

TEST_F(node_loss, a_shard_that_was_out_knows_nothing_of_the_pages_that_went_meanwhile) {
  auto producer = client_of(1);
  put(*producer, 0, pages);
  freeze(2);
  ASSERT_TRUE(within(milliseconds(15'000), [&] { return producer->view().members.size() == 2; }));
  std::vector<page_key> keys;
  for (std::uint32_t id = 0; id < pages; ++id)
    keys.push_back(key_of(id));
  std::vector<client::page_result> removed(pages);
  producer->remove(keys, removed);
  for (const auto& each : removed)
    EXPECT_EQ(to_string(each.status), to_string(page_status::hit));
  node(2).process().signal(SIGCONT);
  ASSERT_TRUE(within(milliseconds(15'000), [&] { return producer->view().members.size() == 3; }));
  auto reader = client_of(2, milliseconds(10'000));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(count_existing(*reader, 0, pages), 0u) << "its own shard is asked first";
  put(*reader, 0, pages);
  EXPECT_EQ(count_existing(*producer, 0, pages), pages) << "none was taken for a duplicate";
}

TEST_F(node_loss, the_pages_of_a_killed_producer_are_gone_within_three_seconds) {
  auto reader = client_of(0);
  const auto are_gone = [&] {
    return count_told(*reader, 0, pages, page_status::not_found) == pages;
  };
  bool in_time = false;
  for (int round = 0; round < rounds_max && !in_time; ++round) {
    if (round > 0) {
      ASSERT_TRUE(within(milliseconds(15'000), are_gone)) << "somebody knows them for good";
      ASSERT_TRUE(restart(1));
    }
    put(*client_of(1), 0, pages);
    if (HasFatalFailure())
      return;
    ASSERT_EQ(count_existing(*reader, 0, pages), pages);
    node(1).process().kill_now();
    in_time = within_own_time(milliseconds(3000), are_gone);
  }
  EXPECT_TRUE(in_time) << "somebody knows them, or cannot be asked";
  for (std::uint32_t id = 0; id < pages; ++id)
    EXPECT_TRUE(is_miss_with_a_reason(get(*reader, id).result.status));
}

TEST_F(node_loss, a_client_finds_its_own_node_again_after_a_restart) {
  auto client = client_of(1);
  put(*client, 0, pages);
  auto restarted = restart(1);
  ASSERT_TRUE(restarted) << restarted.error().message;
  std::uint32_t id = 1000;
  page_status last = page_status::pending;
  EXPECT_TRUE(within(milliseconds(5000), [&] {
    last = put_one(*client, id++, 0);
    return last == page_status::stored;
  })) << to_string(last);
  auto unpublished = client->flush();
  ASSERT_TRUE(unpublished);
  EXPECT_EQ(count_existing(*client_of(0), id - 1, 1), 1u);
}

TEST_F(node_loss, a_restarted_node_serves_fresh_pages_and_none_of_its_old_records) {
  auto reader = client_of(0);
  put(*client_of(1), 0, pages, 1);
  ASSERT_EQ(count_existing(*reader, 0, pages), pages);
  auto restarted = restart(1);
  ASSERT_TRUE(restarted) << restarted.error().message;
  // No page was put since the holder's restart, so there must be no hit, even while the directory
  // still has the records of the holder's former process.
  auto no_hits = [&] {
    for (std::uint32_t id = 0; id < pages; ++id)
      EXPECT_NE(get(*reader, id).result.status, page_status::hit) << "page " << id;
  };
  ASSERT_TRUE(within(milliseconds(10'000), [&] {
    no_hits();
    return count_existing(*reader, 0, pages) == 0;
  }));
  no_hits();
  auto producer = client_of(1);
  put(*producer, 0, pages / 2, 2);
  for (std::uint32_t id = 0; id < pages / 2; ++id) {
    auto read = get(*reader, id);
    EXPECT_EQ(to_string(read.result.status), to_string(page_status::hit));
    EXPECT_EQ(read.check.wrong_bytes, 0u);
    EXPECT_EQ(read.check.version, 2u);
  }
  EXPECT_EQ(count_existing(*reader, pages / 2, pages / 2), 0u);
}

} // namespace peercache::real::node_loss_test

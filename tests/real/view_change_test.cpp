#include "common/test_guards.hpp"
#include "survival_ring.hpp"

#include <csignal>
#include <future>

namespace peercache::real {

namespace {

using view_change = local_ring;
using late_view_change = survival_ring;

constexpr std::uint32_t pages = 96;

class drain_without_time : public local_ring {
protected:
  drain_without_time() { prototype_.flags = {"--drain-timeout", "0ms"}; }
};

} // namespace

TEST_F(late_view_change, the_keys_of_a_killed_owner_are_found_at_once_before_the_new_view) {
  start_ring({.count = 3, .heartbeat = milliseconds(1000), .expiry = milliseconds(20'000)});
  if (HasFatalFailure())
    return;
  auto producer = client_of(1);
  auto reader = client_of(0);
  put(*producer, 0, pages);
  ASSERT_EQ(count_existing(*reader, 0, pages), pages);
  node(2).process().kill_now();
  EXPECT_EQ(count_existing(*reader, 0, pages), pages);
  EXPECT_EQ(reader->view().members.size(), 3u) << "nobody has noticed so far";
  for (std::uint32_t id = 0; id < pages; ++id)
    EXPECT_EQ(to_string(get(*reader, id).result.status), to_string(page_status::hit));
  ASSERT_TRUE(within(milliseconds(40'000), [&] { return reader->view().members.size() == 2; }));
  EXPECT_EQ(count_existing(*reader, 0, pages), pages);
}

TEST_F(view_change, while_a_node_leaves_in_good_order_no_key_of_the_others_is_missed) {
  auto producer = client_of(1);
  auto reader = client_of(0);
  put(*producer, 0, pages);
  node(2).ask_to_stop();
  auto stopped = std::async(std::launch::async, [&] { return node(2).stop(milliseconds(10'000)); });
  std::uint32_t rounds = 0;
  for (auto gone = std::future_status::timeout; gone != std::future_status::ready; ++rounds) {
    ASSERT_EQ(count_existing(*reader, 0, pages), pages) << "round " << rounds;
    gone = stopped.wait_for(milliseconds(1));
  }
  EXPECT_EQ(stopped.get(), 0);
  ASSERT_TRUE(within(milliseconds(5000), [&] { return reader->view().members.size() == 2; }));
  EXPECT_EQ(count_existing(*reader, 0, pages), pages);
}

TEST_F(view_change, a_drained_node_owns_nothing_takes_nothing_and_is_read_until_it_is_undone) {
  auto drained = client_of(2);
  auto producer = client_of(1);
  auto reader = client_of(0);
  put(*drained, 0, pages);
  put(*producer, pages, pages);
  auto done = run_cli(
      {"--node", address(0), "--cluster", cluster(), "-o", "json", "drain", node(2).launch().name});
  EXPECT_EQ(done.exit_code, 0) << done.output;
  EXPECT_EQ(done.json()["complete"], true) << done.output;
  EXPECT_GT(done.json()["handed_over"].get<int>(), 0);
  EXPECT_EQ(done.json().value("left", 1), 0) << done.output;
  ASSERT_TRUE(within(milliseconds(5000), [&] {
    const auto* member = reader->view().find_name(node(2).launch().name);
    return member != nullptr && member->draining;
  }));
  EXPECT_EQ(count_existing(*reader, 0, 2 * pages), 2 * pages);
  for (std::uint32_t id = 0; id < pages; ++id)
    EXPECT_EQ(to_string(get(*reader, id).result.status), to_string(page_status::hit));
  // Slots that were leased before the drain may still be used, so the first puts may succeed.
  EXPECT_TRUE(within(milliseconds(5000), [&] {
    static std::uint32_t id = 1000;
    return put_one(*drained, id++, 0) != page_status::stored;
  }));
  auto nobody = run_cli({"--node", address(0), "--cluster", cluster(), "drain", "nobody"});
  EXPECT_EQ(nobody.exit_code, 1) << nobody.output;
  auto undone = run_cli({"--node", address(0), "--cluster", cluster(), "-o", "json", "undrain",
                         node(2).launch().name});
  EXPECT_EQ(undone.exit_code, 0) << undone.output;
  EXPECT_TRUE(within(milliseconds(5000),
                     [&] { return put_one(*drained, 2000, 0) == page_status::stored; }));
  EXPECT_EQ(count_existing(*reader, 0, 2 * pages), 2 * pages);
}

TEST_F(drain_without_time, is_not_complete_and_says_what_is_left) {
  auto producer = client_of(1);
  put(*producer, 0, pages);
  const auto done = run_cli(
      {"--node", address(0), "--cluster", cluster(), "-o", "json", "drain", node(2).launch().name});
  EXPECT_EQ(done.exit_code, 3) << done.output;
  EXPECT_EQ(done.json().value("complete", true), false) << done.output;
  EXPECT_EQ(done.json().value("handed_over", 1), 0) << done.output;
  EXPECT_GT(done.json().value("left", 0), 0) << done.output;
}

TEST_F(view_change, a_client_that_is_behind_learns_of_the_new_view_from_a_shard) {
  auto producer = client_of(1);
  fault_injected late(fault::views_late_ms, 600'000);
  auto reader = client_of(0);
  auto before = reader->view().version;
  ASSERT_EQ(run_cli({"--node", address(0), "--cluster", cluster(), "drain", node(2).launch().name})
                .exit_code,
            0);
  put(*producer, 0, pages);
  // The drained node's shard has no record of the new pages. The reader still asks it for some of
  // their keys, and the shard answers that a newer view gives these keys to other owners.
  EXPECT_TRUE(within(milliseconds(10'000), [&] {
    EXPECT_EQ(count_existing(*reader, 0, pages), pages);
    return reader->stats().view_refreshes > 0;
  }));
  EXPECT_GT(reader->view().version, before);
  EXPECT_EQ(count_existing(*reader, 0, pages), pages);
}

} // namespace peercache::real

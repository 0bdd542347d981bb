// Tests of the calls that transfer no pages: exists and remove.

#include "client/calls/chain_windows.hpp"
#include "tests/client/actors/call_rig.hpp"

#include <numeric>

namespace peercache::client {
namespace {

using manner = lookup_server::manner;

class directory_call_test : public call_rig {
protected:
  directory::page_location publish_far(std::size_t i) {
    const auto place = far.hold(key(i), bytes_of(i));
    shard.record(key(i), {place});
    return place;
  }
  static std::vector<page_key> keys_of(const std::vector<std::size_t>& which) {
    std::vector<page_key> keys;
    for (const auto i : which)
      keys.push_back(key(i));
    return keys;
  }
  static std::string packed(const std::vector<page_key>& keys) {
    std::string bytes;
    for (const auto& each : keys)
      link::append_record(bytes, each);
    return bytes;
  }
  /// Makes the node answer removals with the status `said` for each page.
  static void say_of_removed(played_node& node, page_status said) {
    node.says.removes = [said](const std::string& keys) {
      return std::string(*link::record_count<page_key>(keys), static_cast<char>(said));
    };
  }

  std::vector<page_result> exists(const std::vector<std::size_t>& which, deadline until = soon()) {
    std::vector<page_result> results(which.size());
    hold_call holds{*client, {}, results, until};
    exists_call{*client, holds, until}.run(0, keys_of(which), results, board().pool());
    client->settle_closed(results);
    return results;
  }
  /// Asks about a chain of these pages in a cluster of `members`.
  std::vector<page_result> exists_chain(const std::vector<std::size_t>& which,
                                        std::size_t members) {
    std::vector<page_result> results(which.size());
    const auto keys = keys_of(which);
    hold_call holds{*client, {}, results, soon(), true};
    exists_call call{*client, holds, soon()};
    ask_chain(results, soon(), members, [&](std::size_t done, std::size_t count) {
      call.run(done, std::span(keys).subspan(done, count), std::span(results).subspan(done, count),
               board().pool());
    });
    return results;
  }
  std::vector<page_result> remove(const std::vector<std::size_t>& which, deadline until = soon()) {
    std::vector<page_result> results(which.size());
    auto lookup = client->lookup();
    const auto keys = keys_of(which);
    remove_call{*client, keys, results, until}.run(lookup);
    client->settle_closed(results);
    return results;
  }
  std::vector<page_result> remove_everywhere(const std::vector<std::size_t>& which) {
    std::vector<page_result> results(which.size());
    const auto keys = keys_of(which);
    remove_call{*client, keys, results, soon()}.run_everywhere();
    return results;
  }
};

// -- tests of `exists`

TEST_F(directory_call_test, exists_says_where_each_page_is_and_how_long) {
  start();
  near.hold(key(1), bytes_of(1, 64));
  publish_far(2);
  directory::page_location cold;
  cold.node = far.self.id;
  cold.holder = far.self.inc;
  cold.gen = {2};
  cold.length_bytes = 128;
  cold.where = directory::tier::disk;
  shard.record(key(3), {cold});
  const auto results = exists({0, 1, 2, 3});
  EXPECT_EQ(results[0].status, status::not_found);
  EXPECT_EQ(results[0].length_bytes, 0u);
  const std::vector<std::pair<page_origin, std::uint32_t>> wanted{
      {page_origin::own_host, 64}, {page_origin::other_host, page_bytes}, {page_origin::disk, 128}};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(results[i + 1].status, status::hit);
    EXPECT_EQ(results[i + 1].origin, wanted[i].first);
    EXPECT_EQ(results[i + 1].length_bytes, wanted[i].second);
  }
}

TEST_F(directory_call_test, exists_has_a_page_on_a_disk_brought_into_memory) {
  start();
  directory::page_location cold;
  cold.node = far.self.id;
  cold.holder = far.self.inc;
  cold.length_bytes = page_bytes;
  cold.where = directory::tier::disk;
  shard.record(key(1), {cold});
  exists({1});
  await(far, [this] { return !far.says.warmed.empty(); });
  ASSERT_EQ(link::record_count<link::promoted_page>(far.says.warmed), 1u);
  EXPECT_EQ(link::record_at<link::promoted_page>(far.says.warmed, 0).key, key(1));
}

TEST_F(directory_call_test, a_get_after_an_exists_asks_nobody) {
  start();
  publish_far(1);
  exists({1});
  const auto asked = questions();
  expect_hit(1, page_origin::other_host);
  EXPECT_EQ(questions(), asked);
}

TEST_F(directory_call_test, exists_forgets_the_place_of_a_page_that_is_gone) {
  start();
  publish_far(1);
  exists({1});
  ASSERT_TRUE(client->locations.find(key(1)));
  shard.record(key(1), {});
  EXPECT_EQ(exists({1})[0].status, status::not_found);
  EXPECT_FALSE(client->locations.find(key(1)));
}

TEST_F(directory_call_test, exists_keeps_the_place_of_a_page_that_nobody_could_be_asked_for) {
  start();
  publish_far(1);
  exists({1});
  shard.behave(manner::breaks);
  EXPECT_EQ(exists({1})[0].status, status::unreachable);
  EXPECT_TRUE(client->locations.find(key(1)));
}

TEST_F(directory_call_test, exists_asks_nobody_without_time_but_finds_what_is_here) {
  start();
  near.hold(key(1), bytes_of(1));
  publish_far(2);
  const auto results = exists({1, 2}, at_once());
  EXPECT_EQ(results[0].status, status::hit);
  EXPECT_EQ(results[1].status, status::timed_out);
  EXPECT_EQ(shard.questions(), 0u);
}

TEST_F(directory_call_test, a_chain_is_found_as_its_pages_are_up_to_the_first_gap) {
  start();
  std::vector<std::size_t> which(128);
  std::iota(which.begin(), which.end(), 0);
  for (std::size_t i = 0; i < 128; ++i)
    if (i % 3 == 0)
      near.hold(key(i), bytes_of(i));
    else if (i != 40)
      publish_far(i);
  for (const std::size_t members : {2, 64, 1000}) {
    const auto asked = shard.questions();
    const auto results = exists_chain(which, members);
    EXPECT_EQ(leading_hits(results), 40u);
    EXPECT_EQ(shard.questions() - asked, members < 64 ? 1u : 2u) << "one for each window";
    const auto each = exists(which);
    for (std::size_t i = 0; i <= 40; ++i) {
      EXPECT_EQ(results[i].status, each[i].status);
      EXPECT_EQ(results[i].origin, each[i].origin);
      EXPECT_EQ(results[i].length_bytes, each[i].length_bytes);
    }
  }
}

TEST_F(directory_call_test, of_a_chain_without_its_head_many_members_are_asked_about_one_window) {
  start();
  std::vector<std::size_t> which(128);
  std::iota(which.begin(), which.end(), 0);
  for (const std::size_t i : {1, 20, 127})
    publish_far(i);
  auto results = exists_chain(which, 1000);
  EXPECT_EQ(shard.questions(), 1u);
  EXPECT_EQ(results[1].status, status::hit);
  EXPECT_EQ(results[20].status, status::pending) << "not asked about";
  EXPECT_FALSE(client->locations.find(key(20)));
  results = exists_chain(which, 2);
  EXPECT_EQ(shard.questions(), 2u);
  EXPECT_EQ(results[127].status, status::hit) << "few members are asked about all at once";
}

// -- tests of `remove`

TEST_F(directory_call_test, a_removed_page_is_taken_from_each_holder_and_its_place_forgotten) {
  start();
  shard.record(key(1), {near.hold(key(1), bytes_of(1)), far.hold(key(1), bytes_of(1))});
  client->locations.store(key(1), {});
  say_of_removed(near, status::hit);
  say_of_removed(far, status::not_found);
  EXPECT_EQ(remove({1})[0].status, status::hit);
  EXPECT_EQ(near.says.removed, std::vector{packed(keys_of({1}))});
  EXPECT_EQ(far.says.removed, std::vector{packed(keys_of({1}))});
  EXPECT_FALSE(client->locations.find(key(1)));
  const auto told = board().stale.take();
  ASSERT_EQ(told.size(), 1u) << "one holder had it not";
  EXPECT_EQ(told[0].holder, far.self.inc);
}

TEST_F(directory_call_test, a_page_of_this_host_is_removed_before_the_directory_knows_it) {
  start();
  near.hold(key(1), bytes_of(1));
  say_of_removed(near, status::hit);
  EXPECT_EQ(remove({1, 2})[0].status, status::hit);
  EXPECT_EQ(near.says.removed, std::vector{packed(keys_of({1}))}) << "and not the other one";
}

TEST_F(directory_call_test, a_holder_that_does_not_answer_may_have_the_page_still) {
  start();
  publish_far(1);
  EXPECT_EQ(remove({1}, at_once() + std::chrono::milliseconds(100))[0].status, status::timed_out);
}

TEST_F(directory_call_test, a_silent_holder_is_not_asked_for_the_next_piece) {
  start();
  publish_far(1);
  publish_far(2);
  auto lookup = client->lookup();
  std::vector<silent_holder> silent;
  const auto piece = [&](std::size_t i, bool is_last) {
    std::vector<page_result> results(1);
    const auto keys = keys_of({i});
    remove_call call{*client, keys, results, soon()};
    call.leave_out(silent, is_last);
    call.run(lookup);
    return results[0].status;
  };
  EXPECT_EQ(piece(1, false), status::timed_out) << "it may not take all of the minute";
  ASSERT_EQ(silent.size(), 1u);
  EXPECT_EQ(silent[0].holder, far.self.inc);
  EXPECT_EQ(piece(2, true), status::timed_out);
  settle(far);
  EXPECT_EQ(far.says.removed.size(), 1u);
}

TEST_F(directory_call_test, a_remove_that_waits_for_a_holder_ends_with_the_client) {
  start();
  publish_far(1);
  std::vector<page_result> waiting;
  std::thread caller([&] { waiting = remove({1}); });
  await(far, [this] { return !far.says.removed.empty(); });
  client->close();
  caller.join();
  EXPECT_EQ(waiting[0].status, status::closed);
}

TEST_F(directory_call_test, everywhere_each_member_is_asked_and_the_directory_is_not) {
  start();
  say_of_removed(near, status::not_found);
  say_of_removed(far, status::hit);
  const auto results = remove_everywhere({1, 2});
  EXPECT_EQ(results[0].status, status::hit);
  EXPECT_EQ(results[1].status, status::hit);
  EXPECT_EQ(near.says.removed, std::vector{packed(keys_of({1, 2}))});
  EXPECT_EQ(questions(), 0u);
}

TEST_F(directory_call_test, nothing_is_gone_everywhere_while_a_former_member_is_away) {
  start();
  say_of_removed(near, status::hit);
  show({&near}, 2);
  EXPECT_EQ(remove_everywhere({1})[0].status, status::unreachable);
  EXPECT_EQ(board().nodes_gone(*board().topology()), std::vector<std::string>{"far"});
}

} // namespace
} // namespace peercache::client

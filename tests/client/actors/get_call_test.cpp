#include "tests/client/actors/call_rig.hpp"

#include "common/test_guards.hpp"

namespace peercache::client {
namespace {

using manner = lookup_server::manner;

class get_call_test : public call_rig {
protected:
  /// Puts page `i` into the pool of `far`, and its location into the directory. Returns the
  /// location.
  directory::page_location publish_far(std::size_t i) {
    const auto place = far.hold(key(i), bytes_of(i));
    shard.record(key(i), {place});
    return place;
  }
  /// Records in the directory that page `i` is on the disk of `far`. Returns the location.
  directory::page_location record_on_disk(std::size_t i) {
    directory::page_location place;
    place.node = far.self.id;
    place.holder = far.self.inc;
    place.gen = {2};
    place.length_bytes = page_bytes;
    place.where = directory::tier::disk;
    shard.record(key(i), {place});
    return place;
  }
  /// Makes `far` promote page `i` into its pool when a client asks it to.
  void bring(std::size_t i) {
    far.says.promotes = [this, i](const std::string&) {
      const auto place = far.hold(key(i), bytes_of(i));
      std::string said;
      directory::append_answer(said, {&place, 1});
      return said;
    };
  }
  void bring_nothing() {
    far.says.promotes = [](const std::string&) {
      std::string said;
      directory::append_answer(said, {});
      return said;
    };
  }
  /// Waits up to 20 s until the condition holds. Returns whether it holds.
  static bool comes_true(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    return condition();
  }
  void spoil(const played_node& holder, const directory::page_location& page) {
    holder.memory.slots().bytes(page.slot, page_bytes)[page_bytes / 2] ^= std::byte{1};
  }
  /// Returns what the client has counted in this metric for its reads from `far`.
  double counted(metrics::metric id) const {
    metrics::samples said;
    client->reads->add_to(said);
    return said.value(id, {"far"});
  }
  static client_options with(verify_mode how) {
    client_options options;
    options.verify_own_host = options.verify_tcp = how;
    options.verify_sample = 2;
    return options;
  }
};

// -- tests of pages of this host

TEST_F(get_call_test, a_page_of_this_host_costs_no_question) {
  start();
  near.hold(key(1), bytes_of(1));
  expect_hit(1, page_origin::own_host);
  EXPECT_EQ(questions(), 0u);
}

TEST_F(get_call_test, bytes_that_are_not_those_of_the_record_are_a_miss) {
  start();
  spoil(near, near.hold(key(1), bytes_of(1)));
  spoil(far, publish_far(2));
  expect_miss(1, status::corrupt);
  expect_miss(2, status::corrupt);
}

TEST_F(get_call_test, of_a_sample_one_page_of_so_many_is_compared) {
  start(with(verify_mode::sample));
  spoil(near, near.hold(key(1), bytes_of(1)));
  for (const auto wanted : {status::corrupt, status::hit, status::corrupt, status::hit})
    EXPECT_EQ(get({1})[0].status, wanted);
}

TEST_F(get_call_test, nothing_is_compared_where_that_is_switched_off) {
  start(with(verify_mode::off));
  spoil(near, near.hold(key(1), bytes_of(1)));
  spoil(far, publish_far(2));
  for (const auto& result : get({1, 2, 1, 2}))
    EXPECT_EQ(result.status, status::hit);
}

TEST_F(get_call_test, nothing_is_copied_after_the_deadline) {
  start();
  near.hold(key(1), bytes_of(1));
  expect_miss(1, status::timed_out, at_once());
  EXPECT_EQ(got[0], std::vector<std::byte>(page_bytes)) << "its caller's memory is as it was";
  expect_hit(1, page_origin::own_host);
}

TEST_F(get_call_test, nothing_of_this_host_is_read_once_its_node_has_left_the_cluster) {
  start();
  shard.record(key(1), {near.hold(key(1), bytes_of(1))});
  near.memory.epochs().close();
  expect_miss(1, status::holder_gone);
  near.memory.epochs().open();
  expect_hit(1, page_origin::own_host);
}

// -- tests of pages of other hosts

TEST_F(get_call_test, a_page_of_another_host_is_asked_for_once_and_its_place_remembered) {
  start();
  publish_far(1);
  expect_hit(1, page_origin::other_host);
  EXPECT_EQ(questions(), 1u);
  expect_hit(1, page_origin::other_host);
  EXPECT_EQ(questions(), 1u);
  EXPECT_EQ(client->totals.location_cache_hits, 1u);
  EXPECT_EQ(client->totals.retries, 0u);
}

TEST_F(get_call_test, without_a_location_cache_each_get_asks) {
  client_options options;
  options.location_cache_keys = 0;
  start(options);
  publish_far(1);
  expect_hit(1, page_origin::other_host);
  expect_hit(1, page_origin::other_host);
  EXPECT_EQ(questions(), 2u);
}

TEST_F(get_call_test, a_page_that_moved_within_its_holder_is_read_where_that_says) {
  start();
  const auto before = publish_far(1);
  expect_hit(1, page_origin::other_host);
  far.evict(before);
  bring(1);
  expect_hit(1, page_origin::disk);
  EXPECT_EQ(client->totals.retries, 1u);
  EXPECT_TRUE(board().stale.take().empty()) << "it was the client's memory, not a record";
}

TEST_F(get_call_test, a_page_that_moved_to_this_host_is_found_by_the_same_call) {
  start();
  const auto before = publish_far(1);
  expect_hit(1, page_origin::other_host);
  far.evict(before);
  bring_nothing();
  shard.record(key(1), {near.hold(key(1), bytes_of(1), /*indexed=*/false)});
  expect_hit(1, page_origin::own_host);
  EXPECT_EQ(client->totals.retries, 1u);
}

TEST_F(get_call_test, a_record_that_its_holder_denies_twice_is_told_to_the_directory) {
  start();
  const auto place = publish_far(1);
  far.evict(place);
  bring_nothing();
  expect_miss(1, status::stale);
  const auto told = board().stale.take();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].holder, far.self.inc);
  EXPECT_EQ(told[0].gen, place.gen);
}

TEST_F(get_call_test, a_page_on_a_disk_is_brought_into_memory_and_read) {
  start();
  record_on_disk(1);
  bring(1);
  expect_hit(1, page_origin::disk);
  const auto asked = link::record_at<link::promoted_page>(far.says.promoted[0], 0);
  EXPECT_EQ(asked.key, key(1));
  EXPECT_EQ(asked.length_bytes, page_bytes);
  expect_hit(1, page_origin::other_host);
  EXPECT_EQ(far.says.promoted.size(), 1u) << "its new place is remembered";
}

TEST_F(get_call_test, a_page_from_a_disk_is_read_while_others_are_still_on_theirs) {
  start();
  record_on_disk(1);
  record_on_disk(2);
  bool first_was_read = false;
  far.says.promotes = [&](const std::string& asked) {
    const std::size_t i = link::record_at<link::promoted_page>(asked, 0).key == key(1) ? 1 : 2;
    if (i == 2)
      first_was_read = comes_true([this] { return serving->latest().stats.bytes_sent > 0; });
    const auto place = far.hold(key(i), bytes_of(i));
    std::string said;
    directory::append_answer(said, {&place, 1});
    return said;
  };
  const auto results = get({1, 2});
  EXPECT_TRUE(first_was_read) << "the second page comes from its disk after that";
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].status, status::hit);
    EXPECT_EQ(results[i].origin, page_origin::disk);
    EXPECT_EQ(got[i], bytes_of(i + 1));
  }
}

TEST_F(get_call_test, a_node_that_answers_for_some_pages_only_costs_the_others_alone) {
  start();
  record_on_disk(1);
  record_on_disk(2);
  far.says.promotes = [this](const std::string& asked) {
    std::string said;
    if (link::record_at<link::promoted_page>(asked, 0).key != key(1))
      return said; // A malformed answer counts as if the node had not promoted the page.
    const auto place = far.hold(key(1), bytes_of(1));
    directory::append_answer(said, {&place, 1});
    return said;
  };
  const auto results = get({1, 2});
  EXPECT_EQ(results[0].status, status::hit);
  EXPECT_EQ(got[0], bytes_of(1));
  EXPECT_EQ(results[1].status, status::stale);
  EXPECT_EQ(far.says.promoted.size(), 3u) << "each page, and the second one again";
}

TEST_F(get_call_test, a_disk_that_has_its_page_no_more_is_asked_twice) {
  start();
  record_on_disk(1);
  bring_nothing();
  expect_miss(1, status::stale);
  EXPECT_EQ(far.says.promoted.size(), 2u);
}

TEST_F(get_call_test, a_node_that_brings_nothing_in_time_costs_no_more_than_the_deadline) {
  start();
  record_on_disk(1);
  expect_miss(1, status::timed_out, at_once() + std::chrono::milliseconds(100));
}

TEST_F(get_call_test, a_get_that_waits_for_a_disk_ends_with_the_client) {
  start();
  record_on_disk(1);
  std::thread caller([&] { expect_miss(1, status::closed); });
  await(far, [this] { return !far.says.promoted.empty(); });
  client->close();
  caller.join();
}

TEST_F(get_call_test, a_page_of_another_length_is_none) {
  start();
  shard.record(key(1), {far.hold(key(1), bytes_of(1, 64))});
  expect_miss(1, status::bad_size);
}

TEST_F(get_call_test, a_holder_that_left_the_view_has_nothing) {
  start();
  publish_far(1);
  expect_hit(1, page_origin::other_host);
  show({&near}, 2);
  expect_miss(1, status::not_found);
}

TEST_F(get_call_test, pages_in_all_places_are_one_call) {
  start();
  near.hold(key(1), bytes_of(1));
  publish_far(2);
  record_on_disk(3);
  bring(3);
  shard.record(key(6), {near.hold(key(6), bytes_of(6))});
  const auto results = get({0, 1, 2, 3, 6});
  const std::vector<page_origin> wanted{page_origin::none, page_origin::own_host,
                                        page_origin::other_host, page_origin::disk,
                                        page_origin::own_host};
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].status, i == 0 ? status::not_found : status::hit) << i;
    EXPECT_EQ(results[i].origin, wanted[i]) << i;
  }
  EXPECT_EQ(got[1], bytes_of(1));
  EXPECT_EQ(got[2], bytes_of(2));
  EXPECT_EQ(got[3], bytes_of(3));
  EXPECT_EQ(got[4], bytes_of(6));
}

TEST_F(get_call_test, a_directory_that_takes_one_page_for_another_brings_no_wrong_byte) {
  start();
  publish_far(1);
  publish_far(2);
  bring_nothing();
  fault_injected swapped{fault::swap_locations_one_in, 1};
  for (const auto& result : get({1, 2}))
    EXPECT_EQ(result.status, status::stale) << to_string(result.status);
}

TEST_F(get_call_test, load_is_counted_for_no_longer_than_the_read) {
  start();
  publish_far(1);
  get({1});
  EXPECT_EQ(client->load.outstanding(far.self.inc), 0u);
}

// -- tests of directory shards that fail, and of counts by peer

TEST_F(get_call_test, what_comes_over_tcp_is_counted_by_the_name_of_the_peer) {
  start();
  publish_far(1);
  publish_far(2);
  const auto results = get({1, 2, 3});
  ASSERT_EQ(results[1].origin, page_origin::other_host);
  EXPECT_EQ(counted(metrics::metric::tcp_peer_reads_total), 2);
  EXPECT_EQ(counted(metrics::metric::tcp_peer_bytes_total), 2 * page_bytes);
  EXPECT_EQ(counted(metrics::metric::tcp_peer_errors_total), 0);
}

TEST_F(get_call_test, a_data_port_that_refuses_is_counted_by_the_name_of_the_peer) {
  start();
  far.self.data_port = net::local_port(nobody);
  show({&near, &far}, 2);
  publish_far(1);
  expect_miss(1, status::unreachable);
  EXPECT_GE(counted(metrics::metric::tcp_peer_errors_total), 1);
  EXPECT_EQ(counted(metrics::metric::tcp_peer_reads_total), 0);
}

TEST_F(get_call_test, a_shard_that_is_silent_costs_no_more_than_the_deadline) {
  start();
  shard.behave(manner::silent);
  expect_miss(1, status::timed_out, at_once() + std::chrono::milliseconds(100));
}

TEST_F(get_call_test, a_get_that_waits_for_a_shard_ends_with_the_client) {
  start();
  shard.behave(manner::silent);
  std::thread caller([&] { expect_miss(1, status::closed); });
  while (shard.questions() == 0)
    std::this_thread::yield();
  client->close();
  caller.join();
}

TEST_F(get_call_test, a_shard_that_hangs_up_or_raves_is_left_alone_after_a_while) {
  start();
  publish_far(1);
  for (const auto how : {manner::breaks, manner::raves, manner::breaks}) {
    shard.behave(how);
    expect_miss(1, status::unreachable);
  }
  EXPECT_EQ(client->health.open(), 1u);
}

TEST_F(get_call_test, who_left_the_cluster_is_not_counted_among_those_left_alone) {
  start();
  shard.behave(manner::breaks);
  for (int calls = 0; calls < 3; ++calls)
    get({1});
  ASSERT_EQ(client->health.open(), 1u);
  show({&far}, 2);
  get({1});
  EXPECT_EQ(client->health.open(), 0u);
}

TEST_F(get_call_test, a_shard_that_follows_a_newer_view_is_asked_for_it_once) {
  start();
  shard.follow({1, 5});
  near.says.view = [this] {
    show({&near, &far}, 5);
    return std::string{};
  };
  expect_miss(1, status::not_found);
  EXPECT_EQ(client->totals.view_refreshes, 1u);
  expect_miss(1, status::not_found);
  EXPECT_EQ(client->totals.view_refreshes, 1u) << "this process has that view now";
}

} // namespace
} // namespace peercache::client

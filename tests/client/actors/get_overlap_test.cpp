// Tests of gets whose pages are read while owners of other pages are still asked. A slow owner's
// answer waits for what has to come before it, so no test depends on time.

#include "tests/client/actors/call_rig.hpp"

#include <array>
#include <atomic>

namespace peercache::client {
namespace {

using manner = lookup_server::manner;

/// Each key has one owner: `near`, whose shard answers at once, or `far`, whose shard is slow. All
/// pages but those of this host are in the pool of `far`.
class get_overlap_test : public call_rig {
protected:
  ~get_overlap_test() override { slow.before_answers({}); }

  void start_two_owners() {
    start();
    map_pool()->directory_replicas = 1;
    auto cluster = std::make_shared<link::topology>(*board().topology());
    for (auto& peer : cluster->peers)
      if (peer.self.id == far.self.id)
        peer.lookup_port = slow.port();
    cluster->ring = discovery::hash_ring{cluster->view.members};
    board().set_topology(cluster);
  }
  /// Returns a page whose key this node owns. @param nth different numbers give different pages
  std::size_t page_of(const played_node& owner, std::size_t nth = 0) {
    for (std::size_t i = 0;; ++i) {
      std::array<node_id, 1> first;
      board().topology()->ring.owners(key(i), first);
      if (first[0] == owner.self.id && nth-- == 0)
        return i;
    }
  }
  directory::page_location publish_far(std::size_t i, lookup_server& owner) {
    const auto place = far.hold(key(i), bytes_of(i));
    owner.record(key(i), {place});
    return place;
  }
  void record_on_disk(std::size_t i, lookup_server& owner) {
    directory::page_location place;
    place.node = far.self.id;
    place.holder = far.self.inc;
    place.gen = {2};
    place.length_bytes = page_bytes;
    place.where = directory::tier::disk;
    owner.record(key(i), {place});
  }
  static bool comes_true(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    bool is_true = condition();
    for (; !is_true && std::chrono::steady_clock::now() < end; is_true = condition())
      std::this_thread::yield();
    return is_true;
  }
  /// Lets the slow owner wait until the condition holds before it answers, 20 s at most.
  void answer_after(const std::function<bool()>& condition) {
    slow.before_answers([this, condition] { came_first = comes_true(condition); });
  }
  void answer_after_pages_of_far(std::uint64_t count) {
    answer_after(
        [this, count] { return serving->latest().stats.bytes_sent >= count * page_bytes; });
  }
  void expect_hits(const std::vector<std::size_t>& which) {
    const auto results = get(which);
    for (std::size_t i = 0; i < which.size(); ++i) {
      EXPECT_EQ(results[i].status, status::hit) << to_string(results[i].status);
      EXPECT_EQ(got[i], bytes_of(which[i]));
    }
  }

  lookup_server slow{far.self.inc};
  std::atomic<bool> came_first = false;
};

TEST_F(get_overlap_test, pages_of_an_owner_that_answers_come_before_another_owner_has_answered) {
  start_two_owners();
  const std::vector which{page_of(far), page_of(near), page_of(far, 1)};
  publish_far(which[0], slow);
  publish_far(which[1], shard);
  publish_far(which[2], slow);
  answer_after_pages_of_far(1);
  expect_hits(which);
  EXPECT_TRUE(came_first);
  EXPECT_EQ(questions(), 2u);
  EXPECT_EQ(client->load.outstanding(far.self.inc), 0u);
}

TEST_F(get_overlap_test, a_page_whose_place_is_remembered_comes_before_an_owner_has_answered) {
  start_two_owners();
  const auto remembered = page_of(near);
  const auto asked = page_of(far);
  publish_far(remembered, shard);
  publish_far(asked, slow);
  expect_hits({remembered});
  answer_after_pages_of_far(2);
  expect_hits({remembered, asked});
  EXPECT_TRUE(came_first);
}

TEST_F(get_overlap_test, pages_of_this_host_are_copied_before_an_owner_has_answered) {
  start_two_owners();
  const auto indexed = page_of(near);
  const auto named = page_of(near, 1);
  const auto asked = page_of(far);
  const auto first = near.hold(key(indexed), bytes_of(indexed)).slot;
  const auto place = near.hold(key(named), bytes_of(named), /*indexed=*/false);
  shard.record(key(named), {place});
  publish_far(asked, slow);
  answer_after([this, first, second = place.slot, one = 0u, other = 0u]() mutable {
    one += near.memory.slots().take_uses(first);
    other += near.memory.slots().take_uses(second);
    return one > 0 && other > 0;
  });
  expect_hits({indexed, named, asked});
  EXPECT_TRUE(came_first);
}

TEST_F(get_overlap_test, a_disk_is_asked_for_its_page_before_an_owner_has_answered) {
  start_two_owners();
  const auto cold = page_of(near);
  const auto asked = page_of(far);
  record_on_disk(cold, shard);
  publish_far(asked, slow);
  std::atomic<bool> promoted = false;
  far.says.promotes = [&](const std::string&) {
    const auto place = far.hold(key(cold), bytes_of(cold));
    promoted = true;
    std::string said;
    directory::append_answer(said, {&place, 1});
    return said;
  };
  answer_after([&] { return promoted.load(); });
  expect_hits({asked, cold});
  EXPECT_TRUE(came_first);
}

TEST_F(get_overlap_test, a_dead_owner_costs_the_pages_that_it_alone_knows) {
  start_two_owners();
  const auto known = page_of(near);
  const auto unknown = page_of(far);
  publish_far(known, shard);
  publish_far(unknown, slow);
  slow.behave(manner::silent);
  const auto results = get({unknown, known}, at_once() + std::chrono::milliseconds(200));
  EXPECT_EQ(results[0].status, status::timed_out) << to_string(results[0].status);
  EXPECT_EQ(results[1].status, status::hit) << to_string(results[1].status);
  EXPECT_EQ(got[1], bytes_of(known));
}

TEST_F(get_overlap_test, a_page_that_was_stale_while_an_owner_was_asked_is_looked_for_once_more) {
  start_two_owners();
  const auto moved = page_of(near);
  const auto asked = page_of(far);
  const auto before = publish_far(moved, shard);
  publish_far(asked, slow);
  expect_hits({moved});
  far.evict(before);
  far.says.promotes = [now = publish_far(moved, shard)](const std::string&) {
    std::string said;
    directory::append_answer(said, {&now, 1});
    return said;
  };
  expect_hits({moved, asked});
  EXPECT_EQ(client->totals.retries, 1u);
}

TEST_F(get_overlap_test, a_get_that_reads_and_still_asks_ends_with_the_client) {
  start_two_owners();
  const auto known = page_of(near);
  publish_far(known, shard);
  slow.behave(manner::silent);
  std::vector<page_result> results;
  std::thread caller([&] { results = get({page_of(far), known}); });
  EXPECT_TRUE(comes_true([this] { return serving->latest().stats.bytes_sent >= page_bytes; }));
  client->close();
  caller.join();
  EXPECT_EQ(results[0].status, status::closed) << to_string(results[0].status);
  EXPECT_EQ(results[1].status, status::hit) << to_string(results[1].status);
  EXPECT_EQ(client->load.outstanding(far.self.inc), 0u);
}

} // namespace
} // namespace peercache::client

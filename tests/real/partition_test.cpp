#include "survival_ring.hpp"

#include <algorithm>
#include <numeric>

namespace peercache::real::partition_test {

namespace {

constexpr std::uint32_t pages = 64;
constexpr milliseconds heartbeat(500);
constexpr milliseconds expiry(2000);
constexpr milliseconds noticed(3000);
/// Time from the healing of the network until all nodes must have one view: three heartbeats, and
/// what it takes to ask five nodes on a busy machine.
constexpr milliseconds healed_in(3 * heartbeat + milliseconds(250));
constexpr milliseconds long_enough(15'000);

/// A fault of the network, and how the cluster shows that it has noticed.
struct network_fault {
  std::function<result<void>()> make;
  std::function<bool()> is_noticed;
};

class partition : public survival_ring {
protected:
  /// Starts five nodes on hosts of their own; each puts pages of its own.
  void start_five() {
    start_ring({.count = 5, .heartbeat = heartbeat, .expiry = expiry, .own_hosts = true});
    if (HasFatalFailure() || IsSkipped())
      return;
    for (std::size_t i = 0; i < 5; ++i) {
      auto scope = at(i);
      clients_.push_back(client_of(i));
      ASSERT_NE(clients_.back(), nullptr);
      put(*clients_.back(), first_of(i), pages);
    }
  }
  void TearDown() override {
    clients_.clear();
    survival_ring::TearDown();
  }

  static std::uint32_t first_of(std::size_t node) {
    return static_cast<std::uint32_t>(node) * 1000;
  }
  client::cache_client& client(std::size_t index) { return *clients_[index]; }

  /// Returns how many of the pages [first, first + pages) a client of this node can read now;
  /// expects that each read returns in time and each hit has the right bytes.
  std::uint32_t count_readable(std::size_t reader, std::uint32_t first) {
    auto scope = at(reader);
    std::uint32_t hits = 0;
    for (auto id = first; id < first + pages; ++id) {
      auto read = get(client(reader), id, milliseconds(300));
      EXPECT_TRUE(took_at_most(milliseconds(350), read));
      EXPECT_TRUE(read.result.status != page_status::hit || read.check.wrong_bytes == 0);
      hits += read.result.status == page_status::hit ? 1 : 0;
    }
    return hits;
  }

  /// Puts pages without waiting until they are published, because owners are unreachable. Returns
  /// how many were stored.
  std::uint32_t put_unwatched(std::size_t writer, std::uint32_t first) {
    auto scope = at(writer);
    std::uint32_t stored = 0;
    for (auto id = first; id < first + pages; ++id)
      stored += put_one(client(writer), id, 0) == page_status::stored ? 1 : 0;
    return stored;
  }

  bool is_one_cluster() { return one_view({0, 1, 2, 3, 4}); }

  /// Makes the fault and expects that the cluster notices it within `at_most`; if not, heals it and
  /// tries again, in up to `rounds_max` rounds.
  void expect_noticed(const network_fault& fault, milliseconds at_most) {
    for (int round = 1;; ++round) {
      ASSERT_TRUE(fault.make());
      if (within_own_time(at_most, fault.is_noticed))
        return;
      ASSERT_LT(round, rounds_max) << "never noticed in time";
      ASSERT_TRUE(lab().heal());
      ASSERT_TRUE(within(long_enough, [this] { return is_one_cluster(); }));
    }
  }

  /// Heals the network and expects one view of all nodes within `healed_in`; if not, makes the
  /// fault again and tries again, in up to `rounds_max` rounds.
  void expect_whole_after_heal(const network_fault& fault) {
    for (int round = 1;; ++round) {
      ASSERT_TRUE(lab().heal());
      if (within_own_time(healed_in, [this] { return is_one_cluster(); }))
        break;
      ASSERT_LT(round, rounds_max) << "never one view in time";
      ASSERT_TRUE(within(long_enough, [this] { return is_one_cluster(); }));
      ASSERT_TRUE(fault.make());
      ASSERT_TRUE(within(long_enough, fault.is_noticed));
    }
    for (std::size_t reader = 0; reader < 5; ++reader)
      for (std::size_t owner = 0; owner < 5; ++owner)
        EXPECT_TRUE(
            within(long_enough, [&] { return count_readable(reader, first_of(owner)) == pages; }))
            << "pages of node " << owner + 1 << " at node " << reader + 1;
  }

private:
  std::vector<std::unique_ptr<client::cache_client>> clients_;
};

} // namespace

TEST_F(partition, a_minority_serves_as_a_fragment_while_the_majority_goes_on) {
  start_five();
  if (HasFatalFailure() || IsSkipped())
    return;
  const auto view = wait_for_view(0);
  ASSERT_TRUE(view);
  ASSERT_FALSE(view->is_master("node-3"));
  ASSERT_TRUE(view->is_master("node-5")); // Node 5 is the only master on its side of the partition.
  const network_fault split{[&] {
                              return lab().part({2, 4});
                            },
                            [this] { return sees(0, 3) && sees(1, 3) && sees(3, 3); }};
  expect_noticed(split, noticed);
  if (HasFatalFailure())
    return;
  // The majority finds all pages of its own nodes, and stores new ones.
  EXPECT_TRUE(within(long_enough, [&] { return count_readable(3, first_of(0)) == pages; }));
  EXPECT_EQ(put_unwatched(1, 20'000), pages);
  EXPECT_TRUE(within(long_enough, [&] { return count_readable(3, 20'000) == pages; }));
  // The two nodes of the minority find a page if one of their shards has its record, which is so
  // for seven keys of ten.
  EXPECT_GE(count_readable(2, first_of(4)), pages / 2);
  EXPECT_EQ(put_unwatched(4, 30'000), pages);
  EXPECT_TRUE(within(long_enough, [&] { return count_readable(2, 30'000) >= pages / 2; }));
  // After a while the minority has a view of its own, in which every key has a shard.
  EXPECT_TRUE(within(long_enough, [this] { return sees(2, 2) && sees(4, 2); }));
  EXPECT_TRUE(within(long_enough, [&] { return count_readable(2, first_of(4)) == pages; }));
  EXPECT_EQ(view_of(4).value_or(discovery::view{}).masters_lost(), 2u);
  expect_whole_after_heal(split);
  EXPECT_TRUE(within(long_enough, [&] { return count_readable(0, 30'000) == pages; }));
}

TEST_F(partition, a_leader_that_nobody_hears_is_replaced_and_joins_again) {
  start_five();
  if (HasFatalFailure() || IsSkipped())
    return;
  const network_fault mute_leader{[this]() -> result<void> {
                                    for (std::uint32_t other = 1; other < 5; ++other)
                                      if (auto cut = lab().cut(0, other); !cut)
                                        return cut;
                                    return {};
                                  },
                                  [this] { return sees(1, 4) && sees(4, 4); }};
  expect_noticed(mute_leader, noticed + expiry);
  if (HasFatalFailure())
    return;
  EXPECT_TRUE(within(long_enough, [&] { return count_readable(4, first_of(1)) == pages; }));
  EXPECT_EQ(put_unwatched(2, 20'000), pages);
  EXPECT_TRUE(within(long_enough, [&] { return count_readable(3, 20'000) == pages; }));
  // Calls at the cut-off leader return in time, whether they hit or miss.
  count_readable(0, first_of(1));
  expect_whole_after_heal(mute_leader);
}

TEST_F(partition, a_black_holed_node_is_noticed_within_three_seconds) {
  start_five();
  if (HasFatalFailure() || IsSkipped())
    return;
  // A fault by which node 3 receives no packet, so that it falls silent while its connections are
  // neither reset nor closed.
  const network_fault silence{[this] { return lab().deafen(3); },
                              [this] { return sees(0, 4) && sees(4, 4); }};
  expect_noticed(silence, noticed);
  if (HasFatalFailure())
    return;
  EXPECT_TRUE(within(long_enough, [&] { return count_readable(4, first_of(1)) == pages; }));
  expect_whole_after_heal(silence);
}

} // namespace peercache::real::partition_test

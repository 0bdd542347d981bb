#include "survival_ring.hpp"

#include "common/limits.hpp"
#include "discovery/hash_ring.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstdio>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace peercache::real::black_hole_test {

namespace {

/// A socket that listens and never answers: the kernel completes connections until the socket's
/// queue is full, and none after that.
class black_hole {
public:
  black_hole() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::listen(fd_, 1), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  }
  ~black_hole() { ::close(fd_); }
  black_hole(const black_hole&) = delete;
  black_hole& operator=(const black_hole&) = delete;

  const std::string& address() const { return address_; }

private:
  int fd_;
  std::string address_;
};

constexpr std::uint32_t pages = 64;
constexpr std::uint32_t many = 20'480;
/// Longest wait of a producer for an owner that does not answer, as in actors::pool_actor_options.
constexpr milliseconds directory_timeout(1000);

class black_holes : public survival_ring {
protected:
  /// Makes `calls` calls, one after another; fails at the first call that takes longer than
  /// `bound`.
  template <class Call>
  testing::AssertionResult each_takes_at_most(milliseconds bound, std::uint32_t calls, Call call) {
    for (std::uint32_t i = 0; i < calls; ++i) {
      const auto begin = clock::now();
      call(i);
      if (auto took = took_at_most(bound, begin); !took)
        return took << ", call " << i;
    }
    return testing::AssertionSuccess();
  }

  /// Whether the view of this node stays the same for `how_long` in one of `rounds_max` rounds. One
  /// round would not do: a machine that stands still for longer than an expiry makes the cluster
  /// lose members.
  bool keeps_its_view(std::size_t index, milliseconds how_long) {
    for (int round = 0; round < rounds_max; ++round) {
      const auto before = wait_for_view(index);
      if (!within(how_long, [&] { return has_other_view(index, before); }) &&
          wait_for_view(index) == before)
        return true;
    }
    return false;
  }

  /// Returns the number of a page that has one of its records at this node.
  std::uint32_t page_of_owner(std::size_t index) {
    const auto view = wait_for_view(index);
    const discovery::hash_ring ring{view->members};
    const auto* owner = view->find_name(node(index).launch().name);
    std::uint32_t id = 2000;
    while (!ring.owns(owner->id, key_of(id), 2))
      ++id;
    return id;
  }

  /// Puts `many` pages and waits until they are published. Pages are small, to keep the wait short.
  static void put_many(client::cache_client& client) {
    const std::vector<std::byte> bytes(64);
    const client::const_part part{bytes.data(), 64};
    std::vector<client::set_page> batch;
    for (std::uint32_t id = 0; id < many; ++id) {
      batch.push_back({key_of(id), {&part, 1}});
      if (batch.size() < 1024 && id + 1 < many)
        continue;
      std::vector<client::page_result> results(batch.size());
      client.set(batch, results);
      for (const auto& each : results)
        ASSERT_EQ(to_string(each.status), to_string(page_status::stored));
      batch.clear();
    }
    ASSERT_TRUE(client.flush(clock::now() + publish_patience));
  }

  /// Returns the keys whose only records are at these two nodes.
  std::vector<page_key> keys_of_owners(std::size_t one, std::size_t other) {
    const auto view = wait_for_view(one);
    const discovery::hash_ring ring{view->members};
    const auto owns = [&](std::size_t index, const page_key& key) {
      return ring.owns(view->find_name(node(index).launch().name)->id, key, 2);
    };
    std::vector<page_key> keys;
    for (std::uint32_t id = 0; id < many; ++id)
      if (owns(one, key_of(id)) && owns(other, key_of(id)))
        keys.push_back(key_of(id));
    return keys;
  }

  /// Whether one `exists` finds all keys within 400 ms; waiting for a silent owner may use up a
  /// quarter of this time.
  static bool all_exist(client::cache_client& client, const std::vector<page_key>& keys) {
    std::vector<client::page_result> results(keys.size());
    client.exists(keys, results, clock::now() + milliseconds(400));
    return std::all_of(results.begin(), results.end(),
                       [](const auto& page) { return page.status == page_status::hit; });
  }
};

} // namespace

TEST_F(black_holes, a_seed_that_never_answers_delays_neither_the_start_nor_heartbeats) {
  black_hole hole;
  constexpr milliseconds expiry(2000);
  start_ring({.count = 2, .expiry = expiry});
  if (HasFatalFailure())
    return;
  std::vector<std::size_t> all{0, 1};
  auto started = testing::AssertionFailure();
  for (int round = 0; round < rounds_max && !started; ++round) {
    const auto begin = clock::now();
    start_node({hole.address(), address(0)});
    ASSERT_FALSE(HasFatalFailure());
    started = took_at_most(milliseconds(2500), begin);
    all.push_back(all.size());
  }
  EXPECT_TRUE(started);
  EXPECT_TRUE(within(milliseconds(15'000), [&] { return one_view(all); }));
  // The node's heartbeats to the masters go on between its attempts to reach the silent seed, so
  // several expiries later it is still in the view.
  EXPECT_TRUE(keeps_its_view(0, 5 * expiry / 2));
  EXPECT_TRUE(exchange(2, 0, 0));
}

TEST_F(black_holes, a_peer_that_never_answers_delays_nothing_among_the_others) {
  // The long expiry keeps the frozen node in the view for the whole test: its kernel takes
  // connections, and no process answers.
  start_ring({.count = 4, .heartbeat = milliseconds(1000), .expiry = milliseconds(60'000)});
  if (HasFatalFailure())
    return;
  auto writer = client_of(0);
  auto reader = client_of(1);
  put(*writer, 0, pages);
  ASSERT_TRUE(all_readable(*reader, 0, pages));
  const auto slow_page = page_of_owner(3);
  freeze(3);
  put_one(*writer, slow_page, 0);
  const auto until = clock::now() + directory_timeout / 2;
  const auto flushed = writer->flush(until);
  ASSERT_TRUE(flushed) << "the page's other owner has it";
  EXPECT_EQ(flushed->failed, 0u);
  EXPECT_TRUE(took_at_most(milliseconds(50), until));
  // A look-up asks the next owner of a key when the first one does not answer. The client remembers
  // the silent owner, which spares later calls the wait.
  std::uint32_t found = 0;
  EXPECT_TRUE(each_takes_at_most(milliseconds(450), pages, [&](std::uint32_t id) {
    found += get(*reader, id, milliseconds(1000)).result.status == page_status::hit ? 1 : 0;
  })) << "a quarter of the deadline for one owner, not all of it";
  EXPECT_EQ(found, pages);
  // A client that starts does not wait for a member that it could not reach.
  auto fresh = client_of(2);
  ASSERT_NE(fresh, nullptr);
  EXPECT_EQ(count_existing(*fresh, 0, pages), pages);
  std::uint32_t stored = 0;
  EXPECT_TRUE(each_takes_at_most(directory_timeout / 2, pages, [&](std::uint32_t i) {
    stored += put_one(*writer, 1000 + i, 0) == page_status::stored ? 1 : 0;
  })) << "publishing waits, set does not";
  EXPECT_EQ(stored, pages);
  EXPECT_TRUE(within_own_time(milliseconds(3000), [&] {
    return count_existing(*reader, 1000, pages) == pages;
  })) << "the other owner of each key was told at once";
}

/// Records that a view change moves to a silent owner wait for this owner; records that move to
/// other owners must not wait.
TEST_F(black_holes, a_peer_that_never_answers_delays_no_record_that_moves_to_another) {
  // At this republish rate, nodes need at least a quarter of a second to publish the records that a
  // dead node owned to their new owners.
  start_ring({.count = 4,
              .heartbeat = milliseconds(500),
              .expiry = milliseconds(2000),
              .pool_bytes = std::uint64_t{many} * limits::granule_bytes * 5 / 4,
              .flags = {"--directory-republish-rate", std::to_string(many)}});
  if (HasFatalFailure())
    return;
  auto writer = client_of(0);
  auto reader = client_of(1);
  put_many(*writer);
  const auto keys = keys_of_owners(2, 3);
  ASSERT_LE(keys.size(), limits::batch_pages_max);
  ASSERT_GT(keys.size(), many / 10);
  ASSERT_TRUE(all_exist(*reader, keys));
  kill(3);
  ASSERT_TRUE(within(milliseconds(15'000), [this] { return sees(0, 3); }));
  freeze(2);
  // A chunk with a record for the silent node must not keep the chunks behind it waiting: the
  // node's link is given up only after two times `directory_timeout`.
  const auto begin = clock::now();
  EXPECT_TRUE(within_own_time(directory_timeout * 9 / 5, [&] { return all_exist(*reader, keys); }));
  std::printf("[ measured ] all are found after %lld ms\n",
              static_cast<long long>(
                  std::chrono::duration_cast<milliseconds>(clock::now() - begin).count()));
}

} // namespace peercache::real::black_hole_test

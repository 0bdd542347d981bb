#include "survival_ring.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

namespace peercache::real {

namespace {

/// Expiry of a member: so long that no node is expelled because the machine stood still.
constexpr milliseconds patient_expiry(5000);

/// The accesses of engines at all nodes, made by one thread: each access reads a page at a random
/// node, and puts the page there after a miss.
class trace {
public:
  using get_page = std::function<page_status(std::size_t node, std::uint32_t id)>;
  using put_page = std::function<void(std::size_t node, std::uint32_t id)>;

  trace(std::size_t nodes, get_page get, put_page put)
      : nodes_(nodes), get_(std::move(get)), put_(std::move(put)) {}

  /// Starts the thread. After `limit` accesses the thread waits until the limit is raised; if
  /// `stop` is set, it ends instead. Some pages are accessed far more often than others, as
  /// prefixes of prompts are.
  std::thread start(std::uint32_t first) {
    done = 0;
    stop = false;
    return std::thread([this, first] { run(first); });
  }
  void run(std::uint32_t first, std::uint32_t accesses) {
    limit = accesses;
    auto thread = start(first);
    stop = true;
    thread.join();
  }

  /// Returns the hit rate of the accesses [from, to). @pre the thread has ended
  double hit_rate(std::uint32_t from, std::uint32_t to) const {
    const auto hits = std::count(outcomes_.begin() + from, outcomes_.begin() + to, true);
    return static_cast<double>(hits) / static_cast<double>(to - from);
  }
  double hit_rate() const { return hit_rate(0, done); }

  std::atomic<std::uint32_t> done{0};
  std::atomic<std::uint32_t> limit{0};
  std::atomic<bool> stop{false};

private:
  void run(std::uint32_t first) {
    std::mt19937_64 random(1);
    for (outcomes_.clear(); !stop || done < limit;) {
      if (done < limit) {
        outcomes_.push_back(access(first, random));
        ++done;
      }
      // The pause stands for the time in which an engine computes.
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  }

  bool access(std::uint32_t first, std::mt19937_64& random) {
    const auto drawn = random() % 600;
    const auto id = first + static_cast<std::uint32_t>(drawn * (random() % 600) / 600);
    const auto node = random() % nodes_;
    if (get_(node, id) == page_status::hit)
      return true;
    put_(node, id);
    return false;
  }

  std::size_t nodes_;
  get_page get_;
  put_page put_;
  std::vector<bool> outcomes_; ///< Whether each access was a hit.
};

class rolling : public survival_ring {
protected:
  void make_clients(std::size_t count) {
    for (std::size_t i = clients_.size(); i < count; ++i)
      clients_.push_back(client_of(i));
  }
  void TearDown() override {
    clients_.clear();
    survival_ring::TearDown();
  }
  trace make_trace() {
    return {clients_.size(),
            [this](std::size_t node, std::uint32_t id) {
              auto read = get(*clients_[node], id, milliseconds(500));
              EXPECT_TRUE(read.result.status != page_status::hit || read.check.wrong_bytes == 0);
              EXPECT_TRUE(took_at_most(milliseconds(550), read));
              from_disk_ += read.result.origin == page_origin::disk ? 1 : 0;
              return read.result.status;
            },
            [this](std::size_t node, std::uint32_t id) { put_one(*clients_[node], id, 0); }};
  }

  std::uint32_t from_disk() const { return from_disk_; }
  client::cache_client& client_at_node(std::size_t index) { return *clients_[index]; }

private:
  std::vector<std::unique_ptr<client::cache_client>> clients_;
  std::atomic<std::uint32_t> from_disk_{0};
};

} // namespace

TEST_F(rolling, a_restart_of_all_nodes_one_after_another_costs_a_tenth_of_the_hits_at_most) {
  start_ring({.count = 3, .expiry = patient_expiry, .disk = true});
  if (HasFatalFailure())
    return;
  make_clients(3);
  auto engines = make_trace();
  constexpr std::uint32_t accesses = 8000;
  // The number of accesses while a node is away, after which the engines wait for the node. The
  // number is fixed so that the result does not depend on how slowly nodes start on this machine.
  constexpr std::uint32_t while_away = 500;
  engines.run(0, accesses);
  auto undisturbed = engines.hit_rate();
  engines.limit = accesses / 4;
  auto thread = engines.start(10'000);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(
        within(milliseconds(60'000), [&] { return engines.done == engines.limit && sees(i, 3); }));
    const auto before = engines.limit.load();
    engines.limit = before + while_away;
    EXPECT_EQ(node(i).stop(milliseconds(10'000)), 0);
    auto back = restart(i);
    EXPECT_TRUE(back) << back.error().message;
    std::printf("[ measured ] %u accesses while node %u was away\n", engines.done - before, i + 1);
    engines.limit = (i + 2) * accesses / 4;
  }
  // The thread makes the last quarter of the trace, after the last restart, and ends.
  engines.stop = true;
  thread.join();
  EXPECT_EQ(engines.done, accesses);
  EXPECT_GE(engines.hit_rate(), 0.9 * undisturbed)
      << "undisturbed " << undisturbed << ", disturbed " << engines.hit_rate();
  // Pages that a restarted node had had in memory are only on its disk, so some hits must come from
  // disk.
  EXPECT_GT(from_disk(), 100u);
  RecordProperty("from disk", std::to_string(from_disk()));
  RecordProperty("undisturbed", std::to_string(undisturbed));
  RecordProperty("disturbed", std::to_string(engines.hit_rate()));
}

namespace {

/// Five nodes whose pools are full, so that some pages are on disk only.
class rolling_full : public rolling, public testing::WithParamInterface<std::string> {
protected:
  static constexpr std::uint32_t nodes = 5;
  static constexpr std::uint32_t pages = 512; ///< Pages that a pool holds.
  static constexpr std::uint32_t puts = 600;  ///< Pages put at each node.

  void SetUp() override {
    start_ring({.count = nodes,
                .expiry = patient_expiry,
                .disk = true,
                .pool_bytes = std::uint64_t{pages} * page_bytes,
                .flags = {"--disk-policy", GetParam()}});
    if (HasFatalFailure())
      return;
    make_clients(nodes);
    for (std::uint32_t i = 0; i < nodes; ++i)
      for (std::uint32_t done = 0; done < puts; done += 50) {
        put(client_at_node(i), i * puts + done, 50);
        // The pause makes the pages come more slowly than any disk writes.
        std::this_thread::sleep_for(milliseconds(20));
      }
  }

  /// Starts a thread that reads random pages at random nodes until `stop` is set. Expects that no
  /// read is late and no byte is wrong.
  std::thread read_all_the_time(std::atomic<bool>& stop, std::atomic<std::uint32_t>& reads) {
    return std::thread([this, &stop, &reads] {
      std::mt19937_64 random(7);
      for (; !stop; ++reads) {
        const auto id = static_cast<std::uint32_t>(random() % (nodes * puts));
        const auto read = get(client_at_node(random() % nodes), id, milliseconds(500));
        EXPECT_TRUE(read.result.status != page_status::hit || read.check.wrong_bytes == 0);
        EXPECT_TRUE(took_at_most(milliseconds(550), read));
        // The pause stands for the time in which an engine computes.
        std::this_thread::sleep_for(std::chrono::microseconds(500));
      }
    });
  }

  std::uint32_t hits() {
    std::uint32_t found = 0;
    for (std::uint32_t id = 0; id < nodes * puts; ++id)
      found += get(client_at_node(id % nodes), id).result.status == page_status::hit ? 1 : 0;
    return found;
  }
};
INSTANTIATE_TEST_SUITE_P(with, rolling_full, testing::Values("write_through", "on_evict"),
                         [](const auto& info) { return info.param; });

} // namespace

TEST_P(rolling_full, a_restart_of_all_nodes_one_after_another_costs_a_page_in_a_hundred_at_most) {
  const auto before = hits();
  std::atomic<bool> stop{false};
  std::atomic<std::uint32_t> reads{0};
  auto engines = read_all_the_time(stop, reads);
  for (std::uint32_t i = 0; i < nodes; ++i) {
    EXPECT_EQ(node(i).stop(milliseconds(15'000)), 0);
    auto back = restart(i);
    EXPECT_TRUE(back) << back.error().message;
    EXPECT_TRUE(within(milliseconds(60'000), [&] { return one_view({0, 1, 2, 3, 4}); }));
  }
  stop = true;
  engines.join();
  std::uint32_t after = 0;
  // Nodes publish the records of pages on disk at a limited rate, so hits come back by and by.
  EXPECT_TRUE(within(milliseconds(20'000), [&] { return (after = hits()) >= before * 99 / 100; }));
  std::printf("[ measured ] of %u pages %u were hits before and %u after; %u reads meanwhile\n",
              nodes * puts, before, after, reads.load());
  EXPECT_GE(before, nodes * puts * 95 / 100);
}

TEST_F(rolling, a_fifth_node_that_joins_costs_a_twentieth_of_the_hits_at_most) {
  start_ring({.count = 4, .expiry = patient_expiry});
  if (HasFatalFailure())
    return;
  make_clients(4);
  auto engines = make_trace();
  engines.run(0, 3000); // Puts all pages of the trace into the cluster.
  engines.run(0, 1000);
  const auto steady = engines.hit_rate();
  engines.limit = UINT32_MAX;
  auto thread = engines.start(0);
  auto launch = launch_of(4);
  launch.seeds = {address(0)};
  spawn_node(launch);
  std::uint32_t joined_at = 0; // Number of an access shortly before the fifth node joined.
  EXPECT_TRUE(within(milliseconds(20'000), [&] {
    const auto so_far = engines.done.load();
    const bool joined = sees(0, 5);
    joined_at = joined ? joined_at : so_far;
    return joined;
  }));
  // Number of accesses that are judged: those right after the join, while keys change their owners.
  constexpr std::uint32_t window = 300;
  engines.limit = joined_at + window;
  engines.stop = true;
  thread.join();
  EXPECT_TRUE(
      within(milliseconds(10'000), [this] { return sees(1, 5) && sees(2, 5) && sees(3, 5); }));
  const auto joining = engines.hit_rate(joined_at, joined_at + window);
  std::printf("[ measured ] hit rate: steady %.4f, in %u accesses from the new view on %.4f\n",
              steady, window, joining);
  EXPECT_GE(joining, 0.95 * steady);
}

} // namespace peercache::real

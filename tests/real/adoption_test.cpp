// Tests that pages outlive their node's process: a node that is killed or restarted goes on with
// the pool that its former process left.

#include "storage/pool_header.hpp"
#include "storage/pool_memory.hpp"
#include "survival_ring.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace peercache::real::adoption_test {

using metrics::metric;

namespace {

std::uint32_t setting(const char* name, std::uint32_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<std::uint32_t>(std::atoi(text));
}

/// Expiry of a member: so long that no node is expelled because the machine stood still.
constexpr milliseconds patient_expiry(5000);

class adoption : public survival_ring {
protected:
  static std::vector<std::string> objects() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      if (auto name = entry.path().filename().string();
          name.starts_with(pool_prefix() + "-") && !name.ends_with(".shard"))
        names.push_back(name);
    return names;
  }

  std::string log_of(std::size_t index) {
    std::ifstream file(node(index).launch().folder / "node.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// Returns a client that does not compare checksums of its own host's pages, so that only the
  /// node can keep wrong bytes from the reader.
  std::unique_ptr<client::cache_client> unverifying_client(std::size_t index = 0) {
    client::client_options options;
    options.node_port = node(index).ports().control_port;
    options.cluster = cluster();
    options.verify_own_host = verify_mode::off;
    auto connected = client::cache_client::connect(options);
    EXPECT_TRUE(connected);
    return connected ? std::move(*connected) : nullptr;
  }

  struct tally {
    std::uint32_t hits = 0;
    std::uint32_t wrong = 0;
  };
  static tally read_all(client::cache_client& client, std::uint32_t pages,
                        std::uint32_t first = 0) {
    tally found;
    for (std::uint32_t id = first; id < first + pages; ++id)
      if (const auto read = get(client, id); read.result.status == page_status::hit) {
        ++found.hits;
        found.wrong += read.check.wrong_bytes != 0 ? 1 : 0;
      }
    return found;
  }
};

/// Flips a bit of every `one_in`-th page that lies in a dead node's pool. Returns the number of
/// pages that were damaged.
std::uint32_t damage_pool(const std::string& name, std::uint32_t one_in) {
  const auto path = "/dev/shm/" + name;
  const auto bytes = std::filesystem::file_size(path);
  const int file = ::open(path.c_str(), O_RDWR);
  auto* const begin =
      static_cast<std::byte*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ::close(file);
  const auto& header = *reinterpret_cast<const storage::pool_header*>(begin);
  const auto* entries = reinterpret_cast<const slot_entry*>(begin + header.table_offset);
  std::uint32_t pages = 0, damaged = 0;
  for (std::uint32_t i = 0; i < header.granules; ++i)
    if (generation{entries[i].generation.load()}.readable() && pages++ % one_in == 0) {
      begin[header.pages_offset + std::uint64_t{i} * header.granule_bytes + 4711] ^= std::byte{8};
      ++damaged;
    }
  ::munmap(begin, bytes);
  return damaged;
}

/// A kept pool with damaged pages. The parameter says whether the node compares the checksums of
/// the pages that it adopts.
class damaged_pool : public adoption, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(guard, damaged_pool, testing::Bool(),
                         [](const auto& info) { return info.param ? "on" : "off"; });

} // namespace

TEST_P(damaged_pool, gives_wrong_bytes_to_nobody_unless_the_guard_is_off) {
  const bool guard_on = GetParam();
  constexpr std::uint32_t pages = 300;
  start_ring({.count = 1,
              .keep_pools = true,
              .program = PEERCACHE_NODE_SWITCHABLE,
              .environment = {{"PEERCACHE_TEST_GUARDS_OFF", guard_on ? "" : "adoption"}}});
  if (HasFatalFailure())
    return;
  put(*unverifying_client(), 0, pages);
  kill(0);
  ASSERT_EQ(objects().size(), 1u);
  const auto damaged = damage_pool(objects().front(), 7);
  ASSERT_GT(damaged, pages / 10);
  ASSERT_TRUE(restart(0));
  const auto client = unverifying_client();
  const auto expected = guard_on ? pages - damaged : pages;
  tally found;
  EXPECT_TRUE(within(milliseconds(20'000), [&] {
    found = read_all(*client, pages);
    return found.hits >= expected;
  }));
  EXPECT_EQ(found.hits, expected);
  EXPECT_EQ(found.wrong, guard_on ? 0u : damaged);
  EXPECT_EQ(log_of(0).find(std::to_string(damaged) + " refused") != std::string::npos, guard_on);
}

/// The node is killed at each step of storage::take_over_step except `entry_withdrawn`, to which a
/// node comes only with an entry that no node writes.
TEST_F(adoption, that_is_killed_at_any_step_is_the_next_ones_to_finish) {
  constexpr std::uint32_t pages = 100;
  start_ring({.count = 1, .keep_pools = true, .program = PEERCACHE_NODE_SWITCHABLE});
  if (HasFatalFailure())
    return;
  put(*client_of(0), 0, pages);
  std::uint32_t damaged = 0;
  for (const int step : {1, 2, 3, 4, 5, 7, 8}) {
    SCOPED_TRACE("step " + std::to_string(step));
    kill(0);
    ASSERT_EQ(objects().size(), 1u);
    damaged += damage_pool(objects().front(), 50);
    auto launch = launch_of(0);
    launch.environment = {{"PEERCACHE_TEST_TAKE_OVER_KILL_POINT", std::to_string(step)}};
    // If the start succeeds, the test kills the node while it serves.
    if (auto brief = cli::node_process::start(launch)) {
      EXPECT_EQ(brief->process().wait(milliseconds(10'000)), 128 + SIGKILL);
    }
    ASSERT_TRUE(restart(0));
    const auto client = unverifying_client();
    tally found;
    EXPECT_TRUE(within(milliseconds(20'000), [&] {
      found = read_all(*client, pages);
      return found.hits >= pages - damaged;
    }));
    EXPECT_EQ(found.hits, pages - damaged);
    EXPECT_EQ(found.wrong, 0u);
  }
}

TEST_F(adoption, of_another_size_is_none_and_the_log_says_so) {
  start_ring({.count = 1, .keep_pools = true});
  if (HasFatalFailure())
    return;
  put(*client_of(0), 0, 100);
  kill(0);
  auto launch = launch_of(0);
  launch.pool_bytes *= 2;
  auto larger = cli::node_process::start(launch);
  ASSERT_TRUE(larger) << larger.error().message;
  EXPECT_NE(log_of(0).find("the pages of the process before are lost"), std::string::npos);
  EXPECT_NE(log_of(0).find("(pool.size)"), std::string::npos);
  EXPECT_EQ(objects().size(), 1u) << "what was left is free";
  const auto client = client_at("127.0.0.1", larger->ports().control_port);
  EXPECT_EQ(read_all(*client, 100).hits, 0u);
  EXPECT_EQ(larger->stop(milliseconds(10'000)), 0);
}

TEST_F(adoption, of_what_a_node_left_that_was_told_to_stop_and_of_nothing_after_ctrl_c) {
  start_ring({.count = 1, .keep_pools = true});
  if (HasFatalFailure())
    return;
  put(*client_of(0), 0, 100);
  EXPECT_EQ(node(0).stop(milliseconds(10'000)), 0);
  EXPECT_EQ(objects().size(), 1u);
  ASSERT_TRUE(restart(0));
  const auto client = client_of(0);
  EXPECT_TRUE(within(milliseconds(20'000), [&] { return read_all(*client, 100).hits == 100; }));
  node(0).process().signal(SIGINT);
  EXPECT_EQ(node(0).process().wait(milliseconds(10'000)), 0);
  EXPECT_TRUE(objects().empty());
}

TEST_F(adoption, is_not_to_be_when_the_pool_is_discarded_or_not_to_be_kept) {
  start_ring({.count = 1, .keep_pools = true});
  if (HasFatalFailure())
    return;
  const std::vector<std::string> discard{PEERCACHE_CLI_DIR "/peercache-node", "--discard-pool",
                                         "--pool-name-prefix", pool_prefix()};
  EXPECT_EQ(run_program(discard).output, "0 pools without a process freed\n");
  EXPECT_EQ(objects().size(), 1u) << "it lives";
  EXPECT_EQ(node(0).stop(milliseconds(10'000)), 0);
  EXPECT_EQ(objects().size(), 1u);
  EXPECT_EQ(run_program(discard).output, "1 pool without a process freed\n");
  EXPECT_TRUE(objects().empty());
  auto launch = launch_of(0);
  launch.keep_pool = false;
  auto brief = cli::node_process::start(launch);
  ASSERT_TRUE(brief) << brief.error().message;
  EXPECT_EQ(brief->stop(milliseconds(10'000)), 0);
  EXPECT_TRUE(objects().empty());
}

namespace {

/// Five nodes without a disk whose pools are full, and threads that read and write all the time.
/// Larger runs are made by hand: PEERCACHE_ADOPTION_PAGES is the number of pages of a pool,
/// PEERCACHE_ADOPTION_READS the least number of reads.
class kept_pools : public adoption {
protected:
  static constexpr std::uint32_t nodes = 5;
  const std::uint32_t pages = setting("PEERCACHE_ADOPTION_PAGES", 512);
  const std::uint32_t reads_wanted = setting("PEERCACHE_ADOPTION_READS", 0);
  const std::uint32_t puts = pages * 6 / 5; ///< Number of pages that the test puts at each node.

  void SetUp() override {
    fill_ring({}, [this](std::size_t i) { return unverifying_client(i); });
  }
  void TearDown() override {
    clients_.clear();
    adoption::TearDown();
  }

  /// Starts the nodes, each with the test guard `guard_off` switched off if there is one, and fills
  /// their pools. @param connect makes the client of a node that the threads use
  void fill_ring(const std::string& guard_off,
                 const std::function<std::unique_ptr<client::cache_client>(std::size_t)>& connect) {
    plan wanted{.count = nodes,
                .expiry = patient_expiry,
                .pool_bytes = std::uint64_t{pages} * page_bytes,
                .keep_pools = true};
    if (!guard_off.empty()) {
      wanted.program = PEERCACHE_NODE_SWITCHABLE;
      wanted.environment = {{"PEERCACHE_TEST_GUARDS_OFF", guard_off}};
    }
    start_ring(wanted);
    if (HasFatalFailure())
      return;
    for (std::uint32_t i = 0; i < nodes; ++i)
      clients_.push_back(connect(i));
    for (std::uint32_t i = 0; i < nodes; ++i)
      for (std::uint32_t done = 0; done < puts; done += 50)
        put(*clients_[i], i * puts + done, std::min(50u, puts - done));
  }

  /// Starts a thread that reads random pages at random nodes, until all nodes were restarted and at
  /// least `reads_wanted` reads were made.
  std::thread read_all_the_time(std::uint32_t seed) {
    return std::thread([this, seed] {
      std::mt19937_64 random(seed);
      for (; !through_ || reads_ < reads_wanted; ++reads_) {
        const auto id = static_cast<std::uint32_t>(random() % (nodes * puts));
        const auto read = get(*clients_[random() % nodes], id, milliseconds(500));
        const bool wrong = read.result.status == page_status::hit && read.check.wrong_bytes != 0;
        wrong_ += wrong ? 1 : 0;
        EXPECT_TRUE(took_at_most(milliseconds(550), read));
        if (reads_wanted == 0)
          // The pause stands for the time in which an engine computes.
          std::this_thread::sleep_for(std::chrono::microseconds(500));
      }
    });
  }

  /// Starts a thread that, until all nodes were restarted, sets random pages again at the nodes
  /// that they were put at. Each set has a new version of the bytes, so a page with bytes of two
  /// sets would be found wrong.
  std::thread write_all_the_time(std::uint32_t seed) {
    return std::thread([this, seed] {
      std::mt19937_64 random(seed);
      for (std::uint32_t version = 1; !through_; ++version) {
        const auto id = static_cast<std::uint32_t>(random() % (nodes * puts));
        const auto status = put_one(*clients_[id / puts], id, version);
        ++(status == page_status::stored || status == page_status::duplicate ? written_ : lost_);
        stored_ += status == page_status::stored ? 1 : 0;
        // The pause stands for the time in which an engine computes.
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
  }

  std::uint32_t hits() {
    std::uint32_t found = 0;
    for (std::uint32_t id = 0; id < nodes * puts; ++id)
      found += get(*clients_[id % nodes], id).result.status == page_status::hit ? 1 : 0;
    return found;
  }

  /// Ends each node in turn by `end` and starts it again. Expects at least `percent` percent as
  /// many hits afterwards as before.
  void restart_all(const std::function<void(std::size_t)>& end, std::uint32_t percent) {
    const auto before = hits();
    EXPECT_GE(before, nodes * pages * 95 / 100) << "the pools are not full";
    std::vector<std::thread> engines;
    for (std::uint32_t seed = 1; seed <= 2; ++seed)
      engines.push_back(read_all_the_time(seed));
    engines.push_back(write_all_the_time(3));
    for (std::uint32_t i = 0; i < nodes; ++i) {
      end(i);
      auto back = restart(i);
      EXPECT_TRUE(back) << back.error().message;
      EXPECT_TRUE(within(milliseconds(60'000), [&] { return one_view({0, 1, 2, 3, 4}); }));
    }
    through_ = true;
    for (auto& engine : engines)
      engine.join();
    std::uint32_t after = 0;
    // Nodes publish the records of kept pages at a limited rate, so hits come back by and by.
    EXPECT_TRUE(
        within(milliseconds(20'000), [&] { return (after = hits()) >= before * percent / 100; }));
    std::printf("[ measured ] of %u pages %u were hits before and %u after; %u reads meanwhile, %u "
                "of them wrong; %u sets, %u of them of new bytes, and %u without success\n",
                nodes * puts, before, after, reads_.load(), wrong_.load(), written_.load(),
                stored_.load(), lost_.load());
    EXPECT_GT(stored_, 0u);
  }
  /// Returns how many hits had a wrong byte: hits of the threads so far, and hits of clients
  /// without checksums, which this function has read at each node what was put there.
  std::uint32_t wrong() {
    auto all = wrong_.load();
    for (std::uint32_t i = 0; i < nodes; ++i)
      all += read_all(*unverifying_client(i), puts, i * puts).wrong;
    return all;
  }

private:
  std::vector<std::unique_ptr<client::cache_client>> clients_;
  std::atomic<bool> through_{false};
  std::atomic<std::uint32_t> reads_{0}, wrong_{0};
  std::atomic<std::uint32_t> written_{0}, stored_{0}, lost_{0};
};

} // namespace

TEST_F(kept_pools, a_restart_of_all_nodes_one_after_another_costs_a_page_in_a_hundred_at_most) {
  restart_all([this](std::size_t i) { EXPECT_EQ(node(i).stop(milliseconds(15'000)), 0); }, 99);
  EXPECT_EQ(wrong(), 0u);
}

TEST_F(kept_pools, the_death_of_all_nodes_one_after_another_costs_a_page_in_twenty_at_most) {
  restart_all([this](std::size_t i) { kill(i); }, 95);
  EXPECT_EQ(wrong(), 0u);
}

namespace {

/// Pools of killed nodes, in which each hundredth page is damaged while the node is dead. The
/// parameter says whether nodes compare the checksums of the pages that they adopt. The threads'
/// clients always compare checksums, because they have the pools mapped while pages are damaged.
class damaged_kept_pools : public kept_pools, public testing::WithParamInterface<bool> {
  void SetUp() override {
    fill_ring(GetParam() ? "" : "adoption", [this](std::size_t i) { return client_of(i); });
  }
};
INSTANTIATE_TEST_SUITE_P(guard, damaged_kept_pools, testing::Bool(),
                         [](const auto& info) { return info.param ? "on" : "off"; });

} // namespace

/// Where nodes do not compare the checksums of adopted pages, reads must find wrong bytes: this
/// shows that the test would notice them.
TEST_P(damaged_kept_pools, give_wrong_bytes_to_nobody_unless_the_guard_is_off) {
  std::uint32_t damaged = 0;
  restart_all(
      [&](std::size_t i) {
        kill(i);
        const auto own = pool_prefix() + "-node-" + std::to_string(i + 1) + "-";
        for (const auto& name : objects())
          if (name.starts_with(own))
            damaged += damage_pool(name, 100);
      },
      94);
  EXPECT_GE(damaged, nodes * pages * 9 / 10 / 100) << "each pool was damaged";
  const auto found = wrong();
  std::printf("[ measured ] %u pages were damaged, %u hits had a wrong byte\n", damaged, found);
  EXPECT_EQ(found == 0, GetParam());
}

} // namespace peercache::real::adoption_test

// Tests of nodes that are killed at named steps of their disk tier and started again on the same
// disk.

#include "disk_node.hpp"

#include "tests/fakes/faulty_disk_io.hpp"

#include <algorithm>
#include <cstdlib>
#include <tuple>

namespace peercache::real {

using metrics::metric;
namespace {

using storage::disk_step;

/// Returns how often a node is killed at each step: once in ctest. More rounds are run by hand,
/// without ctest's time limit:
///   PEERCACHE_DISK_CRASH_ROUNDS=20 build/release/tests/real_tests --gtest_filter='*disk_crash*'
std::uint32_t rounds() {
  const char* wanted = std::getenv("PEERCACHE_DISK_CRASH_ROUNDS");
  return wanted != nullptr ? static_cast<std::uint32_t>(std::atoi(wanted)) : 1;
}

/// A node lives three times on one disk: it is killed with pages on the disk, then at the named
/// step while it starts or works, and in its third life it must find the pages.
class disk_crash : public testing::TestWithParam<std::tuple<std::string, disk_step>> {
protected:
  /// Pages that the first life puts, numbered from 0.
  static constexpr std::uint32_t first_pages = 200;
  /// The number of the first page that the second life puts.
  static constexpr std::uint32_t second_id = 1000;

  static const std::string& store() { return std::get<0>(GetParam()); }
  static disk_step step() { return std::get<1>(GetParam()); }

  /// Returns the environment that kills the node at the tested step: each round at a later pass
  /// through the step, except for steps that the store `offset` passes only once, at its start.
  static std::vector<std::pair<std::string, std::string>> killed_at(std::uint32_t round) {
    const bool often = step() == disk_step::write_submitted || step() == disk_step::write_done;
    const bool once =
        store() == "offset" && (step() == disk_step::create || step() == disk_step::sync_folder);
    const auto count = once ? 1 : 1 + round * (often ? 37 : 1);
    return {{"PEERCACHE_TEST_DISK_KILL_POINT", std::to_string(static_cast<int>(step()))},
            {"PEERCACHE_TEST_DISK_KILL_COUNT", std::to_string(count)}};
  }

  /// Whether the tested step is the creation of the store `offset`'s only file, which happens at
  /// the first start only.
  static bool made_once() { return store() == "offset" && step() == disk_step::create; }

  /// Whether this store ever comes to the step at which the test kills the node.
  static bool comes_there() {
    if (store() == "bucket")
      return step() != disk_step::rename;
    if (store() == "file_per_key")
      return step() != disk_step::truncate;
    return step() != disk_step::rename && step() != disk_step::remove &&
           step() != disk_step::truncate;
  }

  /// Whether the test must fill the disk: stores remove files only then.
  static bool fills() { return step() == disk_step::remove; }

  static disk_node::options wanted(std::uint32_t round) {
    disk_node::options options;
    options.store = store();
    options.disk_bytes = fills() ? 16u << 20 : 256u << 20;
    if (made_once())
      options.environment = killed_at(round);
    return options;
  }

  /// How many pages the second life has put, and how many were on disk when the node was last
  /// asked.
  struct work_done {
    std::uint32_t put = 0;
    std::uint64_t on_disk = 0;
  };
  /// Puts new pages, and reads old ones from disk, until the node is dead or has enough pages.
  static work_done work(disk_node& node, bool dies) {
    work_done done;
    const std::uint32_t enough = dies ? 6000 : 128;
    for (; done.put < enough && node.alive(); ++done.put) {
      node.put(second_id + done.put);
      if (done.put % 8 == 0)
        node.get(done.put / 8 % first_pages, milliseconds(200));
      if (done.put % 64 != 63)
        continue;
      EXPECT_TRUE(node.settled()); // Waits until the disk has kept up, or the node is dead.
      if (const auto now = node.status())
        done.on_disk = now->count(metric::disk_records);
    }
    return done;
  }

  /// Starts the node again, set to kill itself at the tested step of its disk, and works with it
  /// until it is dead or has enough pages. Returns whether it had ended by itself, which it cannot
  /// where the store does not come to that step.
  static bool die(disk_node& node, std::uint32_t round, work_done& done) {
    if (node.start(killed_at(round)))
      done = work(node, comes_there() && !made_once());
    return node.bury(milliseconds(comes_there() && !made_once() ? 5000 : 0));
  }

  /// Expects of a node that was started for the last time that the pages on its disk are whole and
  /// found: as many as before the first kill, unless the test fills the disk, which evicts some.
  /// `before`: number of pages on disk before the first kill. `done`: what the node did until the
  /// second one.
  static void check(disk_node& node, std::uint64_t before, const work_done& done) {
    ASSERT_TRUE(node.settled());
    const auto recovered = node.status()->count(metric::disk_recovered_records);
    ASSERT_NO_FATAL_FAILURE(node.verify_and_wait());
    EXPECT_EQ(node.status()->count(metric::disk_checksum_failures_total), 0u);
    EXPECT_GE(recovered, fills() ? 1 : std::max(before, done.on_disk));
    std::uint64_t of_first = 0, of_second = 0;
    // The directory learns of the recovered pages one after another, so the test waits for the
    // hits.
    EXPECT_TRUE(within(milliseconds(30'000), [&] {
      of_first = node.count_hits(0, first_pages);
      of_second = node.count_hits(second_id, done.put);
      return of_first + of_second >= recovered;
    }));
    EXPECT_EQ(of_first + of_second, recovered);
    if (!fills()) {
      EXPECT_EQ(of_first, before);
    }
  }
};

TEST_P(disk_crash, what_was_durable_is_found_again_and_right) {
  for (std::uint32_t round = 0; round < rounds(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    disk_node node(wanted(round));
    bool was_killed = false;
    if (made_once()) {
      was_killed = node.bury(milliseconds(comes_there() ? 5000 : 0));
      ASSERT_TRUE(node.start({}));
    }
    ASSERT_TRUE(node.settled());
    ASSERT_NO_FATAL_FAILURE(node.put_to_disk(0, first_pages));
    const auto before = node.status()->count(metric::disk_records);
    ASSERT_GT(before, 0u);
    node.bury(milliseconds(0));
    work_done done;
    was_killed |= die(node, round, done);
    EXPECT_EQ(was_killed, comes_there());
    ASSERT_TRUE(node.start({}));
    ASSERT_NO_FATAL_FAILURE(check(node, before, done));
  }
}

std::string name_of(const testing::TestParamInfo<disk_crash::ParamType>& info) {
  constexpr std::array names = {"",
                                "create",
                                "rename",
                                "remove",
                                "truncate",
                                "sync_folder",
                                "write_submitted",
                                "write_done",
                                "sync_submitted",
                                "sync_done",
                                "read_done"};
  return std::get<0>(info.param) + "_at_" +
         names[static_cast<std::size_t>(std::get<1>(info.param))];
}

INSTANTIATE_TEST_SUITE_P(
    at, disk_crash,
    testing::Combine(testing::Values("bucket", "file_per_key", "offset"),
                     testing::Values(disk_step::create, disk_step::rename, disk_step::remove,
                                     disk_step::truncate, disk_step::sync_folder,
                                     disk_step::write_submitted, disk_step::write_done,
                                     disk_step::sync_submitted, disk_step::sync_done,
                                     disk_step::read_done)),
    name_of);

} // namespace
} // namespace peercache::real

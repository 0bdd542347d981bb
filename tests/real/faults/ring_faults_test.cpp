// What the status of a healthy member says of the others.

#include "fault_ring.hpp"

#include "common/fault_ids.hpp"

#include <filesystem>
#include <fstream>
#include <functional>

namespace peercache::real::ring_faults_test {
namespace {

/// One fault of a ring of three; node 0 is asked.
struct row {
  std::string name;
  std::function<void(class ring_faults&)> stage;
  const char* id;
  std::vector<std::string> words;
};

class ring_faults : public fault_ring, public testing::WithParamInterface<row> {
public:
  void kill_node(std::size_t index) { kill(index); }
  void freeze_node(std::size_t index) { freeze(index); }
  /// Starts one more node that differs from the others in these flags.
  void join_with(std::vector<std::string> flags) {
    auto launch = launch_of(node_count());
    launch.seeds = {address(0)};
    launch.flags.insert(launch.flags.end(), flags.begin(), flags.end());
    spawn_node(launch);
  }
  /// Starts one more node whose disk tier cannot be used.
  void join_with_file_for_a_disk() {
    const auto path = folder_->path() / "no-folder";
    std::ofstream(path) << "a file";
    join_with(
        {"--disk-path", path.string(), "--disk-size", "128MiB", "--disk-bucket-size", "32MiB"});
  }
};

const std::vector<row> rows{
    {"a_node_is_killed",
     [](auto& ring) { ring.kill_node(2); },
     fault_ids::node_gone,
     {"node-3", "connection broke", "peercache forget"}},
    {"a_node_is_frozen",
     [](auto& ring) { ring.freeze_node(2); },
     fault_ids::node_gone,
     {"node-3", "silent", "start it again"}},
    {"two_of_three_are_killed",
     [](auto& ring) {
       ring.kill_node(1);
       ring.kill_node(2);
     },
     fault_ids::node_gone,
     {"node-2", "connection broke"}},
    {"replicas_differ",
     [](auto& ring) {
       ring.join_with({"--directory-replicas", "3"});
     },
     fault_ids::option_differs,
     {"directory.replicas: 2 (node-1", "3 (node-4)", "alike"}},
    {"a_disk_that_cannot_be_used",
     [](auto& ring) { ring.join_with_file_for_a_disk(); },
     fault_ids::disk_off,
     {"node-4", "no-folder", "off though disk.path is set"}},
};

} // namespace

TEST_P(ring_faults, is_said_with_its_cause_and_what_to_do) {
  start({.count = 3});
  if (HasFatalFailure())
    return;
  ASSERT_TRUE(within(milliseconds(20'000), [this] {
    return ask_at(address(0), {"status"}).exit_code == 0;
  })) << ask_at(address(0), {"status"}).output;
  GetParam().stage(*this);
  expect_fault(address(0), GetParam().id, GetParam().words);
}

INSTANTIATE_TEST_SUITE_P(of, ring_faults, testing::ValuesIn(rows),
                         [](const auto& info) { return info.param.name; });

} // namespace peercache::real::ring_faults_test

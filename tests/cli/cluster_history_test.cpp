#include "cli/cluster_history.hpp"
#include "common/fault_ids.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::cli::cluster_history_test {

namespace {

node_memory memory_of(const std::string& name, std::vector<link::node_event> events) {
  node_memory memory;
  memory.member.name = name;
  memory.said.emplace();
  memory.said->events = std::move(events);
  return memory;
}

std::string packed(std::initializer_list<link::history_point> points) {
  std::string bytes;
  for (const auto& point : points)
    bytes.append(reinterpret_cast<const char*>(&point), sizeof point);
  return bytes;
}

} // namespace

TEST(cluster_history, joins_are_told_by_the_node_that_was_asked_and_incidents_by_all) {
  node_memory silent;
  silent.member.name = "node-3";
  const auto events =
      events_of({memory_of("node-1", {{20, "joined", "node-2", "it came"}}),
                 memory_of("node-2", {{21, "joined", "node-2", "it came"},
                                      {10, fault_ids::disk_full, "node-2", "full"},
                                      {30, fault_ids::disk_full, "node-2", "full", true}}),
                 silent},
                "node-1");
  std::vector<std::string> told;
  for (const auto& event : events)
    told.push_back((event.over ? "over " : "") + event.kind);
  EXPECT_THAT(told, testing::ElementsAre("disk-full", "joined", "over disk-full"));
}

TEST(cluster_history, the_newest_step_is_the_last_one_and_garbage_is_none) {
  link::history_report said;
  EXPECT_FALSE(newest_of(said));
  link::history_point first, second;
  first.number = 1;
  second.number = 2;
  said.points = packed({first, second});
  ASSERT_TRUE(newest_of(said));
  EXPECT_EQ(newest_of(said)->number, 2u);
  said.points.pop_back();
  EXPECT_FALSE(newest_of(said));
}

} // namespace peercache::cli::cluster_history_test

// Tests of nodes that other nodes cannot reach at the address that they advertise.

#include "local_ring.hpp"

#include <fstream>

namespace peercache::real::advertise_test {

namespace {

using advertising = local_ring;

/// Starts a node that advertises 127.0.0.9, where it does not listen: nobody reaches it, so it
/// never becomes ready.
result<cli::child_process> start_unreachable(const cli::node_process& seed, const std::string& name,
                                             const std::filesystem::path& log) {
  cli::node_launch launch;
  launch.program = seed.launch().program;
  launch.name = name;
  launch.cluster = seed.launch().cluster;
  launch.pool_bytes = 16u << 20;
  launch.seeds = {seed.address()};
  launch.folder = log.parent_path();
  launch.flags = {"--net-advertise", "127.0.0.9"};
  return cli::child_process::spawn(
      {.arguments = cli::arguments_of(launch), .stderr_path = log.string()});
}

bool says(const std::filesystem::path& log, const std::string& words) {
  std::ifstream file(log);
  return std::string{std::istreambuf_iterator<char>(file), {}}.find(words) != std::string::npos;
}

/// By their names the two nodes that nobody reaches would become masters, and the cluster could
/// then decide nothing.
TEST_F(advertising, an_address_that_nobody_reaches_keeps_a_node_out_and_both_sides_say_why) {
  const auto reason = "nobody answers at the address that it advertises, 127.0.0.9:";
  std::vector<std::filesystem::path> logs;
  std::vector<cli::child_process> outside;
  for (const char* name : {"a", "b"}) {
    logs.push_back(folder_->path() / (std::string(name) + ".log"));
    auto started = start_unreachable(node(0), name, logs.back());
    ASSERT_TRUE(started);
    outside.push_back(std::move(*started));
  }
  for (const auto& log : logs)
    EXPECT_TRUE(within(milliseconds(20'000), [&] { return says(log, reason); })) << log;
  EXPECT_TRUE(within(milliseconds(10'000),
                     [&] { return says(node(0).launch().folder / "node.log", reason); }));
  // The cluster goes on deciding: it notices a death, and takes in nodes that can be reached.
  node(2).process().kill_now();
  EXPECT_TRUE(cli::wait_for_members(node(0), 2, milliseconds(15'000)));
  EXPECT_TRUE(restart(2));
  EXPECT_TRUE(cli::wait_for_members(node(0), 3, milliseconds(15'000)));
}

} // namespace

} // namespace peercache::real::advertise_test

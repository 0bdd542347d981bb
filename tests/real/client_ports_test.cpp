// Tests of the nodes and ports to which a client connects.
#include "local_ring.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <set>
#include <sstream>

namespace peercache::real::client_ports_test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::Not;

/// Returns the ports of 127.0.0.1 to which this process has an established connection.
std::set<std::uint16_t> connected_ports() {
  std::set<std::string> own;
  std::error_code gone;
  for (const auto& each : fs::directory_iterator("/proc/self/fd", gone)) {
    const auto target = fs::read_symlink(each, gone).string();
    if (target.starts_with("socket:["))
      own.insert(target.substr(8, target.size() - 9));
  }
  std::set<std::uint16_t> ports;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    // The third field is the remote address, the fourth the state, the last the inode.
    std::array<std::string, 10> field;
    for (auto& word : field)
      words >> word;
    if (field[3] == "01" && own.contains(field[9]))
      ports.insert(static_cast<std::uint16_t>(
          std::stoul(field[2].substr(field[2].find(':') + 1), nullptr, 16)));
  }
  return ports;
}

class client_ports : public local_ring {};

TEST_F(client_ports, a_client_speaks_with_nodes_at_their_look_up_and_data_ports_alone) {
  const auto writer = client_of(1);
  const auto reader = client_of(0);
  ASSERT_TRUE(writer && reader);
  put(*writer, 0, 40);
  EXPECT_EQ(count_existing(*reader, 0, 40), 40u);
  for (std::uint32_t id = 0; id < 40; ++id)
    EXPECT_EQ(get(*reader, id).check.wrong_bytes, 0u);
  client::page_result removed;
  reader->remove(std::array{key_of(7)}, {&removed, 1});
  EXPECT_EQ(to_string(removed.status), "hit") << "another node's page was removed";
  EXPECT_EQ(to_string(get(*writer, 7).result.status), "not_found");
  const auto view = reader->view();
  const auto third = std::find_if(view.members.begin(), view.members.end(), [&](const auto& each) {
    return each.control_port == node(2).ports().control_port;
  });
  ASSERT_NE(third, view.members.end());
  const auto ports = connected_ports();
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_THAT(ports, Not(Contains(node(i).ports().control_port))) << "node " << i;
  EXPECT_THAT(ports, Contains(third->lookup_port));
}

} // namespace
} // namespace peercache::real::client_ports_test

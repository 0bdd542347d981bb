#include "cli/doctor/doctor_ports.hpp"
#include "client/admin_client.hpp"
#include "net/socket.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

namespace peercache::cli {

namespace {

namespace fs = std::filesystem;

/// How long the node that has the control port may take to say who it is.
constexpr std::chrono::milliseconds hello_deadline{1500};

/// Inodes of the TCP sockets that have this local port.
struct port_inodes {
  std::set<std::string> listening;
  std::set<std::string> connected;
};

/// Reads a table like /proc/net/tcp: "N: ADDRESS:PORT REMOTE STATE … INODE …" with the port in hex.
void add_inodes(const fs::path& table, std::uint16_t port, port_inodes& found) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line); // Skips the head of the table.
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retries, user, timeout, inode;
    if (!(words >> number >> local >> remote >> state >> queues >> timer >> retries >> user >>
          timeout >> inode))
      continue;
    const auto colon = local.rfind(':');
    std::uint16_t its = 0;
    if (colon == std::string::npos ||
        std::from_chars(local.data() + colon + 1, local.data() + local.size(), its, 16).ec !=
            std::errc{} ||
        its != port)
      continue;
    constexpr std::string_view listen_state = "0A";
    (state == listen_state ? found.listening : found.connected).insert("socket:[" + inode + "]");
  }
}

std::string program_of(const fs::path& process) {
  std::string name;
  std::ifstream(process / "comm") >> name;
  return name;
}

/// The process that has one of these sockets open; pid 0 when this user sees no such process.
port_owner holder_of(const std::set<std::string>& sockets, const fs::path& proc) {
  std::error_code failed;
  if (sockets.empty())
    return {};
  for (fs::directory_iterator it(proc, failed), end; !failed && it != end; it.increment(failed)) {
    const auto name = it->path().filename().string();
    std::int64_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ptr !=
        name.data() + name.size())
      continue;
    std::error_code hidden;
    for (fs::directory_iterator fd(it->path() / "fd", hidden); !hidden && fd != end;
         fd.increment(hidden)) {
      std::error_code gone;
      if (sockets.contains(fs::read_symlink(fd->path(), gone).string()))
        return {pid, program_of(it->path())};
    }
  }
  return {};
}

listen_facts look_at(const std::string& option, const std::string& host, std::uint16_t port) {
  listen_facts facts{option, host, port, "", false, {}, false};
  if (port == 0)
    return facts;
  const auto address = net::resolve_host(host);
  const auto held = address ? net::hold_port(*address, port) : address.error();
  if (held)
    return facts;
  facts.why_not = held.error().message;
  facts.taken = facts.why_not.find(std::strerror(EADDRINUSE)) != std::string::npos;
  if (facts.taken)
    facts.owner = owner_of_port(port);
  return facts;
}

/// The node of this name and cluster that answers at the configured control port; none when no such
/// node does.
std::optional<client::node_status> running_node(const config::node_config& config) {
  auto admin = client::admin_client::connect(config.net.advertise, config.net.control_port,
                                             config.cluster.name, hello_deadline, config.tls);
  auto status = admin ? (*admin)->status() : result<client::node_status>(admin.error());
  if (!status || status->self.name != config.node.name)
    return std::nullopt;
  return std::move(*status);
}

} // namespace

port_owner owner_of_port(std::uint16_t port, const fs::path& root) {
  port_inodes found;
  for (const char* table : {"proc/self/net/tcp", "proc/self/net/tcp6"})
    add_inodes(root / table, port, found);
  auto owner = holder_of(found.listening, root / "proc");
  return owner.pid != 0 ? owner : holder_of(found.connected, root / "proc");
}

void mark_ports_of(const client::node_status& node, ports_facts& facts) {
  const std::map<std::string, std::uint16_t> said{{"net.control_port", node.self.control_port},
                                                  {"net.data_port", node.self.data_port},
                                                  {"net.lookup_port", node.lookup_port},
                                                  {"net.http_port", node.self.http_port}};
  for (auto& one : facts.ports)
    one.of_this_node = one.taken && said.at(one.option) == one.port;
}

ports_facts gather_ports_facts(const config::node_config& config) {
  ports_facts facts;
  facts.ports = {look_at("net.control_port", config.net.bind, config.net.control_port),
                 look_at("net.data_port", config.net.bind, config.net.data_port),
                 look_at("net.lookup_port", config.net.bind, config.net.lookup_port)};
  if (config.metrics.enabled)
    facts.ports.push_back(look_at("net.http_port", config.metrics.bind, config.net.http_port));
  if (facts.ports.front().taken)
    if (const auto node = running_node(config))
      mark_ports_of(*node, facts);
  return facts;
}

} // namespace peercache::cli

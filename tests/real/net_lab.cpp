#include "net_lab.hpp"

#include "cli/process.hpp"
#include "common/assert.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <thread>
#include <unistd.h>

namespace peercache::real {

namespace {

/// Makes a network namespace, in a new thread, because the thread that makes a namespace enters it.
/// Returns a descriptor of the namespace.
result<int> new_network() {
  int fd = -1;
  int failure = 0;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) == 0)
      fd = ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    failure = errno;
  }).join();
  if (fd < 0)
    return {errc::refused, fmt::format("network namespaces are not to be had ({}): run as root, "
                                       "outside of a container that forbids them",
                                       std::strerror(failure))};
  return fd;
}

std::string path_of(int space) {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), space);
}

} // namespace

std::string net_lab::address(std::uint32_t host) {
  return fmt::format("10.77.0.{}", host + 11);
}

std::string net_lab::hub_address() {
  return "10.77.0.1";
}

result<net_lab> net_lab::make(std::uint32_t hosts) {
  PEERCACHE_ASSERT(hosts > 0 && hosts < 200);
  for (auto [program, package] : {std::pair("ip", "iproute2"), std::pair("nft", "nftables")})
    if (auto found = cli::find_program(program, package); !found)
      return found.error();
  net_lab lab;
  lab.loss_percent_.assign(hosts, 0);
  for (std::uint32_t i = 0; i <= hosts; ++i)
    if (auto made = lab.add_space(); !made)
      return made.error();
  auto hub = fmt::format("ip link set lo up && ip link add bridge type bridge && "
                         "ip addr add {}/16 dev bridge && ip link set bridge up",
                         hub_address());
  for (std::uint32_t i = 0; i < hosts; ++i)
    hub += fmt::format(" && ip link add port{0} type veth peer name eth0 netns {1} && "
                       "ip link set port{0} master bridge up",
                       i, path_of(lab.network(i)));
  if (auto joined = lab.run(0, hub); !joined)
    return joined.error();
  for (std::uint32_t i = 0; i < hosts; ++i)
    if (auto up = lab.run(i + 1, fmt::format("ip link set lo up && ip addr add {}/16 dev eth0 && "
                                             "ip link set eth0 up",
                                             address(i)));
        !up)
      return up.error();
  if (auto allowed = lab.apply(); !allowed)
    return allowed.error();
  return lab;
}

net_lab::~net_lab() {
  for (int space : spaces_)
    ::close(space);
}

result<void> net_lab::add_space() {
  auto made = new_network();
  if (!made)
    return made.error();
  spaces_.push_back(*made);
  return {};
}

result<void> net_lab::run(std::size_t space, const std::string& script) const {
  auto shell = cli::child_process::spawn(
      {.arguments = {"/bin/sh", "-c", "exec 2>&1\n" + script}, .network = spaces_[space]});
  if (!shell)
    return shell.error();
  std::string said;
  while (auto line = shell->read_line(std::chrono::seconds(10)))
    said += *line + "; ";
  if (shell->wait(std::chrono::seconds(10)) == 0)
    return {};
  return {errc::io_failed, fmt::format("the test's network cannot be made: '{}' said: {}",
                                       script.substr(0, 80), said)};
}

void net_lab::enter_space(std::size_t space) const {
  PEERCACHE_ASSERT(::setns(spaces_[space], CLONE_NEWNET) == 0);
}

/// Returns the nftables rules for packets that come to this host: one table, which replaces the
/// host's former table.
std::string net_lab::rules(std::uint32_t host) const {
  auto text = fmt::format("table inet faults\ndelete table inet faults\ntable inet faults {{\n"
                          "chain in {{\ntype filter hook input priority 0; policy accept;\n"
                          "iifname \"lo\" accept\nip saddr {} accept\n",
                          hub_address());
  if (deaf_.contains(host))
    text += "drop\n";
  for (const auto& [from, to] : cuts_)
    if (to == host)
      text += fmt::format("ip saddr {} drop\n", address(from));
  for (const auto& [at, port] : closed_)
    if (at == host)
      text += fmt::format("tcp dport {} drop\n", port);
  if (loss_percent_[host] > 0)
    text += fmt::format("numgen random mod 100 < {} drop\n", loss_percent_[host]);
  return text + "}\n}\n";
}

result<void> net_lab::apply(std::uint32_t host) const {
  return run(host + 1, "nft -f - <<'END'\n" + rules(host) + "END\n");
}

result<void> net_lab::apply() const {
  for (std::uint32_t host = 0; host < hosts(); ++host)
    if (auto done = apply(host); !done)
      return done;
  return {};
}

result<void> net_lab::cut(std::uint32_t from, std::uint32_t to) {
  cuts_.emplace(from, to);
  return apply(to);
}

result<void> net_lab::part(const std::set<std::uint32_t>& these) {
  for (std::uint32_t other = 0; other < hosts(); ++other)
    for (auto one : these)
      if (!these.contains(other)) {
        cuts_.emplace(one, other);
        cuts_.emplace(other, one);
      }
  return apply();
}

result<void> net_lab::lose(std::uint32_t host, std::uint32_t percent) {
  loss_percent_[host] = percent;
  return apply(host);
}

result<void> net_lab::deafen(std::uint32_t host) {
  deaf_.insert(host);
  return apply(host);
}

result<void> net_lab::close_port(std::uint32_t host, std::uint16_t port) {
  closed_.emplace(host, port);
  return apply(host);
}

result<void> net_lab::translate(std::uint32_t host, const std::string& inner) const {
  return run(host + 1, fmt::format("ip addr add {0}/32 dev lo\n"
                                   "nft -f - <<'END'\ntable ip translation {{\nchain in {{\n"
                                   "type nat hook prerouting priority -100; policy accept;\n"
                                   "ip daddr {1} dnat to {0}\n}}\n}}\nEND\n",
                                   inner, address(host)));
}

result<void> net_lab::heal() {
  cuts_.clear();
  deaf_.clear();
  closed_.clear();
  loss_percent_.assign(loss_percent_.size(), 0);
  return apply();
}

result<void> net_lab::heal(std::uint32_t host) {
  std::erase_if(cuts_, [host](const auto& cut) { return cut.first == host || cut.second == host; });
  deaf_.erase(host);
  loss_percent_[host] = 0;
  return apply();
}

} // namespace peercache::real

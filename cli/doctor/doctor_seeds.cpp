#include "cli/doctor/doctor_seeds.hpp"

#include "cli/doctor/check_ids.hpp"
#include "client/admin_client.hpp"
#include "common/unix_time.hpp"
#include "net/socket.hpp"

#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <poll.h>

namespace peercache::cli {

namespace {

/// Time-out of each step, so that a seed is judged within a probe's deadline: a name look-up, a
/// hello and two questions.
constexpr std::chrono::milliseconds seed_timeout{1000};

check judge_own(const seed_facts& facts) {
  if (!facts.only)
    return {facts.address, verdict::info, "this node itself", ""};
  return {facts.address, verdict::warn,
          "this node itself, and there is no other seed: it founds a cluster of one",
          "give all nodes the same discovery.seeds, with the addresses of three of them"};
}

check judge_fault(const seed_facts& facts) {
  const auto& fault = *facts.fault;
  if (!facts.resolved)
    return {facts.address, verdict::fail, fault.message,
            "correct the name in discovery.seeds, or look at DNS"};
  if (fault.code == errc::unreachable && !facts.listens)
    return {facts.address, verdict::warn, fault.message,
            "start the node there, correct discovery.seeds, or open the port"};
  if (fault.code == errc::incompatible)
    return {facts.address, verdict::fail, fault.message,
            "give both nodes the same cluster.name and the same version, or correct "
            "discovery.seeds"};
  return {facts.address, verdict::fail, fault.message,
          "discovery.seeds needs the net.control_port of a node; if it is one, look whether the "
          "node there hangs"};
}

/// Judges a seed that answered.
check judge_answer(const seed_facts& facts, const std::string& version) {
  const auto who = fmt::format("node '{}' answers, version {}", facts.node, facts.version);
  if (!facts.namesake.empty())
    return {facts.address, verdict::fail,
            fmt::format("{}; a node of this name lives at {}", who, facts.namesake),
            "another node.name for one of the two, or stop the other one"};
  if (std::abs(facts.ahead_ms) > clock_difference_ms_most)
    return {facts.address, verdict::warn,
            fmt::format("{}; its clock is {:.1f} s {} this machine's", who,
                        static_cast<double>(std::abs(facts.ahead_ms)) / 1e3,
                        facts.ahead_ms > 0 ? "ahead of" : "behind"),
            "look at NTP on both machines: chronyc tracking"};
  if (facts.version != version)
    return {facts.address, verdict::warn, fmt::format("{}; this is {}", who, version),
            "install the same version on both sides"};
  return {facts.address, verdict::ok, who, ""};
}

/// By how many ms the clock of the node that answered is ahead of this machine's: its time of day
/// is compared with the middle between question and answer.
std::int64_t ahead_of_us(std::uint64_t its_ms, std::uint64_t asked_ms, std::uint64_t answered_ms) {
  return static_cast<std::int64_t>(its_ms) -
         static_cast<std::int64_t>(asked_ms + (answered_ms - asked_ms) / 2);
}

/// Whether something at this address and port takes a connection within half a second.
bool takes_connections(const std::string& address, std::uint16_t port) {
  constexpr int patience_ms = 500;
  const auto socket = net::start_connect(address, port, {});
  if (!socket)
    return false;
  pollfd waited{socket->get(), POLLOUT, 0};
  return ::poll(&waited, 1, patience_ms) == 1 && net::socket_error(socket->get()) == 0;
}

void ask(client::admin_client& admin, const config::node_config& config, seed_facts& facts) {
  const auto asked = unix_ms();
  const auto status = admin.status();
  const auto answered = unix_ms();
  const auto view = admin.view();
  if (!status || !view) {
    facts.fault = status ? view.error() : status.error();
    return;
  }
  facts.node = status->self.name;
  facts.version = status->version;
  facts.ahead_ms = ahead_of_us(status->unix_ms, asked, answered);
  const auto own = net::resolve_host(config.net.advertise);
  for (const auto& member : view->members)
    if (member.name == config.node.name &&
        (!own || member.host != *own || member.control_port != config.net.control_port))
      facts.namesake = fmt::format("{}:{}", member.host, member.control_port);
}

} // namespace

seed_facts gather_seed_facts(const config::node_config& config, const config::host_port& seed) {
  seed_facts facts;
  facts.address = fmt::format("{}:{}", seed.host, seed.port);
  facts.only = config.discovery.seeds.size() < 2;
  const auto address = net::resolve_host(seed.host);
  if (!address) {
    facts.resolved = false;
    facts.fault = address.error();
    return facts;
  }
  const auto own = net::resolve_host(config.net.advertise);
  facts.own = own && *own == *address && seed.port == config.net.control_port;
  if (facts.own)
    return facts;
  auto admin = client::admin_client::connect(*address, seed.port, config.cluster.name, seed_timeout,
                                             config.tls);
  if (admin)
    ask(**admin, config, facts);
  else
    facts.fault = admin.error();
  if (facts.fault)
    facts.listens = takes_connections(*address, seed.port);
  return facts;
}

check judge_seed(const seed_facts& facts, const std::string& version) {
  auto judged = facts.own     ? judge_own(facts)
                : facts.fault ? judge_fault(facts)
                              : judge_answer(facts, version);
  return with_id(check_ids::seed, std::move(judged));
}

} // namespace peercache::cli

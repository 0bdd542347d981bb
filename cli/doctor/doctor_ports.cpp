#include "cli/doctor/doctor_ports.hpp"

#include "cli/doctor/check_ids.hpp"

#include <fmt/format.h>

namespace peercache::cli {

namespace {

std::string words_of(const port_owner& owner) {
  if (owner.pid == 0)
    return "a process that only root can see";
  return fmt::format("{} (process {})", owner.program, owner.pid);
}

check judge_port(const listen_facts& facts) {
  const auto& name = facts.option;
  if (facts.port == 0)
    return {name, verdict::ok, "any free port", ""};
  const auto address = fmt::format("{}:{}", facts.host, facts.port);
  if (facts.why_not.empty())
    return {name, verdict::ok, address + " is free", ""};
  if (!facts.taken)
    return {name, verdict::fail, fmt::format("cannot listen at {}: {}", address, facts.why_not),
            fmt::format("set {} to an address of this machine (`ip address`), {} to a port above "
                        "1023",
                        facts.option == "net.http_port" ? "metrics.bind" : "net.bind",
                        facts.option)};
  if (facts.of_this_node)
    return {name, verdict::info,
            facts.owner.pid == 0 ? fmt::format("{} is held by this node, which runs", address)
                                 : fmt::format("{} is held by this node, which runs (process {})",
                                               address, facts.owner.pid),
            ""};
  return {name, verdict::fail, fmt::format("{} is taken by {}", address, words_of(facts.owner)),
          fmt::format("end that process, or set another {}", facts.option)};
}

} // namespace

check_group judge_ports(const ports_facts& facts) {
  check_group group{"ports", {}};
  for (const auto& one : facts.ports)
    group.checks.push_back(with_id(check_ids::port, judge_port(one)));
  return group;
}

} // namespace peercache::cli

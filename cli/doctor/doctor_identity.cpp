#include "cli/doctor/doctor_identity.hpp"

#include "cli/doctor/check_ids.hpp"
#include "net/socket.hpp"
#include "net/tls_context.hpp"

#include <fmt/format.h>

namespace peercache::cli {

namespace {

check judge_files(const config::node_config& config,
                  const std::optional<result<net::tls_identity>>& shown) {
  const std::string name = "TLS";
  if (!shown)
    return {name, verdict::info, "tls.* is not set: connections are plain", ""};
  const auto fix = fmt::format("peercache ca issue node {}; tls.cert, tls.key and tls.ca "
                               "must be files that the node's user can read",
                               config.node.name);
  if (!*shown)
    return {name, verdict::fail, shown->error().message, fix};
  const auto& who = **shown;
  if (who.role != net::tls_role::node)
    return {name, verdict::fail,
            config.tls.certificate + " is not a node's: the node would not start", fix};
  if (who.name != config.node.name)
    return {name, verdict::fail,
            fmt::format("{} is that of the node '{}', and this is '{}': the node would not start",
                        config.tls.certificate, who.name, config.node.name),
            fmt::format("{}; or node.name = \"{}\"", fix, who.name)};
  return {name, verdict::ok, fmt::format("the certificate is that of '{}'", who.name), ""};
}

} // namespace

std::optional<result<net::tls_identity>> gather_identity(const config::node_config& config) {
  const auto opened = net::tls_context::open_if_given(config.tls, config.cluster.name);
  if (!opened)
    return opened.error();
  if (!*opened)
    return std::nullopt;
  return (*opened)->self();
}

check judge_identity(const config::node_config& config,
                     const std::optional<result<net::tls_identity>>& shown) {
  return with_id(check_ids::tls, judge_files(config, shown));
}

check look_at_advertise(const config::node_config& config) {
  const std::string name = "net.advertise";
  const auto address = net::resolve_host(config.net.advertise);
  if (!address)
    return {name, verdict::fail,
            fmt::format("'{}': {}: the node would not start", config.net.advertise,
                        address.error().message),
            "set net.advertise to an address of this machine that the other hosts reach, or make "
            "DNS know the name",
            check_ids::advertise};
  return {name, verdict::ok, fmt::format("peers connect to {}", *address), "",
          check_ids::advertise};
}

} // namespace peercache::cli

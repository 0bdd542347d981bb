#include "actors/node/node_impl.hpp"

#include "common/log.hpp"
#include "link/node_middleman.hpp"

#include <fmt/format.h>

// The part of the composition root that decides who is let in.
namespace peercache::actors {

/// Reads certificate, key and CA, if TLS is configured.
result<void> node::impl::open_tls() {
  auto opened = net::tls_context::open_if_given(config_.tls, config_.cluster.name);
  if (!opened)
    return opened.error();
  tls_ = std::move(*opened);
  if (is_insecure())
    log::warn(
        "insecure: whoever reaches the ports of {} can read pages, store and remove them; keep "
        "others away from them",
        config_.net.bind);
  else if (!tls_ && !config_.discovery.seeds.empty())
    log::warn("insecure: every user of this host reaches the ports of {}, as there is no TLS "
              "between the nodes",
              config_.net.bind);
  if (!tls_)
    return {};
  if (tls_->self().role != net::tls_role::node)
    return {errc::invalid_argument,
            "TLS: " + config_.tls.certificate +
                " is not a node's; `peercache ca issue node NAME` makes one "
                "for a node"};
  if (tls_->self().name != config_.node.name)
    return {errc::invalid_argument,
            fmt::format("TLS: {} is that of the node '{}', and this is '{}', whom no member would "
                        "let in by it: `peercache ca issue node {}` makes one, or set `node.name = "
                        "{}`",
                        config_.tls.certificate, tls_->self().name, config_.node.name,
                        config_.node.name, tls_->self().name)};
  log::info(
      "tls: control, look-up and data port let in members of the cluster `{}` alone, as `{}`; "
      "the bytes of pages travel {} TLS; {} may read metrics and status at the HTTP port",
      config_.cluster.name, tls_->self().name, pages_in_tls() ? "inside" : "past",
      config_.metrics.readers == config::http_readers::anyone ? "anyone" : "members alone");
  return {};
}

/// Opens the Unix socket at which clients of this host speak with the node. If that fails, a node
/// without TLS, group and configured folder goes on without the socket.
result<void> node::impl::open_host_socket() {
  PEERCACHE_ASSERT(self_.control_port != 0); // The socket's name has the port.
  const auto bind = net::resolve_host(config_.net.bind);
  if (!bind)
    return bind.error();
  auto opened = net::host_socket::listen(
      {config_.net.socket_folder, *bind, self_.host, self_.control_port, group_});
  if (!opened && !tls_ && !group_ && config_.net.socket_folder.empty()) {
    log::warn("{}; clients of this host come by the control port", opened.error().message);
    return {};
  }
  if (!opened)
    return opened.error();
  host_socket_ = std::move(*opened);
  host_doorman_ = link::new_host_doorman(*system_, host_socket_->take(), self_.control_port,
                                         net::host_users(group_));
  log::info("clients of this host connect at {}", host_socket_->path());
  return {};
}

} // namespace peercache::actors

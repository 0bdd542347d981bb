#pragma once

#include "actors/serving/lookup_server.hpp"
#include "link/protocol/internal.hpp"

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace peercache::actors {

/// A look-up port on loopback, with its thread and its relay, for as long as this object lives.
/// Ends before the actor system and the actors that it asks.
class served_lookups {
public:
  /// @param shard null: the directory is asked each look-up
  served_lookups(caf::actor_system& system, std::string cluster, const incarnation& inc,
                 const link::directory_actor& directory, const link::gateway_actor& gateway,
                 std::shared_ptr<shared_shard> shard = nullptr,
                 net::tls_handshakes* handshakes = nullptr)
      : system_(system) {
    auto listening = lookup_server::listen({"127.0.0.1", 0, std::move(cluster), inc, handshakes});
    if (!listening) {
      ADD_FAILURE() << listening.error().message;
      return;
    }
    server_ = std::move(*listening);
    relay_ = system.spawn(run_lookup_relay,
                          lookup_relay_options{directory, gateway, server_->answers()});
    lookup_services services;
    services.shard = std::move(shard);
    services.pass_on = [relay = relay_](std::uint64_t ticket, link::member_question kind,
                                        std::string body) {
      caf::anon_send(relay, link::tell_atom_v, ticket, static_cast<std::uint8_t>(kind),
                     std::move(body), link::from_here{});
    };
    thread_ = std::thread([this, services] { server_->run(services); });
  }
  served_lookups(const served_lookups&) = delete;
  served_lookups& operator=(const served_lookups&) = delete;
  ~served_lookups() {
    if (!server_)
      return;
    server_->stop();
    thread_.join();
    caf::scoped_actor self{system_};
    self->send_exit(relay_, caf::exit_reason::user_shutdown);
    self->wait_for(relay_);
  }

  std::uint16_t port() const noexcept { return server_->port(); }

private:
  caf::actor_system& system_;
  std::unique_ptr<lookup_server> server_;
  lookup_relay_actor relay_;
  std::thread thread_;
};

} // namespace peercache::actors

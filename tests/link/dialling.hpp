#pragma once

#include "link/connector_actor.hpp"
#include "link/protocol/internal.hpp"
#include "link/system_config.hpp"
#include "tests/support/qemu_user.hpp"

#include <caf/all.hpp>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace peercache::link {

/// An actor system with a connector that dials ports, as in a client.
class dialling {
public:
  explicit dialling(std::shared_ptr<net::tls_context> tls,
                    std::optional<net::host_sockets> sockets = {})
      : config_(1, std::move(tls)),
        connector_(system_.spawn(run_connector, patience, std::move(sockets))) {}
  ~dialling() {
    caf::anon_send_exit(connector_, caf::exit_reason::user_shutdown);
    connector_ = nullptr;
    system_.await_actors_before_shutdown(false);
    leave_actor_system();
  }
  dialling(const dialling&) = delete;
  dialling& operator=(const dialling&) = delete;

  /// Dials a port, at which the node of this name must answer if a name is given. Returns what went
  /// wrong; an empty text when it is connected.
  std::string dial(std::uint16_t port, const std::string& name = {}) {
    std::string fault;
    caf::scoped_actor self{system_};
    self->request(connector_, std::chrono::seconds(30), dial_atom_v, std::string("127.0.0.1"), port,
                  name, from_here{})
        .receive([&](gateway_actor& found) { found_ = caf::actor_cast<caf::actor>(found); },
                 [&](const caf::error& why) { fault = system_.render(why); });
    return fault;
  }
  /// Sends a text to the actor to which the last `dial` connected. Returns the answer.
  std::string ask(const std::string& text) {
    std::string answer;
    caf::scoped_actor self{system_};
    self->request(found_, answer_time, text)
        .receive([&](std::string& said) { answer = std::move(said); },
                 [&](const caf::error& why) { ADD_FAILURE() << system_.render(why); });
    return answer;
  }

private:
  static constexpr std::chrono::milliseconds patience{2000};
  /// Emulated, TLS takes half a minute for 9 MB in both directions.
  const std::chrono::seconds answer_time{under_qemu_user() ? 300 : 30};

  system_config config_;
  caf::actor_system system_{config_};
  connector_actor connector_;
  caf::actor found_;
};

} // namespace peercache::link

#pragma once

#include "directory/wire.hpp"
#include "discovery/view_codec.hpp"
#include "link/protocol/message_types.hpp"
#include "link/protocol/pool_wire.hpp"
#include "link/system_config.hpp"
#include "local_ring.hpp"

#include <array>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <optional>
#include <string>
#include <vector>

namespace peercache::real {

using namespace link;

inline session_listener::behavior_type deaf(session_listener::pointer) {
  return {[](view_atom, const std::string&) {}, [](beat_atom, from_here) {}};
}

/// A program with an actor system of its own that connects to the nodes' gateways, as any CAF
/// program could.
class foreign_program : public local_ring {
protected:
  void SetUp() override {
    local_ring::SetUp();
    if (HasFatalFailure())
      return;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto found =
          system_.middleman().remote_actor("127.0.0.1", node(i).ports().control_port);
      ASSERT_TRUE(found);
      gateways_.push_back(caf::actor_cast<gateway_actor>(*found));
      const auto welcome = ask<peer_welcome>(gateways_.back(), hello_atom_v, wire_version,
                                             cluster(), std::string{"me"});
      ASSERT_TRUE(welcome);
      shards_.push_back(welcome->directory);
    }
    events_ = system_.spawn(deaf);
  }
  void TearDown() override {
    caf::anon_send_exit(events_, caf::exit_reason::user_shutdown);
    events_ = nullptr;
    gateways_.clear();
    shards_.clear();
    system_.await_actors_before_shutdown(false);
    local_ring::TearDown();
  }

  template <class Answer, class Handle, class... Args>
  std::optional<Answer> ask(const Handle& whom, Args... args) {
    std::optional<Answer> answer;
    self_->request(whom, std::chrono::seconds(5), std::move(args)...)
        .receive([&](Answer& value) { answer = std::move(value); }, [](const caf::error&) {});
    return answer;
  }

  std::optional<directory::page_location> location_of(const directory_actor& shard,
                                                      const page_key& key) {
    std::string request;
    directory::append_lookup(request, key);
    const auto answer = ask<std::string>(shard, lookup_atom_v, request);
    std::array<directory::page_location, limits::locations_per_key_max> found;
    std::size_t count = 0;
    if (!answer || !directory::answer_reader{*answer}.next(found, count) || count == 0)
      return std::nullopt;
    return found[0];
  }

  /// Commits a page at node 1. Returns one status byte per page; nothing when the node refuses the
  /// commit.
  std::optional<std::string> commit(std::uint64_t session, const filled_slot& page,
                                    const std::string& next_lengths) {
    std::string filled;
    append_record(filled, page);
    std::optional<std::string> statuses;
    self_
        ->request(gateways_.front(), std::chrono::seconds(5), commit_atom_v, session, filled,
                  std::uint8_t{0}, next_lengths)
        .receive([&](std::string& said, const std::string&) { statuses = said; },
                 [](const caf::error&) {});
    return statuses;
  }

  system_config config_{1};
  caf::actor_system system_{config_};
  caf::scoped_actor self_{system_};
  std::vector<gateway_actor> gateways_;
  std::vector<directory_actor> shards_;
  session_listener events_;
};

} // namespace peercache::real

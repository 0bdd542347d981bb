#pragma once

#include "client/session/session_actor.hpp"
#include "discovery/view_codec.hpp"
#include "link/protocol/pool_wire.hpp"
#include "storage/pool_memory.hpp"
#include "tests/client/actors/fake_node.hpp"
#include "tests/support/actor_fixture.hpp"

#include <functional>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace peercache::client {

inline link::connector_actor::behavior_type run_fake_connector(link::connector_actor::pointer,
                                                               const link::gateway_actor* gateway) {
  return {[gateway](link::dial_atom, const std::string&, std::uint16_t, const std::string&,
                    link::from_here) { return *gateway; },
          [](link::try_atom, const std::string&, std::uint16_t, link::from_here) {
            return std::string{};
          },
          [](link::beat_atom, link::from_here) {}};
}

inline link::links_actor::behavior_type run_fake_links(link::links_actor::pointer,
                                                       std::vector<std::string>* views) {
  return {[views](link::view_atom, const std::string& view, link::from_here) {
            views->push_back(view);
          },
          [](link::tell_atom, const std::string&, link::from_here) {},
          [](link::hello_atom, std::uint64_t, std::uint64_t, bool, link::from_here) {},
          [](link::stats_atom) -> caf::result<metrics::samples, link::links_report> {
            return {metrics::samples{}, link::links_report{}};
          },
          [](link::beat_atom, link::from_here) {}};
}

/// The session actor of a client, on the test's own thread. The client's node is a fake gateway
/// with a real, small pool.
class client_fixture : public test::actor_fixture {
protected:
  storage::pool_memory memory = make_small_pool();
  fake_node node = fake_node_of(memory);
  link::gateway_actor gateway = system.spawn(run_fake_gateway, &node);
  link::connector_actor connector = system.spawn(run_fake_connector, &gateway);
  std::vector<std::string> views; ///< The views that the links actor was told, encoded.
  link::links_actor links = system.spawn(run_fake_links, &views);
  std::shared_ptr<session_board> board = std::make_shared<session_board>(1u << 20);
  std::vector<page_key> remembered;
  /// Questions that the client has asked members; they stay open until the test answers them.
  std::vector<std::pair<incarnation, member_request>> asked;
  call_log calls;
  metrics::samples totals; ///< Counts of the client, which its session reports to the node.
  session_actor actor = spawn_session_actor();

  /// Returns the bodies of all questions of this kind, one after the other.
  std::string told(link::member_question kind) const {
    std::string bytes;
    for (const auto& [whom, request] : asked)
      if (request.kind == kind)
        bytes += request.body;
    return bytes;
  }
  /// Ends all open questions of this kind with this answer; nothing: without an answer.
  void answer_asked(link::member_question kind, const std::optional<std::string>& body) {
    for (auto& [whom, request] : std::exchange(asked, {}))
      if (request.kind == kind)
        request.take(body ? member_answer{question_end::answered, *body} : member_answer{});
      else
        asked.emplace_back(whom, std::move(request));
    settle();
  }

  void SetUp() override {
    board->set_topology(std::make_shared<link::topology>());
    settle();
    ASSERT_NE(board->pool(), nullptr);
  }

  ~client_fixture() override {
    stop(actor);
    stop(links);
    stop(connector);
    stop(gateway);
    node.listener = nullptr;
    board->set_pool(nullptr);
  }

  session_actor spawn_session_actor() {
    session_actor_options options;
    options.client_name = "test";
    options.connector = connector;
    options.links = links;
    options.ask = [this](const incarnation& whom, member_request request) {
      asked.push_back({whom, std::move(request)});
    };
    options.board = board;
    options.report_totals = [this] { return totals; };
    options.calls = &calls;
    options.remember = [this](const page_key& key, const directory::page_location&) {
      remembered.push_back(key);
    };
    return system.spawn(run_session_actor, std::move(options));
  }

  /// Answers the newest commit with these page statuses and newly leased slots.
  void answer_commit(const std::string& statuses, const std::string& slots = {}) {
    node.at_beat = [&] { node.commits.back().deliver(statuses, slots); };
    caf::anon_send(gateway, link::beat_atom_v, link::from_here{});
    settle();
  }
  /// Answers the newest commit with the status `stored` for all its pages.
  void accept_commit() {
    auto pages = node.committed.back().size() / sizeof(link::filled_slot);
    answer_commit(std::string(pages, static_cast<char>(page_status::stored)));
  }
  /// Answers the newest request for slots.
  void answer_reservation(const std::string& slots) {
    node.at_beat = [&] { node.reservations.back().deliver(slots); };
    caf::anon_send(gateway, link::beat_atom_v, link::from_here{});
    settle();
  }

  /// Makes the node the only member of the cluster, and connects the client to it.
  void link() {
    auto cluster = std::make_shared<link::topology>();
    cluster->view.members.push_back(*discovery::decode_member(node.welcome.member));
    cluster->peers.emplace_back().self = cluster->view.members[0];
    cluster->peers[0].reached = true;
    cluster->ring = discovery::hash_ring{cluster->view.members};
    board->set_topology(cluster);
  }
  void unlink() { board->set_topology(std::make_shared<link::topology>()); }

  /// Breaks the connection to the node. The fake gateway lives on silently, as one on another host
  /// would.
  void lose_node() {
    caf::anon_send(caf::actor_cast<caf::actor>(actor),
                   caf::down_msg{gateway.address(), caf::exit_reason::remote_link_unreachable});
    settle();
  }

  /// Fills `pages` pages from slot `first` on and sends them as one set.
  void commit(std::uint32_t first, std::size_t pages, const own_pool_ptr& pool) {
    pending_commit job;
    job.pool = pool;
    job.bytes = pages;
    for (std::size_t i = 0; i < pages; ++i) {
      link::filled_slot filled;
      filled.slot = slot_id{first + static_cast<std::uint32_t>(i)};
      filled.length_bytes = 4096;
      link::append_record(job.filled, filled);
    }
    // Consecutive sets of one mode would share a message, so modes alternate.
    job.mode = first % 2 == 0 ? link::commit_mode::skip : link::commit_mode::store;
    ASSERT_TRUE(board->window.enter(job.bytes, std::chrono::steady_clock::now()));
    if (board->commits.push(std::move(job)))
      caf::anon_send(actor, link::commit_atom_v, link::from_here{});
    settle();
  }

  std::optional<flush_result> flushed() {
    return board->window.wait_empty(std::chrono::steady_clock::now());
  }
  /// Returns how many pages the flush reports as not recorded; nothing while the flush waits.
  std::optional<std::uint64_t> flush_failures() {
    const auto said = flushed();
    return said ? std::optional(said->failed) : std::nullopt;
  }
};

} // namespace peercache::client

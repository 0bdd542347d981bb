#pragma once

#include "actors/serving/page_server.hpp"
#include "client/calls/client_impl.hpp"
#include "client/calls/exists_call.hpp"
#include "client/calls/get_call.hpp"
#include "client/calls/remove_call.hpp"
#include "client/calls/set_call.hpp"
#include "tests/client/actors/lookup_server.hpp"
#include "tests/client/actors/played_node.hpp"
#include "tests/support/served_lookups.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace peercache::client {

/// A client's calls, with the nodes that they ask on loopback: `near` is the node of this host, and
/// its shard owns every key; `far` is another node, whose pages come over TCP. The client's session
/// finds no node at its port; instead the test sets what the client knows of the cluster.
class call_rig : public testing::Test {
protected:
  using status = page_status;
  static constexpr std::uint32_t page_bytes = 4096;

  ~call_rig() override {
    serving->stop();
    serving_thread.join();
    if (client)
      end_client();
  }

  void start(client_options options = {}) {
    options.cluster = "test";
    options.node_port = net::local_port(nobody);
    auto plane = read_plane::create(options);
    ASSERT_TRUE(plane) << plane.error().message;
    client = std::make_unique<client_impl>(options, std::move(*plane), nullptr);
    auto& system = client->session.system();
    for (auto* node : {&near, &far})
      node->gateway = system.spawn(run_fake_gateway, &node->says);
    directory = system.spawn(run_fake_shard, &unasked);
    for (auto* node : {&near, &far})
      listen_for_questions(*node);
    link::leave_actor_system();
    far.self.data_port = serving->port();
    map_pool();
    show({&near, &far});
  }

  /// Maps the pool of this client's node.
  own_pool_ptr map_pool(config::mirror_mode mirror = config::mirror_mode::off) {
    auto mapped = storage::pool_memory::attach(near.memory.name(), near.memory.owner());
    EXPECT_TRUE(mapped);
    auto pool = std::make_shared<own_pool>(std::move(*mapped));
    pool->node = near.self;
    pool->gateway = near.gateway;
    pool->session = 1;
    pool->mirror = mirror;
    board().set_pool(pool);
    return pool;
  }

  /// Gives the client a topology with these members, all of which are connected.
  void show(const std::vector<const played_node*>& members, std::uint64_t version = 1) {
    auto cluster = std::make_shared<link::topology>();
    cluster->view.term = 1;
    cluster->view.version = version;
    for (const auto* node : members)
      cluster->view.members.push_back(node->self);
    std::ranges::sort(cluster->view.members, {}, &discovery::member::id);
    for (const auto& member : cluster->view.members) {
      auto& peer = cluster->peers.emplace_back();
      peer.self = member;
      peer.reached = true;
      peer.lookup_port = member.id == far.self.id ? far.self.lookup_port : shard.port();
    }
    cluster->ring = discovery::hash_ring{std::span(&near.self, 1)};
    board().set_topology(cluster);
  }

  /// Runs `action` in the thread of a node's gateway, after all messages that were sent to the
  /// gateway before. Only that thread can keep the gateway's promises of answers.
  void in_gateway(played_node& node, std::function<void()> action) {
    node.says.at_beat = std::move(action);
    caf::anon_send(node.gateway, link::beat_atom_v, link::from_here{});
    {
      caf::scoped_actor self{client->session.system()};
      self->request(node.gateway, caf::infinite, link::status_atom_v)
          .receive([](const link::node_report&) {}, [](const caf::error&) {});
    }
    link::leave_actor_system();
  }
  void settle(played_node& node) {
    in_gateway(node, [] {});
  }
  /// Waits until `holds()` is true; calls it in the thread of the node's gateway.
  void await(played_node& node, const std::function<bool()>& holds) {
    for (bool held = false; !held;)
      in_gateway(node, [&] { held = holds(); });
  }

  // -- methods that make calls of the client

  static deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }
  static deadline at_once() { return std::chrono::steady_clock::now(); }
  static page_key key(std::size_t i) { return key_space{}.key_of(std::to_string(i)); }
  static std::vector<std::byte> bytes_of(std::size_t i, std::uint32_t length_bytes = page_bytes) {
    std::vector<std::byte> bytes(length_bytes);
    for (std::size_t at = 0; at < bytes.size(); ++at)
      bytes[at] = static_cast<std::byte>(i * 131 + at * 7 + 1);
    return bytes;
  }

  std::vector<page_result> set(const std::vector<std::size_t>& which, deadline until = soon()) {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<const_part> parts;
    std::vector<set_page> pages;
    for (const auto i : which)
      bytes.push_back(bytes_of(i));
    for (const auto& each : bytes)
      parts.push_back({each.data(), page_bytes});
    for (std::size_t i = 0; i < which.size(); ++i)
      pages.push_back({key(which[i]), std::span(parts).subspan(i, 1)});
    return set_pages(pages, until);
  }
  std::vector<page_result> set_pages(std::span<const set_page> pages, deadline until = soon()) {
    std::vector<page_result> results(pages.size());
    set_call{*client, pages, results, until, board().start_call().own}.run();
    client->settle_closed(results);
    return results;
  }

  std::vector<page_result> get(const std::vector<std::size_t>& which, deadline until = soon()) {
    got.assign(which.size(), std::vector<std::byte>(page_bytes));
    std::vector<page_part> parts;
    std::vector<get_page> pages;
    for (auto& each : got)
      parts.push_back({each.data(), page_bytes});
    for (std::size_t i = 0; i < which.size(); ++i)
      pages.push_back({key(which[i]), std::span(parts).subspan(i, 1)});
    std::vector<page_result> results(pages.size());
    get_call{*client, pages, results, until, board().start_call()}.run();
    client->settle_closed(results);
    return results;
  }
  /// Gets page `i`, and expects a hit with the page's bytes that came from `origin`.
  void expect_hit(std::size_t i, page_origin origin) {
    const auto result = get({i})[0];
    EXPECT_EQ(result.status, status::hit) << to_string(result.status);
    EXPECT_EQ(result.origin, origin);
    EXPECT_EQ(got[0], bytes_of(i));
  }
  /// Gets page `i`, and expects a miss with the status `why`.
  void expect_miss(std::size_t i, page_status why, deadline until = soon()) {
    const auto result = get({i}, until)[0];
    EXPECT_EQ(result.status, why) << to_string(result.status);
    EXPECT_EQ(result.origin, page_origin::none);
  }

  /// Flushes the client. Returns what became of the pages that were set; nothing when some are
  /// still unpublished at `until`.
  std::optional<flush_result> flush(deadline until = soon()) {
    return board().window.wait_empty(until);
  }

  session_board& board() { return client->session.board(); }
  std::uint64_t questions() const { return client->totals.directory_messages; }

  net::unique_fd nobody = *net::hold_port("127.0.0.1", 0);
  played_node near{"near"};
  played_node far{"far"};
  lookup_server shard{near.self.inc};
  std::unique_ptr<actors::page_server> serving = listen();
  std::thread serving_thread{[this] { serving->run(); }};
  fake_shard unasked;
  link::directory_actor directory;
  /// Look-up ports of nodes; they end before the gateways.
  std::vector<std::unique_ptr<actors::served_lookups>> ports;
  std::unique_ptr<client_impl> client;
  /// For each page of the last get: the memory that it was read into.
  std::vector<std::vector<std::byte>> got;

private:
  std::unique_ptr<actors::page_server> listen() {
    rdma::tcp_page_server_options options;
    options.cluster = "test";
    options.inc = far.self.inc;
    return std::move(*actors::page_server::listen(options, far.memory.slots()));
  }

  /// Opens a look-up port at which questions are passed to the node's gateway. Look-ups go to the
  /// port of `shard` instead.
  void listen_for_questions(played_node& node) {
    ports.push_back(std::make_unique<actors::served_lookups>(
        client->session.system(), "test", node.self.inc, directory, node.gateway));
    node.self.lookup_port = ports.back()->port();
    client->session.members().open(node.self);
  }

  void end_client() {
    {
      ports.clear();
      caf::scoped_actor self{client->session.system()};
      for (auto* node : {&near, &far}) {
        self->send_exit(node->gateway, caf::exit_reason::user_shutdown);
        self->wait_for(node->gateway);
        node->gateway = nullptr;
        node->says = {};
      }
      self->send_exit(directory, caf::exit_reason::user_shutdown);
      self->wait_for(directory);
      directory = nullptr;
    }
    link::leave_actor_system();
    client.reset();
  }
};

} // namespace peercache::client

#pragma once

#include "common/assert.hpp"
#include "discovery/membership.hpp"
#include "discovery/packet_codec.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace peercache::tests {

/// Many membership machines in one thread, with a virtual clock and a network that delays and loses
/// packets by a seed. Every packet passes through the codec. The same seed gives the same run.
class membership_net {
public:
  using time_point = discovery::time_point;
  using duration = discovery::duration;
  using ms = std::chrono::milliseconds;

  struct network {
    double loss = 0;
    ms delay_min{1};
    ms delay_max{5};
  };

  struct node {
    discovery::member self;
    discovery::membership_options options;
    /// The membership machine of the process; null while the process is killed.
    std::unique_ptr<discovery::membership> machine;
    std::vector<discovery::view> adopted; ///< Views that all processes of this node adopted.
    std::vector<std::string> refusals;
    std::vector<std::string> turned_away; ///< Hosts of applicants that the node did not take in.
    /// Reasons that the process gave for joins that no node answered.
    std::vector<std::string> complaints;
    bool frozen = false;
    /// Packets that the process's sockets hold while it is frozen.
    std::deque<discovery::packet> inbox;
    ms tick_offset{0};
    /// When the machine's next tick is due, without `tick_offset`.
    discovery::time_point tick_at{};
    std::uint64_t ticks = 0; ///< Ticks of all processes of this node.
  };

  explicit membership_net(std::uint64_t seed) : random_(seed) {}

  network net;
  std::uint32_t max_masters = 3; ///< The option max_masters of nodes that are started from now on.
  /// Ticks of a node that is started from now on are up to this many ms late, always by as much.
  std::uint64_t tick_offsets = 50;
  /// Whether a packet from one node to another arrives, by the indices of the two (from, to).
  std::function<bool(std::size_t, std::size_t)> reachable = [](auto, auto) { return true; };
  /// Called with each packet that node `from` sends, as it sends it.
  std::function<void(std::size_t from, const discovery::send_packet&)> watch = [](auto, auto&) {};

  static discovery::endpoint address(std::size_t host) {
    return {"10.0.0." + std::to_string(host), 31998};
  }

  /// Starts a node called `name` on the given host. Returns its index.
  /// @param port must differ from the default when two nodes run on one host
  std::size_t start(const std::string& name, std::size_t host,
                    std::vector<discovery::endpoint> seeds, std::uint16_t port = address(0).port) {
    auto& n = nodes_.emplace_back();
    n.self.name = name;
    n.self.id = node_id_of(name);
    n.self.host = address(host).host;
    n.self.control_port = port;
    n.self.data_port = 31999;
    n.self.http_port = 31997;
    n.options.seeds = std::move(seeds);
    n.options.max_masters = max_masters;
    n.tick_offset = ms(random_() % tick_offsets);
    restart(nodes_.size() - 1);
    return nodes_.size() - 1;
  }

  /// Starts a new process under the name of node `i`: a new incarnation, which remembers nothing.
  void restart(std::size_t i) {
    auto& n = nodes_[i];
    n.self.inc = {random_() | 1, random_()};
    n.inbox.clear();
    n.frozen = false;
    n.tick_at = now_;
    n.machine = std::make_unique<discovery::membership>(n.options, n.self, now_);
  }

  /// Kills a process, as kill -9 does. With `noticed`, all other nodes see at once that their
  /// connections to it break.
  void kill(std::size_t i, bool noticed = false) {
    auto inc = nodes_[i].self.inc;
    nodes_[i].machine.reset();
    nodes_[i].inbox.clear();
    for (std::size_t j = 0; noticed && j < nodes_.size(); ++j)
      if (nodes_[j].machine)
        perform(j, nodes_[j].machine->on_peer_lost(inc, now_));
  }

  /// Lets node `i` see that its connection to the process `inc` breaks.
  void lose(std::size_t i, const incarnation& inc) {
    perform(i, nodes_[i].machine->on_peer_lost(inc, now_));
  }

  /// Kills several processes, delivers the packets that are on their way, and then lets all other
  /// nodes see that their connections to the killed processes break.
  void kill_noticed(const std::vector<std::size_t>& these) {
    for (auto i : these)
      kill(i);
    run_for(net.delay_max);
    for (auto i : these)
      kill(i, true);
  }

  void freeze(std::size_t i) { nodes_[i].frozen = true; }

  void thaw(std::size_t i) {
    nodes_[i].frozen = false;
    auto waiting = std::exchange(nodes_[i].inbox, {});
    for (const auto& p : waiting)
      perform(i, nodes_[i].machine->on_packet(p, now_));
  }

  void set_draining(std::size_t i, bool draining) {
    perform(i, nodes_[i].machine->set_draining(draining, now_));
  }
  void forget(std::size_t i, const std::string& name) {
    perform(i, nodes_[i].machine->forget(name, now_));
  }
  /// Delivers this packet to node `i`, though no node of the net has sent it.
  void hear(std::size_t i, const discovery::packet& said) {
    perform(i, nodes_[i].machine->on_packet(said, now_));
  }
  void leave(std::size_t i) { perform(i, nodes_[i].machine->leave(now_)); }

  /// Sets `watch`: from now on `counter` counts each packet that node `from` sends node `to`. An
  /// empty `from` or `to` stands for every node.
  template <class Counter>
  void count_packets(Counter& counter, std::optional<std::size_t> from = {},
                     std::optional<std::size_t> to = {}) {
    watch = [this, &counter, from, to](std::size_t sender, const discovery::send_packet& out) {
      if (from.value_or(sender) == sender &&
          (!to || out.to == discovery::control_endpoint(nodes_[*to].self)))
        counter.count(out.body);
    };
  }

  void run_for(duration time) {
    for (auto end = now_ + time; now_ < end;)
      step();
  }

  /// Runs until `done`, for at most `limit`. Returns the time that this took, nothing when `done`
  /// never held.
  std::optional<ms> run_until(const std::function<bool()>& done, duration limit) {
    auto start = now_;
    while (!done()) {
      if (now_ - start >= limit)
        return std::nullopt;
      step();
    }
    return std::chrono::duration_cast<ms>(now_ - start);
  }

  /// Whether all running nodes are joined and have the same view, whose members are exactly these
  /// nodes.
  bool converged() const {
    const discovery::view* first = nullptr;
    std::size_t running = 0;
    for (const auto& n : nodes_) {
      if (!n.machine || n.frozen || n.machine->state() == discovery::membership::phase::left)
        continue;
      ++running;
      const auto& v = n.machine->current();
      if (n.machine->state() != discovery::membership::phase::joined || !v.find(n.self.inc))
        return false;
      if (first != nullptr && v != *first)
        return false;
      first = &v;
    }
    return first != nullptr && first->members.size() == running;
  }

  const node& at(std::size_t i) const { return nodes_[i]; }
  discovery::membership& machine(std::size_t i) { return *nodes_[i].machine; }
  const discovery::view& view_of(std::size_t i) const { return nodes_[i].machine->current(); }
  std::size_t size() const { return nodes_.size(); }
  bool is_running(std::size_t i) const { return nodes_[i].machine != nullptr; }
  time_point now() const { return now_; }
  std::uint64_t random() { return random_(); }
  std::uint64_t packets_sent() const { return packets_sent_; }

private:
  struct in_flight {
    std::size_t from;
    discovery::endpoint to;
    std::string bytes;
  };

  void step() {
    now_ += ms(1);
    while (!wire_.empty() && wire_.begin()->first <= now_) {
      auto packet = std::move(wire_.begin()->second);
      wire_.erase(wire_.begin());
      deliver(packet);
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      auto& n = nodes_[i];
      if (!n.machine || n.frozen || now_ < n.tick_at + n.tick_offset)
        continue;
      n.tick_at = time_point::max();
      ++n.ticks;
      perform(i, n.machine->tick(now_));
    }
  }

  void deliver(const in_flight& sent) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      auto& n = nodes_[i];
      if (!n.machine || discovery::control_endpoint(n.self) != sent.to || !reachable(sent.from, i))
        continue;
      auto packet = discovery::decode_packet(sent.bytes, "test");
      PEERCACHE_ASSERT(bool(packet));
      if (n.frozen)
        n.inbox.push_back(std::move(*packet));
      else
        perform(i, n.machine->on_packet(*packet, now_));
    }
  }

  /// Plans the node's next tick. Each tick comes a little late, by a random span, as timers do.
  void plan_tick(node& n) {
    if (!n.machine)
      return;
    n.tick_at = std::min(n.tick_at, n.machine->next_tick(now_) + ms(random_() % 3));
  }

  void perform(std::size_t i, const std::vector<discovery::action>& actions) {
    plan_tick(nodes_[i]);
    for (const auto& a : actions) {
      if (const auto* out = std::get_if<discovery::send_packet>(&a))
        put_on_wire(i, *out);
      else if (const auto* adopted = std::get_if<discovery::adopt_view>(&a))
        nodes_[i].adopted.push_back(adopted->latest);
      else if (const auto* refused = std::get_if<discovery::join_refused>(&a))
        nodes_[i].refusals.push_back(refused->reason);
      else if (const auto* silence = std::get_if<discovery::join_unanswered>(&a))
        nodes_[i].complaints.push_back(silence->reason);
      else
        nodes_[i].turned_away.push_back(std::get<discovery::join_turned_away>(a).who.host);
    }
  }

  void put_on_wire(std::size_t from, const discovery::send_packet& out) {
    ++packets_sent_;
    watch(from, out);
    if (std::uniform_real_distribution<>(0, 1)(random_) < net.loss)
      return;
    auto spread = static_cast<std::uint64_t>((net.delay_max - net.delay_min).count() + 1);
    auto delay = net.delay_min + ms(random_() % spread);
    wire_.emplace(now_ + delay,
                  in_flight{from, out.to, discovery::encode_packet(out.body, "test")});
  }

  std::mt19937_64 random_;
  time_point now_{std::chrono::hours(1)};
  std::deque<node> nodes_;
  std::multimap<time_point, in_flight> wire_;
  std::uint64_t packets_sent_ = 0;
};

/// The name of the node with this number. The ids of such names ascend with the number, so that the
/// masters are the head and the nodes with the lowest numbers. @pre number < 128
inline std::string node_name(std::size_t number) {
  PEERCACHE_ASSERT(number < 128);
  for (std::size_t more = 0;; ++more) {
    auto name = "node" + std::to_string(number) + "-" + std::to_string(more);
    if (node_id_of(name).value >> 57 == number)
      return name;
  }
}

/// A net of `count` nodes, which are called node_name(1) and so on, on hosts 1..N, all with the
/// first node as their only seed.
inline membership_net started_net(std::size_t count, std::uint64_t seed = 1) {
  membership_net net(seed);
  for (std::size_t i = 1; i <= count; ++i)
    net.start(node_name(i), i, {membership_net::address(1)});
  return net;
}

/// Returns a net whose nodes have got one view, and have run on for a while.
inline membership_net converged_net(std::size_t count, std::uint64_t seed = 1) {
  auto net = started_net(count, seed);
  auto found = net.run_until([&] { return net.converged(); }, std::chrono::seconds(5));
  PEERCACHE_ASSERT(found.has_value());
  net.run_for(std::chrono::seconds(3));
  return net;
}

} // namespace peercache::tests

// The simulated cluster's hosts (start, end, freeze) and the messages that reach them.

#include "tests/scenario/cluster.hpp"

#include "discovery/packet_codec.hpp"
#include "discovery/view_codec.hpp"

#include <algorithm>
#include <cstring>

namespace peercache::scenario {

using namespace std::chrono_literals;

namespace {

/// `goodbye_limit`: how long a process that has left may still vote, like `vote_timeout` of
/// actors/gateway/gateway_actor.hpp. `goodbye_check`: how often the simulator looks whether the
/// vote of such a process is needed.
constexpr auto goodbye_limit = expiry + 2 * heartbeat;
constexpr auto goodbye_check = 20ms;

discovery::endpoint address_of(const std::string& name) {
  return {name + ".host", 31998};
}

} // namespace

cluster::cluster(const script& what, tests::history* record)
    : script_(what), record_(record), world_(what.seed) {
  world_.overtaking = what.overtaking;
  for (std::uint32_t i = 0; i < script_.keys; ++i) {
    page_key key;
    for (std::size_t word = 0; word < 4; ++word) {
      auto random = world_.below(UINT64_MAX);
      std::memcpy(key.bytes.data() + 8 * word, &random, 8);
    }
    keys_.push_back(key);
  }
  for (std::uint32_t i = 1; i <= script_.nodes; ++i)
    add_host("node" + std::to_string(i), script_.seeds);
}

void cluster::add_host(const std::string& name, std::vector<std::string> seeds) {
  auto& made = hosts_.emplace_back();
  made.name = name;
  made.index = hosts_.size() - 1;
  made.self.name = name;
  made.self.id = node_id_of(name);
  made.self.host = address_of(name).host;
  made.self.control_port = address_of(name).port;
  made.options.max_masters = script_.masters;
  for (const auto& seed : seeds)
    made.options.seeds.push_back(address_of(seed));
  made.drift = 1 + (static_cast<double>(world_.below(2001)) - 1000) * 1e-5;
  host_at_[address_of(name)] = made.index;
  world_.resize(hosts_.size());
  start(made);
}

void cluster::start(host& on) {
  on.self.inc = {world_.below(UINT64_MAX) | 1, world_.below(UINT64_MAX)};
  on.self.draining = false;
  on.frozen = false;
  on.waiting.clear();
  host_of_[on.self.inc] = on.index;
  on.running = std::make_unique<process>(*this, on);
  on.disk.for_each([&](const disk::page& page) { oracle_.offers(on.self.inc, page.put); });
  auto inc = on.self.inc;
  auto index = on.index;
  world_.at(world_.now() + std::chrono::milliseconds(world_.below(125)),
            [this, index, inc] { beat(index, inc); });
  schedule_operation(index, inc);
}

void cluster::kill(host& on, bool wiped) {
  if (!on.running)
    return;
  auto inc = on.self.inc;
  record_stall(on);
  if (record_ != nullptr)
    record_->gone(world_.now(), to_string(inc));
  on.running.reset();
  oracle_.has_ended(inc);
  on.waiting.clear();
  if (wiped)
    on.disk.clear();
  // For half of the killed hosts, the other hosts see at once that their connections to the killed
  // host break.
  if (world_.below(2) == 0)
    for (auto& other : hosts_)
      if (other.running && world_.open(on.index, other.index))
        deliver(other.index, other.self.inc, [inc](process& it) { it.peer_lost(inc); });
}

void cluster::has_left(const process& who) {
  end_when_not_needed(who.on().index, who.inc(), world_.now() + goodbye_limit);
}

void cluster::end_when_not_needed(std::size_t index, const incarnation& inc, time_point limit) {
  world_.at(world_.now() + goodbye_check, [this, index, inc, limit] {
    auto& at = hosts_[index];
    if (at.self.inc != inc)
      return;
    if (at.running && world_.now() < limit && !at.running->machine().may_end(local_now(at)))
      return end_when_not_needed(index, inc, limit);
    kill(at, false);
    // While the cluster heals, the last running seed must not stay away after it has left: a host
    // that was never a member needs a running seed to join. So the seed starts again.
    if (healing_ && is_last_seed(at))
      start(at);
  });
}

bool cluster::is_last_seed(const host& at) const {
  auto is_seed = [this](const host& one) {
    return std::count(script_.seeds.begin(), script_.seeds.end(), one.name) > 0;
  };
  return is_seed(at) && std::none_of(hosts_.begin(), hosts_.end(), [&](const host& other) {
           return other.index != at.index && other.running && is_seed(other) &&
                  other.running->machine().state() != discovery::membership::phase::left;
         });
}

void cluster::freeze(host& on, bool frozen) {
  if (!on.running || on.frozen == frozen)
    return;
  record_stall(on);
  on.frozen = frozen;
  (frozen ? on.frozen_since : on.thawed_at) = world_.now();
  if (!frozen)
    for (auto& what : std::exchange(on.waiting, {}))
      world_.at(world_.now(), std::move(what));
}

void cluster::record_stall(const host& of) {
  if (record_ != nullptr && of.frozen)
    record_->stall(of.frozen_since, world_.now(), to_string(of.self.inc));
}

time_point cluster::local_now(const host& at) const {
  auto since_start = std::chrono::duration<double>(world_.now().time_since_epoch()).count();
  return time_point(std::chrono::duration_cast<duration>(
             std::chrono::duration<double>(since_start * at.drift))) +
         at.jumped;
}

ring_ptr cluster::ring_of(const discovery::view& what) {
  auto& known = rings_[discovery::encode_view(what)];
  if (!known) {
    // Rings are derived from the ring of another view because a real node makes its rings so.
    newest_ring_ = discovery::hash_ring{what.members, newest_ring_};
    known = std::make_shared<const discovery::hash_ring>(newest_ring_);
  }
  return known;
}

void cluster::deliver(std::size_t to, const incarnation& expected,
                      std::function<void(process&)> what) {
  auto& there = hosts_[to];
  if (!there.running || there.self.inc != expected)
    return;
  if (there.frozen)
    there.waiting.push_back(
        [this, to, expected, what = std::move(what)] { deliver(to, expected, what); });
  else
    what(*there.running);
}

void cluster::later(const process& in, duration after, std::function<void(process&)> what) {
  world_.at(world_.now() + after, [this, to = in.on().index, inc = in.inc(),
                                   what = std::move(what)] { deliver(to, inc, what); });
}

void cluster::send(const process& from, const discovery::send_packet& order) {
  oracle_.judge_packet(order.body, world_.now());
  auto found = host_at_.find(order.to);
  if (found == host_at_.end())
    return;
  auto to = found->second;
  auto bytes = std::make_shared<std::string>(discovery::encode_packet(order.body, "scenario"));
  for (int copies = world_.repeats() ? 2 : 1; copies > 0; --copies)
    if (auto takes = world_.way(from.on().index, to))
      world_.at(world_.now() + *takes, [this, to, bytes] {
        deliver(to, hosts_[to].self.inc, [bytes](process& it) { it.receive(*bytes); });
      });
}

void cluster::exchange(const process& from, const incarnation& to, duration timeout,
                       std::function<void(const std::any&)> done,
                       std::function<std::any(process&)> serve) {
  auto open = std::make_shared<bool>(true);
  auto finish = [open, done = std::move(done)](const std::any& said) {
    if (std::exchange(*open, false))
      done(said);
  };
  later(from, timeout, [finish](process&) { finish({}); });
  auto known = host_of_.find(to);
  if (known == host_of_.end())
    return;
  auto source = from.on().index;
  auto target = known->second;
  auto answer = [this, source, target, inc = from.inc(), finish,
                 serve = std::move(serve)](process& it) {
    auto said = serve(it);
    if (auto back = world_.way(target, source))
      world_.at(world_.now() + *back, [this, source, inc, finish, said] {
        deliver(source, inc, [finish, said](process&) { finish(said); });
      });
  };
  for (int copies = world_.repeats() ? 2 : 1; copies > 0; --copies)
    if (auto takes = world_.way(source, target))
      world_.at(world_.now() + *takes, [this, target, to, answer] { deliver(target, to, answer); });
}

bool cluster::is_linked(const process& from, const incarnation& to) {
  const auto known = host_of_.find(to);
  if (known == host_of_.end())
    return false;
  const auto a = from.on().index;
  const auto b = known->second;
  return (world_.open(a, b) && world_.open(b, a)) || world_.below(2) == 0;
}

void cluster::reach(const process& from, const incarnation& to,
                    std::function<void(process*)> done) {
  auto known = host_of_.find(to);
  if (known == host_of_.end())
    return;
  auto source = from.on().index;
  auto target = known->second;
  auto takes = world_.way(source, target);
  if (!takes || !world_.open(target, source))
    return;
  world_.at(world_.now() + *takes, [this, source, target, inc = from.inc(), done] {
    deliver(source, inc, [this, target, done](process&) { done(hosts_[target].running.get()); });
  });
}

void cluster::beat(std::size_t index, const incarnation& inc) {
  auto& at = hosts_[index];
  if (!at.running || at.self.inc != inc)
    return;
  if (!at.frozen)
    at.running->tick();
  world_.at(world_.now() + heartbeat / 4, [this, index, inc] { beat(index, inc); });
}

void cluster::schedule_operation(std::size_t index, const incarnation& inc) {
  auto pause = std::chrono::microseconds(2'000'000 / script_.operations_per_second);
  auto in = std::chrono::microseconds(world_.below(static_cast<std::uint64_t>(pause.count())));
  world_.at(world_.now() + in, [this, index, inc] {
    auto& at = hosts_[index];
    if (!clients_work_ || !at.running || at.self.inc != inc)
      return;
    if (!at.frozen)
      at.running->operate();
    schedule_operation(index, inc);
  });
}

host* cluster::find(const std::string& name) {
  auto found = host_at_.find(address_of(name));
  return found != host_at_.end() ? &hosts_[found->second] : nullptr;
}

} // namespace peercache::scenario

// A node: membership, its shard of the directory, and what its clients know of both.

#include "tests/scenario/process.hpp"

#include "directory/shard_batch.hpp"
#include "directory/shard_repair.hpp"
#include "discovery/packet_codec.hpp"
#include "discovery/view_codec.hpp"
#include "storage/lru.hpp"
#include "tests/scenario/cluster.hpp"

#include <algorithm>
#include <utility>

namespace peercache::scenario {

using namespace std::chrono_literals;
using phase = discovery::membership::phase;

/// Time between two slices of a sweep.
constexpr auto sweep_pause = 10ms;

process::process(cluster& in, host& on)
    : cluster_(in), host_(on), inc_(on.self.inc),
      machine_(std::make_unique<discovery::membership>(on.options, on.self, in.local_now(on))),
      shard_(shard_options()) {
  auto granules = in.settings().granules;
  entries_.reset(new slot_entry[granules]());
  client_entries_.reset(new storage::client_entry[granules]());
  bytes_.reset(new std::byte[std::size_t{granules} * limits::granule_bytes]);
  here_.node = on.self;
  here_.slots = storage::slot_table({entries_.get(), granules}, {client_entries_.get(), granules},
                                    {bytes_.get(), std::size_t{granules} * limits::granule_bytes});
  const auto buckets = storage::host_index::buckets_for(granules);
  buckets_.reset(new storage::host_index::bucket[buckets]());
  here_.index = storage::host_index({buckets_.get(), buckets}, here_.slots);
  storage::page_pool_options options;
  options.free_low_bytes = 2 * limits::granule_bytes;
  options.free_high_bytes = 4 * limits::granule_bytes;
  pool_ = std::make_unique<storage::page_pool>(here_.slots, std::make_unique<storage::lru>(),
                                               options, here_.index);
  publisher_ = std::make_unique<directory::publisher>(publisher_options(), *pool_);
  if (cluster_.settings().disk)
    pool_->know_kept([this](slot_id slot) { return publisher_->marks().kept(slot); });
}

void process::tick() {
  step([](auto& machine, auto now) { return machine.tick(now); });
  clients_go_back();
  tick_pool();
}

void process::receive(const std::string& bytes) {
  auto packet = discovery::decode_packet(bytes, "scenario");
  if (!packet)
    return cluster_.judge().fault("a packet could not be read");
  if (const auto* answer = std::get_if<discovery::heartbeat_answer_packet>(&*packet))
    cluster_.judge().was_answered(inc_, answer->inc, cluster_.time().now());
  else if (const auto* beat = std::get_if<discovery::heartbeat_packet>(&*packet)) {
    cluster_.judge().was_greeted(inc_, beat->inc, cluster_.time().now());
    if (beat->heard == inc_ && beat->known <= machine_->newest().stamp())
      cluster_.judge().was_answered(inc_, beat->inc, cluster_.time().now());
  }
  step([&](auto& machine, auto now) { return machine.on_packet(*packet, now); });
}

void process::peer_lost(const incarnation& inc) {
  step([&](auto& machine, auto now) { return machine.on_peer_lost(inc, now); });
}

/// Passes an event to membership and carries out the actions, as membership_actor does: an expelled
/// process empties its shard before it asks to join again.
void process::step(const membership_event& event) {
  const auto before = machine_->state();
  const auto actions = event(*machine_, cluster_.local_now(host_));
  if (before == phase::joined && machine_->state() == phase::rejoining)
    shard_.leave(machine_->newest().stamp());
  for (const auto& action : actions) {
    if (const auto* order = std::get_if<discovery::send_packet>(&action))
      cluster_.send(*this, *order);
    else if (const auto* news = std::get_if<discovery::adopt_view>(&action))
      adopt(news->latest);
  }
  cluster_.judge().lives_in(inc_, machine_->current().stamp());
  if (before == phase::rejoining && machine_->state() == phase::joined) {
    publisher_->publish_again(cluster_.time().now());
    carry_out_orders();
  }
}

/// Returns the process of the node `id` by the current view; the zero incarnation when the view has
/// no such node.
incarnation process::incarnation_of(node_id id) const {
  const auto* member = view().find(id);
  return member != nullptr ? member->inc : incarnation{};
}

void process::adopt(const discovery::view& next) {
  auto before = std::exchange(
      known_, succeeded(*known_, next, cluster_.ring_of(next), cluster_.time().now()));
  cluster_.judge().judge_view(next, before->view.stamp(), cluster_.time().now());
  cluster_.judge().lives_in(inc_, next.stamp());
  if (auto* record = cluster_.record())
    record->view(cluster_.time().now(), to_string(inc_), next);
  cluster_.time().note(next.version);
  // Clients learn a view within 5 ms; one time in eight within 1 s, so that they ask by the
  // previous view while other clients already ask by the new one.
  const auto late = cluster_.time().below(8) == 0 ? 1'000'000 : 5'000;
  const auto now = cluster_.time().now();
  clients_learn_at_ =
      std::max(clients_learn_at_, now + std::chrono::microseconds(cluster_.time().below(late)));
  cluster_.later(*this, clients_learn_at_ - now,
                 [next](process& self) { self.clients_learn(next); });
  const auto shard_late = cluster_.time().below(8) == 0 ? 500'000 : 2'000;
  shard_learns_at_ = std::max(shard_learns_at_,
                              now + std::chrono::microseconds(cluster_.time().below(shard_late)));
  cluster_.later(*this, shard_learns_at_ - now,
                 [known = known_](process& self) { self.shard_learns(known); });
  follow_view();
}

void process::shard_learns(const known_cluster_ptr& next) {
  const auto how = shard_.follow({{next, &next->view}, next->ring}, cluster_.time().now());
  if (how == directory::member_shard::taken::anew)
    sweep_later();
}

void process::sweep_later() {
  cluster_.later(*this, discovery::foreign_keys_kept, [](process& self) { self.sweep_on(); });
}

/// Sweeps a slice of the shard. Other events get in before the next slice.
void process::sweep_on() {
  if (!shard_.sweep(cluster_.time().now()).more)
    return;
  ++cluster_.counts().sweep_pauses;
  cluster_.later(*this, sweep_pause, [](process& self) { self.sweep_on(); });
}

void process::clients_learn(const discovery::view& next) {
  if (followed_.takes_of_own_node(next, clients_know_->view, cluster_.time().now()))
    clients_follow(next);
}

void process::clients_follow(const discovery::view& next) {
  clients_know_ = succeeded(*clients_know_, next, cluster_.ring_of(next), cluster_.time().now());
}

void process::clients_go_back() {
  const auto& known = clients_know_->view;
  const auto* older = followed_.back_from(known, false, cluster_.time().now());
  if (older != nullptr && !cluster_.is_linked(*this, known.issuer))
    clients_follow(*older);
}

void process::tell_clients(const std::string& view) {
  auto next = discovery::decode_view(view);
  if (next && followed_.takes_of_other_node(*next, clients_know_->view))
    clients_follow(*next);
}

client::readers_cluster process::readers_know() const {
  client::readers_cluster known;
  (has_left() ? known.left : known.own) = inc_;
  known.is_member = [cluster = clients_know_](const directory::page_location& at) {
    return cluster->view.find(at.node, at.holder) != nullptr;
  };
  return known;
}

void process::tell_stale_records() {
  for (auto& batch :
       remembered_.stale.take_batches(*clients_know_->ring, cluster_.settings().replicas))
    if (const auto* owner = clients_know_->view.find(batch.owner))
      cluster_.tell(*this, owner->inc, directory_timeout, &process::serve_withdraw,
                    std::move(batch.records));
}

std::string process::serve_publish(const std::string& batch, const directory::view_number& known) {
  if (shard_.makes_sweep_due(batch))
    sweep_later();
  return *shard_.publish(batch, known);
}

std::uint64_t process::serve_withdraw(const std::string& batch) {
  for (auto& order : shard_.forward(batch))
    if (const auto* owner = shard_.process_of(order.to))
      cluster_.tell(*this, *owner, directory_timeout, &process::serve_withdraw,
                    std::move(order.records));
  return *directory::withdraw_batch(shard_.records(), batch);
}

std::string process::serve_lookup(const std::string& batch) {
  return *shard_.look_up(batch, foreign_);
}

std::string process::serve_view() const {
  return discovery::encode_view(view());
}

std::uint64_t process::serve_compare(const std::string& comparison) const {
  return *directory::compare_digests(shard_.records(), comparison);
}

std::string process::serve_list(const std::string& request) const {
  return *directory::list_records(shard_.records(), request);
}

} // namespace peercache::scenario

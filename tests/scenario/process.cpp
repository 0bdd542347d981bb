// A node: membership, and its shard of the directory.

#include "tests/scenario/process.hpp"

#include "directory/shard_batch.hpp"
#include "directory/shard_repair.hpp"
#include "discovery/packet_codec.hpp"
#include "discovery/view_codec.hpp"
#include "storage/lru.hpp"
#include "tests/scenario/cluster.hpp"

#include <algorithm>

namespace peercache::scenario {

using namespace std::chrono_literals;
using phase = discovery::membership::phase;

process::process(cluster& in, host& on)
    : cluster_(in), host_(on), inc_(on.self.inc),
      machine_(std::make_unique<discovery::membership>(on.options, on.self, in.local_now(on))),
      shard_(1u << 20) {
  auto granules = in.settings().granules;
  entries_.reset(new slot_entry[granules]());
  bytes_.reset(new std::byte[std::size_t{granules} * limits::granule_bytes]);
  slots_ = storage::slot_table({entries_.get(), granules},
                               {bytes_.get(), std::size_t{granules} * limits::granule_bytes});
  const auto buckets = storage::host_index::buckets_for(granules);
  buckets_.reset(new storage::host_index::bucket[buckets]());
  index_ = storage::host_index({buckets_.get(), buckets}, slots_);
  storage::page_pool_options options;
  options.free_low_bytes = 2 * limits::granule_bytes;
  options.free_high_bytes = 4 * limits::granule_bytes;
  pool_ = std::make_unique<storage::page_pool>(slots_, std::make_unique<storage::lru>(), options,
                                               index_);
  publisher_ = std::make_unique<directory::publisher>(publisher_options(), *pool_);
  if (cluster_.settings().disk)
    pool_->know_kept([this](slot_id slot) { return publisher_->marks().kept(slot); });
}

void process::tick() {
  auto before = machine_->state();
  step(machine_->tick(cluster_.local_now(host_)), before);
  clients_go_back();
  tick_pool();
}

void process::receive(const std::string& bytes) {
  auto packet = discovery::decode_packet(bytes, "scenario");
  if (!packet)
    return cluster_.judge().fault("a packet could not be read");
  if (const auto* answer = std::get_if<discovery::heartbeat_answer_packet>(&*packet))
    cluster_.judge().was_answered(inc_, answer->inc, cluster_.time().now());
  auto before = machine_->state();
  step(machine_->on_packet(*packet, cluster_.local_now(host_)), before);
}

void process::peer_lost(const incarnation& inc) {
  auto before = machine_->state();
  step(machine_->on_peer_lost(inc, cluster_.local_now(host_)), before);
}

/// Corresponds to membership_actor: an expelled process empties its shard before it asks to come
/// back.
void process::step(std::vector<discovery::action> actions, phase before) {
  if (before == phase::joined && machine_->state() == phase::rejoining) {
    left_at_ = std::max(left_at_, machine_->newest().stamp());
    shard_.set_members({});
  }
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

/// Corresponds to directory_state::adopt.
void process::shard_learns(const known_cluster_ptr& next) {
  if (next->view.stamp() <= left_at_)
    return;
  shard_knows_ = next;
  std::vector<incarnation> living;
  for (const auto& m : next->view.members)
    living.push_back(m.inc);
  shard_.follow(living);
  cluster_.later(*this, discovery::foreign_keys_kept, [of = next->view.stamp()](process& self) {
    if (self.shard_knows(of))
      self.forget_foreign_keys();
  });
}

bool process::shard_knows(const discovery::view_stamp& of) const {
  return shard_knows_->view.stamp() == of;
}

bool process::shard_owns(const page_key& key) const {
  return shard_knows_->ring->owns(host_.self.id, key, cluster_.settings().replicas);
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

void process::forget_foreign_keys() {
  shard_.forget_gone();
  if (joined())
    shard_.retain([this](const page_key& key) { return shard_owns(key); });
}

/// Corresponds to sweep_later in directory_actor.cpp.
void process::sweep_later(const std::string& batch) {
  if (sweep_is_due_ ||
      !directory::has_foreign_keys(batch, [this](const page_key& key) { return shard_owns(key); }))
    return;
  sweep_is_due_ = true;
  const auto of = shard_knows_->view.stamp();
  cluster_.later(*this, discovery::foreign_keys_kept, [of](process& self) {
    self.sweep_is_due_ = false;
    if (self.shard_knows(of)) // A newer view sweeps by its own timer.
      self.forget_foreign_keys();
  });
}

std::string process::serve_publish(const std::string& batch) {
  sweep_later(batch);
  auto said = directory::publish_batch(shard_, batch);
  return said ? *said : std::string{};
}

std::string process::serve_publish(const std::string& batch, const discovery::view_stamp& known) {
  const auto& own = shard_knows_->view;
  if (std::pair(own.term, own.version) < std::pair(known.term, known.version))
    return directory::answer_from_behind(batch);
  return serve_publish(batch);
}

std::string process::serve_withdraw(const std::string& batch) {
  forward_withdrawals(batch);
  auto gone = directory::withdraw_batch(shard_, batch);
  return std::to_string(gone ? *gone : 0);
}

/// Corresponds to directory_state::look_up.
std::string process::serve_lookup(const std::string& batch) {
  directory::key_ownership ownership;
  const auto& known = shard_knows_->view;
  ownership.owns = [this, &known](const page_key& key) {
    return known.stamp() > left_at_ && shard_owns(key);
  };
  if (known.stamp() > left_at_)
    ownership.by = {known.term, known.version};
  auto found = directory::lookup_batch(shard_, batch, ownership, foreign_);
  return found ? *found : std::string{};
}

std::string process::serve_view() const {
  return discovery::encode_view(view());
}

std::string process::serve_compare(const std::string& comparison) const {
  const auto differing = directory::compare_digests(shard_, comparison);
  return std::to_string(differing ? *differing : 0);
}

std::string process::serve_list(const std::string& request) const {
  const auto listed = directory::list_records(shard_, request);
  return listed ? *listed : std::string{};
}

} // namespace peercache::scenario

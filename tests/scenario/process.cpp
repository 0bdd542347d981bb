// A node: membership, its shard of the directory, its pool and what that tells the directory.

#include "tests/scenario/process.hpp"

#include "actors/owner_batches.hpp"
#include "directory/shard_batch.hpp"
#include "discovery/packet_codec.hpp"
#include "discovery/placement.hpp"
#include "discovery/view_codec.hpp"
#include "storage/lru.hpp"
#include "tests/scenario/cluster.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace peercache::scenario {

using namespace std::chrono_literals;
using directory::publish_mode;
using phase = discovery::membership::phase;

namespace {

constexpr auto directory_timeout = 1000ms;
constexpr auto foreign_keys_kept = 5s;
constexpr std::size_t publish_chunk = 64;
constexpr std::uint32_t withdraw_attempts_max = 4;

} // namespace

process::process(cluster& in, host& on)
    : cluster_(in), host_(on), inc_(on.self.inc),
      machine_(std::make_unique<discovery::membership>(on.options, on.self, in.local_now(on))),
      shard_(1u << 20) {
  auto granules = in.settings().granules;
  entries_.reset(new slot_entry[granules]());
  bytes_.reset(new std::byte[std::size_t{granules} * limits::granule_bytes]);
  slots_ = storage::slot_table({entries_.get(), granules},
                               {bytes_.get(), std::size_t{granules} * limits::granule_bytes});
  storage::page_pool_options options;
  options.free_low_bytes = 2 * limits::granule_bytes;
  options.free_high_bytes = 4 * limits::granule_bytes;
  pool_ = std::make_unique<storage::page_pool>(slots_, std::make_unique<storage::lru>(), options);
}

bool process::settled() const noexcept {
  return unpublished_.empty() && withdrawals_.empty() && !publishing_;
}

std::uint32_t process::pins() const {
  std::uint32_t all = 0;
  for (std::uint32_t i = 0; i < slots_.granules(); ++i)
    all += entries_[i].pins.load();
  return all;
}

void process::tick() {
  auto before = machine_->state();
  step(machine_->tick(cluster_.local_now(host_)), before);
  forget_foreign_keys();
  pool_->reclaim();
  std::vector<storage::evicted> victims;
  pool_->evict_ahead(victims);
  give_up(victims);
  send_withdrawals();
  publish_next_chunk();
}

void process::receive(const std::string& bytes) {
  auto packet = discovery::decode_packet(bytes, "scenario");
  if (!packet)
    return cluster_.judge().fault("a packet could not be read");
  auto before = machine_->state();
  step(machine_->on_packet(*packet, cluster_.local_now(host_)), before);
}

void process::peer_lost(const incarnation& inc) {
  auto before = machine_->state();
  step(machine_->on_peer_lost(inc, cluster_.local_now(host_)), before);
}

void process::set_draining(bool draining) {
  auto before = machine_->state();
  step(machine_->set_draining(draining, cluster_.local_now(host_)), before);
}

void process::leave() {
  auto before = machine_->state();
  step(machine_->leave(cluster_.local_now(host_)), before);
}

/// As membership_actor: an expelled process empties its shard before it asks to come back.
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
  if (before == phase::rejoining && machine_->state() == phase::joined)
    publish_everything();
}

void process::adopt(const discovery::view& next) {
  auto before = std::exchange(
      known_, succeeded(*known_, next, cluster_.ring_of(next), cluster_.time().now()));
  cluster_.judge().judge_view(next, before->view.stamp());
  cluster_.time().note(next.version);
  // Mostly at once; one in eight long enough after that others have asked by the view before.
  const auto late = cluster_.time().below(8) == 0 ? 1'500'000 : 5'000;
  cluster_.later(*this, std::chrono::microseconds(cluster_.time().below(late)),
                 [next](process& self) { self.clients_learn(next); });
  if (next.stamp() > left_at_) {
    std::vector<incarnation> living;
    for (const auto& m : next.members)
      living.push_back(m.inc);
    shard_.set_members(living);
    forget_at_ = cluster_.time().now() + foreign_keys_kept;
  }
  publish_moved(*before);
}

void process::clients_learn(const discovery::view& next) {
  if (next.newer_than(clients_know_->view))
    clients_know_ = succeeded(*clients_know_, next, cluster_.ring_of(next), cluster_.time().now());
}

void process::tell_clients(const std::string& view) {
  if (auto next = discovery::decode_view(view))
    clients_learn(*next);
}

void process::forget_foreign_keys() {
  if (!forget_at_ || cluster_.time().now() < *forget_at_)
    return;
  forget_at_.reset();
  if (joined())
    shard_.retain([this](const page_key& key) {
      return ring().owns(host_.self.id, key, cluster_.settings().replicas);
    });
}

/// What has new owners in this view.
void process::publish_moved(const known_cluster& before) {
  // In a view that was missed a member may have been out, which forgot everything since.
  if (view().version != before.view.version + 1)
    return publish_everything();
  std::array<node_id, discovery::hash_ring::replicas_max> fresh;
  auto moved = [&](const page_key& key) {
    return discovery::new_owners(*before.ring, ring(), key, cluster_.settings().replicas, fresh) >
           0;
  };
  pool_->for_each_page([&](const storage::resident_page& page) {
    if (moved(page.key))
      unpublished_.push_back(page.key);
  });
  for (const auto& [key, put] : host_.disk)
    if (!pool_->find(key) && moved(key))
      unpublished_.push_back(key);
  publish_next_chunk();
}

void process::publish_everything() {
  unpublished_.clear();
  pool_->for_each_page(
      [&](const storage::resident_page& page) { unpublished_.push_back(page.key); });
  for (const auto& [key, put] : host_.disk)
    if (!pool_->find(key))
      unpublished_.push_back(key);
  publish_next_chunk();
}

directory::page_location process::location_of(const storage::resident_page& page) const {
  return {host_.self.id, inc_, page.gen, 0, page.slot, page.length_bytes, directory::tier::memory};
}

/// Where this node has the key now, in memory or else on its disk.
std::optional<directory::page_location> process::own_location(const page_key& key) const {
  if (auto page = pool_->find(key))
    return location_of(*page);
  if (host_.disk.count(key) == 0)
    return std::nullopt;
  auto gen = disk_generations_.find(key);
  return directory::page_location{host_.self.id,
                                  inc_,
                                  gen != disk_generations_.end() ? gen->second : generation{},
                                  0,
                                  {},
                                  64,
                                  directory::tier::disk};
}

void process::publish(const std::vector<page_key>& keys, publish_mode mode,
                      std::function<void(actors::publication&)> done) {
  auto job = std::make_shared<actors::publication>(keys.size());
  job->done = std::move(done);
  actors::owner_batches batches{ring(), cluster_.settings().replicas};
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (auto where = own_location(keys[i]))
      batches.add(static_cast<std::uint32_t>(i), {keys[i], *where, mode});
  auto all = batches.take();
  job->waiting = all.size() + 1;
  for (auto& batch : all) {
    auto to = ring().incarnation_of(batch.owner);
    cluster_.ask(
        *this, to,
        [records = std::move(batch.records)](process& owner) {
          return owner.serve_publish(records);
        },
        directory_timeout,
        [this, job, keys, indices = std::move(batch.indices)](const cluster::answer& said) {
          if (!said)
            return job->failed(indices);
          for (std::size_t i = 0; i < indices.size() && i < said->size(); ++i)
            if ((*said)[i] == static_cast<char>(directory::publish_outcome::refused))
              refused_.insert(keys[indices[i]]);
          job->answered(indices, *said);
        });
  }
  job->finish_one();
}

/// As `settle` of actors/pool_publishing.cpp.
void process::settle_commit(const page_key& key, generation gen, const actors::publication& said) {
  if (said.may_be_dropped(0)) {
    auto held = pool_->find(key);
    if (held && held->gen == gen)
      give_up({*pool_->remove(key)});
  } else if (said.is_unknown_to_some(0)) {
    unpublished_.push_back(key);
  }
}

void process::publish_next_chunk() {
  if (publishing_ || unpublished_.empty() || !joined())
    return;
  std::vector<page_key> keys;
  while (!unpublished_.empty() && keys.size() < publish_chunk) {
    keys.push_back(unpublished_.front());
    unpublished_.pop_front();
  }
  publishing_ = true;
  publish(keys, publish_mode::always, [this, keys](actors::publication& said) {
    publishing_ = false;
    bool all_heard = true;
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (said.unheard[i]) {
        unpublished_.push_back(keys[i]);
        all_heard = false;
      }
    if (all_heard) // Otherwise the next tick tries again.
      publish_next_chunk();
  });
}

/// Pages that left memory: on disk only, or gone.
void process::give_up(const std::vector<storage::evicted>& pages) {
  for (const auto& page : pages) {
    if (host_.disk.count(page.key) > 0) {
      disk_generations_[page.key] = page.gen;
      unpublished_.push_back(page.key);
    } else {
      withdrawals_.push_back({{page.key, inc_, page.gen, directory::tier::memory}, 0});
    }
  }
}

void process::send_withdrawals() {
  if (withdrawals_.empty() || !joined())
    return;
  auto sent = std::make_shared<std::vector<withdrawal>>(std::exchange(withdrawals_, {}));
  actors::owner_batches batches{ring(), cluster_.settings().replicas};
  for (std::size_t i = 0; i < sent->size(); ++i)
    batches.add(static_cast<std::uint32_t>(i), (*sent)[i].record);
  for (auto& batch : batches.take())
    cluster_.ask(
        *this, ring().incarnation_of(batch.owner),
        [records = std::move(batch.records)](process& owner) {
          return owner.serve_withdraw(records);
        },
        directory_timeout,
        [this, sent, indices = std::move(batch.indices)](const cluster::answer& said) {
          for (auto index : indices) {
            auto again = (*sent)[index];
            if (!said && ++again.attempts < withdraw_attempts_max)
              withdrawals_.push_back(again);
          }
        });
}

std::optional<std::uint64_t> process::put_of(const storage::resident_page& page) const {
  std::uint64_t put = 0;
  std::memcpy(&put, slots_.bytes(page.slot, page.length_bytes).data(), sizeof put);
  return put;
}

void process::keep_on_disk(const page_key& key) {
  if (auto page = pool_->find(key))
    host_.disk[key] = *put_of(*page);
}

std::string process::serve_publish(const std::string& batch) {
  auto said = directory::publish_batch(shard_, batch);
  return said ? *said : std::string{};
}

std::string process::serve_withdraw(const std::string& batch) {
  auto gone = directory::withdraw_batch(shard_, batch);
  return gone ? std::to_string(*gone) : std::string{};
}

/// As directory_state::look_up.
std::string process::serve_lookup(const std::string& batch) {
  directory::key_ownership ownership;
  ownership.owns = [this](const page_key& key) {
    return view().stamp() > left_at_ &&
           ring().owns(host_.self.id, key, cluster_.settings().replicas);
  };
  if (view().stamp() > left_at_)
    ownership.by = {view().term, view().version};
  auto found = directory::lookup_batch(shard_, batch, ownership, foreign_);
  return found ? *found : std::string{};
}

std::string process::serve_view() const {
  return discovery::encode_view(view());
}

/// Loads the page from disk into the pool. Answers one location as a look-up does, or none.
std::string process::serve_promote(const page_key& key) {
  std::string answer;
  auto on_disk = host_.disk.find(key);
  if (!pool_->find(key) && on_disk != host_.disk.end()) {
    std::vector<storage::evicted> victims;
    if (auto slot = pool_->reserve(64, victims)) {
      oracle::write(slots_.bytes(*slot, 64), on_disk->second);
      cluster_.judge().offers(inc_, on_disk->second);
      storage::fill filled{*slot, key, 64, 0};
      storage::commit_outcome outcome;
      pool_->commit({&filled, 1}, {&outcome, 1}, true);
      unpublished_.push_back(key);
    }
    give_up(victims);
  }
  std::vector<directory::page_location> found;
  if (auto page = pool_->find(key))
    found.push_back(location_of(*page));
  directory::append_answer(answer, found);
  return answer;
}

} // namespace peercache::scenario

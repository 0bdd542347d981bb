// A node's pool and disk, and what they tell the directory: as actors/pool_publishing.cpp and
// actors/pool_disk.cpp, with the simulated network where those send messages.

#include "discovery/placement.hpp"
#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace peercache::scenario {

using namespace std::chrono_literals;
using directory::publish_mode;

namespace {

constexpr auto directory_timeout = 1000ms;
constexpr std::size_t publish_chunk = 64;
constexpr std::uint32_t withdraw_attempts_max = 4;

} // namespace

bool process::settled() const noexcept {
  return unpublished_.idle() && disk_records_.empty() && withdrawals_.empty() && !publishing_disk_;
}

std::optional<actors::held_page> process::held(const page_key& key) const {
  if (auto page = pool_->find(key))
    return actors::held_page{key, page->gen, directory::tier::memory, page->length_bytes, 0};
  if (host_.disk.count(key) > 0)
    return actors::held_page{key, {}, directory::tier::disk, 64, 0};
  return std::nullopt;
}

std::uint32_t process::pins() const {
  std::uint32_t all = 0;
  for (std::uint32_t i = 0; i < slots_.granules(); ++i)
    all += entries_[i].pins.load();
  return all;
}

void process::tick_pool() {
  pool_->reclaim();
  std::vector<storage::evicted> victims;
  pool_->evict_ahead(victims);
  give_up(victims);
  send_withdrawals();
  publish_disk_records();
  publish_unpublished();
  repair_on();
}

/// What has new owners in this view; after one that was missed, in which a member may have been out
/// and forgotten everything since: all that is here.
void process::publish_moved(const known_cluster& before) {
  const bool saw_all = view().version == before.view.version + 1;
  const discovery::hash_ring none;
  const auto& old_ring = saw_all ? *before.ring : none;
  if (!saw_all)
    unpublished_.clear();
  unpublished_.forget_moved(ring(), cluster_.settings().replicas);
  std::array<node_id, discovery::hash_ring::replicas_max> fresh;
  auto new_owners = [&](const page_key& key) {
    return std::span(fresh).first(
        discovery::new_owners(old_ring, ring(), key, cluster_.settings().replicas, fresh));
  };
  pool_->for_each_page([&](const storage::resident_page& page) {
    for (auto owner : new_owners(page.key))
      unpublished_.add({page.key, owner});
  });
  publish_unpublished();
  for (const auto& [key, put] : host_.disk)
    if (!pool_->find(key) && !new_owners(key).empty())
      add_disk_record(key, {});
  publish_disk_records();
}

void process::publish_everything() {
  unpublished_.clear();
  pool_->for_each_page([&](const storage::resident_page& page) { unpublished_.add({page.key}); });
  publish_unpublished();
  for (const auto& [key, put] : host_.disk)
    if (!pool_->find(key))
      add_disk_record(key, {});
  publish_disk_records();
}

directory::page_location process::location_of(const storage::resident_page& page) const {
  return {host_.self.id, inc_, page.gen, 0, page.slot, page.length_bytes, directory::tier::memory};
}

/// The directory is to know that the page is on disk only.
void process::add_disk_record(const page_key& key, generation gen) {
  directory::page_location where{host_.self.id, inc_, gen, 0, {}, 64, directory::tier::disk};
  disk_records_.push_back({key, where, publish_mode::always});
}

/// `done` is called once, after the last answer.
void process::publish(std::vector<actors::owner_batch> batches, std::size_t pages,
                      std::function<void(actors::publication&)> done) {
  auto job = std::make_shared<actors::publication>(pages);
  job->done = std::move(done);
  job->waiting = batches.size() + 1;
  for (auto& batch : batches)
    cluster_.ask(
        *this, ring().incarnation_of(batch.owner),
        [records = std::move(batch.records), known = view().stamp()](process& owner) {
          return owner.serve_publish(records, known);
        },
        directory_timeout,
        [job, indices = std::move(batch.indices)](const cluster::answer& said) {
          if (said)
            job->answered(indices, *said);
          else
            job->failed(indices);
        });
  job->finish_one();
}

void process::drop(const page_key& key, generation gen) {
  if (auto held = pool_->find(key); held && held->gen == gen)
    give_up({*pool_->remove(key)});
}

/// As `commit`.
void process::publish_put(const page_key& key, generation gen, publish_mode mode) {
  actors::owner_batches batches{ring(), cluster_.settings().replicas};
  if (auto held = pool_->find(key); held && joined())
    batches.add(0, {key, location_of(*held), mode});
  auto settle = [this, key, gen](const actors::publication& said) {
    const auto sequel = said.after_put(0);
    if (sequel == actors::publication::sequel::drop)
      drop(key, gen);
    else if (sequel == actors::publication::sequel::tell_all)
      unpublished_.add_first(key);
  };
  if (joined())
    publish(batches.take(), 1, settle);
  else
    unpublished_.add_first(key);
}

/// As in the pool actor.
void process::publish_queue(node_id queue) {
  if (!joined())
    return;
  const bool to_one = queue != actors::unpublished_pages::all_owners;
  const auto budget = to_one ? republishing_.left(cluster_.time().now()) : UINT64_MAX;
  auto chunk = unpublished_.take(queue, std::min<std::uint64_t>(budget, publish_chunk), ring(),
                                 cluster_.settings().replicas, [this](const page_key& key) {
                                   const auto page = pool_->find(key);
                                   return page ? std::optional(location_of(*page)) : std::nullopt;
                                 });
  const auto count = chunk.pages.size();
  if (count == 0)
    return;
  republishing_.spend(to_one ? count : 0);
  publish(std::move(chunk.batches), count,
          [this, queue, sent = std::move(chunk.pages)](actors::publication& said) {
            const auto after = unpublished_.settle(queue, sent, said);
            for (const auto& page : after.useless)
              drop(page.key, page.gen);
            if (after.all_heard) // Otherwise the next tick tries again.
              publish_queue(queue);
          });
}

void process::publish_unpublished() {
  for (const auto queue : unpublished_.ready())
    publish_queue(queue);
}

void process::publish_disk_records() {
  if (publishing_disk_ || disk_records_.empty() || !joined())
    return;
  std::vector<directory::publish_record> sent;
  actors::owner_batches batches{ring(), cluster_.settings().replicas};
  while (!disk_records_.empty() && sent.size() < publish_chunk) {
    batches.add(static_cast<std::uint32_t>(sent.size()), disk_records_.front());
    sent.push_back(disk_records_.front());
    disk_records_.pop_front();
  }
  publishing_disk_ = true;
  auto count = sent.size();
  publish(batches.take(), count, [this, sent = std::move(sent)](actors::publication& said) {
    publishing_disk_ = false;
    bool all_heard = true;
    for (std::size_t i = 0; i < sent.size(); ++i)
      if (said.unheard[i]) {
        disk_records_.push_back(sent[i]);
        all_heard = false;
      }
    if (all_heard)
      publish_disk_records();
  });
}

/// Pages that left memory: on disk only, or gone.
void process::give_up(const std::vector<storage::evicted>& pages) {
  for (const auto& page : pages) {
    if (auto* record = cluster_.record())
      record->drop(cluster_.time().now(), to_string(inc_), page.key);
    if (host_.disk.count(page.key) > 0)
      add_disk_record(page.key, page.gen);
    else
      withdrawals_.push_back({{page.key, inc_, page.gen}, 0});
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

/// Loads the page from disk into the pool. Answers one location as a look-up does, or none.
std::string process::serve_promote(const page_key& key) {
  std::string answer;
  auto on_disk = host_.disk.find(key);
  if (!pool_->find(key) && on_disk != host_.disk.end()) {
    std::vector<storage::evicted> victims;
    if (auto slot = pool_->reserve(64, victims)) {
      oracle::write(slots_.bytes(*slot, 64), on_disk->second);
      cluster_.judge().offers(inc_, on_disk->second);
      slots_.fill(*slot, key, 64, 0);
      storage::fill filled{*slot, key, 64, 0};
      storage::commit_outcome outcome;
      pool_->commit({&filled, 1}, {&outcome, 1}, true);
      record_hold(key, slots_.bytes(*slot, 64));
      unpublished_.add_first(key);
    }
    give_up(victims);
    publish_unpublished();
  }
  std::vector<directory::page_location> found;
  if (auto page = pool_->find(key))
    found.push_back(location_of(*page));
  directory::append_answer(answer, found);
  return answer;
}

} // namespace peercache::scenario

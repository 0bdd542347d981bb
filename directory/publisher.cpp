#include "directory/publisher.hpp"

#include "common/assert.hpp"
#include "common/guards.hpp"
#include "common/limits.hpp"
#include "discovery/placement.hpp"

#include <algorithm>
#include <array>

namespace peercache::directory {
namespace {

record_repair::options repair_of(const publisher_options& options) {
  auto repair = options.repair;
  repair.self = options.self;
  repair.inc = options.inc;
  repair.replicas = options.replicas;
  return repair;
}

} // namespace

publisher::publisher(const publisher_options& options, storage::page_pool& pool)
    : options_(options), pool_(pool), mirrors_(options.mirrored_bytes_max),
      republishing_(options.republish_rate, std::max<std::uint64_t>(1, options.republish_rate / 4)),
      disk_records_(options.disk_records_max), repair_(repair_of(options)) {
  PEERCACHE_ASSERT(options.replicas >= 1 && options.replicas <= discovery::hash_ring::replicas_max);
  // One step of a walk over the disk must fit into `disk_records_`: a step without room would be
  // repeated for ever.
  PEERCACHE_ASSERT(options.walk_pages > 0 && options.walk_pages <= options.disk_records_max / 2);
  PEERCACHE_ASSERT(options.chunk_pages > 0 && options.chunk_pages <= limits::batch_pages_max);
}

bool publisher::joined() const noexcept {
  return cluster_.view && cluster_.view->find(options_.inc) != nullptr;
}

bool publisher::idle() const noexcept {
  return puts_.empty() && unpublished_.idle() && disk_records_.empty() && !disk_records_.on_way() &&
         !disk_records_.missed() && !walking_.active && withdrawals_.empty() && farewells_.empty();
}

page_location publisher::location_of(const storage::resident_page& page) const {
  page_location location;
  location.node = options_.self;
  location.holder = options_.inc;
  location.gen = page.gen;
  location.checksum = page.checksum;
  location.slot = page.slot;
  location.length_bytes = page.length_bytes;
  location.mirrored = mirrors_.contains(page.slot);
  return location;
}

// Functions for open questions to directory owners and to the disk.

publisher::tag publisher::open(question about) {
  open_.emplace(++last_tag_, std::move(about));
  return last_tag_;
}

/// Removes the open question with this tag and returns it.
publisher::question publisher::close(tag id) {
  const auto found = open_.find(id);
  PEERCACHE_ASSERT(found != open_.end()); // Open until the driver answers its order, once.
  auto about = std::move(found->second);
  open_.erase(found);
  return about;
}

void publisher::settle(tag id, const reply& said, time_point now) {
  auto about = close(id);
  std::visit([&](auto& each) { hear(each, said, now); }, about);
  if (withdrawals_open_.erase(id) > 0)
    end_withdrawal_waits(now);
}

void publisher::answered(tag id, const std::string& said, time_point now) {
  settle(id, {&said, nullptr}, now);
}

void publisher::answered(tag id, std::uint64_t number, time_point now) {
  settle(id, {nullptr, &number}, now);
}

void publisher::failed(tag id, time_point now) {
  settle(id, {}, now);
}

void publisher::walked(tag id, const std::string& pages, std::uint64_t last) {
  auto about = close(id);
  if (std::holds_alternative<of_repair_walk>(about))
    return compare_disk_pages(pages, last);
  const auto* walk = std::get_if<of_disk_walk>(&about);
  PEERCACHE_ASSERT(walk != nullptr);
  if (!walking_.active || walking_.number != walk->number)
    return;
  take_piece(pages);
  // The disk must move its walk on: a walk that stays at one place would never end.
  PEERCACHE_ASSERT(last == 0 || last != walking_.after);
  walking_.after = last;
  walking_.active = last != 0;
  walk_on();
}

void publisher::tell_owners(std::vector<owner_batch> batches, publication& said,
                            const std::function<question(node_id, indices)>& about) {
  for (const auto& batch : batches) {
    PEERCACHE_ASSERT(!batch.indices.empty() && batch.indices.size() <= limits::batch_pages_max);
    said.will_ask(batch.indices);
  }
  for (auto& batch : batches)
    orders_.push_back(tell{{open(about(batch.owner, std::move(batch.indices))), batch.owner,
                            std::move(batch.records)}});
}

void publisher::hear(of_nothing& /*about*/, const reply& /*said*/, time_point /*now*/) {}

// Functions for changes of the cluster.

void publisher::follow(cluster next, time_point now) {
  PEERCACHE_ASSERT(next.view && next.ring && next.is_linked);
  const auto before = std::exchange(cluster_, std::move(next));
  if (!publishes() || (before.view && *before.view == *cluster_.view))
    return;
  // During a view that this node missed, a member may have been out of the cluster and have
  // forgotten all records. A node that was in no view itself has told nobody anything. After a
  // missed view, and after no view at all, all pages are published again.
  const bool saw_all = before.view && before.view->find(options_.inc) != nullptr &&
                       cluster_.view->version == before.view->version + 1;
  const discovery::hash_ring none;
  const auto& old_ring = saw_all ? *before.ring : none;
  if (!saw_all)
    // Emptying the queues loses no page: with an empty old ring, `tell_new_owners` queues every
    // page of the pool for each of its owners.
    unpublished_.clear();
  unpublished_.forget_moved(*cluster_.ring, options_.replicas);
  tell_new_owners(old_ring);
  publish_unpublished(now);
  walk_from(old_ring);
  std::vector<node_id> owners;
  for (const auto& member : cluster_.view->members)
    if (!member.draining)
      owners.push_back(member.id);
  repair_.follow(*cluster_.ring, std::move(owners), now);
}

void publisher::publish_again(time_point now) {
  unpublished_.clear(); // `tell_new_owners` queues all pages again.
  if (cluster_.ring)
    tell_new_owners({});
  publish_unpublished(now);
  publish_disk();
}

void publisher::tick(time_point now) {
  decide_late_puts(now);
  end_withdrawal_waits(now);
  send_withdrawals();
  if (std::exchange(walking_.waits, false))
    walk_on();
  publish_disk_records();
  publish_unpublished(now);
}

// Functions for withdrawals.

void publisher::withdraw(const pending_withdrawal& pending) {
  if (withdrawals_.size() < options_.withdrawals_max)
    withdrawals_.push_back(pending);
  else
    // The withdrawal is dropped, so the directory keeps a stale record; the record's generation
    // keeps readers from wrong bytes.
    ++totals_.withdrawals_dropped;
}

void publisher::send_withdrawals() {
  if (withdrawals_.empty() || !joined())
    return;
  const auto sent =
      std::make_shared<const std::vector<pending_withdrawal>>(std::exchange(withdrawals_, {}));
  auto batches = new_batches();
  for (std::size_t i = 0; i < sent->size(); ++i)
    batches.add(static_cast<std::uint32_t>(i), (*sent)[i].record);
  for (auto& batch : batches.take()) {
    const auto id = open(of_withdrawals{sent, std::move(batch.indices)});
    withdrawals_open_.insert(id);
    orders_.push_back(take_back{{id, batch.owner, std::move(batch.records)}});
  }
}

void publisher::hear(of_withdrawals& about, const reply& said, time_point /*now*/) {
  if (said.came() && fault_setting(fault::withdrawals_unheard) == 0)
    return;
  for (auto index : about.which) {
    PEERCACHE_ASSERT(index < about.sent->size());
    auto pending = (*about.sent)[index];
    if (++pending.attempts < withdraw_attempts_max)
      withdraw(pending);
  }
}

publisher::tag publisher::when_withdrawn(time_point now) {
  const auto wait = ++last_tag_;
  withdrawal_waits_.emplace(wait, now);
  end_withdrawal_waits(now);
  return wait;
}

/// Orders `withdrawn` for each wait of `when_withdrawn` whose withdrawals have their answers, or
/// whose time is up. Tags and times both grow, so waits end in their sequence.
void publisher::end_withdrawal_waits(time_point now) {
  const auto late = now - options_.directory_timeout / 4;
  while (!withdrawal_waits_.empty()) {
    const auto [wait, since] = *withdrawal_waits_.begin();
    const bool has_answers = withdrawals_open_.empty() || *withdrawals_open_.begin() > wait;
    if (!has_answers && since > late)
      return;
    orders_.emplace_back(withdrawn{wait});
    withdrawal_waits_.erase(wait);
  }
}

void publisher::withdraw_for(farewell who, std::span<const withdraw_record> records) {
  if (!joined())
    return end_farewell(who);
  auto batches = new_batches();
  for (const auto& record : records)
    batches.add(0, record);
  auto taken = batches.take();
  who.waiting = taken.size();
  if (taken.empty())
    return end_farewell(who);
  const auto name = ++last_tag_;
  farewells_.emplace(name, who);
  for (auto& batch : taken)
    orders_.push_back(take_back{{open(of_farewell{name}), batch.owner, std::move(batch.records)}});
}

void publisher::hear(of_farewell& about, const reply& /*said*/, time_point /*now*/) {
  const auto found = farewells_.find(about.farewell);
  PEERCACHE_ASSERT(found != farewells_.end() && found->second.waiting > 0);
  if (--found->second.waiting > 0)
    return;
  end_farewell(found->second);
  farewells_.erase(found);
}

void publisher::end_farewell(const farewell& who) {
  if (who.leaving != 0)
    orders_.push_back(has_left{who.leaving});
  else if (who.ticket != 0)
    orders_.push_back(acknowledge{who.ticket});
}

publisher::tag publisher::leave() {
  leaving_ = true;
  unpublished_.clear();
  std::vector<withdraw_record> records;
  pool_.for_each_page([&](const storage::resident_page& page) {
    records.push_back({page.key, options_.inc, page.gen});
  });
  farewell who;
  who.leaving = ++last_tag_;
  withdraw_for(who, records);
  return who.leaving;
}

// Functions for unpublished pages.

/// Queues the page for each of its owners that did not own the page by the ring `before`. The
/// messages to such new owners count against `republish_rate`.
void publisher::tell_new_owners(const discovery::hash_ring& before,
                                const storage::resident_page& page) {
  std::array<node_id, discovery::hash_ring::replicas_max> fresh;
  const auto count =
      discovery::new_owners(before, *cluster_.ring, page.key, options_.replicas, fresh);
  for (std::size_t i = 0; i < count; ++i)
    unpublished_.add({page.key, fresh[i]});
}

void publisher::tell_new_owners(const discovery::hash_ring& before) {
  pool_.for_each_page([&](const storage::resident_page& page) { tell_new_owners(before, page); });
}

void publisher::publish_unpublished(time_point now) {
  for (const auto queue : unpublished_.ready())
    publish_queue(queue, now);
}

/// Sends the next chunk of the unpublished pages in `queue`. Pages for an owner that cannot be
/// reached wait for the next tick; so do pages over `republish_rate`.
void publisher::publish_queue(node_id queue, time_point now) {
  const bool to_one = queue != unpublished_pages::all_owners;
  const auto where = [this](const page_key& key) {
    const auto page = pool_.find(key);
    return page ? std::optional(location_of(*page)) : std::nullopt;
  };
  unpublished_.tidy(queue, where);
  if (!publishes())
    return;
  if (to_one && cluster_.view->find(queue) != nullptr && !cluster_.is_linked(queue))
    return;
  const auto budget = to_one ? republishing_.left(now) : UINT64_MAX;
  auto taken = unpublished_.take(queue, options_.chunk_pages, budget, *cluster_.ring,
                                 options_.replicas, where);
  const auto count = taken.pages.size();
  if (count == 0)
    return;
  PEERCACHE_ASSERT(!taken.batches.empty() && !chunks_.contains(queue));
  if (to_one) {
    totals_.republished += taken.counted;
    republishing_.spend(taken.counted);
  }
  auto& sent =
      chunks_.emplace(queue, chunk{std::move(taken.pages), publication(count)}).first->second;
  tell_owners(std::move(taken.batches), sent.said, [queue](node_id owner, indices pages) {
    return of_chunk{queue, owner, std::move(pages)};
  });
}

void publisher::hear(of_chunk& about, const reply& said, time_point now) {
  const auto found = chunks_.find(about.queue);
  PEERCACHE_ASSERT(found != chunks_.end());
  auto& sent = found->second;
  const auto missed = sent.said.note(about.pages, said.bytes);
  if (about.queue == unpublished_pages::all_owners) // An owner's own queue keeps what it missed.
    for (const auto index : missed)
      unpublished_.add({sent.sent[index].key, about.owner, {}, true});
  if (!sent.said.is_done())
    return;
  const auto done = std::move(sent);
  chunks_.erase(found);
  const auto after = unpublished_.settle(about.queue, done.sent, done.said);
  for (const auto& page : after.useless)
    drop(page.key, page.gen);
  // An owner that did not answer is told again at the next tick: telling it at once would be a busy
  // loop.
  if (after.all_heard)
    publish_queue(about.queue, now);
}

} // namespace peercache::directory

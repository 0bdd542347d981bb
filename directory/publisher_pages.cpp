// The publisher's part for pages that are put, promoted, adopted, evicted or removed.

#include "common/assert.hpp"
#include "common/page_status.hpp"
#include "directory/publisher.hpp"

#include <unordered_set>

namespace peercache::directory {
namespace {

/// Whether nobody would find this copy of the page: enough other hosts have the page, or its key
/// has as many locations as a key may have.
bool is_useless(link::commit_mode mode, const publication& said, std::size_t i) {
  const bool unwanted_mirror =
      mode == link::commit_mode::mirror && !said.recorded[i] && !said.may_be_recorded(i);
  return said.is_useless(i) || unwanted_mirror;
}

} // namespace

/// Commits the put's filled slots to the pool, which may refuse some of them.
void publisher::take_in(put_job& job) {
  if (job.mode == link::commit_mode::mirror)
    return take_in_mirrors(job);
  pool_.commit(job.fills, job.outcomes, storage::fill_origin::producer);
  for (const auto& outcome : job.outcomes)
    if (outcome.replaced) {
      left({&*outcome.replaced, 1});
      replaced_.push_back(outcome.replaced->key);
    }
}

/// Takes mirrored pages into the pool up to their share of it, and frees the slots of further
/// mirrored pages.
void publisher::take_in_mirrors(put_job& job) {
  std::vector<storage::fill> taken;
  std::vector<std::size_t> places;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < job.fills.size(); ++i) {
    const auto& fill = job.fills[i];
    if (mirrors_.has_room(bytes + fill.length_bytes)) {
      bytes += fill.length_bytes;
      taken.push_back(fill);
      places.push_back(i);
    } else {
      pool_.abandon(fill.slot);
      job.outcomes[i].status = page_status::no_space;
      ++totals_.mirrored_refused;
    }
  }
  std::vector<storage::commit_outcome> outcomes(taken.size());
  // Mirrors start on probation, as promoted pages do: a reader that scans other hosts' pages
  // flushes no pages of this pool.
  pool_.commit(taken, outcomes, storage::fill_origin::copy);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    // A copy replaces no other page of its key.
    PEERCACHE_ASSERT(!outcomes[i].replaced);
    job.outcomes[places[i]] = outcomes[i];
    if (outcomes[i].status != page_status::stored)
      continue;
    mirrors_.add(outcomes[i].slot, taken[i].length_bytes);
    ++totals_.mirrored;
  }
}

std::vector<owner_batch> publisher::batches_of(const put_job& job) const {
  auto batches = new_batches();
  const auto mode =
      job.mode == link::commit_mode::skip ? publish_mode::if_absent : publish_mode::always;
  for (std::size_t i = 0; i < job.fills.size(); ++i) {
    if (job.outcomes[i].status != page_status::stored)
      continue;
    const auto& fill = job.fills[i];
    const auto& stored = job.outcomes[i];
    const auto location =
        location_of({fill.key, stored.slot, stored.gen, fill.length_bytes, stored.checksum});
    batches.add(static_cast<std::uint32_t>(i), {fill.key, location, mode});
  }
  return batches.take();
}

publisher::tag publisher::put(std::vector<storage::fill> fills, link::commit_mode mode,
                              time_point now) {
  const auto count = fills.size();
  const auto id = ++last_tag_;
  auto& job =
      puts_.emplace(id, put_job{std::move(fills), {}, mode, now, publication(count)}).first->second;
  job.outcomes.resize(count);
  take_in(job);
  if (publishes())
    tell_owners(batches_of(job), job.said, [id](node_id owner, indices pages) {
      return of_put{id, owner, std::move(pages)};
    });
  else
    keep_to_itself(job);
  look_at(id);
  return id;
}

/// Queues a put's pages while the directory should not know any of this node's.
void publisher::keep_to_itself(put_job& job) {
  job.said.unheard.assign(job.fills.size(), true);
  for (std::size_t i = 0; i < job.fills.size(); ++i)
    if (job.outcomes[i].status == page_status::stored)
      unpublished_.add_first(job.fills[i].key);
}

void publisher::hear(of_put& about, const reply& said, time_point /*now*/) {
  const auto found = puts_.find(about.put);
  PEERCACHE_ASSERT(found != puts_.end());
  auto& job = found->second;
  // Queued before the put is done, which may wait long for another owner. A page that an owner may
  // have recorded is not dropped, so the record that comes later has its page.
  for (const auto index : job.said.note(about.pages, said.bytes))
    unpublished_.add({job.fills[index].key, about.owner, {}, true});
  look_at(about.put);
}

void publisher::look_at(tag put) {
  const auto found = puts_.find(put);
  PEERCACHE_ASSERT(found != puts_.end());
  auto& job = found->second;
  const bool over = job.said.is_done();
  if (over)
    // Useless pages are dropped before the put is settled, so that their room is free when the
    // putting client hears of the result.
    finish(job);
  if (!job.decided && job.said.is_decided())
    decide(put, job);
  PEERCACHE_ASSERT(!over || job.decided);
  if (over)
    puts_.erase(found);
}

/// Gives the driver the order `settled`, by which the client that put the pages hears each page's
/// status, as the owners' answers so far decide it. With `write_through` the order also names the
/// pages to be written to disk: those that stay, unless they are mirrors.
void publisher::decide(tag put, put_job& job) {
  PEERCACHE_ASSERT(!job.decided); // The client that put the pages hears of them once.
  job.decided = true;
  settled decision{put, {}, {}};
  const bool write = options_.write_through && job.mode != link::commit_mode::mirror;
  for (std::size_t i = 0; i < job.fills.size(); ++i) {
    auto status = job.outcomes[i].status;
    PEERCACHE_ASSERT(status != page_status::pending);
    if (status == page_status::stored && is_useless(job.mode, job.said, i))
      status = page_status::duplicate;
    else if (status == page_status::stored && !job.said.recorded[i] && !job.said.duplicate[i])
      status = page_status::unreachable;
    const bool stays = status == page_status::stored || status == page_status::unreachable;
    if (stays && write)
      if (const auto held = pool_.find(job.fills[i].key))
        decision.keep.push_back(*held);
    if (status == page_status::stale) // `stale`: the page was set, and a clear withdrew it at once.
      status = page_status::stored;
    decision.statuses.push_back(static_cast<char>(status));
  }
  orders_.push_back(std::move(decision));
}

/// Ends a put when every owner has answered or failed: drops the pages that the cluster had
/// already, and queues the pages of which all owners have to be told again.
void publisher::finish(put_job& job) {
  for (std::size_t i = 0; i < job.fills.size(); ++i) {
    if (job.outcomes[i].status != page_status::stored)
      continue;
    if (is_useless(job.mode, job.said, i))
      drop(job.fills[i].key, job.outcomes[i].gen);
    else if (job.said.after_put(i) == publication::sequel::tell_all)
      unpublished_.add_first(job.fills[i].key);
  }
}

void publisher::decide_late_puts(time_point now) {
  const auto late = now - options_.directory_timeout / 4;
  for (auto& [id, job] : puts_) {
    if (job.since > late)
      return;
    if (!job.decided)
      decide(id, job);
  }
}

/// Removes the page from the pool, unless its key has been put again meanwhile.
void publisher::drop(const page_key& key, generation gen) {
  if (const auto held = pool_.find(key); held && held->gen == gen) {
    const auto page = pool_.remove(key);
    left({&*page, 1});
  }
}

void publisher::restore(std::span<const storage::fill> fills, time_point now) {
  std::vector<storage::commit_outcome> outcomes(fills.size());
  pool_.commit(fills, outcomes, storage::fill_origin::copy);
  for (std::size_t i = 0; i < fills.size(); ++i) {
    PEERCACHE_ASSERT(!outcomes[i].replaced);
    if (outcomes[i].status != page_status::stored)
      continue;
    // No mark of the slot's former page is left: `left` cleared it at the eviction.
    PEERCACHE_ASSERT(!marks_.kept(outcomes[i].slot));
    marks_.note_kept(outcomes[i].slot);
    unpublished_.add_first(fills[i].key); // A reader waits for each promoted page.
  }
  publish_unpublished(now);
}

void publisher::adopted(std::span<const storage::resident_page> pages, time_point now) {
  if (!publishes())
    return;
  for (const auto& page : pages)
    tell_new_owners({}, page);
  publish_unpublished(now);
}

std::vector<storage::evicted> publisher::evict_ahead(const storage::page_pool::last_look& look,
                                                     std::uint64_t wanted_bytes) {
  std::vector<storage::evicted> victims;
  const auto look_at_own = [&](const storage::resident_page& page) {
    if (!mirrors_.contains(page.slot))
      look(page);
  };
  pool_.evict_ahead(victims, look_at_own, wanted_bytes);
  left(victims);
  return victims;
}

void publisher::left(std::span<const storage::evicted> pages) {
  for (const auto& page : pages) {
    mirrors_.remove(page.slot);
    const bool is_on_disk = marks_.forget(page.slot);
    // The pool may have a newer page of this key, of another length.
    if (is_on_disk && !pool_.find(page.key))
      add_disk_record(page.key, page.checksum, page.length_bytes);
    else
      withdraw({{page.key, options_.inc, page.gen}});
  }
}

std::string publisher::remove(const std::string& keys) {
  std::string statuses;
  const auto count = link::record_count<page_key>(keys).value_or(0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto page =
        pool_.remove(link::record_at<page_key>(keys, i), storage::bytes_after::zeroed);
    if (page) {
      marks_.forget(page->slot); // The caller of `remove` makes the disk remove its copy as well.
      left({&*page, 1});
    }
    statuses.push_back(static_cast<char>(page ? page_status::hit : page_status::not_found));
  }
  send_withdrawals();
  return statuses;
}

void publisher::removed_on_disk(const std::string& keys, const std::string& had) {
  std::unordered_set<page_key> gone;
  const auto count = link::record_count<page_key>(keys).value_or(0);
  PEERCACHE_ASSERT(had.size() == count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto key = link::record_at<page_key>(keys, i);
    gone.insert(key);
    // A key that was put again meanwhile has a newer record, which must stay.
    if (static_cast<page_status>(had[i]) == page_status::hit && !pool_.find(key))
      withdraw({{key, options_.inc, pool_.newest(), tier::disk}});
  }
  drop_disk_records([&](const page_key& key) { return gone.contains(key); });
  send_withdrawals();
}

} // namespace peercache::directory

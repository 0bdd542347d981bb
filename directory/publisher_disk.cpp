// The publisher's part for the disk tier: pages that the disk has got or given up, and walks over
// all of its pages when owners change.

#include "common/assert.hpp"
#include "directory/publisher.hpp"
#include "discovery/placement.hpp"

#include <array>
#include <unordered_set>

namespace peercache::directory {
namespace {

/// Whether the page on disk and the page in the slot have the same length and checksum.
bool is_same(const storage::resident_page& held, const link::stored_page& on_disk) noexcept {
  return held.length_bytes == on_disk.length_bytes && held.checksum == on_disk.checksum;
}

} // namespace

/// Queues a record that says: this page is on disk only. The record gets a generation that no other
/// record has, so that an owner that missed earlier records of the page can still tell that this
/// one is the newest.
void publisher::add_disk_record(const page_key& key, std::uint64_t checksum,
                                std::uint32_t length_bytes) {
  PEERCACHE_ASSERT(!pool_.find(key)); // While the page is in memory, its record says `memory`.
  add_disk_record(key, pool_.next_generation(), checksum, length_bytes);
}

void publisher::add_disk_record(const page_key& key, generation gen, std::uint64_t checksum,
                                std::uint32_t length_bytes) {
  PEERCACHE_ASSERT(options_.has_disk);
  page_location location;
  location.node = options_.self;
  location.holder = options_.inc;
  location.gen = gen;
  location.checksum = checksum;
  location.length_bytes = length_bytes;
  location.where = tier::disk;
  disk_records_.add({key, location, publish_mode::always});
}

void publisher::drop_disk_records(const std::function<bool(const page_key&)>& is_gone) {
  disk_records_.drop_if([&](const auto& record) { return is_gone(record.key); });
}

/// Orders messages that tell owners of the next chunk of disk records, unless a chunk is on its
/// way.
void publisher::publish_disk_records() {
  if (disk_records_.on_way() || !publishes())
    return;
  if (disk_records_.empty()) {
    if (disk_records_.missed() && !walking_.active) {
      disk_records_.begin_again();
      walk_from({});
    }
    return;
  }
  const auto& sent = disk_records_.take(options_.chunk_pages);
  auto batches = new_batches();
  for (std::size_t i = 0; i < sent.size(); ++i)
    batches.add(static_cast<std::uint32_t>(i), sent[i]);
  disk_said_ = publication(sent.size());
  tell_owners(batches.take(), disk_said_,
              [](node_id /*owner*/, indices pages) { return of_disk_records{std::move(pages)}; });
  PEERCACHE_ASSERT(!disk_said_.is_done());
}

void publisher::hear(of_disk_records& about, const reply& said, time_point /*now*/) {
  PEERCACHE_ASSERT(disk_records_.on_way());
  disk_said_.note(about.pages, said.bytes);
  if (disk_said_.is_done() && disk_records_.settle(disk_said_))
    // After a failure the records wait for the next tick: sending them at once would be a busy
    // loop.
    publish_disk_records();
}

// Functions for walks over the pages of the disk.

/// Begins to publish all pages that are on disk only to owners that the ring `before` did not give
/// them.
void publisher::walk_from(discovery::hash_ring before) {
  if (!options_.has_disk || !publishes())
    return;
  // A walk that is still active may not have reached pages whose owners are in `before` as well. So
  // the walk that replaces it takes every owner for new (an empty ring).
  walking_.before = walking_.active ? discovery::hash_ring{} : std::move(before);
  walking_.active = true;
  walking_.waits = false;
  walking_.after = 0;
  ++walking_.number;
  walk_on();
}

void publisher::walk_on() {
  if (!walking_.active)
    return;
  // When many disk records wait for the directory, the walk pauses until a later tick.
  if (disk_records_.crowded())
    walking_.waits = true;
  else
    orders_.push_back(
        walk_disk{open(of_disk_walk{walking_.number}), walking_.after, options_.walk_pages});
}

/// Called only when a walk has failed because the disk is shutting down: its pages need not be
/// published.
void publisher::hear(of_disk_walk& about, const reply& said, time_point /*now*/) {
  PEERCACHE_ASSERT(!said.came()); // The pages of a walk arrive by `walked`.
  if (walking_.number == about.number)
    walking_.active = false;
}

/// Queues records for the pages of this piece of the disk walk that are not in memory and have
/// owners which the ring `walking_.before` did not give them.
void publisher::take_piece(const std::string& pages) {
  std::array<node_id, discovery::hash_ring::replicas_max> fresh;
  PEERCACHE_ASSERT(cluster_.ring && link::record_count<link::stored_page>(pages));
  const auto count = link::record_count<link::stored_page>(pages).value_or(0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto page = link::record_at<link::stored_page>(pages, i);
    if (const auto held = pool_.find(page.key)) {
      note_copy(*held, page);
    } else if (discovery::new_owners(walking_.before, *cluster_.ring, page.key, options_.replicas,
                                     fresh) > 0) {
      add_disk_record(page.key, page.checksum, page.length_bytes);
    }
  }
  publish_disk_records();
}

void publisher::learn_marks() {
  if (publishes())
    walk_from(*cluster_.ring);
}

/// Notes whether the disk's page of this key is a copy of the page in the pool. It is not when the
/// key was set with another length while the older page waited to be written or was being promoted.
void publisher::note_copy(const storage::resident_page& held, const link::stored_page& on_disk) {
  if (is_same(held, on_disk))
    marks_.note_kept(held.slot);
  else
    marks_.note_let_go(held.slot);
}

// Functions for reports of the disk: pages stored and pages given up.

void publisher::stored(const std::string& pages) {
  const auto count = link::record_count<link::stored_page>(pages).value_or(0);
  std::unordered_set<page_key> written;
  for (std::size_t i = 0; i < count; ++i)
    written.insert(link::record_at<link::stored_page>(pages, i).key);
  drop_disk_records([&](const page_key& key) { return written.contains(key); });
  for (std::size_t i = 0; i < count; ++i) {
    const auto page = link::record_at<link::stored_page>(pages, i);
    const auto held = pool_.find(page.key);
    if (!held)
      add_disk_record(page.key, page.checksum, page.length_bytes);
    else
      note_copy(*held, page);
  }
  publish_disk_records();
}

void publisher::gone(std::uint64_t ticket, const std::string& keys) {
  std::vector<withdraw_record> records;
  std::unordered_set<page_key> left;
  // Well formed, since this node's own disk has packed the keys.
  PEERCACHE_ASSERT(link::record_count<page_key>(keys));
  const auto count = link::record_count<page_key>(keys).value_or(0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto key = link::record_at<page_key>(keys, i);
    left.insert(key);
    if (const auto held = pool_.find(key))
      marks_.note_let_go(held->slot);
    else
      records.push_back({key, options_.inc, pool_.newest(), tier::disk});
  }
  drop_disk_records([&](const page_key& key) { return left.contains(key); });
  farewell who;
  who.ticket = ticket;
  withdraw_for(who, records);
}

} // namespace peercache::directory

// The memory of a shard: its records, and the index from keys to the heads of their lists.

#include "common/assert.hpp"
#include "directory/shard.hpp"

#include <functional>

namespace peercache::directory {

std::uint32_t shard::hash_of(const page_key& key) noexcept {
  return static_cast<std::uint32_t>(std::hash<page_key>{}(key) >> 32);
}

shard::record& shard::at(record_index i) noexcept {
  return chunks_[i / records_per_chunk][i % records_per_chunk];
}

const shard::record& shard::at(record_index i) const noexcept {
  return chunks_[i / records_per_chunk][i % records_per_chunk];
}

/// Returns the position of the key's bucket, or of the empty bucket where the search for it ends.
std::size_t shard::find_bucket(const page_key& key, std::uint32_t hash) const noexcept {
  auto mask = index_.size() - 1;
  auto position = home_of(hash);
  while (index_[position].head != no_record) {
    if (index_[position].hash == hash && at(index_[position].head).key == key)
      break;
    position = (position + 1) & mask;
  }
  return position;
}

/// Writes `head` into the first empty bucket from the home position of `hash` on. @pre no bucket
/// has the key yet, and a bucket is empty
void shard::insert_bucket(std::uint32_t hash, record_index head) noexcept {
  auto mask = index_.size() - 1;
  auto position = home_of(hash);
  while (index_[position].head != no_record)
    position = (position + 1) & mask;
  index_[position] = {hash, head};
}

/// Empties a bucket and closes the gap: each later bucket of the run moves back, but never before
/// its home position.
void shard::erase_bucket(std::size_t position) noexcept {
  auto mask = index_.size() - 1;
  auto gap = position;
  for (auto i = (gap + 1) & mask; index_[i].head != no_record; i = (i + 1) & mask) {
    auto home = home_of(index_[i].hash);
    if (((i - home) & mask) >= ((i - gap) & mask)) {
      index_[gap] = index_[i];
      gap = i;
    }
  }
  index_[gap] = {0, no_record};
}

void shard::grow_index() {
  PEERCACHE_ASSERT(home_shift_ > 1);
  std::vector<bucket> old(index_.size() * 2, bucket{0, no_record});
  old.swap(index_);
  --home_shift_;
  // Growing places the buckets by the hashes stored in them, so it touches no record.
  for (const auto& b : old)
    if (b.head != no_record)
      insert_bucket(b.hash, b.head);
}

shard::record_index shard::take_record() {
  if (free_head_ != no_record) {
    auto taken = free_head_;
    free_head_ = at(taken).next;
    return taken;
  }
  if (records_made_ == chunks_.size() * records_per_chunk)
    chunks_.push_back(std::make_unique_for_overwrite<record[]>(records_per_chunk));
  return records_made_++;
}

void shard::give_record(record_index i) noexcept {
  at(i).holder = no_holder;
  at(i).next = free_head_;
  free_head_ = i;
}

/// Takes one location out of its key's list, and the key out of the index with its last location.
void shard::unlink(record_index target) noexcept {
  auto& rec = at(target);
  PEERCACHE_ASSERT(rec.holder != no_holder);
  auto position = find_bucket(rec.key, hash_of(rec.key));
  auto* link = &index_[position].head;
  PEERCACHE_ASSERT(*link != no_record);
  while (*link != target)
    link = &at(*link).next;
  *link = rec.next;
  // An empty bucket would end searches for the keys behind it: close the gap.
  if (index_[position].head == no_record) {
    erase_bucket(position);
    --keys_;
  }
  digest_for(rec).remove(digest_of(rec));
  --locations_;
  --holders_[rec.holder].records;
  give_record(target);
}

std::uint64_t shard::digest_of(const record& rec) noexcept {
  return fact_digest(rec.key, {rec.gen}, rec.where);
}

range_digest& shard::digest_for(const record& rec) noexcept {
  return (*holders_[rec.holder].digest)[range_of(rec.key.prefix())];
}

void shard::prefetch_bucket(const page_key& key) const noexcept {
  __builtin_prefetch(&index_[home_of(hash_of(key))]);
}

void shard::prefetch_record(const page_key& key) const noexcept {
  auto hash = hash_of(key);
  auto mask = index_.size() - 1;
  for (auto position = home_of(hash); index_[position].head != no_record;
       position = (position + 1) & mask) {
    if (index_[position].hash == hash) {
      __builtin_prefetch(&at(index_[position].head));
      return;
    }
  }
}

} // namespace peercache::directory

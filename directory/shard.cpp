#include "directory/shard.hpp"

#include "common/assert.hpp"
#include "common/guards.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

namespace peercache::directory {

namespace {

constexpr std::size_t index_buckets_min = 16;
static_assert(std::has_single_bit(index_buckets_min), "the index's size is a power of two");

/// Whether the fields of the location are in range, so that a reader could use it.
bool makes_sense(const page_location& location) noexcept {
  if (location.length_bytes == 0 || location.length_bytes > limits::page_bytes_max)
    return false;
  return location.where == tier::disk || location.gen.readable();
}

/// No shard has more locations than this, because the places of records are 32-bit numbers.
constexpr std::size_t locations_possible = std::size_t{1} << 30;

} // namespace

void shard::set_locations_max(std::size_t most) noexcept {
  PEERCACHE_ASSERT(most > 0);
  locations_max_ = std::min(most, locations_possible);
}

shard::shard(std::size_t locations_max)
    : locations_max_(std::min(locations_max, locations_possible)),
      index_(index_buckets_min, bucket{0, no_record}),
      home_shift_(32 - static_cast<unsigned>(std::countr_zero(index_buckets_min))) {
  PEERCACHE_ASSERT(locations_max > 0);
}

publish_outcome shard::publish(const page_key& key, const page_location& location,
                               publish_mode mode) {
  if (!makes_sense(location))
    return publish_outcome::refused;
  auto holder = find_holder(location.holder);
  if (holder == no_holder)
    return publish_outcome::unknown_holder;
  auto& entry = holders_[holder];
  if (entry.gone)
    return publish_outcome::unknown_holder;
  if (entry.records > 0 && entry.node != location.node)
    return publish_outcome::refused;
  auto hash = hash_of(key);
  auto position = find_bucket(key, hash);
  record* own = nullptr;
  bool other_in_memory = false;
  for (auto i = index_[position].head; i != no_record; i = at(i).next) {
    if (at(i).holder == holder)
      own = &at(i);
    else
      other_in_memory = other_in_memory || (within_reach_in_memory(at(i)) &&
                                            at(i).length_bytes == location.length_bytes);
  }
  if (own != nullptr)
    return update(*own, location, other_in_memory, mode);
  if (other_in_memory && mode == publish_mode::if_absent)
    return publish_outcome::duplicate;
  return add(key, hash, position, holder, location);
}

publish_outcome shard::update(record& own, const page_location& location, bool other_in_memory,
                              publish_mode mode) noexcept {
  // Publishing the same location again (a retry, or a producer telling a new view) must not answer
  // "duplicate": the producer would free a slot that the directory names.
  if (location_of(own) == location)
    return publish_outcome::accepted;
  auto fact = std::tuple(location.gen.value, location.where);
  if (fact <= std::tuple(own.gen, own.where))
    return publish_outcome::stale;
  if (other_in_memory && mode == publish_mode::if_absent)
    return publish_outcome::duplicate;
  auto& digest = digest_for(own);
  digest.remove(digest_of(own));
  own.gen = location.gen.value;
  own.checksum = location.checksum;
  own.slot = location.slot.value;
  own.length_bytes = location.length_bytes;
  own.where = location.where;
  own.mirrored = location.mirrored;
  digest.add(digest_of(own));
  return publish_outcome::accepted;
}

publish_outcome shard::add(const page_key& key, std::uint32_t hash, std::size_t position,
                           holder_index holder, const page_location& location) {
  if (locations_ >= locations_max_)
    return publish_outcome::refused;
  if (auto outcome = make_room(position, location); outcome != publish_outcome::accepted)
    return outcome;
  auto head = index_[position].head;
  auto made = take_record();
  at(made) = {.key = key,
              .gen = location.gen.value,
              .checksum = location.checksum,
              .slot = location.slot.value,
              .length_bytes = location.length_bytes,
              .next = head,
              .holder = holder,
              .where = location.where,
              .mirrored = location.mirrored};
  if (head != no_record) {
    index_[position].head = made;
  } else {
    if ((keys_ + 1) * 5 > index_.size() * 4)
      grow_index();
    insert_bucket(hash, made);
    ++keys_;
  }
  ++locations_;
  holders_[holder].node = location.node;
  ++holders_[holder].records;
  if (!holders_[holder].digest)
    holders_[holder].digest = std::make_unique<holder_digest>();
  digest_for(at(made)).add(digest_of(at(made)));
  return publish_outcome::accepted;
}

bool shard::within_reach_in_memory(const record& rec) const noexcept {
  return rec.where == tier::memory && !holders_[rec.holder].out_of_reach && !hidden(rec);
}

/// Makes room for one more location of the key. At the limit, any page displaces a hidden location,
/// and a page that was put displaces the oldest location on disk, else the oldest that is a mirror
/// or unreachable.
publish_outcome shard::make_room(std::size_t position, const page_location& wanted) noexcept {
  std::size_t there = 0;
  auto on_disk = no_record;
  auto spare = no_record;
  auto of_gone = no_record;
  for (auto i = index_[position].head; i != no_record; i = at(i).next) {
    ++there;
    if (hidden(at(i)))
      of_gone = i;
    else if (at(i).where == tier::disk)
      on_disk = i;
    else if (at(i).mirrored || !within_reach_in_memory(at(i)))
      spare = i;
  }
  if (there < limits::locations_per_key_max)
    return publish_outcome::accepted;
  if (of_gone != no_record) {
    unlink(of_gone);
    return publish_outcome::accepted;
  }
  if (wanted.where == tier::disk)
    return publish_outcome::refused;
  const auto displaced = on_disk != no_record ? on_disk : spare;
  if (displaced == no_record || wanted.mirrored)
    return publish_outcome::duplicate;
  unlink(displaced);
  return publish_outcome::accepted;
}

std::size_t shard::lookup(const page_key& key, std::span<page_location> out) const {
  auto head = index_[find_bucket(key, hash_of(key))].head;
  std::size_t written = 0;
  for (auto wanted : {tier::memory, tier::disk})
    for (auto i = head; i != no_record && written < out.size(); i = at(i).next)
      if (at(i).where == wanted && !hidden(at(i)))
        out[written++] = location_of(at(i));
  return written;
}

bool shard::withdraw(const page_key& key, const incarnation& holder, generation gen, tier where) {
  auto index = find_holder(holder);
  if (index == no_holder)
    return false;
  for (auto i = index_[find_bucket(key, hash_of(key))].head; i != no_record; i = at(i).next) {
    if (at(i).holder != index)
      continue;
    bool newer = std::pair(at(i).gen, at(i).where) > std::pair(gen.value, where);
    if (newer && guard_on(guard::withdraw))
      return false;
    unlink(i);
    return true;
  }
  return false;
}

std::size_t shard::set_members(std::span<const incarnation> members,
                               const std::function<void(const page_key&)>& forgotten) {
  PEERCACHE_ASSERT(members.size() <= limits::members_max);
  std::vector<bool> stays(holders_.size(), !guard_on(guard::purge));
  for (const auto& inc : members)
    if (auto known = find_holder(inc); known != no_holder) {
      stays[known] = true;
      holders_[known].gone = false;
    }
  bool records_go = false;
  for (std::size_t i = 0; i < holders_.size(); ++i)
    records_go = records_go || (!stays[i] && holders_[i].records > 0);
  std::size_t dropped = 0;
  if (records_go)
    dropped = drop_records([&](const record& rec) {
      if (!stays[rec.holder] && forgotten)
        forgotten(rec.key);
      return !stays[rec.holder];
    });
  for (std::size_t i = 0; i < stays.size(); ++i) {
    if (stays[i] || holders_[i].inc == incarnation{})
      continue;
    // A record left here would count as one of the member that gets this entry next.
    PEERCACHE_ASSERT(holders_[i].records == 0);
    holder_indices_.erase(holders_[i].inc);
    holders_[i] = holder_entry{};
    holders_free_.push_back(static_cast<holder_index>(i));
  }
  for (const auto& inc : members)
    if (find_holder(inc) == no_holder)
      add_holder(inc);
  PEERCACHE_ASSERT(holder_indices_.size() == members.size() || !guard_on(guard::purge));
  return dropped;
}

void shard::follow(std::span<const incarnation> members) {
  // Views that follow each other fast must not fill the table of holders.
  const bool crowded =
      holder_indices_.size() + members.size() > std::size_t{2} * limits::members_max;
  if (crowded || !guard_on(guard::purge)) {
    set_members(members);
    return;
  }
  for (auto& holder : holders_)
    holder.gone = holder.inc != incarnation{};
  for (const auto& inc : members) {
    auto known = find_holder(inc);
    holders_[known != no_holder ? known : add_holder(inc)].gone = false;
  }
}

std::size_t shard::forget_gone(const std::function<void(const page_key&)>& forgotten) {
  std::vector<incarnation> members;
  for (const auto& holder : holders_)
    if (holder.inc != incarnation{} && !holder.gone)
      members.push_back(holder.inc);
  return members.size() == holder_indices_.size() ? 0 : set_members(members, forgotten);
}

void shard::set_out_of_reach(std::span<const incarnation> members) {
  for (auto& holder : holders_)
    holder.out_of_reach = false;
  for (const auto& inc : members)
    if (auto known = find_holder(inc); known != no_holder)
      holders_[known].out_of_reach = true;
}

std::size_t shard::retain(const std::function<bool(const page_key&)>& keep) {
  return drop_records([&keep](const record& rec) { return !keep(rec.key); });
}

std::uint32_t
shard::walk(std::uint32_t from, std::uint32_t places,
            const std::function<void(const page_key&, const page_location&)>& show) const {
  auto end = static_cast<record_index>(
      std::min<std::uint64_t>(records_made_, std::uint64_t{from} + places));
  for (record_index i = from; i < end; ++i)
    if (at(i).holder != no_holder && !hidden(at(i)))
      show(at(i).key, location_of(at(i)));
  return end < records_made_ ? end : 0;
}

const holder_digest* shard::digest_of(const incarnation& holder) const noexcept {
  auto known = find_holder(holder);
  return known != no_holder ? holders_[known].digest.get() : nullptr;
}

std::size_t shard::bytes() const noexcept {
  // Bytes of one node of the map of holders: its value, the hash chain's pointer, and the
  // allocator's header.
  constexpr std::size_t map_node_bytes = sizeof(std::pair<incarnation, holder_index>) + 32;
  return index_.capacity() * sizeof(bucket) + chunks_.size() * records_per_chunk * sizeof(record) +
         chunks_.capacity() * sizeof(chunks_[0]) + holders_.capacity() * sizeof(holder_entry) +
         holders_free_.capacity() * sizeof(holder_index) + holder_indices_.size() * map_node_bytes +
         holder_indices_.bucket_count() * sizeof(void*) +
         static_cast<std::size_t>(
             std::count_if(holders_.begin(), holders_.end(),
                           [](const holder_entry& o) { return o.digest != nullptr; })) *
             sizeof(holder_digest) +
         sizeof *this;
}

page_location shard::location_of(const record& rec) const noexcept {
  const auto& holder = holders_[rec.holder];
  return {.node = holder.node,
          .holder = holder.inc,
          .gen = {rec.gen},
          .checksum = rec.checksum,
          .slot = {rec.slot},
          .length_bytes = rec.length_bytes,
          .where = rec.where,
          .mirrored = rec.mirrored};
}

shard::holder_index shard::find_holder(const incarnation& inc) const noexcept {
  auto found = holder_indices_.find(inc);
  return found != holder_indices_.end() ? found->second : no_holder;
}

shard::holder_index shard::add_holder(const incarnation& inc) {
  PEERCACHE_ASSERT(inc != incarnation{});
  holder_index index;
  if (!holders_free_.empty()) {
    index = holders_free_.back();
    holders_free_.pop_back();
    holders_[index] = {.inc = inc};
  } else {
    PEERCACHE_ASSERT(holders_.size() < no_holder);
    index = static_cast<holder_index>(holders_.size());
    holders_.push_back({.inc = inc});
  }
  holder_indices_.emplace(inc, index);
  return index;
}

/// Removes every record for which `drop` returns true, in the order of their places in memory.
template <class Drop>
std::size_t shard::drop_records(Drop drop) {
  const auto before = locations_;
  std::size_t dropped = 0;
  for (record_index i = 0; i < records_made_; ++i) {
    if (at(i).holder == no_holder || !drop(at(i)))
      continue;
    unlink(i);
    ++dropped;
  }
  PEERCACHE_ASSERT(locations_ + dropped == before && keys_ <= locations_);
  return dropped;
}

} // namespace peercache::directory

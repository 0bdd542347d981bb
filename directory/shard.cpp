#include "directory/shard.hpp"

#include "common/assert.hpp"
#include "common/guards.hpp"
#include "directory/shard_changes.hpp"

#include <algorithm>
#include <tuple>

namespace peercache::directory {

namespace {

/// Whether the fields of the location are in range, so that a reader could use it.
bool makes_sense(const page_location& location) noexcept {
  if (location.length_bytes == 0 || location.length_bytes > limits::page_bytes_max)
    return false;
  return location.where == tier::disk || location.gen.readable();
}

} // namespace

shard::shard(std::size_t locations_max, int file)
    : locations_max_(std::min(locations_max, locations_possible)),
      memory_(units_for(locations_max_), file) {
  PEERCACHE_ASSERT(locations_max > 0);
  make_memory();
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
  const auto hash = header_.hash_of(key);
  const auto found = find_place(key, hash);
  auto own = no_unit;
  bool other_in_memory = false;
  for (auto i = first_at(found); i != no_unit;) {
    const auto rec = at(i);
    if (rec.holder == holder)
      own = i;
    else
      other_in_memory = other_in_memory ||
                        (within_reach_in_memory(rec) && rec.length_bytes == location.length_bytes);
    i = rec.next;
  }
  if (own != no_unit)
    return update(key, own, found->line, location, other_in_memory, mode);
  if (other_in_memory && mode == publish_mode::if_absent)
    return publish_outcome::duplicate;
  return add(key, hash, found, holder, location);
}

publish_outcome shard::update(const page_key& key, unit_number unit, unit_number line,
                              const page_location& location, bool other_in_memory,
                              publish_mode mode) noexcept {
  auto own = at(unit);
  // Publishing the same location again (a retry, or a producer telling a new view) must not answer
  // "duplicate": the producer would free a slot that the directory names.
  if (location_of(own) == location)
    return publish_outcome::accepted;
  auto fact = std::tuple(location.gen.value, location.where);
  if (fact <= std::tuple(own.gen, own.where))
    return publish_outcome::stale;
  if (other_in_memory && mode == publish_mode::if_absent)
    return publish_outcome::duplicate;
  auto& digest = digest_for(key, own.holder);
  digest.remove(fact_digest(key, {own.gen}, own.where));
  own.gen = location.gen.value;
  own.checksum = location.checksum;
  own.slot = location.slot.value;
  own.length_bytes = location.length_bytes;
  own.where = location.where;
  own.mirrored = location.mirrored;
  digest.add(fact_digest(key, {own.gen}, own.where));
  const line_change change(*this, line);
  put(unit, key, own);
  return publish_outcome::accepted;
}

publish_outcome shard::add(const page_key& key, std::uint32_t hash, std::optional<place> at,
                           holder_index holder, const page_location& location) {
  if (locations_ >= locations_max_)
    return publish_outcome::refused;
  if (auto outcome = make_room(first_at(at), location); outcome != publish_outcome::accepted)
    return outcome;
  const auto made = take_record();
  const shard_record record{.gen = location.gen.value,
                            .checksum = location.checksum,
                            .slot = location.slot.value,
                            .length_bytes = location.length_bytes,
                            .next = first_at(at),
                            .holder = holder,
                            .where = location.where,
                            .mirrored = location.mirrored};
  auto& entry = holders_[holder];
  if (entry.records == 0 && entry.node != location.node) {
    const header_change change(*this);
    entry.node = location.node;
    store_holder(holder);
  }
  put(made, key, record);
  if (at) {
    set_first(*at, hash, made);
  } else {
    make_room_for_key();
    insert_place(header_, hash, made);
    ++keys_;
  }
  ++locations_;
  ++entry.records;
  if (!entry.digest)
    entry.digest = std::make_unique<holder_digest>();
  digest_for(key, holder).add(fact_digest(key, location.gen, location.where));
  return publish_outcome::accepted;
}

bool shard::within_reach_in_memory(const shard_record& rec) const noexcept {
  return rec.where == tier::memory && !holders_[rec.holder].out_of_reach && !hidden(rec);
}

/// Makes room for one more location of the key. At the limit, any page displaces a hidden location,
/// and a page that was put displaces the oldest location on disk, else the oldest that is a mirror
/// or unreachable.
publish_outcome shard::make_room(unit_number first, const page_location& wanted) noexcept {
  std::size_t there = 0;
  auto on_disk = no_unit;
  auto spare = no_unit;
  auto of_gone = no_unit;
  for (auto i = first; i != no_unit;) {
    const auto rec = at(i);
    ++there;
    if (hidden(rec))
      of_gone = i;
    else if (rec.where == tier::disk)
      on_disk = i;
    else if (rec.mirrored || !within_reach_in_memory(rec))
      spare = i;
    i = rec.next;
  }
  if (there < limits::locations_per_key_max)
    return publish_outcome::accepted;
  if (of_gone != no_unit) {
    unlink(of_gone);
    return publish_outcome::accepted;
  }
  const auto displaced = on_disk != no_unit ? on_disk : spare;
  if (displaced == no_unit || wanted.mirrored || wanted.where == tier::disk)
    return publish_outcome::duplicate;
  unlink(displaced);
  return publish_outcome::accepted;
}

std::size_t shard::lookup(const page_key& key, std::span<page_location> out) const {
  auto search = reader();
  const bool begun = search.begin();
  const auto count = begun ? search.find(key, out) : std::nullopt;
  PEERCACHE_ASSERT(count); // Nobody changes the shard meanwhile.
  return *count;
}

bool shard::withdraw(const page_key& key, const incarnation& holder, generation gen, tier where) {
  auto index = find_holder(holder);
  if (index == no_holder)
    return false;
  for (auto i = first_at(find_place(key, header_.hash_of(key))); i != no_unit;) {
    const auto rec = at(i);
    if (rec.holder != index) {
      i = rec.next;
      continue;
    }
    const bool newer = std::pair(rec.gen, rec.where) > std::pair(gen.value, where);
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
    dropped = drop_records([&](const page_key& key, const shard_record& rec) {
      if (!stays[rec.holder] && forgotten)
        forgotten(key);
      return !stays[rec.holder];
    });
  for (std::size_t i = 0; i < stays.size(); ++i) {
    if (!stays[i] && holders_[i].inc != incarnation{})
      remove_holder(static_cast<holder_index>(i));
  }
  for (const auto& inc : members)
    if (find_holder(inc) == no_holder)
      add_holder(inc);
  store_holders();
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
  store_holders();
}

shard::slice shard::forget(std::uint32_t from, std::uint32_t places,
                           const std::function<bool(const page_key&)>& keep,
                           const std::function<void(const page_key&)>& gone) {
  PEERCACHE_ASSERT(places > 0);
  slice forgotten;
  const auto end = end_of_slice(from, places);
  for (auto i = from; i < end; ++i) {
    const auto unit = unit_of(i);
    const auto rec = at(unit);
    if (rec.holder == no_holder)
      continue;
    const auto key = key_at(unit);
    const bool was_hidden = hidden(rec);
    if (!was_hidden && (!keep || keep(key)))
      continue;
    if (was_hidden && gone)
      gone(key);
    unlink(unit);
    ++(was_hidden ? forgotten.gone : forgotten.others);
  }
  if (end < records_made_)
    forgotten.next = end;
  remove_gone_holders();
  return forgotten;
}

/// Removes the gone holders without records. Others stay until a slice forgets their last record.
void shard::remove_gone_holders() {
  bool any_removed = false;
  for (std::size_t i = 0; i < holders_.size(); ++i)
    if (holders_[i].gone && holders_[i].records == 0) {
      remove_holder(static_cast<holder_index>(i));
      any_removed = true;
    }
  if (any_removed)
    store_holders();
}

void shard::set_out_of_reach(std::span<const incarnation> members) {
  for (auto& holder : holders_)
    holder.out_of_reach = false;
  for (const auto& inc : members)
    if (auto known = find_holder(inc); known != no_holder)
      holders_[known].out_of_reach = true;
}

std::size_t shard::retain(const std::function<bool(const page_key&)>& keep) {
  return drop_records([&keep](const page_key& key, const shard_record&) { return !keep(key); });
}

std::uint32_t
shard::walk(std::uint32_t from, std::uint32_t places,
            const std::function<void(const page_key&, const page_location&)>& show) const {
  const auto end = end_of_slice(from, places);
  for (auto i = from; i < end; ++i)
    if (const auto rec = at(unit_of(i)); rec.holder != no_holder && !hidden(rec))
      show(key_at(unit_of(i)), location_of(rec));
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
  return memory_.bytes() + chunks_.capacity() * sizeof(chunks_[0]) +
         holders_.capacity() * sizeof(holder_entry) +
         holders_free_.capacity() * sizeof(holder_index) + holder_indices_.size() * map_node_bytes +
         holder_indices_.bucket_count() * sizeof(void*) +
         static_cast<std::size_t>(
             std::count_if(holders_.begin(), holders_.end(),
                           [](const holder_entry& o) { return o.digest != nullptr; })) *
             sizeof(holder_digest) +
         sizeof *this;
}

page_location shard::location_of(const shard_record& rec) const noexcept {
  const auto& holder = holders_[rec.holder];
  return rec.location({holder.inc, holder.node, holder.gone});
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

/// @pre the holder has no record: one that is left would count as one of the member that gets its
/// number next
void shard::remove_holder(holder_index holder) {
  PEERCACHE_ASSERT(holders_[holder].records == 0);
  holder_indices_.erase(holders_[holder].inc);
  holders_[holder] = holder_entry{};
  holders_free_.push_back(holder);
}

std::uint32_t shard::end_of_slice(std::uint32_t from, std::uint32_t places) const noexcept {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(records_made_, std::uint64_t{from} + places));
}

/// Removes every record for which `drop` returns true, in the order of their places in memory.
template <class Drop>
std::size_t shard::drop_records(Drop drop) {
  const auto before = locations_;
  std::size_t dropped = 0;
  for (std::uint32_t i = 0; i < records_made_; ++i) {
    const auto unit = unit_of(i);
    if (const auto rec = at(unit); rec.holder == no_holder || !drop(key_at(unit), rec))
      continue;
    unlink(unit);
    ++dropped;
  }
  PEERCACHE_ASSERT(locations_ + dropped == before && keys_ <= locations_);
  return dropped;
}

} // namespace peercache::directory

#include "directory/shard_batch.hpp"

#include "common/assert.hpp"
#include "directory/wire.hpp"

#include <algorithm>
#include <array>

namespace peercache::directory {

namespace {

/// Keys whose memory is loaded ahead: enough that their cache misses overlap, few enough that the
/// first key is still in the cache when its turn comes.
constexpr std::size_t prefetch_keys = 32;

/// Whether the batch can be read to its end. Checked before any record is applied, so that a batch
/// with a fault in its middle changes nothing.
template <class Record>
bool well_formed(std::string_view batch) noexcept {
  batch_reader<Record> reader(batch);
  Record record;
  while (reader.next(record)) {
  }
  return reader.ok();
}

const page_key& key_of(const publish_record& record) {
  return record.key;
}
const page_key& key_of(const withdraw_record& record) {
  return record.key;
}
const page_key& key_of(const page_key& key) {
  return key;
}

/// A record of a batch whose search has begun.
template <class Record, class Memory>
struct looked_ahead {
  Record record;
  std::uint32_t hash = 0; ///< Hash of the key.
  typename shard_search<Memory>::glance seen;
};

/// Calls `apply` with each `looked_ahead` record, in order, until it returns false; the memory that
/// the key's search looks at is loaded some records earlier.
template <class Record, class Memory, class Apply>
void for_each_prefetched(const shard_search<Memory>& source, std::string_view batch, Apply apply) {
  batch_reader<Record> reader(batch);
  std::array<looked_ahead<Record, Memory>, prefetch_keys> window;
  for (;;) {
    std::size_t filled = 0;
    for (; filled < window.size() && reader.next(window[filled].record); ++filled) {
      window[filled].hash = source.header().hash_of(key_of(window[filled].record));
      source.prefetch_line(window[filled].hash);
    }
    for (std::size_t i = 0; i < filled; ++i)
      window[i].seen = source.look_ahead(window[i].hash);
    for (std::size_t i = 0; i < filled; ++i)
      if (!apply(window[i]))
        return;
    if (filled < window.size())
      return;
  }
}

/// A search for the shard's owner, which nobody disturbs.
shard_search<mapped_shard> search_of(const shard& source) {
  auto search = source.reader();
  const bool whole = search.begin();
  PEERCACHE_ASSERT(whole);
  return search;
}

} // namespace

bool has_foreign_keys(std::string_view publish_batch,
                      const std::function<bool(const page_key&)>& owns) {
  publish_reader reader(publish_batch);
  publish_record record;
  while (reader.next(record))
    if (!owns(record.key))
      return true;
  return false;
}

result<std::string> publish_batch(shard& target, std::string_view batch,
                                  const std::function<bool(const page_key&)>& is_old) {
  if (!well_formed<publish_record>(batch))
    return malformed("publish batch", batch);
  std::string outcomes;
  outcomes.reserve(publish_reader(batch).count());
  for_each_prefetched<publish_record>(search_of(target), batch, [&](const auto& next) {
    const auto& [key, location, mode] = next.record;
    const auto outcome =
        is_old && is_old(key) ? publish_outcome::stale : target.publish(key, location, mode);
    outcomes.push_back(static_cast<char>(outcome));
    return true;
  });
  PEERCACHE_ASSERT(outcomes.size() * wire::publish_record_bytes == batch.size());
  return outcomes;
}

std::string answer_from_behind(std::string_view publish_batch) {
  return std::string(publish_batch.size() / wire::publish_record_bytes,
                     static_cast<char>(publish_outcome::behind));
}

result<std::uint64_t> withdraw_batch(shard& target, std::string_view batch) {
  if (!well_formed<withdraw_record>(batch))
    return malformed("withdraw batch", batch);
  std::uint64_t forgotten = 0;
  for_each_prefetched<withdraw_record>(search_of(target), batch, [&](const auto& next) {
    const auto& [key, holder, gen, where] = next.record;
    forgotten += target.withdraw(key, holder, gen, where) ? 1 : 0;
    return true;
  });
  return forgotten;
}

template <class Memory>
std::optional<result<std::string>> lookup_batch(shard_search<Memory> search, std::string_view batch,
                                                const key_ownership& ownership,
                                                std::uint64_t& foreign) {
  lookup_reader reader(batch);
  if (!reader.ok())
    return malformed("lookup batch", batch);
  if (!search.begin())
    return std::nullopt;
  std::string answer;
  // Reserves room for one location per key, as most keys have; the answer to a batch of mirrored
  // pages grows once or twice more.
  answer.reserve(reader.count() * (1 + wire::location_bytes));
  bool whole = true;
  std::array<page_location, limits::locations_per_key_max> found;
  for_each_prefetched<page_key>(search, batch, [&](const auto& next) {
    const auto& key = next.record;
    std::size_t count = 0;
    if (!ownership.is_old || !ownership.is_old(key)) {
      const auto seen = search.find(key, next.hash, next.seen, found);
      whole = seen.has_value();
      if (!whole)
        return false;
      count = *seen;
    }
    if (count > 0 || ownership.owns(key)) {
      append_answer(answer, {found.data(), count});
    } else {
      ++foreign;
      append_not_mine(answer, ownership.by);
    }
    return true;
  });
  if (!whole)
    return std::nullopt;
  return answer;
}

template std::optional<result<std::string>>
lookup_batch(shard_search<mapped_shard>, std::string_view, const key_ownership&, std::uint64_t&);
template std::optional<result<std::string>>
lookup_batch(shard_search<attached_units>, std::string_view, const key_ownership&, std::uint64_t&);

result<std::string> lookup_batch(const shard& source, std::string_view batch,
                                 const key_ownership& ownership, std::uint64_t& foreign) {
  auto answer = lookup_batch(source.reader(), batch, ownership, foreign);
  PEERCACHE_ASSERT(answer); // The shard's owner is here, so nobody changes it.
  return std::move(*answer);
}

result<std::string> lookup_batch(const shard& source, std::string_view batch) {
  std::uint64_t foreign = 0;
  return lookup_batch(source, batch, {[](const page_key&) { return true; }, {}}, foreign);
}

} // namespace peercache::directory

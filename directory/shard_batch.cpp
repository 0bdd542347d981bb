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

/// Calls `apply` with each record, in order; the shard loads a record's memory some records
/// earlier.
template <class Record, class Apply>
void for_each_prefetched(const shard& source, std::string_view batch, Apply apply) {
  batch_reader<Record> reader(batch);
  std::array<Record, prefetch_keys> window;
  for (;;) {
    std::size_t filled = 0;
    while (filled < window.size() && reader.next(window[filled]))
      source.prefetch_bucket(key_of(window[filled++]));
    for (std::size_t i = 0; i < filled; ++i)
      source.prefetch_record(key_of(window[i]));
    for (std::size_t i = 0; i < filled; ++i)
      apply(window[i]);
    if (filled < window.size())
      return;
  }
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

result<std::string> publish_batch(shard& target, std::string_view batch) {
  if (!well_formed<publish_record>(batch))
    return malformed("publish batch", batch);
  std::string outcomes;
  outcomes.reserve(publish_reader(batch).count());
  for_each_prefetched<publish_record>(target, batch, [&](const publish_record& record) {
    auto outcome = target.publish(record.key, record.location, record.mode);
    outcomes.push_back(static_cast<char>(outcome));
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
  for_each_prefetched<withdraw_record>(target, batch, [&](const withdraw_record& record) {
    forgotten += target.withdraw(record.key, record.holder, record.gen, record.where) ? 1 : 0;
  });
  return forgotten;
}

result<std::string> lookup_batch(const shard& source, std::string_view batch,
                                 const key_ownership& ownership, std::uint64_t& foreign) {
  lookup_reader reader(batch);
  if (!reader.ok())
    return malformed("lookup batch", batch);
  std::string answer;
  // Reserves room for one location per key, as most keys have; the answer to a batch of mirrored
  // pages grows once or twice more.
  answer.reserve(reader.count() * (1 + wire::location_bytes));
  for_each_prefetched<page_key>(source, batch, [&](const page_key& key) {
    std::array<page_location, limits::locations_per_key_max> found;
    auto count = ownership.is_old && ownership.is_old(key) ? 0 : source.lookup(key, found);
    if (count > 0 || ownership.owns(key))
      return append_answer(answer, {found.data(), count});
    ++foreign;
    append_not_mine(answer, ownership.by);
  });
  return answer;
}

result<std::string> lookup_batch(const shard& source, std::string_view batch) {
  std::uint64_t foreign = 0;
  return lookup_batch(source, batch, {[](const page_key&) { return true; }, {}}, foreign);
}

} // namespace peercache::directory

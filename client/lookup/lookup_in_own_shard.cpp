#include "client/lookup/lookup_in_own_shard.hpp"

#include "directory/shard_batch.hpp"

namespace peercache::client {

lookup_carrier::state lookup_in_own_shard::start(std::string_view request) {
  read_ = read(request);
  (read_ ? counters_.lookups_own : counters_.lookups_asked_after_all)
      .fetch_add(1, std::memory_order_relaxed);
  return read_ ? state::answered : asked_.start(request);
}

bool lookup_in_own_shard::read(std::string_view request) {
  // By another view the shard may own other keys than the client thinks: its node knows. The view
  // is looked at before and after, since each key is searched by the header of that moment.
  auto search = shard_.reader();
  const auto is_by_this_view = [&] { return search.begin() && search.header().by == how_.by; };
  if (epochs_.closed() || !is_by_this_view())
    return false;
  directory::key_ownership ownership{how_.owns, how_.by};
  if (!epochs_.untouched())
    ownership.is_old = [this](const page_key& key) { return epochs_.is_old(key); };
  std::uint64_t foreign = 0;
  auto answer = directory::lookup_batch(search, request, ownership, foreign);
  if (!answer || !*answer || epochs_.closed() || !is_by_this_view())
    return false;
  answer_ = std::move(**answer);
  return true;
}

void lookup_in_own_shard::keep() {
  if (!read_)
    asked_.keep();
}

} // namespace peercache::client

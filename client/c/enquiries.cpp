// Functions of the C interface that ask, tell and wait without moving pages, and those that return
// texts.
#include "client/c/batch_call.hpp"
#include "client/c/growing_struct.hpp"
#include "client/c/handles.hpp"

#include <algorithm>
#include <string>

namespace peercache::c_api {
namespace {

constexpr std::size_t oldest_flushed = 32;
constexpr std::size_t oldest_location = 272;
constexpr std::size_t oldest_statistics = 1072;
static_assert(limits::locations_per_key_max == PEERCACHE_LOCATIONS_PER_KEY);
static_assert(page_status_count <= 32 && page_origin_count <= 16,
              "statistics have no room for all");

int take_keys(const peercache_key* keys, std::size_t count, std::vector<page_key>& own) {
  if (keys == nullptr && count != 0)
    return refuse_argument("keys", " is NULL");
  own.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    own.push_back(key_of(keys[i]));
  return PEERCACHE_OK;
}

peercache_location location_of(const directory::page_location& from, const discovery::view& view) {
  peercache_location location = {};
  location.node = from.node.value;
  location.length_bytes = from.length_bytes;
  location.on_disk = from.where == directory::tier::disk ? 1 : 0;
  location.mirrored = from.mirrored ? 1 : 0;
  if (const auto* member = view.find(from.node))
    member->name.copy(location.node_name, sizeof location.node_name - 1);
  return location;
}

int locate(peercache_client* client, const peercache_key* keys, std::size_t count,
           std::uint32_t deadline_ms, peercache_location* locations, std::size_t location_size,
           std::uint32_t* found) {
  if (const int code = check_client(client))
    return code;
  const auto until = deadline_in(deadline_ms, client->default_timeout);
  if (count != 0 && (locations == nullptr || found == nullptr))
    return refuse_argument("locations or found", " is NULL");
  if (const int code = check_size(location_size, oldest_location, "location_size"))
    return code;
  std::vector<page_key> own;
  if (const int code = take_keys(keys, count, own))
    return code;
  const auto answer = client->cache->locate(own, until);
  if (!answer)
    return fail(answer.error());
  const auto view = client->cache->view();
  for (std::size_t i = 0; i < count; ++i) {
    auto* wanted =
        reinterpret_cast<char*>(locations) + i * PEERCACHE_LOCATIONS_PER_KEY * location_size;
    found[i] = static_cast<std::uint32_t>((*answer)[i].size());
    for (const auto& each : (*answer)[i]) {
      give_struct(location_of(each, view), wanted, location_size);
      wanted += location_size;
    }
  }
  return PEERCACHE_OK;
}

int flush(peercache_client* client, std::uint32_t deadline_ms, peercache_flushed* flushed) {
  if (const int code = check_client(client))
    return code;
  if (flushed != nullptr)
    if (const int code = check_size(flushed->size, oldest_flushed, "flushed"))
      return code;
  const auto done = client->cache->flush(deadline_in(deadline_ms, client->default_timeout));
  if (!done)
    return fail(done.error());
  if (flushed != nullptr)
    give_struct(
        peercache_flushed{flushed->size, 0, done->failed, done->duplicates, done->unpublished},
        flushed, flushed->size);
  return PEERCACHE_OK;
}

int clear(peercache_client* client, peercache_text first_field, std::uint32_t deadline_ms) {
  if (const int code = check_client(client))
    return code;
  if (first_field.data == nullptr && first_field.bytes != 0)
    return refuse_argument("first_field", " is NULL");
  const auto done = client->cache->clear({first_field.data, first_field.bytes},
                                         deadline_in(deadline_ms, client->default_timeout));
  if (done)
    return PEERCACHE_OK;
  return fail(client->home.is_here() && !client->closed ? PEERCACHE_UNCERTAIN : PEERCACHE_CLOSED,
              done.why_not);
}

template <std::size_t From, std::size_t Room>
void copy_counts(const std::uint64_t (&from)[From], std::uint64_t (&to)[Room]) {
  static_assert(From <= Room);
  std::copy(std::begin(from), std::end(from), to);
}

int read_statistics(const peercache_client* client, peercache_statistics* statistics) {
  if (const int code = check_client(client))
    return code;
  if (statistics == nullptr)
    return refuse_argument("statistics", " is NULL");
  if (const int code = check_size(statistics->size, oldest_statistics, "statistics"))
    return code;
  const auto stats = client->cache->stats();
  peercache_statistics own = PEERCACHE_STATISTICS_INIT;
  own.size = statistics->size;
  own.directory_messages = stats.directory_messages;
  own.location_cache_hits = stats.location_cache_hits;
  own.retries = stats.retries;
  own.view_refreshes = stats.view_refreshes;
  own.set_bytes = stats.set_bytes;
  copy_counts(stats.set_pages, own.set_pages);
  copy_counts(stats.get_pages, own.get_pages);
  copy_counts(stats.exists_pages, own.exists_pages);
  copy_counts(stats.get_hits, own.get_hits);
  copy_counts(stats.get_bytes, own.get_bytes);
  give_struct(own, statistics, statistics->size);
  return PEERCACHE_OK;
}

} // namespace
} // namespace peercache::c_api

using namespace peercache;
using namespace peercache::c_api;

extern "C" {

int peercache_prefetch(peercache_client* client, const peercache_key* keys, size_t count) {
  return guarded([&]() -> int {
    std::vector<page_key> own;
    if (const int code = check_client(client))
      return code;
    if (const int code = take_keys(keys, count, own))
      return code;
    client->cache->prefetch(own);
    return PEERCACHE_OK;
  });
}

int peercache_flush(peercache_client* client, uint32_t deadline_ms, peercache_flushed* flushed) {
  return guarded([&] { return flush(client, deadline_ms, flushed); });
}

int peercache_locate(peercache_client* client, const peercache_key* keys, size_t count,
                     uint32_t deadline_ms, peercache_location* locations, size_t location_size,
                     uint32_t* found) {
  return guarded([&]() -> int {
    return locate(client, keys, count, deadline_ms, locations, location_size, found);
  });
}

int peercache_clear(peercache_client* client, peercache_text first_field, uint32_t deadline_ms) {
  return guarded([&] { return clear(client, first_field, deadline_ms); });
}

int peercache_read_statistics(const peercache_client* client, peercache_statistics* statistics) {
  return guarded([&] { return read_statistics(client, statistics); });
}

const char* peercache_code_text(int code) {
  switch (code) {
  case PEERCACHE_OK:
    return "ok";
  case PEERCACHE_UNCERTAIN:
    return "uncertain";
  case PEERCACHE_RUNNING:
    return "running";
  default:
    return code < PEERCACHE_INVALID_ARGUMENT || code > PEERCACHE_OUT_OF_SPACE
               ? "unknown"
               : to_string(static_cast<errc>(code)).data(); // Words are literals, so a zero byte
                                                            // ends them.
  }
}

const char* peercache_status_text(uint32_t status) {
  return status > PEERCACHE_STATUS_CLOSED ? "unknown"
                                          : to_string(static_cast<page_status>(status)).data();
}
}

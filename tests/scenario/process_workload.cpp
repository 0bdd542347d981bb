// The random calls of a node's clients, and their entries in the history.

#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

namespace peercache::scenario {
namespace {

constexpr std::size_t warm_up_puts = 5;
constexpr std::uint32_t short_page = 64;

} // namespace

void process::operate() {
  auto& world = cluster_.time();
  // A restarted engine puts the same pages as before, in the same order.
  if (warmed_ < warm_up_puts)
    return put(cluster_.key((host_.index * 5 + warmed_++) % cluster_.settings().keys), true);
  const auto& key = cluster_.key(world.below(cluster_.settings().keys));
  switch (world.below(16)) {
  case 0:
  case 1:
  case 2:
  case 3:
  case 4:
    return put(key, world.below(4) == 0);
  case 5:
    return remove(key);
  case 6:
  case 7:
    return exists(some_keys(), [](auto) {});
  default:
    std::vector<wanted_page> pages;
    for (const auto& wanted : world.below(4) == 0 ? some_keys() : std::vector{key})
      pages.push_back({wanted, length_for(wanted)});
    return get(pages, [](auto) {});
  }
}

/// Returns a page's length. Some pages take more than one granule, so one look meets several
/// writes. Nearly all calls agree on the length of a key.
std::uint32_t process::length_for(const page_key& key) {
  const bool is_long = key.prefix() % 8 == 0;
  const bool is_other = cluster_.time().below(16) == 0;
  return is_long != is_other ? static_cast<std::uint32_t>(limits::granule_bytes) + short_page
                             : short_page;
}

/// Returns one to eight consecutive keys, as an engine asks for the pages of a prefix: many keys at
/// once, of different owners.
std::vector<page_key> process::some_keys() {
  auto& world = cluster_.time();
  const auto first = world.below(cluster_.settings().keys);
  const auto count = 1 + world.below(8);
  std::vector<page_key> keys;
  for (std::uint64_t i = 0; i < count; ++i)
    keys.push_back(cluster_.key((first + i) % cluster_.settings().keys));
  return keys;
}

void process::record_hold(const page_key& key, std::span<const std::byte> bytes) const {
  if (auto* record = cluster_.record())
    record->hold(cluster_.time().now(), to_string(inc_), key, bytes);
}

tests::history::call_number process::record_ask(time_point until, std::string_view kind) const {
  auto* record = cluster_.record();
  return record != nullptr ? record->ask(cluster_.time().now(), until, to_string(inc_), kind) : 0;
}

void process::record_return(tests::history::call_number call) const {
  if (auto* record = cluster_.record())
    record->returned(call, cluster_.time().now());
}

} // namespace peercache::scenario

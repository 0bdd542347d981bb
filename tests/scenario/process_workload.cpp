// Draws and begins the random calls of a node's clients.

#include "tests/scenario/client_call.hpp"
#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

#include <utility>

namespace peercache::scenario {
namespace {

constexpr std::size_t warm_up_puts = 5;
constexpr std::uint32_t short_page = 64;

} // namespace

void process::operate() {
  auto& world = cluster_.time();
  // The first puts after a start are not random: a restarted engine puts the same pages as before,
  // in the same order.
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

void process::exists(std::vector<page_key> keys, keys_looked_up done) {
  const auto until = cluster_.time().now() + call_limit;
  const auto call = record_ask(until, "exists");
  look_up(std::move(keys), until, [this, call, done = std::move(done)](const auto& told) {
    record_return(call);
    done(told);
  });
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

} // namespace peercache::scenario

#include "stress_plan.hpp"

#include "common/limits.hpp"

#include <CLI/CLI.hpp>
#include <array>

namespace peercache::stress {

namespace {

std::uint64_t mixed(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  return x ^ x >> 33;
}

void small_equal_pages(stress_plan& plan) {
  plan.page_bytes = 8192;
  plan.keys = 8'000;
  plan.verify = verify_mode::off;
}

void generation_profile(stress_plan& plan) {
  small_equal_pages(plan);
  plan.guards_off = {"key"};
}

/// Profile of the guard `incarnation`. Readers hear late of a node's death and remember where its
/// pages were, while the restarted process fills the same slots in about the same order. So only
/// the incarnation tells an old location from a new one.
void incarnation_profile(stress_plan& plan) {
  small_equal_pages(plan);
  plan.guards_off = {"key"};
  // With this many keys nothing is evicted and hardly a page is a duplicate, so in each process the
  // n-th page lies in the n-th slot.
  plan.keys = 1'000'000;
  plan.rewrites_percent = 0;
  plan.pool_share = 0.05;
  // Each put is followed by a flush, so that two puts are never published in one batch.
  plan.puts_per_flush = 1;
  plan.pages_per_call = 8; // Pages of one call are published from last to first.
  plan.readers_rest_at_kills = true;
  plan.faults = {{"PEERCACHE_TEST_VIEWS_LATE_MS", "4000"}};
  plan.kill_every = std::chrono::milliseconds(600);
}

void checksum_profile(stress_plan& plan) {
  plan.kill_every = std::chrono::milliseconds(0);
  plan.faults = {{"PEERCACHE_TEST_FLIP_ONE_IN", "50"}};
}

void key_profile(stress_plan& plan) {
  small_equal_pages(plan);
  plan.faults = {{"PEERCACHE_TEST_SWAP_LOCATIONS_ONE_IN", "10"}};
}

/// Profile of the guard `pin`. Page servers answer slowly: the pool is filled anew several times
/// before the last byte is sent. Less would not do, because a page that was read lately is not the
/// next to be evicted.
void pin_profile(stress_plan& plan) {
  small_equal_pages(plan);
  plan.page_bytes = 65536;
  plan.pages_per_call = 4;
  plan.keys = 4'000;
  plan.faults = {{"PEERCACHE_TEST_SEND_CHUNK_BYTES", "16384"},
                 {"PEERCACHE_TEST_SEND_PAUSE_US", "20000"}};
}

} // namespace

std::uint32_t page_bytes_of(const stress_plan& plan, std::uint32_t key) {
  if (plan.page_bytes != 0)
    return plan.page_bytes;
  constexpr std::array<std::uint32_t, 8> sizes = {4096, 4096,  6000,  8192,
                                                  8192, 16384, 32768, 65536};
  return sizes[mixed(key + 1) % sizes.size()];
}

std::uint64_t working_set_bytes(const stress_plan& plan) {
  std::uint64_t bytes = 0;
  for (std::uint32_t key = 0; key < plan.keys; ++key)
    bytes += page_bytes_of(plan, key);
  return bytes;
}

std::uint64_t pool_bytes_per_node(const stress_plan& plan) {
  constexpr std::uint64_t least = 1u << 20; // The smallest pool that a node accepts.
  auto share = static_cast<double>(working_set_bytes(plan)) * plan.pool_share / plan.nodes;
  auto granules = static_cast<std::uint64_t>(share) / limits::granule_bytes;
  return std::max(least, granules * limits::granule_bytes);
}

result<void> apply_guard_profile(stress_plan& plan, const std::string& guard, bool off) {
  plan.guard = guard;
  plan.stop_at_wrong_bytes = true;
  plan.seconds_max = std::chrono::seconds(60);
  plan.ops = UINT64_MAX;
  if (guard == "generation")
    generation_profile(plan);
  else if (guard == "incarnation")
    incarnation_profile(plan);
  else if (guard == "checksum")
    checksum_profile(plan);
  else if (guard == "key")
    key_profile(plan);
  else if (guard == "pin")
    pin_profile(plan);
  else
    return {errc::invalid_argument,
            "there is no guard '" + guard + "': generation, incarnation, checksum, key or pin"};
  if (off)
    plan.guards_off.push_back(guard);
  return {};
}

result<stress_plan> parse_plan(int argc, char** argv) {
  stress_plan plan;
  std::string without;
  std::string control;
  std::uint64_t seconds = 0;
  CLI::App app("Real nodes under load, eviction and kill -9; every byte that is got is compared.",
               "stress");
  app.add_option("--ops", plan.ops, "Pages put, got or removed until the end");
  app.add_option("--seed", plan.seed, "What differs between two runs besides the machine's mood");
  app.add_option("--seconds", seconds, "End after so many seconds at the latest");
  auto* no_guard =
      app.add_option("--without", without, "Switch one guard off, and find wrong bytes");
  app.add_option("--control", control, "The same run with the guard on: no wrong bytes")
      ->excludes(no_guard);
  app.add_option("--node-program", plan.node_program, "Path of peercache-node")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    return {errc::invalid_argument, wrong.what()};
  }
  auto guard = without.empty() ? control : without;
  if (!guard.empty())
    if (auto applied = apply_guard_profile(plan, guard, !without.empty()); !applied)
      return applied.error();
  if (seconds != 0)
    plan.seconds_max = std::chrono::seconds(seconds);
  return plan;
}

} // namespace peercache::stress

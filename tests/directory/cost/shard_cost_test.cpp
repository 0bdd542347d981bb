// Compares memory and time of a shard with a million keys with those of a plain map. Sanitizers and
// unoptimized builds change both, so this test runs in the build that users have.

#include "directory/shard_batch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace peercache::directory {
namespace {

constexpr incarnation producer{7, 7};
constexpr std::size_t million = 1'000'000;
constexpr std::size_t batch_keys = 128;
constexpr page_location somewhere{.node = {producer.low},
                                  .holder = producer,
                                  .gen = {2},
                                  .checksum = 2,
                                  .slot = {2},
                                  .length_bytes = 65536};

std::vector<page_key> random_keys(std::size_t count) {
  std::mt19937_64 random(1);
  std::vector<page_key> keys(count);
  for (auto& key : keys)
    for (std::size_t i = 0; i < key.bytes.size(); i += 8) {
      auto word = random();
      std::memcpy(key.bytes.data() + i, &word, 8);
    }
  return keys;
}

shard shard_of(const std::vector<page_key>& keys) {
  shard s;
  s.set_members(std::array{producer});
  for (const auto& key : keys)
    EXPECT_EQ(s.publish(key, somewhere, publish_mode::always), publish_outcome::accepted);
  return s;
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

constexpr std::size_t rounds = 2000;

/// Returns the time of one call of `once(round)`, in microseconds. `once` must return a value that
/// depends on its work, so that the compiler cannot leave the work out.
template <class Once>
double time_of(Once&& once, std::size_t round) {
  auto start = std::chrono::steady_clock::now();
  auto seen = once(round);
  auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GT(seen, 0u);
  return std::chrono::duration<double, std::micro>(took).count();
}

/// Returns the median times of `ours` and of `theirs` over many rounds, in which they alternate, so
/// that other load on the machine slows both alike.
template <class Ours, class Theirs>
std::pair<double, double> median_times(Ours&& ours, Theirs&& theirs) {
  std::vector<double> first;
  std::vector<double> second;
  for (std::size_t round = 0; round < rounds; ++round) {
    first.push_back(time_of(ours, round));
    second.push_back(time_of(theirs, round));
  }
  auto median = [](std::vector<double>& times) {
    std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
    return times[rounds / 2];
  };
  return {median(first), median(second)};
}

struct prefix_hash {
  std::size_t operator()(const page_key& key) const noexcept { return key.prefix(); }
};

TEST(shard_cost, a_record_takes_at_most_160_bytes_at_a_million_keys) {
  auto keys = random_keys(million);
  auto before = resident_bytes();
  auto s = shard_of(keys);
  auto counted = s.bytes() / million;
  auto resident = (resident_bytes() - before) / million;
  std::printf("[ measured ] bytes a record: counted %zu, resident %zu\n", counted, resident);
  EXPECT_LE(counted, 100u);
  EXPECT_LE(resident, 160u);
}

TEST(shard_cost, a_batch_of_128_keys_costs_little_more_than_look_ups_in_a_map) {
  auto keys = random_keys(million);
  auto s = shard_of(keys);
  std::unordered_map<page_key, page_location, prefix_hash> map;
  for (const auto& key : keys)
    map.emplace(key, somewhere);
  std::vector<std::vector<page_key>> wanted(rounds);
  std::vector<std::string> requests(wanted.size());
  for (std::size_t r = 0; r < wanted.size(); ++r)
    for (std::size_t i = 0; i < batch_keys; ++i) {
      wanted[r].push_back(keys[(r * 7919 + i * 104'729) % keys.size()]);
      append_lookup(requests[r], wanted[r].back());
    }
  for (bool hot : {true, false}) {
    auto which = [&](std::size_t round) { return hot ? 0 : round; };
    auto look_up = [&](std::size_t round) {
      auto answer = lookup_batch(s, requests[which(round)]);
      return answer ? answer->size() : 0;
    };
    std::vector<page_location> found(batch_keys);
    auto look_into_map = [&](std::size_t round) {
      for (std::size_t i = 0; i < batch_keys; ++i)
        found[i] = map.find(wanted[which(round)][i])->second;
      return found.size();
    };
    const auto [ours, maps] = median_times(look_up, look_into_map);
    std::printf("[ measured ] 128 %s keys of a million: %.1f us, a map %.1f us, ratio %.2f\n",
                hot ? "hot" : "cold", ours, maps, ours / maps);
    EXPECT_LT(ours, 6 * maps);
  }
}

} // namespace
} // namespace peercache::directory

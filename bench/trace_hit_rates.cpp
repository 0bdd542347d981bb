// Do our eviction policies reach the reference hit rates on a real trace? One global cache; a hit
// is a page within the leading run of its request that is in the cache (trace_replay.hpp).
//   peercache_trace_hit_rates [TRACE.jsonl]     without a trace: the built-in generator, no
//   reference
#include "bench/trace_generator.hpp"
#include "bench/trace_replay.hpp"
#include "common/page_key.hpp"
#include "storage/adaptive_policy.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

namespace {

using namespace peercache;

constexpr std::uint32_t page_bytes = 16 << 10;
constexpr std::uint32_t granules_per_page = page_bytes / limits::granule_bytes;

struct reference_row {
  unsigned percent;
  double lru, s3fifo; ///< Hit rates in % when a request's pages are touched last to first.
};
constexpr reference_row reference[] = {
    {2, 7.93, 11.44}, {5, 19.58, 19.48}, {10, 27.89, 24.45}, {25, 35.35, 33.38}};
constexpr double tolerance_points = 0.3;
constexpr double automatic_tolerance_points = 1.5;

/// A cache of the pool's eviction policy: the policy is in charge of slots, and a victim's slot is
/// given to the next page, as in a pool.
class policy_cache {
public:
  policy_cache(storage::eviction_policy& policy, const std::vector<page_key>& keys,
               std::uint64_t capacity_pages)
      : policy_(policy), keys_(keys), slot_of_(keys.size()), page_in_(capacity_pages) {}

  bool contains(std::uint64_t page) const { return slot_of_[page].has_value(); }

  void use(std::uint64_t page) {
    if (slot_of_[page]) {
      policy_.touch(*slot_of_[page]);
      return;
    }
    const slot_id slot = used_ < page_in_.size()
                             ? slot_id{static_cast<std::uint32_t>(used_++ * granules_per_page)}
                             : evict();
    policy_.insert(slot, keys_[page], page_bytes);
    slot_of_[page] = slot;
    page_in_[slot.value / granules_per_page] = page;
  }

private:
  slot_id evict() {
    const auto slot = policy_.victim();
    PEERCACHE_ASSERT(slot.has_value());
    slot_of_[page_in_[slot->value / granules_per_page]].reset();
    return *slot;
  }

  storage::eviction_policy& policy_;
  const std::vector<page_key>& keys_;
  /// The slot of each page; empty while the page is not cached.
  std::vector<std::optional<slot_id>> slot_of_;
  std::vector<std::uint64_t> page_in_; ///< The page that each slot holds.
  std::size_t used_ = 0;
};

struct outcome {
  double percent = 0;
  double ns_per_reference = 0;
  double bytes_per_page = 0;
};

template <class Policy>
outcome measure(Policy policy, const std::vector<bench::trace_request>& requests,
                const std::vector<page_key>& keys, std::uint64_t capacity_pages) {
  policy_cache cache(policy, keys, capacity_pages);
  const auto start = std::chrono::steady_clock::now();
  const bench::hit_count count = bench::replay(requests, cache);
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  return {100 * count.rate(), elapsed.count() / static_cast<double>(count.references),
          static_cast<double>(policy.memory_bytes()) / static_cast<double>(capacity_pages)};
}

/// Prints one row of the table and returns whether its hit rates are within the tolerances.
/// `expected` is null for a generated trace.
bool print_row(unsigned percent, const reference_row* expected,
               const std::vector<bench::trace_request>& requests,
               const std::vector<page_key>& keys) {
  const std::uint64_t capacity_pages = std::max<std::uint64_t>(1, keys.size() * percent / 100);
  const std::uint64_t capacity_bytes = capacity_pages * page_bytes;
  const outcome lru = measure(storage::lru{}, requests, keys, capacity_pages);
  const outcome s3fifo = measure(storage::s3fifo{capacity_bytes}, requests, keys, capacity_pages);
  const outcome automatic =
      measure(storage::adaptive_policy{capacity_bytes}, requests, keys, capacity_pages);
  std::printf("%3u %%  ", percent);
  for (const auto& [got, want] : {std::pair(lru, expected ? expected->lru : NAN),
                                  std::pair(s3fifo, expected ? expected->s3fifo : NAN),
                                  std::pair(automatic, std::max(lru.percent, s3fifo.percent))}) {
    std::printf("| %5.2f %% (%5.2f) %4.0f ns %5.1f B ", got.percent, want, got.ns_per_reference,
                got.bytes_per_page);
  }
  std::printf("\n");
  const bool automatic_is_good =
      automatic.percent >= std::max(lru.percent, s3fifo.percent) - automatic_tolerance_points;
  return automatic_is_good &&
         (expected == nullptr || (std::abs(lru.percent - expected->lru) <= tolerance_points &&
                                  std::abs(s3fifo.percent - expected->s3fifo) <= tolerance_points));
}

} // namespace

int main(int argument_count, char** arguments) {
  std::vector<bench::trace_request> requests;
  if (argument_count > 1) {
    auto loaded = bench::load_trace(arguments[1]);
    if (!loaded) {
      std::fprintf(stderr, "%s\n", to_string(loaded.error()).c_str());
      return 1;
    }
    requests = bench::with_dense_ids(*std::move(loaded));
  } else {
    requests = bench::generate_trace({});
  }
  const std::size_t pages = bench::distinct_pages_in(requests);
  const key_space space;
  std::vector<page_key> keys;
  for (std::size_t page = 0; page < pages; ++page) {
    keys.push_back(space.key_of(std::to_string(page)));
  }
  std::printf("%zu requests, %zu references, %zu pages, unlimited %.2f %%\n", requests.size(),
              bench::references_in(requests), pages,
              100 * bench::simulate_unlimited(requests).rate());
  std::printf(
      "hit rate (expected; for auto the better one), time a reference, memory a page\n"
      "capacity| LRU                             | S3-FIFO                         | auto\n");
  bool good = true;
  for (const reference_row& row : reference) {
    good = print_row(row.percent, argument_count > 1 ? &row : nullptr, requests, keys) && good;
  }
  std::printf("%s\n", good ? "within the tolerances" : "OUTSIDE THE TOLERANCES");
  return good ? 0 : 1;
}

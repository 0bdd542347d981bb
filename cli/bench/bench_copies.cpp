#include "cli/bench/bench_setup.hpp"

#include <algorithm>
#include <optional>

namespace peercache::cli {

namespace {

constexpr std::size_t copy_batch = 32;

struct copy_case {
  std::size_t page_bytes;
  bool verify;
  double target;
};

// The targets for `set` and `get` are ratios to libc's memcpy of the same pages. From 1 MiB on a
// ratio above 1 is possible, because streaming stores write each byte once, while memcpy of this
// size reads the destination first on most machines.
constexpr copy_case copy_cases[] = {{1u << 20, true, 1.0},   {1u << 20, false, 1.25},
                                    {4u << 20, true, 1.0},   {4u << 20, false, 1.25},
                                    {64u << 10, true, 0.85}, {64u << 10, false, 0.85}};

std::size_t batches_in(const bench_options& options, std::size_t batch_bytes) {
  return std::max<std::size_t>(1, options.round_bytes / batch_bytes);
}

/// Returns a function that measures the limit of sets and gets: libc's memcpy of the same pages.
auto libc_copy(page_walk& from, page_walk& to, std::size_t batches, std::size_t batch_bytes) {
  return [&from, &to, batches, batch_bytes] {
    return timed_calls(batches, static_cast<double>(batch_bytes), [&]() -> result<void> {
      bench::copy_pages_with_libc(from.next(), to.next());
      return {};
    });
  };
}

result<void> set_batch(client::cache_client& client, std::span<const page_key> keys,
                       std::span<const std::span<std::byte>> sources) {
  std::vector<client::const_part> parts;
  std::vector<client::set_page> pages;
  parts.reserve(keys.size());
  pages.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    parts.push_back({sources[i].data(), static_cast<std::uint32_t>(sources[i].size())});
    pages.push_back({keys[i], {&parts[i], 1}});
  }
  std::vector<client::page_result> results(keys.size());
  client.set(pages, results);
  return all_are(results, page_status::stored, "set");
}

/// Sets of this many pages each.
struct set_case {
  const char* name;
  std::size_t page_bytes;
  std::size_t batch;
  std::optional<double> target;
};

/// Measures sets of new keys only, so that the pool is full and evicts, as it does in service. The
/// time until all pages are published counts.
result<void> bench_set(bench_setup& setup, const set_case& what, std::vector<bench_row>& rows) {
  auto client = setup.connect(0, {});
  if (!client)
    return client.error();
  page_walk sources(setup.own_memory(), what.page_bytes, what.batch);
  page_walk copies(setup.pool_like_memory(), what.page_bytes, what.batch);
  const auto batch_bytes = what.page_bytes * what.batch;
  const auto batches = batches_in(setup.options(), batch_bytes);
  auto set = [&](std::span<const page_key> keys) -> result<bench::round_sample> {
    std::size_t next = 0;
    auto begin = bench::clock::now();
    auto sample = timed_calls(batches, static_cast<double>(batch_bytes), [&] {
      auto some = keys.subspan(next, what.batch);
      next += what.batch;
      return set_batch(**client, some, sources.next());
    });
    auto unpublished = (*client)->flush();
    if (!unpublished)
      return unpublished.error();
    if (sample)
      sample->seconds = bench::seconds_between(begin, bench::clock::now());
    return sample;
  };
  const auto new_keys = [&] { return setup.fresh_keys(batches * what.batch); };
  bench_row row{.name = what.name,
                .page_bytes = what.page_bytes,
                .batch = what.batch,
                .verify = true,
                .target = what.target};
  if (auto measured = measure(
          row, setup.options().rounds, [&] { return set(new_keys()); },
          libc_copy(sources, copies, batches, batch_bytes));
      !measured)
    return measured;
  if (what.batch == 1) {
    const auto cost = cost_of_calls(setup.callers_and_nodes(), batches,
                                    [&, keys = new_keys()] { return set(keys); });
    if (!cost)
      return cost.error();
    row.call = *cost;
  }
  rows.push_back(std::move(row));
  return {};
}

result<void> bench_get(bench_setup& setup, const copy_case& what, std::span<const page_key> keys,
                       std::vector<bench_row>& rows) {
  client::client_options options;
  options.verify_own_host = what.verify ? verify_mode::always : verify_mode::off;
  auto client = setup.connect(0, options);
  if (!client)
    return client.error();
  page_walk sources(setup.pool_like_memory(), what.page_bytes, copy_batch);
  page_walk copies(setup.own_memory(), what.page_bytes, copy_batch);
  const auto batch_bytes = what.page_bytes * copy_batch;
  const auto batches = batches_in(setup.options(), batch_bytes);
  std::size_t next = 0;
  auto get = [&] {
    return timed_calls(batches, static_cast<double>(batch_bytes), [&] {
      next = next + copy_batch > keys.size() ? 0 : next;
      auto some = keys.subspan(next, copy_batch);
      next += copy_batch;
      return get_pages(**client, some, copies.next());
    });
  };
  bench_row row{.name = "get_same_host",
                .page_bytes = what.page_bytes,
                .batch = copy_batch,
                .verify = what.verify,
                .target = what.target};
  auto measured =
      measure(row, setup.options().rounds, get, libc_copy(sources, copies, batches, batch_bytes));
  rows.push_back(std::move(row));
  return measured;
}

} // namespace

result<void> bench_sets(bench_setup& setup, std::size_t page_bytes, std::vector<bench_row>& rows) {
  // Only cases without `verify` are measured: a set computes the checksum while it copies, and its
  // target is the speed of a copy without one.
  for (const auto& what : copy_cases)
    if (what.page_bytes == page_bytes && !what.verify)
      if (auto done = bench_set(setup, {"set", page_bytes, copy_batch, what.target}, rows); !done)
        return done;
  return {};
}

result<void> bench_single_sets(bench_setup& setup, std::vector<bench_row>& rows) {
  return bench_set(setup, {"set_one", 64u << 10, 1, std::nullopt}, rows);
}

result<void> bench_gets(bench_setup& setup, std::size_t page_bytes, std::vector<bench_row>& rows) {
  auto producer = setup.connect(0, {});
  if (!producer)
    return producer.error();
  // The stored pages take at most half of the pool, so that nothing is evicted between storing and
  // reading.
  auto bytes = std::min(setup.options().memory_bytes, setup.options().pool_bytes / 2);
  auto keys = setup.fresh_keys(bytes / page_bytes / copy_batch * copy_batch);
  if (auto stored = store_pages(**producer, keys, setup.own_memory(), page_bytes); !stored)
    return stored;
  for (const auto& what : copy_cases)
    if (what.page_bytes == page_bytes)
      if (auto done = bench_get(setup, what, keys, rows); !done)
        return done;
  return {};
}

} // namespace peercache::cli

#include "cli/bench/bench_setup.hpp"

#include <algorithm>
#include <utility>

namespace peercache::cli {

namespace {

constexpr std::size_t large_read_bytes = 1u << 20;
constexpr std::size_t small_read_bytes = 64u << 10;
constexpr std::size_t read_batch = 32;
/// About as many bytes as naming one page takes: key, slot, generation, length.
constexpr std::uint32_t request_bytes_per_page = 56;

/// Pages that a client of the other host stored in that host's pool.
struct remote_pages {
  std::size_t page_bytes = 0;
  std::vector<page_key> keys;
};

result<remote_pages> store_on_other_host(bench_setup& setup, client::cache_client& producer,
                                         std::size_t page_bytes) {
  // Large pages take half of the pool, small ones a quarter.
  const std::uint64_t share = page_bytes == large_read_bytes ? 2 : 4;
  auto bytes = std::min(setup.options().memory_bytes, setup.options().pool_bytes / share);
  auto keys = setup.fresh_keys_of_other_host(bytes / page_bytes / read_batch * read_batch);
  if (!keys)
    return keys.error();
  remote_pages pages{page_bytes, std::move(*keys)};
  if (auto stored = store_pages(producer, pages.keys, setup.own_memory(), page_bytes); !stored)
    return stored.error();
  return pages;
}

client::client_options reader_options(bool verify, bool cached) {
  client::client_options options;
  options.verify_tcp = verify ? verify_mode::always : verify_mode::off;
  if (!cached)
    options.location_cache_keys = 0;
  return options;
}

/// Asks for all keys once, so that a client with a location cache knows every location before the
/// first round.
result<void> warm_locations(client::cache_client& client, std::span<const page_key> keys) {
  std::vector<client::page_result> results(keys.size());
  client.exists(keys, results);
  return all_are(results, page_status::hit, "exists");
}

struct read_case {
  const char* name;
  std::size_t page_bytes;
  std::size_t batch;
  bool verify;
  bool cached;
  ratio_kind kind;
  double target;
};

constexpr read_case read_cases[] = {
    {"get_other_host", large_read_bytes, read_batch, false, true, ratio_kind::throughput, 0.9},
    {"get_other_host", large_read_bytes, read_batch, true, true, ratio_kind::throughput, 0.75},
    {"get_other_host_cached_location", large_read_bytes, 1, false, true, ratio_kind::latency, 1.3},
    {"get_other_host_cached_location", large_read_bytes, 1, true, true, ratio_kind::latency, 1.3},
    {"get_other_host_directory_lookup", large_read_bytes, 1, false, false, ratio_kind::latency,
     1.8},
    {"get_other_host_directory_lookup", large_read_bytes, 1, true, false, ratio_kind::latency, 1.8},
    {"get_other_host_directory_lookup", small_read_bytes, 1, true, false, ratio_kind::latency, 1.5},
    {"get_other_host_directory_lookup", small_read_bytes, read_batch, true, false,
     ratio_kind::throughput, 0.9},
};

result<void> bench_read(bench_setup& setup, const remote_pages& stored, const read_case& what,
                        std::vector<bench_row>& rows) {
  auto client = setup.connect(0, reader_options(what.verify, what.cached));
  if (!client)
    return client.error();
  auto raw = setup.connect_raw();
  if (!raw)
    return raw.error();
  if (auto warm = warm_locations(**client, stored.keys); !warm)
    return warm;
  page_walk destinations(setup.own_memory(), what.page_bytes, what.batch);
  auto calls =
      what.batch == 1
          ? setup.options().calls
          : std::max<std::size_t>(1, setup.options().round_bytes / (what.page_bytes * read_batch));
  auto units = static_cast<double>(what.page_bytes * what.batch);
  std::size_t next = 0;
  auto get = [&] {
    return timed_calls(calls, units, [&] {
      next = next + what.batch > stored.keys.size() ? 0 : next;
      auto some = std::span<const page_key>(stored.keys).subspan(next, what.batch);
      next += what.batch;
      return get_pages(**client, some, destinations.next());
    });
  };
  auto exchange = [&] {
    return timed_calls(calls, units, [&] {
      return raw->exchange(static_cast<std::uint32_t>(what.batch) * request_bytes_per_page,
                           destinations.next());
    });
  };
  setup.pin(pinning::apart);
  bench_row row{.name = what.name,
                .page_bytes = what.page_bytes,
                .batch = what.batch,
                .verify = what.verify,
                .kind = what.kind,
                .target = what.target};
  const lookup_count asked(**client);
  const auto measured = measure(row, setup.options().rounds, get, exchange);
  setup.pin(pinning::none);
  if (!measured)
    return measured;
  if (auto noted = asked.note(row); !noted)
    return noted;
  rows.push_back(std::move(row));
  return {};
}

} // namespace

result<void> bench_network(bench_setup& setup, std::vector<bench_row>& rows) {
  // The client that stores the pages: its session stays open.
  auto producer = setup.connect(1, {});
  if (!producer)
    return producer.error();
  for (auto page_bytes : {large_read_bytes, small_read_bytes}) {
    auto stored = store_on_other_host(setup, **producer, page_bytes);
    if (!stored)
      return stored.error();
    for (const auto& what : read_cases)
      if (what.page_bytes == page_bytes && setup.options().wants(what.name))
        if (auto done = bench_read(setup, *stored, what, rows); !done)
          return done;
  }
  return {};
}

} // namespace peercache::cli

// Measures gets of pages that are on another host's disk. A page goes two ways: from that disk into
// the memory of its host, and from that memory to this host. The limit of such gets is measured
// with our own calls for each way: many pages at a time are compared with the slower way, one page
// at a time with both ways in a row. So the ratio says what is lost where the two ways meet; `bench
// disk` and the row get_other_host say how near each way is to this machine's limit.

#include "cli/bench/bench_setup.hpp"
#include "client/admin_client.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <thread>

namespace peercache::cli {

namespace {

using bench::round_sample;

constexpr const char* row_name = "get_other_host_disk";
constexpr std::size_t page_bytes = 1u << 20;
constexpr std::size_t large_batch = 32;
constexpr std::size_t calls_of_large = 4, calls_of_one = 32;
/// Bytes of the pages on disk per byte of the pool: so many that a page has left the pool again
/// when it is asked for the next time.
constexpr std::size_t pools_on_disk = 3;
/// Pages that are set before the bench waits until the disk has written them.
constexpr std::size_t set_ahead = 64;
constexpr std::chrono::seconds patience{60};

/// Pages of the other host that are read in turn, so that each is on its disk when it is asked for.
class cold_pages {
public:
  explicit cold_pages(std::vector<page_key> keys) : keys_(std::move(keys)) {}

  std::span<const page_key> keys() const { return keys_; }
  std::span<const page_key> next(std::size_t count) {
    next_ = next_ + count > keys_.size() ? 0 : next_;
    next_ += count;
    return std::span<const page_key>(keys_).subspan(next_ - count, count);
  }

private:
  std::vector<page_key> keys_;
  std::size_t next_ = 0;
};

/// Waits until the pages that were set at the other host are on its disk.
result<void> wait_for_disk(client::admin_client& node) {
  const auto deadline = bench::clock::now() + patience;
  for (;;) {
    const auto status = node.status();
    if (!status)
      return status.error();
    if (status->count(metrics::metric::disk_queue_bytes) == 0)
      return {};
    if (bench::clock::now() > deadline)
      return {errc::timed_out, "the disk does not write what was set"};
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

result<void> store_on_disk(bench_setup& setup, client::cache_client& producer,
                           std::span<const page_key> keys) {
  auto node = client::admin_client::connect("127.0.0.1", setup.control_port(1), setup.cluster(),
                                            patience, setup.tls(1));
  if (!node)
    return node.error();
  for (std::size_t first = 0; first < keys.size(); first += set_ahead) {
    const auto some = keys.subspan(first, std::min(set_ahead, keys.size() - first));
    if (auto stored = store_pages(producer, some, setup.own_memory(), page_bytes); !stored)
      return stored;
    if (auto written = wait_for_disk(**node); !written)
      return written;
  }
  return {};
}

/// The two clients that read, and what is read.
struct readers {
  client::cache_client& here;
  client::cache_client& there; ///< A client of the host that has the pages.
  cold_pages& pages;
  page_walk& destinations;
  std::size_t batch;
  std::size_t calls;
  double units() const { return static_cast<double>(page_bytes * batch); }
};

/// Runs `calls` calls of `client` for pages that are on disk. Errors: more than one page in twenty
/// came from memory.
template <class Call>
result<round_sample> from_disk(const readers& by, client::cache_client& client, Call&& call) {
  const auto count = [&client] {
    return client.stats().get_hits[static_cast<std::size_t>(page_origin::disk)];
  };
  const auto wanted = by.calls * by.batch;
  const auto before = count();
  auto sample = timed_calls(by.calls, by.units(), call);
  if (const auto came = count() - before; sample && came < wanted * 19 / 20)
    return {errc::refused,
            fmt::format("{} of {} pages came from disk: the others were in memory", came, wanted)};
  return sample;
}

result<round_sample> read_cold(readers& by) {
  return from_disk(by, by.here, [&] {
    return get_pages(by.here, by.pages.next(by.batch), by.destinations.next());
  });
}

/// Measures both ways one after the other and returns the slower: pages from the other host's disk
/// into its memory, then the same pages from that memory to this host.
result<round_sample> slower_way(readers& by) {
  std::vector<std::span<const page_key>> read;
  auto tier = from_disk(by, by.there, [&] {
    read.push_back(by.pages.next(by.batch));
    return get_pages(by.there, read.back(), by.destinations.next());
  });
  if (!tier)
    return tier;
  auto next = read.begin();
  auto wire = timed_calls(by.calls, by.units(),
                          [&] { return get_pages(by.here, *next++, by.destinations.next()); });
  return wire && wire->seconds < tier->seconds ? tier : wire;
}

/// Measures both ways in a row: from the other host's disk into its memory, then to this host.
result<round_sample> both_ways(readers& by) {
  return from_disk(by, by.there, [&]() -> result<void> {
    const auto page = by.pages.next(by.batch);
    if (auto promoted = get_pages(by.there, page, by.destinations.next()); !promoted)
      return promoted;
    return get_pages(by.here, page, by.destinations.next());
  });
}

} // namespace

result<void> bench_other_host_disk(bench_setup& setup, std::vector<bench_row>& rows) {
  auto here = setup.connect(0, {}), there = setup.connect(1, {});
  if (!here)
    return here.error();
  if (!there)
    return there.error();
  cold_pages pages(setup.fresh_keys(pools_on_disk * setup.options().pool_bytes / page_bytes));
  if (auto stored = store_on_disk(setup, **there, pages.keys()); !stored)
    return stored;
  for (const auto batch : {large_batch, std::size_t{1}}) {
    const bool one = batch == 1;
    page_walk destinations(setup.own_memory(), page_bytes, batch);
    readers by{**here, **there, pages, destinations, batch, one ? calls_of_one : calls_of_large};
    bench_row row{.name = row_name,
                  .page_bytes = page_bytes,
                  .batch = batch,
                  .verify = true,
                  .kind = one ? ratio_kind::latency : ratio_kind::throughput,
                  .target = one ? 1.2 : 0.7};
    auto measured = measure(
        row, setup.options().rounds, [&] { return read_cold(by); },
        [&] { return one ? both_ways(by) : slower_way(by); });
    if (!measured)
      return measured;
    rows.push_back(std::move(row));
  }
  return {};
}

} // namespace peercache::cli

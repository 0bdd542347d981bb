// How many READs can one core post and reap, on a host with eight rails?
//
// The data plane, its channels and the verbs layer are the real ones; below `ibv_post_send` and
// `ibv_poll_cq` is the tests' fake provider, which moves no byte and completes READs at each rail's
// rate. One thread polls the data planes of all rails. Pages end as misses, as there are no bytes
// that could be right; until then they cost as much as hits.

#include "common/assert.hpp"
#include "common/slot_entry.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/page_source.hpp"
#include "rdma/tcp/tcp_page_server.hpp"
#include "rdma/verbs/verbs_rail_server.hpp"
#include "rdma/verbs/verbs_transport.hpp"
#include "tests/support/fake_verbs/fake_verbs.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <vector>

namespace peercache {
namespace {

using rdma::clock;

constexpr std::uint32_t rails = 8;
constexpr std::uint32_t batches_per_rail = 2;
constexpr std::size_t memory_bytes = std::size_t{1} << 30;
constexpr std::uint32_t granules = memory_bytes / limits::granule_bytes;
constexpr incarnation life{1, 1};
constexpr double goal_bytes_per_second = 400e9;
constexpr double real_rail = 50e9;    ///< Bytes per second of one rail.
constexpr double endless_rail = 1e15; ///< Bytes per second of a rail that never limits the core.

/// Reserves addresses; no byte of them is ever read or written.
std::span<std::byte> reserve(std::size_t bytes) {
  auto* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PEERCACHE_ASSERT(mapped != MAP_FAILED);
  return {static_cast<std::byte*>(mapped), bytes};
}

template <class T>
T must(result<T> made) {
  if (!made) {
    std::fprintf(stderr, "posting_rate: %s\n", to_string(made.error()).c_str());
    std::exit(1);
  }
  return std::move(*made);
}

class no_pages final : public rdma::page_source {
public:
  page_status pin(slot_id, generation, const page_key&, std::uint32_t,
                  std::span<const std::byte>&) override {
    return page_status::stale;
  }
  void unpin(slot_id) override {}
};

/// The host that serves the pages: a fake device for each rail, and the port for handshakes.
struct serving_host {
  serving_host() {
    rdma::tcp_page_server_options door_options;
    door_options.cluster = "bench";
    door_options.inc = life;
    door_options.on_verbs_hello = [this](net::stream_socket socket, const rdma::verbs_hello& hello,
                                         auto came_at) {
      servers.at(hello.rail)->accept(std::move(socket), hello, came_at);
    };
    door = must(rdma::tcp_page_server::listen(door_options, nothing));
    const auto region = reserve(memory_bytes + granules * sizeof(slot_entry));
    const rdma::served_region pool{region, region.data() + granules * sizeof(slot_entry), granules};
    for (std::uint32_t rail = 0; rail < rails; ++rail) {
      rdma::verbs_server_options options;
      options.cluster = "bench";
      options.inc = life;
      options.node = "serving";
      options.rail = static_cast<std::uint8_t>(rail);
      options.rails = rails;
      auto device = must(rdma::verbs::device::open("serving" + std::to_string(rail), {}));
      servers.push_back(must(rdma::verbs_rail_server::create(std::move(device), options, pool)));
      while (servers.back()->regions().register_next()) {
      }
    }
  }

  void poll() {
    door->poll(clock::now());
    for (auto& server : servers)
      server->poll(clock::now());
  }

  no_pages nothing;
  std::vector<std::unique_ptr<rdma::verbs_rail_server>> servers;
  std::unique_ptr<rdma::tcp_page_server> door;
};

/// A rail of the reading host, with the batches that keep it busy.
struct reading_rail {
  reading_rail(std::uint32_t index, std::uint16_t port, bool payload_only,
               std::span<std::byte> memory, std::uint32_t page_bytes) {
    rdma::verbs_data_plane_options options;
    options.rail = static_cast<std::uint8_t>(index);
    options.reader = {2, 2};
    options.name = "reading";
    options.payload_only = payload_only;
    rail = must(rdma::reader_rail::open("reading" + std::to_string(index), {}, options));
    PEERCACHE_ASSERT(static_cast<bool>(rail->destinations->add(memory)));
    plane = must(rdma::make_verbs_data_plane(*rail));
    const auto pages = static_cast<std::uint32_t>(memory.size() / 2 / page_bytes);
    for (std::uint32_t i = 0; i < batches_per_rail; ++i)
      fill(batches[i], i, pages, port, memory.subspan(i * memory.size() / 2), page_bytes);
  }

  static void fill(rdma::read_batch& batch, std::uint32_t index, std::uint32_t pages,
                   std::uint16_t port, std::span<std::byte> to, std::uint32_t page_bytes) {
    batch.peer = {{1}, life, "127.0.0.1", port, "bench", rails};
    for (std::uint32_t i = 0; i < pages; ++i) {
      rdma::page_read page;
      page.slot = {(index * pages + i) * (page_bytes / limits::granule_bytes)};
      page.gen = {2};
      page.length_bytes = page_bytes;
      page.first_part = i;
      page.part_count = 1;
      batch.pages.push_back(page);
      batch.parts.push_back({to.data() + std::size_t{i} * page_bytes, page_bytes});
    }
  }

  void submit(rdma::read_batch& batch) {
    batch.reset();
    batch.deadline = clock::now() + std::chrono::seconds(60);
    plane->submit(batch);
  }

  /// Polls the rail once and, if `again`, submits batches that are complete once more. True when
  /// all batches are complete.
  bool turn(bool again) {
    plane->poll(clock::now());
    bool all = true;
    for (auto& batch : batches) {
      if (batch.complete() && again)
        submit(batch);
      all &= batch.complete();
    }
    return all;
  }

  std::uint64_t work_requests() const {
    return rail->counters.payload_reads + rail->counters.entry_reads;
  }

  std::unique_ptr<rdma::reader_rail> rail;
  std::unique_ptr<rdma::channel_data_plane> plane;
  rdma::read_batch batches[batches_per_rail];
};

struct rate {
  double work_requests = 0; ///< Work requests per second.
  double bytes = 0;         ///< Payload bytes per second.
};

struct totals {
  std::uint64_t work_requests = 0;
  std::uint64_t bytes = 0;
};

totals totals_of(const std::vector<std::unique_ptr<reading_rail>>& all) {
  totals sum;
  for (const auto& one : all) {
    sum.work_requests += one->work_requests();
    sum.bytes += one->rail->counters.payload_bytes;
  }
  return sum;
}

/// Checks that every page ended with the expected status; any other status means that something
/// broke.
void check(const std::vector<std::unique_ptr<reading_rail>>& all) {
  for (const auto& one : all)
    for (const auto& batch : one->batches)
      for (const auto& page : batch.pages)
        PEERCACHE_ASSERT(page.status == page_status::stale);
}

rate measure(double rail_bytes_per_second, std::uint32_t page_bytes, bool payload_only,
             double seconds) {
  tests::fake_fabric fabric;
  for (std::uint32_t i = 0; i < rails; ++i) {
    fabric.add(tests::roce_device("serving" + std::to_string(i), static_cast<std::uint8_t>(1 + i)));
    fabric.add(
        tests::roce_device("reading" + std::to_string(i), static_cast<std::uint8_t>(101 + i)));
  }
  fabric.simulate_rails(rail_bytes_per_second, std::chrono::microseconds(5));
  serving_host host;
  const auto memory = reserve(memory_bytes);
  std::vector<std::unique_ptr<reading_rail>> all;
  for (std::uint32_t i = 0; i < rails; ++i)
    all.push_back(
        std::make_unique<reading_rail>(i, host.door->port(), payload_only, memory, page_bytes));
  const auto turn_all = [&](bool again) {
    bool done = true;
    for (auto& one : all)
      done &= one->turn(again);
    return done;
  };
  for (auto& one : all)
    for (auto& batch : one->batches)
      one->submit(batch);
  while (!turn_all(false))
    // The serving host answers handshakes in this call; after the first batches it has nothing more
    // to do.
    host.poll();
  check(all);
  const auto before = totals_of(all);
  const auto start = clock::now();
  const auto until = start + std::chrono::duration<double>(seconds);
  while (clock::now() < until)
    turn_all(true);
  const auto after = totals_of(all);
  const auto took = std::chrono::duration<double>(clock::now() - start).count();
  while (!turn_all(false)) {
  }
  check(all);
  all.clear();
  ::munmap(memory.data(), memory.size());
  return {static_cast<double>(after.work_requests - before.work_requests) / took,
          static_cast<double>(after.bytes - before.bytes) / took};
}

void report(double rail_rate, std::uint32_t page_bytes, bool payload_only, double seconds) {
  const auto one = measure(rail_rate, page_bytes, payload_only, seconds);
  std::printf("%5u KiB, %-13s %6.2f M work requests/s and %8.1f GB/s per core", page_bytes >> 10,
              payload_only ? "no entries:" : "with entries:", one.work_requests / 1e6,
              one.bytes / 1e9);
  if (rail_rate == real_rail)
    std::printf(", %.2f of what the rails give\n", one.bytes / (rails * real_rail));
  else
    std::printf("; 8 cores: %9.1f GB/s, %.0f x the goal\n", 8 * one.bytes / 1e9,
                8 * one.bytes / goal_bytes_per_second);
}

} // namespace
} // namespace peercache

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  if (seconds <= 0) {
    std::fprintf(stderr, "usage: peercache_posting_rate [seconds of each measurement]\n");
    return 2;
  }
  for (const double rail_rate : {peercache::real_rail, peercache::endless_rail}) {
    std::printf("%s\n", rail_rate == peercache::real_rail ? "8 rails of 50 GB/s, one core:"
                                                          : "8 rails without a limit, one core:");
    for (const std::uint32_t page_bytes : {128u << 10, 1u << 20})
      for (const bool payload_only : {false, true})
        peercache::report(rail_rate, page_bytes, payload_only, seconds);
  }
  return 0;
}

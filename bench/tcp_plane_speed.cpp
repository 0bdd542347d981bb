// How fast is the TCP data plane, beside a raw socket between the same two processes?
//
// A child process serves 1 MiB and 64 KiB pages from pool-like shared memory with a
// tcp_page_server, and plain bytes with send(2). This process reads pages and plain bytes in turns,
// into memory far larger than the caches. One line per contestant. For streams the rate is the
// median over the rounds, and the ratio the median of the rounds' ratios; for single pages the
// ratio is that of the median times.

#include "common/assert.hpp"
#include "common/checksum.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/data_plane_loop.hpp"
#include "rdma/tcp/tcp_page_server.hpp"
#include "rdma/tcp/tcp_transport.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace peercache {
namespace {

using rdma::clock;

constexpr std::size_t region_bytes = 768u << 20;
constexpr std::uint32_t raw_request_bytes = 100;
constexpr incarnation served{7, 7};

std::map<std::string, long> settings = {
    {"rounds", 15},    {"round_mib", 128}, {"singles", 400},     {"piece_kib", 0},
    {"ahead", 0},      {"request_mib", 0}, {"rcvbuf_kib", 0},    {"sndbuf_kib", 0},
    {"stripe_mib", 0}, {"spin_us", -1},    {"raw_piece_kib", 0}, {"server_spin_us", 0},
    {"pin", 0},        {"raw_spin", 1}};

double seconds_since(clock::time_point start) {
  return std::chrono::duration<double>(clock::now() - start).count();
}

std::span<std::byte> map_region(int flags) {
  auto* data = mmap(nullptr, region_bytes, PROT_READ | PROT_WRITE,
                    flags | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  PEERCACHE_ASSERT(data != MAP_FAILED);
  return {static_cast<std::byte*>(data), region_bytes};
}

/// Serves pages from a region without a slot table: slot n is the n-th granule of the region.
class region_source final : public rdma::page_source {
public:
  explicit region_source(std::span<const std::byte> region) : region_(region) {}
  page_status pin(slot_id slot, generation, const page_key&, std::uint32_t length_bytes,
                  std::span<const std::byte>& bytes) override {
    bytes = region_.subspan(std::size_t{slot.value} * limits::granule_bytes, length_bytes);
    return page_status::hit;
  }
  void unpin(slot_id) override {}

private:
  std::span<const std::byte> region_;
};

void send_all(int fd, const std::byte* data, std::size_t bytes) {
  while (bytes > 0) {
    const auto sent = ::send(fd, data, bytes, MSG_NOSIGNAL);
    if (sent <= 0)
      _exit(0); // A failed send means that the parent is gone.
    data += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}

bool receive_all(int fd, std::byte* data, std::size_t bytes, std::size_t piece, bool spin = false) {
  while (bytes > 0) {
    const auto got = ::recv(fd, data, std::min(bytes, piece), spin ? MSG_DONTWAIT : 0);
    if (got < 0 && errno == EAGAIN)
      continue;
    if (got <= 0)
      return false;
    data += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

/// Answers raw requests of 100 bytes, of which the first 16 are {offset, bytes}, with plain bytes
/// of the region.
void serve_raw(int listener, std::span<const std::byte> region) {
  const int fd = ::accept(listener, nullptr, nullptr);
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  std::byte request[raw_request_bytes];
  while (receive_all(fd, request, sizeof request, sizeof request)) {
    std::uint64_t range[2];
    std::memcpy(range, request, sizeof range);
    send_all(fd, region.data() + range[0], range[1]);
  }
  _exit(0);
}

void pin_to(int cpu) {
  if (settings["pin"] == 0)
    return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

[[noreturn]] void run_child(int listener, rdma::tcp_page_server& server,
                            std::span<const std::byte> region) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pin_to(1);
  std::thread raw([=] { serve_raw(listener, region); });
  const auto spin = std::chrono::microseconds(settings["server_spin_us"]);
  clock::time_point until{};
  for (;;) {
    const auto now = clock::now();
    if (server.poll(now))
      until = now + spin;
    else if (now >= until)
      server.wait(std::chrono::milliseconds(100));
  }
}

struct raw_reader {
  int fd = -1;
  std::size_t piece = 128u << 10; ///< Bytes of one recv(2); the fastest size from 64 KiB to 8 MiB.

  void read(std::span<std::byte> to, std::uint64_t offset) {
    std::byte request[raw_request_bytes]{};
    const std::uint64_t range[2] = {offset, to.size()};
    std::memcpy(request, range, sizeof range);
    send_all(fd, request, sizeof request);
    PEERCACHE_ASSERT(receive_all(fd, to.data(), to.size(), piece, settings["raw_spin"] != 0));
  }
};

struct plane_reader {
  rdma::data_plane_loop& loop;
  rdma::peer_endpoint peer;
  std::span<std::byte> to;
  const std::vector<std::uint64_t>& checksums_64k; ///< XXH3 of each page of 64 KiB of the region.
  const std::vector<std::uint64_t>& checksums_1m;
  rdma::read_batch batch{};
  std::uint64_t next_bytes = 0;

  /// Reads the next `count` pages of the region into `to`, at the same offsets as in the region.
  void read(std::uint32_t count, std::uint32_t page_bytes, bool verify) {
    batch.reset();
    batch.peer = peer;
    batch.pages.resize(count);
    batch.parts.resize(count);
    if (next_bytes + std::uint64_t{count} * page_bytes > region_bytes)
      next_bytes = 0;
    const auto& sums = page_bytes == (1u << 20) ? checksums_1m : checksums_64k;
    for (std::uint32_t i = 0; i < count; ++i, next_bytes += page_bytes) {
      auto& page = batch.pages[i];
      page.slot = {static_cast<std::uint32_t>(next_bytes / limits::granule_bytes)};
      page.gen = {2};
      page.length_bytes = page_bytes;
      page.first_part = i;
      page.part_count = 1;
      page.verify = verify;
      page.checksum = sums[next_bytes / page_bytes];
      batch.parts[i] = {to.data() + next_bytes, page_bytes};
    }
    batch.deadline = clock::now() + std::chrono::seconds(2);
    loop.submit(batch);
    batch.wait();
    for (const auto& page : batch.pages)
      PEERCACHE_ASSERT(page.status == page_status::hit);
  }
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// A contestant's median rate, and the median over the rounds of its ratio to the first
/// contestant's rate in the same round: other load of the machine changes slowly, and so slows both
/// contestants of a round.
struct score {
  double gigabytes_per_second = 0;
  double ratio = 0;
};

std::vector<score> race(const std::vector<std::function<void(std::size_t)>>& contestants) {
  const auto bytes = static_cast<std::size_t>(settings["round_mib"]) << 20;
  std::vector<std::vector<double>> rates(contestants.size());
  std::vector<std::vector<double>> ratios(contestants.size());
  for (long round = 0; round <= settings["rounds"]; ++round) {
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      const auto start = clock::now();
      contestants[i](bytes);
      rates[i].push_back(static_cast<double>(bytes) / seconds_since(start) / 1e9);
      ratios[i].push_back(rates[i].back() / rates[0].back());
    }
    if (round == 0) { // Round 0 only warms up, so its rates are dropped.
      rates.assign(contestants.size(), {});
      ratios = rates;
    }
  }
  std::vector<score> scores;
  for (std::size_t i = 0; i < contestants.size(); ++i)
    scores.push_back({median(rates[i]), median(ratios[i])});
  return scores;
}

void print(const char* what, const score& result, const char* bar) {
  std::printf("%-28s %6.2f GB/s  ratio %.2f%s\n", what, result.gigabytes_per_second, result.ratio,
              bar);
}

void compare_streams(raw_reader& raw, plane_reader& plane, std::span<std::byte> to) {
  const auto batches = [&](std::uint32_t page_bytes, bool verify) {
    return [&plane, page_bytes, verify](std::size_t bytes) {
      for (std::size_t done = 0; done < bytes; done += std::size_t{32} * page_bytes)
        plane.read(32, page_bytes, verify);
    };
  };
  // Small batches too are compared with the raw stream, which never pauses; a raw request whose
  // reply is as large as a batch is the limit for one caller that waits for each batch.
  const auto paused = [&](std::size_t bytes) {
    for (std::size_t done = 0; done < bytes; done += 2u << 20)
      raw.read(to.subspan(done, 2u << 20), done);
  };
  const auto stream = [&](std::size_t bytes) { raw.read(to.first(bytes), 0); };
  const auto large = race({stream, batches(1u << 20, false), batches(1u << 20, true)});
  print("raw stream", large[0], "");
  print("32 x 1 MiB  unverified", large[1], " (bar 0.90)");
  print("32 x 1 MiB  verified", large[2], " (bar 0.75)");
  const auto small = race({paused, stream, batches(64u << 10, false), batches(64u << 10, true)});
  print("raw request, 2 MiB reply", small[0], "");
  print("raw stream", small[1], "");
  print("32 x 64 KiB unverified", small[2], " to the raw replies");
  print("32 x 64 KiB verified", small[3], " to the raw replies");
}

void compare_single_pages(raw_reader& raw, plane_reader& plane, std::span<std::byte> to) {
  std::vector<double> times[3];
  const auto timed = [](std::vector<double>& into, const auto& work) {
    const auto start = clock::now();
    work();
    into.push_back(seconds_since(start) * 1e6);
  };
  constexpr std::size_t page = 1u << 20;
  for (long i = 0; i < settings["singles"]; ++i) {
    const auto at = static_cast<std::size_t>(i) * page % (region_bytes - page);
    timed(times[0], [&] { raw.read(to.subspan(at, page), at); });
    timed(times[1], [&] { plane.read(1, page, false); });
    timed(times[2], [&] { plane.read(1, page, true); });
  }
  const double limit = median(times[0]);
  std::printf("1 MiB raw request/reply   p50   %6.0f us\n", limit);
  std::printf("1 x 1 MiB unverified      p50   %6.0f us    ratio %.2f (bar 1.30)\n",
              median(times[1]), median(times[1]) / limit);
  std::printf("1 x 1 MiB verified        p50   %6.0f us    ratio %.2f (bar 1.30)\n",
              median(times[2]), median(times[2]) / limit);
}

std::vector<std::uint64_t> checksums_of(std::span<const std::byte> region, std::size_t page_bytes) {
  std::vector<std::uint64_t> sums;
  for (std::size_t at = 0; at < region.size(); at += page_bytes)
    sums.push_back(checksum_of(region.subspan(at, page_bytes)));
  return sums;
}

void apply_settings(rdma::tcp_data_plane_options& plane, net::socket_options& server,
                    rdma::data_plane_loop_options& loop) {
  const auto set = [](const char* name, auto& option, long unit) {
    if (settings[name] > 0)
      option = static_cast<std::remove_reference_t<decltype(option)>>(settings[name] * unit);
  };
  set("piece_kib", plane.receive_piece_bytes, 1024);
  set("ahead", plane.requests_ahead_max, 1);
  set("request_mib", plane.request_bytes_max, 1 << 20);
  set("rcvbuf_kib", plane.socket.receive_buffer_bytes, 1024);
  set("sndbuf_kib", server.send_buffer_bytes, 1024);
  set("stripe_mib", plane.stripe_bytes, 1 << 20);
  if (settings["spin_us"] >= 0)
    loop.spin = std::chrono::microseconds(settings["spin_us"]);
}

void fill(std::span<std::byte> region) {
  std::uint64_t state = 1;
  for (std::size_t at = 0; at < region.size(); at += sizeof state) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(region.data() + at, &state, sizeof state);
  }
}

int connect_raw(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  PEERCACHE_ASSERT(::connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  return fd;
}

int run() {
  const auto pool = map_region(MAP_SHARED);
  fill(pool);
  rdma::tcp_data_plane_options plane_options;
  rdma::tcp_page_server_options server_options;
  rdma::data_plane_loop_options loop_options;
  apply_settings(plane_options, server_options.socket, loop_options);
  server_options.cluster = "bench";
  server_options.inc = served;
  region_source source(pool);
  auto server = rdma::tcp_page_server::listen(server_options, source);
  const int raw_listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  PEERCACHE_ASSERT(::bind(raw_listener, reinterpret_cast<sockaddr*>(&at), size) == 0);
  PEERCACHE_ASSERT(::listen(raw_listener, 1) == 0);
  ::getsockname(raw_listener, reinterpret_cast<sockaddr*>(&at), &size);
  const pid_t child = fork();
  if (child == 0)
    run_child(raw_listener, **server, pool);

  pin_to(0);
  const auto to = map_region(MAP_PRIVATE);
  const auto sums_64k = checksums_of(pool, 64u << 10);
  const auto sums_1m = checksums_of(pool, 1u << 20);
  auto plane = rdma::make_tcp_data_plane(plane_options);
  rdma::data_plane_loop loop(**plane, loop_options);
  std::atomic<bool> stop{false};
  std::thread runner([&] { loop.run(stop); });
  raw_reader raw{connect_raw(ntohs(at.sin_port))};
  if (settings["raw_piece_kib"] > 0)
    raw.piece = static_cast<std::size_t>(settings["raw_piece_kib"]) << 10;
  plane_reader reader{
      loop, {{1}, served, "127.0.0.1", (*server)->port(), "bench"}, to, sums_64k, sums_1m};
  compare_streams(raw, reader, to);
  compare_single_pages(raw, reader, to);
  stop = true;
  loop.wake();
  runner.join();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return 0;
}

} // namespace
} // namespace peercache

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto equals = argument.find('=');
    if (equals == std::string::npos || !peercache::settings.contains(argument.substr(0, equals))) {
      std::fprintf(stderr, "usage: tcp_plane_speed [name=value]..., names:");
      for (const auto& [name, value] : peercache::settings)
        std::fprintf(stderr, " %s", name.c_str());
      std::fprintf(stderr, "\n");
      return 2;
    }
    peercache::settings[argument.substr(0, equals)] = std::atol(argument.c_str() + equals + 1);
  }
  return peercache::run();
}

// Tests that a node whose pool takes more than half of the shared memory starts again after it was
// killed or stopped.

#include "survival_ring.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sched.h>
#include <sys/mount.h>
#include <thread>

namespace peercache::real::large_pool_test {

using metrics::metric;

namespace {

/// Gives the calling thread, and the processes that it starts, a /dev/shm of their own. False where
/// the machine does not allow that.
bool own_shared_memory(std::uint64_t bytes) {
  const auto size = "size=" + std::to_string(bytes);
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("peercache-test", "/dev/shm", "tmpfs", 0, size.c_str()) == 0;
}

constexpr std::uint32_t large_page = 512u << 10;

std::uint64_t shm_mib() {
  const char* text = std::getenv("PEERCACHE_ADOPTION_SHM_MIB");
  return text == nullptr ? 320 : static_cast<std::uint64_t>(std::atoi(text));
}

/// A pool of three fifths of a /dev/shm of its own, of PEERCACHE_ADOPTION_SHM_MIB (by default 320).
/// The parameter says whether the pool is kept (pool.keep). A killed node leaves even a pool that
/// is not to be kept, and clients still have it mapped; the next process must free it, because two
/// such pools do not fit.
class large_pool : public survival_ring, public testing::WithParamInterface<bool> {
protected:
  int times_taken_over() {
    std::ifstream file(node(0).launch().folder / "node.log");
    const std::string log{std::istreambuf_iterator<char>(file), {}};
    int times = 0;
    for (auto at = log.find(" taken over, "); at != std::string::npos;
         at = log.find(" taken over, ", at + 1))
      ++times;
    return times;
  }
};

INSTANTIATE_TEST_SUITE_P(that_is, large_pool, testing::Bool(),
                         [](const auto& info) { return info.param ? "kept" : "left"; });

} // namespace

TEST_P(large_pool, is_back_within_two_seconds_under_sets) {
  const auto shm_bytes = std::uint64_t{shm_mib()} << 20;
  bool could = false;
  std::thread([&] {
    could = own_shared_memory(shm_bytes);
    if (!could)
      return;
    start_ring({.count = 1, .pool_bytes = shm_bytes * 6 / 10, .keep_pools = GetParam()});
    if (HasFatalFailure())
      return;
    const auto client = client_of(0);
    std::atomic<bool> stop{false};
    std::thread engine([&] {
      std::vector<std::byte> bytes(large_page);
      for (std::uint32_t id = 0; !stop; ++id) {
        bench::fill_page(id, 0, bytes);
        client::const_part part{bytes.data(), large_page};
        client::set_page page{key_of(id), {&part, 1}};
        client::page_result result;
        client->set({&page, 1}, {&result, 1});
      }
    });
    EXPECT_TRUE(within(milliseconds(60'000), [&] {
      const auto admin = client::admin_client::connect("127.0.0.1", node(0).ports().control_port,
                                                       cluster(), milliseconds(1000));
      const auto status = admin ? (*admin)->status() : admin.error();
      return status && status->count(metric::evictions_total) > 0;
    }));
    for (int round = 0; round < 4; ++round) {
      const bool killed = round % 2 == 0;
      killed ? kill(0) : (void)node(0).stop(milliseconds(15'000));
      const auto begin = clock::now();
      auto back = restart(0);
      EXPECT_TRUE(back) << back.error().message;
      const auto end = clock::now();
      std::printf(
          "[ measured ] a pool of %llu MiB is back %lld ms after %s\n",
          static_cast<unsigned long long>((shm_bytes * 6 / 10) >> 20),
          static_cast<long long>(std::chrono::duration_cast<milliseconds>(end - begin).count()),
          killed ? "kill -9" : "SIGTERM");
      EXPECT_TRUE(took_at_most(milliseconds(2000), begin, end));
      if (!GetParam())
        continue;
      EXPECT_TRUE(within(milliseconds(60'000), [&] { return times_taken_over() == round + 1; }));
      std::printf("[ measured ] its pages are compared %lld ms later\n",
                  static_cast<long long>(
                      std::chrono::duration_cast<milliseconds>(clock::now() - end).count()));
    }
    stop = true;
    engine.join();
  }).join();
  if (!could)
    GTEST_SKIP() << "no mount namespace of our own (root can make one)";
}

} // namespace peercache::real::large_pool_test

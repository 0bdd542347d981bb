/// Does copy_page beat libc's memcpy on pages in memory far larger than the caches? One line per
/// page size.
///
/// usage: peercache_copy_speed [--all-kernels] [rounds]
/// Source and destination have 1 GiB each; pages are taken from both in a shuffled order, 32 to a
/// batch. The contenders take turns, a group of batches each; the ratio is the median over rounds
/// of (time of memcpy) / (time of the contender) within a round.
#include "common/assert.hpp"
#include "common/checksum.hpp"
#include "common/copy.hpp"
#include "common/copy_kernels.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <vector>

namespace peercache::bench {
namespace {

constexpr std::size_t arena_bytes = std::size_t{1} << 30;
constexpr std::size_t bytes_per_turn = std::size_t{256} << 20;
constexpr std::size_t batch_pages = 32;

using copier = std::function<void(std::span<std::byte>, std::span<const std::byte>)>;

struct contender {
  std::string name;
  copier copy;
  std::vector<double> seconds; ///< Seconds that each round took.
};

/// Maps and touches an arena: shared memory stands for the pool, private memory for the engine's
/// buffer.
std::byte* map_arena(int sharing, int fill) {
  void* memory = mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  PEERCACHE_ASSERT(memory != MAP_FAILED);
  std::memset(memory, fill, arena_bytes);
  return static_cast<std::byte*>(memory);
}

/// CPU time of the calling thread, in seconds: a copy never waits, and other programs' turns on the
/// core are not its cost.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class arenas {
public:
  arenas() : from_(map_arena(MAP_PRIVATE, 1)), to_(map_arena(MAP_SHARED, 2)) {}
  ~arenas() {
    munmap(from_, arena_bytes);
    munmap(to_, arena_bytes);
  }
  arenas(const arenas&) = delete;
  arenas& operator=(const arenas&) = delete;

  void choose_page(std::size_t page_bytes) {
    page_bytes_ = page_bytes;
    order_from_ = shuffled(1);
    order_to_ = shuffled(2);
    next_ = 0;
  }

  double seconds_of(const copier& copy) {
    auto batches = std::max<std::size_t>(1, bytes_per_turn / (page_bytes_ * batch_pages));
    auto start = thread_seconds();
    for (std::size_t i = 0; i < batches * batch_pages; ++i, next_ = (next_ + 1) % order_to_.size())
      copy({to_ + order_to_[next_] * page_bytes_, page_bytes_},
           {from_ + order_from_[next_] * page_bytes_, page_bytes_});
    return thread_seconds() - start;
  }

  double bytes_of_turn() const {
    auto batch_bytes = page_bytes_ * batch_pages;
    return static_cast<double>(std::max<std::size_t>(1, bytes_per_turn / batch_bytes) *
                               batch_bytes);
  }

private:
  std::vector<std::size_t> shuffled(unsigned seed) const {
    std::vector<std::size_t> order(arena_bytes / page_bytes_);
    for (std::size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    return order;
  }

  std::byte* from_;
  std::byte* to_;
  std::size_t page_bytes_ = 0;
  std::vector<std::size_t> order_from_;
  std::vector<std::size_t> order_to_;
  std::size_t next_ = 0;
};

double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Contenders that compute checksums store them in this variable, or the compiler would drop the
/// computation.
volatile std::uint64_t digests;

std::vector<contender> make_contenders(bool all_kernels) {
  std::vector<contender> list;
  list.push_back(
      {"memcpy", [](auto to, auto from) { std::memcpy(to.data(), from.data(), from.size()); }});
  list.push_back({"copy_page", [](auto to, auto from) { copy_page(to, from); }});
  list.push_back({"copy_page_and_checksum", [](auto to, auto from) {
                    digests = digests ^ copy_page_and_checksum(to, from);
                  }});
  if (!all_kernels)
    return list;
  list.push_back({"memcpy then checksum", [](auto to, auto from) {
                    std::memcpy(to.data(), from.data(), from.size());
                    digests = digests ^ checksum_of(from);
                  }});
  for (const auto* kernels : detail::usable_kernels().subspan(1)) {
    list.push_back({kernels->instruction_set, [kernels](auto to, auto from) {
                      kernels->copy(to.data(), from.data(), from.size());
                      copy_fence();
                    }});
    list.push_back(
        {std::string(kernels->instruction_set) + " checksum", [kernels](auto to, auto from) {
           digests = digests ^ detail::copy_and_checksum_with(*kernels, to, from);
           copy_fence();
         }});
  }
  return list;
}

void measure(arenas& memory, std::size_t page_bytes, int rounds, std::vector<contender> list) {
  memory.choose_page(page_bytes);
  for (auto& one : list)
    memory.seconds_of(one.copy);
  for (int round = 0; round < rounds; ++round)
    for (auto& one : list)
      one.seconds.push_back(memory.seconds_of(one.copy));
  const auto& baseline = list.front().seconds;
  std::printf("%4zu KiB:", page_bytes >> 10);
  for (const auto& one : list) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < baseline.size(); ++i)
      ratios.push_back(baseline[i] / one.seconds[i]);
    std::printf("  %s %.1f GB/s", one.name.c_str(),
                memory.bytes_of_turn() / median(one.seconds) / 1e9);
    if (&one != &list.front())
      std::printf(" (%.2f)", median(ratios));
  }
  std::printf("\n");
  std::fflush(stdout);
}

} // namespace
} // namespace peercache::bench

int main(int argc, char** argv) {
  using namespace peercache;
  bool all_kernels = argc > 1 && std::string_view(argv[1]) == "--all-kernels";
  int rounds = argc > 1 + all_kernels ? std::atoi(argv[1 + all_kernels]) : 11;
  if (rounds < 1) {
    std::fprintf(stderr, "usage: %s [--all-kernels] [rounds]\n", argv[0]);
    return 2;
  }
  bench::arenas memory;
  std::printf("copy_page: %s, 1 thread, median of %d rounds; in parentheses: speed / memcpy's\n",
              copy_instruction_set(), rounds);
  for (std::size_t kib : {4, 16, 64, 256, 1024, 4096})
    bench::measure(memory, kib << 10, rounds, bench::make_contenders(all_kernels));
  return 0;
}

// Measures how long a disk store takes at its start to find a million pages again.
//
//   recovery_time STORE FOLDER [PAGES]
//
// Writes PAGES (1,000,000) pages of 4 KiB into a store of kind STORE in FOLDER, unless an earlier
// run has left some there, closes the store, and recovers it in new objects: twice with the
// kernel's cache warm, twice after the cache was dropped (root only). Run by hand: it takes some
// GiB of disk.

#include "common/assert.hpp"
#include "common/checksum.hpp"
#include "storage/disk/disk_store.hpp"
#include "storage/disk/offset/offset_index.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

namespace peercache::storage {
namespace {

constexpr std::uint32_t page_bytes = 4096;
constexpr std::uint32_t device_depth = 64;
/// How many writes are given to the store at a time, so that they share syncs.
constexpr std::size_t at_a_time = 4096;

page_key key_of(std::uint64_t number) {
  page_key key;
  // A store spreads keys over folders by their first byte, so numbers are mixed as digests would
  // be.
  number *= 0x9e3779b97f4a7c15ull;
  std::memcpy(key.bytes.data(), &number, sizeof number);
  return key;
}

/// A store and the disk_io below it.
struct opened_store {
  std::unique_ptr<disk_io> io;
  std::unique_ptr<disk_store> store;
};

opened_store open(const std::string& kind, const std::string& folder) {
  opened_store opened;
  auto device = open_disk(folder, device_depth);
  PEERCACHE_ASSERT(device);
  opened.io = std::move(device->io);
  disk_store_options options;
  options.owner = {.space = 1, .node = 1};
  options.size_bytes = 32ull << 30;
  if (kind == "bucket") {
    opened.store = make_bucket_store(*opened.io, options);
  } else if (kind == "file_per_key") {
    opened.store = make_file_store(*opened.io, options);
  } else {
    auto index = open_rocks_index(folder + "/index");
    PEERCACHE_ASSERT(index);
    opened.store = make_offset_store(*opened.io, options, *std::move(index));
  }
  return opened;
}

/// Runs one round of a store owner's loop: reaps, refills and polls. Returns how many writes became
/// durable.
std::size_t turn(opened_store& disk) {
  std::array<disk_completion, 256> completions;
  const auto reaped = disk.io->reap(completions);
  disk.store->refill();
  for (std::size_t i = 0; i < reaped; ++i)
    disk.store->on_completion(completions[i]);
  std::vector<disk_event> events;
  disk.store->poll(disk_clock::now(), static_cast<std::uint64_t>(std::time(nullptr)), events);
  for (const auto& event : events)
    PEERCACHE_ASSERT(event.status == disk_status::ok);
  if (reaped == 0 && events.empty())
    disk.io->wait(std::chrono::milliseconds(1));
  return events.size();
}

void write_all(opened_store& disk, std::uint64_t pages) {
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(disk_block_bytes, page_bytes)), &std::free);
  std::memset(memory.get(), 7, page_bytes);
  const auto checksum = checksum_of({memory.get(), page_bytes});
  std::uint64_t started = 0;
  std::uint64_t done = 0;
  while (done < pages) {
    while (started < pages && started - done < at_a_time &&
           disk.store->write(
               {key_of(started), generation{2}, checksum, memory.get(), page_bytes, started}))
      ++started;
    done += turn(disk);
  }
  std::vector<disk_event> events;
  disk.store->close(std::chrono::minutes(5), events);
}

/// Drops the kernel's page cache. Returns false when this process is not allowed to.
bool forget_what_is_cached() {
  ::sync();
  std::ofstream caches("/proc/sys/vm/drop_caches");
  return static_cast<bool>(caches << "3" << std::flush);
}

void recover(const std::string& kind, const std::string& folder, const char* cached) {
  const auto begin = std::chrono::steady_clock::now();
  auto disk = open(kind, folder);
  const auto found = disk.store->recover({}, [](const disk_page&) {});
  PEERCACHE_ASSERT(found);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%s, %s: %llu pages after %.2f s\n", kind.c_str(), cached,
              static_cast<unsigned long long>(found->pages), took.count());
  std::vector<disk_event> events;
  disk.store->close(std::chrono::minutes(5), events);
}

} // namespace
} // namespace peercache::storage

int main(int count, char** arguments) {
  using namespace peercache::storage;
  if (count < 3) {
    std::fputs("usage: recovery_time bucket|file_per_key|offset FOLDER [PAGES]\n", stderr);
    return 2;
  }
  const std::string kind = arguments[1];
  const std::string folder = arguments[2];
  {
    auto disk = open(kind, folder);
    const auto there = disk.store->recover({}, [](const disk_page&) {});
    PEERCACHE_ASSERT(there);
    if (there->pages == 0)
      write_all(disk, count > 3 ? std::strtoull(arguments[3], nullptr, 10) : 1'000'000);
  }
  for (int again = 0; again < 2; ++again)
    recover(kind, folder, "cached");
  for (int again = 0; again < 2 && forget_what_is_cached(); ++again)
    recover(kind, folder, "not cached");
}

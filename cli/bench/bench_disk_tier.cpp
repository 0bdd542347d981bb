#include "cli/bench/bench_disk.hpp"
#include "cli/bench/bench_disk_index.hpp"

#include "common/assert.hpp"
#include "common/checksum.hpp"
#include "config/node_config.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <fmt/format.h>
#include <numeric>
#include <random>

namespace peercache::cli {

namespace {

using storage::disk_event;
using storage::disk_status;

constexpr std::chrono::milliseconds sleep_at_most{100};
constexpr std::chrono::seconds close_at_most{30};
constexpr std::size_t completions_max = 256;

double cpu_seconds_of_process() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

std::uint64_t unix_seconds() {
  return static_cast<std::uint64_t>(std::time(nullptr));
}

/// The store that a word of the option `disk.store` names. @pre `store` is one of these words
config::disk_store_mode mode_of(const std::string& store) {
  const auto& words = config::words_of<config::disk_store_mode>;
  const auto word = std::find(words.begin(), words.end(), store);
  PEERCACHE_ASSERT(word != words.end());
  return static_cast<config::disk_store_mode>(word - words.begin());
}

/// Makes the store of the tier as a node does (actors/disk/disk_service.cpp).
result<std::unique_ptr<storage::disk_store>>
make_store(const disk_bench_tier::place& where, storage::disk_io& io,
           const storage::disk_store_options& options) {
  switch (mode_of(where.store)) {
  case config::disk_store_mode::bucket:
    return storage::make_bucket_store(io, options);
  case config::disk_store_mode::file_per_key:
    return storage::make_file_store(io, options);
  case config::disk_store_mode::offset:
    break;
  }
  // Where it is null, bench_disk_command.cpp has started peercache-node in this process's place.
  PEERCACHE_ASSERT(open_bench_index != nullptr);
  auto index = open_bench_index(where.folder + "/index");
  if (!index)
    return index.error();
  return storage::make_offset_store(io, options, *std::move(index));
}

std::vector<page_key> make_keys(std::size_t count) {
  std::mt19937_64 random(count);
  std::vector<page_key> keys(count);
  for (auto& key : keys)
    for (std::size_t at = 0; at < key.bytes.size(); at += sizeof(std::uint64_t)) {
      const std::uint64_t word = random();
      std::memcpy(&key.bytes[at], &word, sizeof word);
    }
  return keys;
}

} // namespace

disk_bench_tier::disk_bench_tier(const disk_bench_options& options, std::span<std::byte> memory,
                                 std::uint64_t page_bytes)
    : options_(options), memory_(memory), page_bytes_(page_bytes),
      keys_(make_keys(options.pages_of(page_bytes))), order_(keys_.size()) {
  const auto slots = std::min<std::size_t>(memory.size() / page_bytes, keys_.size());
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    checksums_.push_back(checksum_of({memory_of(slot), page_bytes}));
    free_slots_.push_back(slot);
  }
  handed_over_.resize(slots);
  std::iota(order_.begin(), order_.end(), 0u);
}

disk_bench_tier::~disk_bench_tier() {
  storage::disk_tier_events events;
  if (tier_)
    tier_->close(close_at_most, events);
}

result<std::unique_ptr<disk_bench_tier>> disk_bench_tier::open(const disk_bench_options& options,
                                                               const place& where,
                                                               std::span<std::byte> memory,
                                                               std::uint64_t page_bytes) {
  std::unique_ptr<disk_bench_tier> tier(new disk_bench_tier(options, memory, page_bytes));
  if (auto started = tier->start(where); !started)
    return started.error();
  return tier;
}

result<void> disk_bench_tier::start(const place& where) {
  auto opened = storage::open_disk(where.folder, options_.depth);
  if (!opened)
    return opened.error();
  io_ = std::move(opened->io);
  if (!opened->why_fallback.empty())
    fmt::print(stderr, "peercache: no io_uring: {}\n", opened->why_fallback);
  if (auto known = io_->register_memory(memory_); !known)
    fmt::print(stderr, "peercache: memory is not registered: {}\n", known.error().message);
  storage::disk_store_options store;
  store.owner = {.space = 1, .node = 1};
  store.bucket_bytes = options_.bucket_bytes;
  store.bucket_keys = options_.bucket_keys;
  storage::disk_tier_options tier;
  tier.size_bytes = store.size_bytes = options_.size_bytes;
  tier.queue_bytes = memory_.size();
  tier.scrub_bytes_per_s = 0;
  auto made = make_store(where, *io_, store);
  if (!made)
    return made.error();
  tier_ = std::make_unique<storage::disk_tier>(*std::move(made), tier);
  if (auto found = tier_->recover({}, [](const storage::disk_page&) {}); !found)
    return found.error();
  return {};
}

result<disk_sample> disk_bench_tier::write_all() {
  return run(disk_event::kind::written, {free_slots_.size(), completions_max});
}

result<disk_sample> disk_bench_tier::read_all() {
  std::mt19937 random(order_.front());
  std::shuffle(order_.begin(), order_.end(), random);
  // A few more reads than `depth` are handed to the tier: the additional ones wait there, and the
  // device can start them before the pages that a turn reaped are checked. They must be few, since
  // every read needs memory, and reads into memory that the processor's caches hold are faster than
  // fio's.
  const auto behind = std::clamp<std::size_t>(options_.depth / 8, 1, completions_max);
  return run(disk_event::kind::read, {options_.depth + behind, behind});
}

result<disk_sample> disk_bench_tier::run(disk_event::kind what, const pace& at_most) {
  sample_ = {};
  sample_.call_us.reserve(order_.size());
  std::size_t started = 0;
  std::size_t ended = 0;
  const auto cpu_before = cpu_seconds_of_process();
  const auto begin = bench::clock::now();
  while (ended < order_.size()) {
    for (; started < order_.size() && started - ended < at_most.pages && !free_slots_.empty();
         ++started) {
      const auto slot = free_slots_.back();
      free_slots_.pop_back();
      hand_over(what, order_[started], slot);
    }
    auto more = turn(at_most.reaped);
    if (!more)
      return more.error();
    ended += *more;
  }
  sample_.seconds = bench::seconds_between(begin, bench::clock::now());
  sample_.units = static_cast<double>(order_.size() * page_bytes_);
  return disk_sample{std::move(sample_), cpu_seconds_of_process() - cpu_before};
}

void disk_bench_tier::hand_over(disk_event::kind what, std::uint32_t page, std::uint32_t slot) {
  const auto now = bench::clock::now();
  handed_over_[slot] = now;
  if (what == disk_event::kind::read) {
    tier_->read({.key = keys_[page], .memory = memory_of(slot), .tag = slot}, now);
    return;
  }
  const auto refused = tier_->write({.key = keys_[page],
                                     .gen = {},
                                     .checksum = checksums_[slot],
                                     .memory = memory_of(slot),
                                     .length_bytes = static_cast<std::uint32_t>(page_bytes_),
                                     .tag = slot},
                                    now);
  // The write is never refused: the tier's queue has room for all of `memory`.
  PEERCACHE_ASSERT(refused == storage::write_skip::none);
}

result<std::size_t> disk_bench_tier::turn(std::size_t reaped_at_most) {
  std::array<storage::disk_completion, completions_max> completions;
  const auto reaped = io_->reap({completions.data(), reaped_at_most});
  tier_->on_completions(*io_, {completions.data(), reaped});
  const auto now = bench::clock::now();
  storage::disk_tier_events events;
  tier_->poll(now, unix_seconds(), events);
  for (const auto& event : events.done) {
    if (event.status != disk_status::ok)
      return {errc::io_failed, fmt::format("a page of the disk tier ended with status {}",
                                           static_cast<int>(event.status))};
    const auto slot = static_cast<std::uint32_t>(event.tag);
    sample_.call_us.push_back(bench::seconds_between(handed_over_[slot], now) * 1e6);
    free_slots_.push_back(slot);
  }
  if (reaped == 0 && events.done.empty())
    io_->wait(std::clamp<std::chrono::nanoseconds>(tier_->next_due() - now,
                                                   std::chrono::nanoseconds(0), sleep_at_most));
  return events.done.size();
}

} // namespace peercache::cli

#include "tests/storage/disk/store_harness.hpp"

#include "common/assert.hpp"
#include "common/checksum.hpp"
#include "tests/storage/disk/offset/name_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace peercache::storage {
namespace {

constexpr std::uint64_t unix_now_s = 1'700'000'000;
constexpr int steps_max = 1'000'000;

std::uint64_t next_random(std::uint64_t& state) noexcept {
  auto z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::uint64_t seed_of(const test_page& page) noexcept {
  return (std::uint64_t{page.number} << 32 | page.version) * 0x2545f4914f6cdd1du +
         page.length_bytes;
}

std::unique_ptr<disk_store> make_offset_store_with_names(disk_io& io,
                                                         const disk_store_options& options) {
  return make_offset_store(io, options, std::make_unique<name_index>(io));
}

} // namespace

const std::vector<store_kind>& all_store_kinds() {
  static const std::vector<store_kind> kinds = {
      {"bucket", make_bucket_store},
      {"file_per_key", make_file_store},
      {"offset", make_offset_store_with_names},
  };
  return kinds;
}

std::ostream& operator<<(std::ostream& out, const store_kind& kind) {
  return out << kind.name;
}

std::string name_of(const testing::TestParamInfo<store_kind>& info) {
  return info.param.name;
}

page_key key_of(std::uint32_t number) {
  page_key key;
  std::uint64_t state = number;
  for (std::size_t i = 0; i < key.bytes.size(); i += 8) {
    const auto word = next_random(state);
    std::memcpy(key.bytes.data() + i, &word, sizeof word);
  }
  return key;
}

generation generation_of(const test_page& page) {
  return generation{2 * (std::uint64_t{page.version} + 1)};
}

void fill(const test_page& page, std::byte* memory) {
  auto state = seed_of(page);
  std::uint32_t at = 0;
  for (; at + 8 <= page.length_bytes; at += 8) {
    const auto word = next_random(state);
    std::memcpy(memory + at, &word, sizeof word);
  }
  const auto word = next_random(state);
  std::memcpy(memory + at, &word, page.length_bytes - at);
}

bool holds(const test_page& page, const std::byte* memory) {
  auto state = seed_of(page);
  std::uint32_t at = 0;
  for (; at + 8 <= page.length_bytes; at += 8) {
    const auto word = next_random(state);
    if (std::memcmp(memory + at, &word, sizeof word) != 0)
      return false;
  }
  const auto word = next_random(state);
  return std::memcmp(memory + at, &word, page.length_bytes - at) == 0;
}

std::uint64_t checksum_of(const test_page& page) {
  std::vector<std::byte> bytes(page.length_bytes);
  fill(page, bytes.data());
  return peercache::checksum_of(bytes);
}

disk_store_options small_store(std::uint64_t size_bytes) {
  disk_store_options options;
  options.owner = {11, 22};
  options.size_bytes = size_bytes;
  options.bucket_bytes = 256u << 10;
  options.bucket_keys = 20;
  return options;
}

store_harness::store_harness(const store_kind& kind, memory_disk_io& io,
                             const disk_store_options& options)
    : io_(io), store_(kind.make(io, options)) {}

store_harness::~store_harness() {
  // The store's destructor waits for requests on their way, which use the memory that is freed
  // next.
  store_.reset();
  for (auto& [tag, left] : on_way_)
    std::free(left.memory);
  for (auto& [bytes, blocks] : memory_)
    for (auto* block : blocks)
      std::free(block);
}

result<recovery_report> store_harness::recover(const recovery_options& options) {
  std::vector<disk_page> told;
  auto report = store_->recover(options, [&](const disk_page& page) { told.push_back(page); });
  for (const auto& page : told) {
    const auto* found = store_->find(page.key);
    EXPECT_TRUE(found != nullptr && found->checksum == page.checksum);
  }
  if (report) {
    EXPECT_EQ(report->pages, told.size());
    EXPECT_EQ(store_->stats().pages, told.size());
  }
  return report;
}

std::byte* store_harness::make_memory(std::uint32_t length_bytes) {
  const auto bytes = static_cast<std::uint32_t>(in_blocks(std::max(length_bytes, 1u)));
  auto& free = memory_[bytes];
  if (free.empty())
    free.push_back(static_cast<std::byte*>(std::aligned_alloc(disk_block_bytes, bytes)));
  auto* memory = free.back();
  free.pop_back();
  return memory;
}

void store_harness::drop_memory(std::byte* memory, std::uint32_t length_bytes) {
  const auto bytes = static_cast<std::uint32_t>(in_blocks(std::max(length_bytes, 1u)));
  // Overwrites the memory, so that the test notices if the store still uses it.
  std::memset(memory, 0xEE, bytes);
  memory_[bytes].push_back(memory);
}

void store_harness::write(const test_page& page) {
  auto* memory = make_memory(page.length_bytes);
  fill(page, memory);
  tried_[page.number].push_back(page);
  const auto tag = ++tags_;
  on_way_[tag] = {disk_event::kind::written, page, memory};
  const disk_write wanted{.key = key_of(page.number),
                          .gen = generation_of(page),
                          .checksum = peercache::checksum_of({memory, page.length_bytes}),
                          .memory = memory,
                          .length_bytes = page.length_bytes,
                          .tag = tag};
  for (int steps = 0; !store_->write(wanted); ++steps) {
    ASSERT_LT(steps, steps_max) << "the store never takes the page";
    step_or_wait();
  }
}

void store_harness::read(std::uint32_t number) {
  const auto key = key_of(number);
  const auto* there = store_->find(key);
  test_page wanted{.number = number, .length_bytes = there != nullptr ? there->length_bytes : 1};
  if (there != nullptr)
    wanted.version = static_cast<std::uint32_t>(there->gen.value / 2 - 1);
  auto* memory = make_memory(wanted.length_bytes);
  const auto tag = ++tags_;
  on_way_[tag] = {disk_event::kind::read, wanted, memory};
  for (int steps = 0; !store_->read({key, memory, tag}); ++steps) {
    ASSERT_LT(steps, steps_max) << "the store never takes the read";
    step_or_wait();
  }
}

void store_harness::step() {
  std::array<disk_completion, 32> done;
  const auto count = io_.reap(done);
  for (std::size_t i = 0; i < count; ++i)
    store_->on_completion(done[i]);
  std::vector<disk_event> events;
  store_->poll(now_, unix_now_s, events);
  take(events);
}

void store_harness::pass(std::chrono::nanoseconds by) {
  io_.advance(by);
  now_ += by;
}

void store_harness::settle() {
  for (int steps = 0; !on_way_.empty(); ++steps) {
    ASSERT_LT(steps, steps_max) << on_way_.size() << " pages have no event";
    step_or_wait();
  }
}

void store_harness::step_or_wait() {
  const auto before = on_way_.size();
  step();
  if (on_way_.size() != before)
    return;
  const auto io_before = io_.now();
  const auto due = store_->next_due();
  io_.wait(due == disk_clock::time_point::max() ? std::chrono::hours(1)
                                                : std::max(due - now_, disk_clock::duration(0)));
  now_ += io_.now() - io_before;
}

void store_harness::close(std::chrono::nanoseconds at_most) {
  std::vector<disk_event> events;
  store_->close(at_most, events);
  take(events);
  EXPECT_TRUE(on_way_.empty()) << on_way_.size() << " pages have no event after close";
}

void store_harness::take(const std::vector<disk_event>& events) {
  for (const auto& event : events) {
    const auto found = on_way_.find(event.tag);
    ASSERT_NE(found, on_way_.end()) << "an event of nothing, or a second one";
    const auto done = found->second;
    on_way_.erase(found);
    EXPECT_EQ(done.what, event.what);
    EXPECT_EQ(key_of(done.page.number), event.key);
    ++events_[{event.what, event.status}];
    if (event.what == disk_event::kind::written) {
      written_[done.page.number] = event.status;
      // A read must find the write of its key that was begun last, which has the highest tag, even
      // if an earlier one ends after it.
      auto& newest = newest_[done.page.number];
      if (event.status == disk_status::ok && event.tag > newest) {
        newest = event.tag;
        durable_[done.page.number] = done.page;
      }
    } else {
      read_[done.page.number] = event.status;
      if (event.status == disk_status::ok)
        check_read(done);
    }
    drop_memory(done.memory, done.page.length_bytes);
  }
}

void store_harness::check_read(const transfer& done) {
  const auto& tried = tried_[done.page.number];
  const bool was_written = std::find(tried.begin(), tried.end(), done.page) != tried.end();
  if (!was_written || !holds(done.page, done.memory))
    ++wrong_pages_;
}

void store_harness::know(const std::map<std::uint32_t, std::vector<test_page>>& pages) {
  for (const auto& [number, tried] : pages)
    tried_[number].insert(tried_[number].end(), tried.begin(), tried.end());
}

disk_status store_harness::write_and_settle(const test_page& page) {
  write(page);
  settle();
  return written(page.number).value_or(disk_status::refused);
}

disk_status store_harness::read_and_settle(std::uint32_t number) {
  read(number);
  settle();
  return was_read(number).value_or(disk_status::refused);
}

std::optional<disk_status> store_harness::written(std::uint32_t number) const {
  const auto found = written_.find(number);
  return found == written_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<disk_status> store_harness::was_read(std::uint32_t number) const {
  const auto found = read_.find(number);
  return found == read_.end() ? std::nullopt : std::optional(found->second);
}

std::uint64_t store_harness::events(disk_event::kind what, disk_status status) const {
  const auto found = events_.find({what, status});
  return found == events_.end() ? 0 : found->second;
}

} // namespace peercache::storage

#pragma once

#include "storage/disk/disk_store.hpp"
#include "tests/fakes/memory_disk_io.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace peercache::storage {

/// A kind of store (bucket, file_per_key or offset) with which the tests of this folder run.
struct store_kind {
  const char* name = nullptr;
  std::unique_ptr<disk_store> (*make)(disk_io& io, const disk_store_options& options) = nullptr;
};
const std::vector<store_kind>& all_store_kinds();
std::ostream& operator<<(std::ostream& out, const store_kind& kind);
std::string name_of(const testing::TestParamInfo<store_kind>& info);

/// A page of a test: its key follows from `number`, and its bytes from `number` and `version`.
struct test_page {
  std::uint32_t number = 0;
  std::uint32_t version = 0;
  std::uint32_t length_bytes = disk_block_bytes;
  auto operator<=>(const test_page&) const = default;
};

page_key key_of(std::uint32_t number);
generation generation_of(const test_page& page);
void fill(const test_page& page, std::byte* memory);
/// Whether `memory` holds exactly this page.
bool holds(const test_page& page, const std::byte* memory);
std::uint64_t checksum_of(const test_page& page);

/// Options of a store with small buckets, so that a test fills several.
disk_store_options small_store(std::uint64_t size_bytes = 64u << 20);

/// Drives a store on a memory disk as the disk tier does, with a simulated clock. Checks that each
/// write and read gets exactly one event, and that a page that was read was written under its key.
class store_harness {
public:
  store_harness(const store_kind& kind, memory_disk_io& io, const disk_store_options& options);
  ~store_harness();

  disk_store& store() noexcept { return *store_; }
  memory_disk_io& io() noexcept { return io_; }

  /// Recovers the store and checks that `find` knows each page that was reported.
  result<recovery_report> recover(const recovery_options& options = {.waiting_threads = 2});

  /// Steps until the store accepts the write or read; does not wait for its event.
  void write(const test_page& page);
  void read(std::uint32_t number);
  /// Runs the store until every write and read has its event. The clock moves to the times at which
  /// the store has something to do.
  void settle();
  /// Moves the clock on, and does nothing else.
  void pass(std::chrono::nanoseconds by);
  /// Reaps completions that have come, and polls the store.
  void step();
  void close(std::chrono::nanoseconds at_most = std::chrono::seconds(60));

  disk_status write_and_settle(const test_page& page);
  disk_status read_and_settle(std::uint32_t number);

  std::size_t on_way() const noexcept { return on_way_.size(); }
  /// Return the status with which the last write, or the last read, of this page ended; nothing
  /// when there was none.
  std::optional<disk_status> written(std::uint32_t number) const;
  std::optional<disk_status> was_read(std::uint32_t number) const;
  std::uint64_t events(disk_event::kind what, disk_status status) const;

  /// Returns how many reads returned bytes that were never written under their key.
  std::uint64_t wrong_pages() const noexcept { return wrong_pages_; }
  /// For each key that must be found: the page of its last write whose event was `ok`.
  const std::map<std::uint32_t, test_page>& durable() const noexcept { return durable_; }
  /// For each key: all pages that may be found, including those whose write failed or was cut off.
  const std::map<std::uint32_t, std::vector<test_page>>& tried() const noexcept { return tried_; }
  /// Adds pages that may be found, because an earlier store on this disk wrote them.
  void know(const std::map<std::uint32_t, std::vector<test_page>>& pages);

private:
  struct transfer {
    disk_event::kind what;
    test_page page; ///< The page that is written; for a read only its number is set.
    std::byte* memory = nullptr;
  };

  void step_or_wait();
  std::byte* make_memory(std::uint32_t length_bytes);
  void drop_memory(std::byte* memory, std::uint32_t length_bytes);
  void take(const std::vector<disk_event>& events);
  void check_read(const transfer& done);

  memory_disk_io& io_;
  std::unique_ptr<disk_store> store_;
  disk_clock::time_point now_{std::chrono::hours(1)};
  std::uint64_t tags_ = 0;
  std::map<std::uint64_t, transfer> on_way_;
  /// Memory for pages that is not in use, by its size in bytes.
  std::map<std::uint32_t, std::vector<std::byte*>> memory_;
  std::map<std::uint32_t, disk_status> written_;
  std::map<std::uint32_t, disk_status> read_;
  std::map<std::pair<disk_event::kind, disk_status>, std::uint64_t> events_;
  std::map<std::uint32_t, test_page> durable_;
  /// For each key: the tag of the write whose page is in `durable_`.
  std::map<std::uint32_t, std::uint64_t> newest_;
  std::map<std::uint32_t, std::vector<test_page>> tried_;
  std::uint64_t wrong_pages_ = 0;
};

/// A test suite that runs with every kind of store.
class disk_stores : public testing::TestWithParam<store_kind> {};

} // namespace peercache::storage

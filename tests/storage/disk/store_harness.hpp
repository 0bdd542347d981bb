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

/// A store that passes the suites of this folder.
struct store_kind {
  const char* name = nullptr;
  std::unique_ptr<disk_store> (*make)(disk_io& io, const disk_store_options& options) = nullptr;
};
const std::vector<store_kind>& all_store_kinds();
std::ostream& operator<<(std::ostream& out, const store_kind& kind);
std::string name_of(const testing::TestParamInfo<store_kind>& info);

/// A page of a test: its key, length and bytes follow from two numbers.
struct test_page {
  std::uint32_t number = 0;
  std::uint32_t version = 0;
  std::uint32_t length_bytes = disk_block_bytes;
  auto operator<=>(const test_page&) const = default;
};

page_key key_of(std::uint32_t number);
generation generation_of(const test_page& page);
void fill(const test_page& page, std::byte* memory);
/// Whether the memory holds exactly this page.
bool holds(const test_page& page, const std::byte* memory);
std::uint64_t checksum_of(const test_page& page);

/// Small buckets, many of them in a folder.
disk_store_options small_store(std::uint64_t size_bytes = 64u << 20);

/// Drives a store over a memory disk as the disk tier does, with a clock of its own, and holds it
/// to its contract: one event for each page, a page that was read is one that was written under
/// this key.
class store_harness {
public:
  store_harness(const store_kind& kind, memory_disk_io& io, const disk_store_options& options);
  ~store_harness();

  disk_store& store() noexcept { return *store_; }
  memory_disk_io& io() noexcept { return io_; }

  /// Recovers; checks that `find` knows what was told.
  result<recovery_report> recover(const recovery_options& options = {});

  /// Waits for nothing. Steps until the store takes it.
  void write(const test_page& page);
  void read(std::uint32_t number);
  /// Runs the store until every page that was written or read has its event. Time passes as the
  /// store asks for.
  void settle();
  /// Lets so much time pass, and nothing else happen.
  void pass(std::chrono::nanoseconds by);
  /// Reaps completions that are there, and polls the store.
  void step();
  void close(std::chrono::nanoseconds at_most = std::chrono::seconds(60));

  disk_status write_and_settle(const test_page& page);
  disk_status read_and_settle(std::uint32_t number);

  std::size_t on_way() const noexcept { return on_way_.size(); }
  /// The last event of this page.
  std::optional<disk_status> written(std::uint32_t number) const;
  std::optional<disk_status> was_read(std::uint32_t number) const;
  std::uint64_t events(disk_event::kind what, disk_status status) const;

  /// Pages whose bytes were not those of any page that was written under this key.
  std::uint64_t wrong_pages() const noexcept { return wrong_pages_; }
  /// The durable page of each key: its last write that was told to be.
  const std::map<std::uint32_t, test_page>& durable() const noexcept { return durable_; }
  /// Every page that may be found: also those whose write failed or was cut off.
  const std::map<std::uint32_t, std::vector<test_page>>& tried() const noexcept { return tried_; }
  /// Reads hold these as right, too.
  void know(const std::map<std::uint32_t, std::vector<test_page>>& pages);

private:
  struct transfer {
    disk_event::kind what;
    test_page page; ///< The page; of a read its number alone.
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
  std::map<std::uint32_t, std::vector<std::byte*>> memory_; ///< Free memory, by whole blocks.
  std::map<std::uint32_t, disk_status> written_;
  std::map<std::uint32_t, disk_status> read_;
  std::map<std::pair<disk_event::kind, disk_status>, std::uint64_t> events_;
  std::map<std::uint32_t, test_page> durable_;
  std::map<std::uint32_t, std::uint64_t> newest_; ///< The tag of the page in `durable_`.
  std::map<std::uint32_t, std::vector<test_page>> tried_;
  std::uint64_t wrong_pages_ = 0;
};

/// A suite for every kind of store.
class disk_stores : public testing::TestWithParam<store_kind> {};

} // namespace peercache::storage

#include "client/pool/own_pool.hpp"
#include "net/socket.hpp"
#include "tests/client/small_pool.hpp"

#include <gtest/gtest.h>

#include <array>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace peercache::client {
namespace {

class own_pool_test : public testing::Test {
protected:
  static link::filled_slot page_in(std::uint32_t slot, const page_key& key,
                                   std::uint32_t length_bytes = 4096) {
    link::filled_slot page{};
    page.slot = {slot};
    page.key = key;
    page.length_bytes = length_bytes;
    page.checksum = 1;
    return page;
  }
  /// Fills a page as this client does, so that processes of the host find it.
  void fill(const link::filled_slot& page) {
    pool->slots.begin_fill(page.slot, limits::granules_of(page.length_bytes));
    ASSERT_TRUE(pool->make_readable(page));
  }
  static page_key key(int i) { return key_space{}.key_of(std::to_string(i)); }

  std::shared_ptr<own_pool> pool = std::make_shared<own_pool>(make_small_pool());
};

/// A clear withdraws published pages. A page that was filled before the clear and is not yet
/// published must not be found after it, either.
TEST_F(own_pool_test, finds_no_filled_page_of_before_a_clear) {
  const key_space llama{std::array<std::string_view, 1>{"llama"}};
  const auto page = page_in(4, llama.key_of("page"));
  fill(page);
  EXPECT_TRUE(pool->find(page.key));
  pool->epochs.raise(space_named("llama"), 1);
  EXPECT_FALSE(pool->find(page.key));
}

TEST_F(own_pool_test, names_a_page_as_the_directory_would) {
  pool->node.id = {3};
  pool->node.inc = {4, 5};
  fill(page_in(6, key(1)));
  const auto found = pool->find(key(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->node, node_id{3});
  EXPECT_EQ(found->holder, (incarnation{4, 5}));
  EXPECT_EQ(found->slot, slot_id{6});
  EXPECT_EQ(found->length_bytes, 4096u);
  EXPECT_EQ(found->checksum, 1u);
  EXPECT_EQ(found->where, directory::tier::memory);
  EXPECT_FALSE(found->mirrored);
  EXPECT_FALSE(found->gen.readable()) << "the node has not published it yet";
}

TEST_F(own_pool_test, finds_the_page_of_the_wanted_length_only) {
  fill(page_in(0, key(1), 8192));
  EXPECT_TRUE(pool->find(key(1)));
  EXPECT_TRUE(pool->find(key(1), 8192));
  EXPECT_FALSE(pool->find(key(1), 4096));
}

TEST_F(own_pool_test, finds_no_page_whose_bytes_nobody_can_compare) {
  auto page = page_in(0, key(1));
  page.checksum = 0;
  fill(page);
  EXPECT_FALSE(pool->find(key(1)));
}

TEST_F(own_pool_test, does_not_show_a_page_to_whoever_took_the_pool_over_meanwhile) {
  const auto page = page_in(0, key(1));
  pool->slots.begin_fill(page.slot);
  pool->slots.refuse_fill(page.slot);
  EXPECT_FALSE(pool->make_readable(page));
  EXPECT_FALSE(pool->find(key(1)));
}

TEST_F(own_pool_test, is_asked_for_many_keys_in_their_order) {
  constexpr std::size_t count = 20;
  for (std::uint32_t i = 0; i < count; i += 3)
    fill(page_in(i, key(static_cast<int>(i))));
  std::vector<bool> found;
  const auto look = [&](const own_pool_ptr& where) {
    found.clear();
    std::vector<page_key> keys;
    for (std::size_t i = 0; i < count; ++i)
      keys.push_back(key(static_cast<int>(i)));
    find_each(
        where, count, [&](std::size_t i) -> const page_key& { return keys[i]; },
        [](std::size_t i) { return i == 3 ? 64u : 0u; },
        [&](std::size_t i, const std::optional<directory::page_location>& here) {
          EXPECT_EQ(i, found.size());
          found.push_back(here.has_value());
        });
  };
  look(pool);
  ASSERT_EQ(found.size(), count);
  for (std::size_t i = 0; i < count; ++i)
    EXPECT_EQ(found[i], i % 3 == 0 && i != 3) << i << ": page 3 is wanted in another length";
  look(nullptr);
  EXPECT_EQ(found, std::vector<bool>(count, false));
}

/// Page faults of this thread, of those that need no disk, while the kernel fills the bytes: no
/// sanitizer's shadow is written.
long faults_of_filling(std::span<std::byte> bytes) {
  const net::unique_fd zeros{::open("/dev/zero", O_RDONLY | O_CLOEXEC)};
  rusage before{}, after{};
  ::getrusage(RUSAGE_THREAD, &before);
  EXPECT_EQ(::syscall(SYS_read, zeros.get(), bytes.data(), bytes.size()),
            static_cast<long>(bytes.size()));
  ::getrusage(RUSAGE_THREAD, &after);
  return after.ru_minflt - before.ru_minflt;
}

/// A client maps memory that the node has touched. Written at once, each page of the kernel would
/// cost a fault.
TEST_F(own_pool_test, a_slot_is_mapped_by_few_faults_before_it_is_filled) {
  constexpr std::uint32_t length_bytes = 512u << 10;
  constexpr slot_id slot{3};
  const auto attach = [this] {
    return own_pool(
        std::move(*storage::pool_memory::attach(pool->memory.name(), pool->memory.owner())));
  };
  const own_pool as_it_is = attach();
  const auto each_by_itself = faults_of_filling(as_it_is.slots.bytes(slot, length_bytes));
  const own_pool with_care = attach();
  const auto mapped_before = faults_of_filling(with_care.bytes_to_fill(slot, length_bytes));
  const own_pool read_before = attach();
  const auto bytes = read_before.slots.bytes(slot, length_bytes);
  std::byte read{};
  for (std::size_t at = 0; at < bytes.size(); at += limits::granule_bytes)
    read |= bytes[at];
  EXPECT_EQ(read, std::byte{0});
  if (faults_of_filling(bytes) * 2 > each_by_itself)
    GTEST_SKIP() << "this kernel maps for reading what is read";
  EXPECT_LT(mapped_before * 2, each_by_itself) << "of 128 pages of the kernel";
}

} // namespace
} // namespace peercache::client

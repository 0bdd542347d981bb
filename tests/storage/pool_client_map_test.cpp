// What clients can write in the memory of a pool bears any value.

#include "left_pool.hpp"
#include "storage/pool_layout.hpp"

#include <optional>
#include <random>

namespace peercache::storage::pool_client_map_test {
namespace {

constexpr std::uint32_t length = 3 * limits::granule_bytes - 100;

/// A node's pool with 100 pages. Clients fill everything that they can write, but the pages, with
/// words that no client of ours writes.
class any_words : public testing::TestWithParam<std::uint64_t> {
protected:
  void SetUp() override {
    const auto options = pool_options_for("any-words");
    auto made = pool_memory::create(options);
    ASSERT_TRUE(made) << made.error().message;
    memory.emplace(std::move(*made));
    memory->holds().limit(memory->granules());
    layout = *plan_layout(options.size_bytes, 0);
    pool = std::make_unique<page_pool>(
        memory->slots(), make_eviction_policy(eviction_kind::lru, options.size_bytes),
        page_pool_options{.holds = memory->holds()}, memory->index());
    for (std::uint64_t number = 1; number <= 100; ++number)
      put(*pool, memory->slots(), number, length);
  }

  result<pool_memory> attach() const {
    return pool_memory::attach(memory->name(), memory->owner());
  }
  void write_any_words() {
    auto client = attach();
    ASSERT_TRUE(client) << client.error().message;
    auto* begin = client->readable_region().data() - layout.table_offset + layout.index_offset;
    auto* words = reinterpret_cast<std::uint64_t*>(begin);
    const auto count = (layout.table_offset - layout.index_offset) / sizeof *words;
    for (std::uint64_t i = 0; i < count; ++i) {
      // Half of the low halves are small: slots, lengths and generations that there could be.
      const auto small = random() % 2 == 0 ? 4095u : UINT32_MAX;
      words[i] = random() << 32 | (random() & small);
    }
  }
  /// Whether what a client finds under this number is the page, with its right bytes.
  bool client_reads(std::uint64_t number) const {
    const auto client = attach();
    const auto found = client ? client->index().find(key_of(number)) : std::nullopt;
    if (!found || found->contents.length_bytes != length)
      return false;
    std::vector<std::byte> expected(length);
    fill_bytes(expected, number);
    const auto bytes = client->slots().bytes(found->slot, length);
    return std::equal(bytes.begin(), bytes.end(), expected.begin()) &&
           client->slots().still_readable(found->slot, found->contents.gen);
  }

  std::optional<pool_memory> memory;
  pool_layout layout;
  std::unique_ptr<page_pool> pool;
  std::mt19937_64 random{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(seed, any_words, testing::Values(1, 2, 3, 4));

TEST_P(any_words, in_what_clients_write_cost_misses_and_never_a_wrong_byte_or_the_node) {
  const auto being_filled = filled(*pool, memory->slots(), 200, length);
  write_any_words();
  for (std::uint64_t number = 1; number <= 200; ++number)
    if (memory->index().find(key_of(number))) {
      EXPECT_TRUE(client_reads(number)) << number;
    }
  for (std::uint64_t number = 1; number <= 100; ++number)
    EXPECT_TRUE(holds(*pool, memory->slots(), number, length)) << number;
  EXPECT_EQ(memory->holds().granules_max(), memory->granules());
  pool->fold_uses(UINT32_MAX);
  commit_outcome refused;
  pool->commit({&being_filled, 1}, {&refused, 1}, fill_origin::producer);
  EXPECT_EQ(refused.status, page_status::refused);
  // The pool goes on: pages are evicted, removed and set, and are found where they should be.
  for (std::uint64_t number = 1000; number < 2000; ++number) {
    put(*pool, memory->slots(), number, length);
    ASSERT_TRUE(holds(*pool, memory->slots(), number, length)) << number;
    if (number % 3 == 0) {
      EXPECT_TRUE(pool->remove(key_of(number), bytes_after::zeroed));
    }
    pool->scrub(1 << 20);
    if (number % 16 == 0)
      write_any_words();
  }
  EXPECT_GT(pool->stats().evictions, 0u);
  EXPECT_TRUE(memory->check_object());
}

TEST_P(any_words, in_a_dead_nodes_pool_do_not_keep_the_next_from_adopting_its_pages) {
  write_any_words();
  const auto remains = survey(memory->slots());
  EXPECT_EQ(remains.pages, 100u);
  EXPECT_EQ(remains.impossible, 0u);
  adopted_pool after(memory->slots());
  EXPECT_EQ(after.adopted, 100u);
  for (std::uint64_t number = 1; number <= 100; ++number)
    EXPECT_TRUE(holds(*after.pool, memory->slots(), number, length)) << number;
}

} // namespace
} // namespace peercache::storage::pool_client_map_test

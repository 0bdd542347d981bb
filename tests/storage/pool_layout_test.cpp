#include "storage/pool_layout.hpp"

#include "common/limits.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

namespace peercache::storage {
namespace {

/// Whether a header is read whose layout is that of a pool of 8 MiB, but for what `change` does.
bool is_read_after(const std::function<void(pool_header&)>& change) {
  const auto plan = *plan_layout(8u << 20, 0);
  const auto header = std::make_unique<pool_header>();
  header->magic = pool_magic;
  write_layout(*header, plan);
  change(*header);
  return static_cast<bool>(read_layout(*header, plan.object_bytes, "a pool"));
}

TEST(pool_layout, a_header_is_read_as_it_was_written) {
  EXPECT_TRUE(is_read_after([](auto&) {}));
}

TEST(pool_layout, parts_that_overlap_or_begin_within_a_kernel_page_are_refused) {
  const auto plan = *plan_layout(8u << 20, 0);
  EXPECT_FALSE(is_read_after([](auto& header) { header.index_offset = 64u << 10; }));
  EXPECT_FALSE(is_read_after([](auto& header) { header.index_offset += 4096; }));
  EXPECT_FALSE(is_read_after([](auto& header) { header.holds_offset -= 64; }));
  EXPECT_FALSE(is_read_after([](auto& header) { header.clients_offset -= 4096; }));
  EXPECT_FALSE(is_read_after([](auto& header) { header.clients_offset += 8; }));
  EXPECT_FALSE(is_read_after([](auto& header) { header.clients_offset = ~std::uint64_t{63}; }));
  EXPECT_FALSE(is_read_after([](auto& header) { header.table_offset -= 64u << 10; }));
  EXPECT_FALSE(is_read_after([](auto& header) { header.table_offset += 64; }));
  EXPECT_FALSE(is_read_after([](auto& header) { header.pages_offset -= 4096; }));
  EXPECT_FALSE(is_read_after([&](auto& header) { header.pages_offset = plan.object_bytes; }));
  EXPECT_FALSE(is_read_after([](auto& header) { header.granules *= 2; }));
}

TEST(pool_layout, of_huge_pages_has_parts_and_a_size_of_whole_ones) {
  for (const auto page_bytes : {std::uint64_t{2} << 20, std::uint64_t{1} << 30}) {
    const auto plan = *plan_layout(5 * page_bytes + 4096, page_bytes);
    EXPECT_EQ(std::uint64_t{plan.granules} * limits::granule_bytes, 5 * page_bytes);
    for (const auto bytes :
         {plan.index_offset, plan.table_offset, plan.pages_offset, plan.object_bytes})
      EXPECT_EQ(bytes % page_bytes, 0u) << page_bytes;
    EXPECT_FALSE(plan_layout(page_bytes - 1, page_bytes));
  }
}

} // namespace
} // namespace peercache::storage

#include "client/own_pool.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace peercache::client {
namespace {

/// A clear walks over readable pages only; after the clear, pages that were merely filled before
/// must not be found either.
TEST(own_pool, finds_no_filled_page_of_before_a_clear) {
  storage::pool_memory_options options;
  options.name_prefix = "peercache-own-pool-test-" + std::to_string(::getpid());
  options.node_name = "node";
  options.owner = incarnation::random();
  options.size_bytes = 1u << 20;
  auto made = storage::pool_memory::create(options);
  ASSERT_TRUE(made) << made.error().message;
  own_pool pool{std::move(*made)};
  const key_space llama{std::array<std::string_view, 1>{"llama"}};
  link::filled_slot page{};
  page.slot = {4};
  page.key = llama.key_of("page");
  page.length_bytes = 4096;
  page.checksum = 1;
  pool.slots.begin_fill(page.slot);
  ASSERT_TRUE(pool.make_readable(page));
  EXPECT_TRUE(pool.find(page.key));
  pool.epochs.raise(space_named("llama"), 1);
  EXPECT_FALSE(pool.find(page.key));
}

} // namespace
} // namespace peercache::client

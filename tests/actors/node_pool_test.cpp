#include "actors/node/node_options.hpp"
#include "common/checksum.hpp"

#include <algorithm>
#include <cstddef>
#include <gtest/gtest.h>
#include <unistd.h>
#include <vector>

namespace peercache::actors::node_pool_test {
namespace {

TEST(node_pool, bytes_of_pages_that_give_way_are_zeroed_as_the_configuration_says) {
  for (const bool wanted : {false, true}) {
    config::node_config config;
    config.pool.size_bytes = 1u << 20;
    config.pool.name_prefix = "peercache-test-scrub-" + std::to_string(::getpid());
    config.pool.scrub_evicted = wanted;
    discovery::member self;
    self.name = "node";
    self.inc = incarnation::random();
    const auto memory = storage::pool_memory::create(memory_options(config, self));
    ASSERT_TRUE(memory) << memory.error().message;
    const auto pool = make_pool(config, *memory);
    std::vector<storage::evicted> victims;
    const auto slot = pool->reserve(4096, victims);
    ASSERT_TRUE(slot);
    const auto bytes = memory->slots().bytes(*slot, 4096);
    std::fill(bytes.begin(), bytes.end(), std::byte{1});
    const storage::fill page{*slot, page_key{}, 4096, checksum_of(bytes)};
    memory->slots().fill(page.slot, page.key, page.length_bytes, page.checksum);
    storage::commit_outcome outcome;
    pool->commit({&page, 1}, {&outcome, 1}, storage::fill_origin::producer);
    ASSERT_TRUE(pool->remove(page.key));
    pool->scrub(4096);
    EXPECT_EQ(bytes.front() == std::byte{0}, wanted);
    EXPECT_EQ(bytes.back() == std::byte{0}, wanted);
  }
}

} // namespace
} // namespace peercache::actors::node_pool_test

#pragma once

#include "storage/pool_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <unistd.h>
#include <utility>

namespace peercache::client {

/// Makes a pool of 256 granules with a random incarnation as its owner, so that no other test has
/// the same pool.
inline storage::pool_memory make_small_pool() {
  static std::uint64_t made = 0;
  storage::pool_memory_options options;
  options.name_prefix = "peercache-client-test-" + std::to_string(::getpid());
  options.node_name = "fake";
  options.owner = {7, ++made};
  options.size_bytes = 1u << 20;
  auto memory = storage::pool_memory::create(options);
  EXPECT_TRUE(memory) << to_string(memory.error());
  return std::move(*memory);
}

} // namespace peercache::client

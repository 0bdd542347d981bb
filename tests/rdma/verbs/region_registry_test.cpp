// Tests of how a pool is cut into chunks, and how each chunk is registered.

#include "tests/rdma/verbs/verbs_rail_rig.hpp"

#include <thread>

namespace peercache::rdma::region_registry_test {
namespace {

constexpr std::uint64_t mib = 1u << 20;
constexpr std::uint64_t unlimited = ~std::uint64_t{0};

/// Returns a span at this address; its memory is never touched.
std::span<std::byte> at(std::uint64_t address, std::uint64_t bytes) {
  return {reinterpret_cast<std::byte*>(address), bytes};
}

TEST(chunk_plan, chunks_follow_each_other_and_end_at_huge_pages) {
  const auto region = at((1u << 30) + 4096, 9 * mib);
  const auto plan = chunk_plan::make(region, 4 * mib, unlimited);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->chunks(), 3u);
  auto* next = region.data();
  for (std::uint32_t i = 0; i < plan->chunks(); ++i) {
    const auto part = plan->part(i);
    EXPECT_EQ(part.data(), next) << i;
    next = part.data() + part.size();
    if (i + 1 < plan->chunks()) {
      EXPECT_EQ(reinterpret_cast<std::uint64_t>(next) % (2 * mib), 0u) << i;
    }
  }
  EXPECT_EQ(next, region.data() + region.size());
}

TEST(chunk_plan, a_small_region_is_one_chunk) {
  const auto region = at((1u << 30) + 4096, 4096);
  const auto plan = chunk_plan::make(region, 1u << 30, unlimited);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->chunks(), 1u);
  EXPECT_EQ(plan->part(0).size(), 4096u);
}

TEST(chunk_plan, too_many_chunks_become_larger_ones) {
  const auto plan = chunk_plan::make(at(4096, 100'000 * mib), 2 * mib, unlimited);
  ASSERT_TRUE(plan);
  EXPECT_LE(plan->chunks(), region_chunks_max);
  EXPECT_GT(plan->chunks(), region_chunks_max / 2);
  EXPECT_EQ(plan->chunk_bytes() % (2 * mib), 0u);
}

TEST(chunk_plan, no_chunk_is_larger_than_the_device_takes) {
  const auto plan = chunk_plan::make(at(2 * mib, 100 * mib), 1u << 30, 11 * mib);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->chunk_bytes(), 10 * mib);
  EXPECT_EQ(plan->chunks(), 10u);
}

TEST(chunk_plan, what_cannot_be_is_refused_with_a_reason) {
  const auto why = [](std::span<std::byte> region, std::uint64_t wanted, std::uint64_t most) {
    const auto plan = chunk_plan::make(region, wanted, most);
    return plan ? "" : plan.error().message;
  };
  EXPECT_NE(why({}, 2 * mib, unlimited), "");
  EXPECT_NE(why(at(4096, mib), 0, unlimited), "");
  EXPECT_NE(why(at(4096, mib), 3 * mib, unlimited).find("multiple of 2 MiB"), std::string::npos);
  EXPECT_NE(why(at(4096, mib), 2 * mib, mib), "");
  EXPECT_NE(why(at(4096, 100'000 * mib), 2 * mib, 4 * mib).find("at most 4096"), std::string::npos);
}

class region_registry_test : public testing::Test {
protected:
  region_registry_test() { fabric.add(tests::roce_device("nic0", 1)); }

  /// Makes a registry of a pool of `pool_mib` MiB, in chunks of 2 MiB.
  region_registry& make(std::uint32_t pool_mib) {
    auto opened = verbs::device::open("nic0", {});
    EXPECT_TRUE(opened);
    device = std::move(*opened);
    pool = std::make_unique<rail_pool>(pool_mib);
    const auto plan = chunk_plan::make(pool->region(), 2 * mib, unlimited);
    EXPECT_TRUE(plan);
    region_registry::callbacks tell;
    tell.on_progress = [this](std::uint32_t done, std::uint32_t total) {
      steps.emplace_back(done, total);
    };
    tell.on_done = [this] { ++told; };
    registry = std::make_unique<region_registry>(*device, *plan, tell);
    return *registry;
  }

  tests::fake_fabric fabric;
  std::unique_ptr<verbs::device> device;
  std::unique_ptr<rail_pool> pool;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> steps;
  std::atomic<int> told{0};
  std::unique_ptr<region_registry> registry;
};

TEST_F(region_registry_test, chunks_become_readable_one_by_one_the_slot_table_first) {
  auto& all = make(5);
  served_chunks served;
  EXPECT_FALSE(all.take_registered(served));
  ASSERT_EQ(all.chunks(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(all.register_next());
    EXPECT_TRUE(all.take_registered(served));
    ASSERT_EQ(served.size(), i + 1);
    EXPECT_EQ(served.chunks()[i].index, i);
  }
  EXPECT_FALSE(all.register_next());
  EXPECT_FALSE(all.take_registered(served));
  const auto chunks = served.chunks();
  EXPECT_EQ(chunks[0].address, reinterpret_cast<std::uint64_t>(pool->region().data()));
  EXPECT_EQ(chunks[1].address, chunks[0].address + chunks[0].bytes);
  const auto progress = all.progress();
  EXPECT_EQ(progress.registered, 3u);
  EXPECT_EQ(progress.registered_bytes, pool->region().size());
  EXPECT_EQ(told, 3);
  const decltype(steps) expected{{1, 3}, {2, 3}, {3, 3}};
  EXPECT_EQ(steps, expected);
}

TEST_F(region_registry_test, a_pool_is_readable_from_remote_and_nothing_else) {
  auto& all = make(5);
  all.register_next();
  served_chunks served;
  all.take_registered(served);
  ASSERT_EQ(fabric.regions().size(), 1u);
  EXPECT_EQ(fabric.regions()[0].rights, static_cast<unsigned>(IBV_ACCESS_REMOTE_READ));
  EXPECT_EQ(fabric.regions()[0].remote_key, served.chunks()[0].rkey);
}

TEST_F(region_registry_test, a_chunk_that_fails_costs_only_itself) {
  auto& all = make(5);
  fabric.fail(tests::fake_call::register_memory, EIO);
  while (all.register_next()) {
  }
  served_chunks served;
  all.take_registered(served);
  EXPECT_EQ(served.size(), 2u);
  const auto progress = all.progress();
  EXPECT_EQ(progress.failed, 1u);
  EXPECT_EQ(progress.registered, 2u);
  EXPECT_NE(progress.failure, "");
  EXPECT_EQ(steps.back(), std::pair(3u, 3u)) << "done, one way or the other";
}

TEST_F(region_registry_test, short_memlock_is_told_with_the_line_that_fixes_it) {
  auto small = tests::roce_device("small", 3);
  small.memlock_bytes = 3 * mib;
  fabric.add(small);
  make(5);
  registry.reset();
  auto opened = verbs::device::open("small", {});
  ASSERT_TRUE(opened);
  const auto plan = chunk_plan::make(pool->region(), 2 * mib, unlimited);
  std::vector<std::string> failures;
  region_registry::callbacks tell;
  tell.on_failure = [&](const std::string& why) { failures.push_back(why); };
  region_registry all(**opened, *plan, tell);
  while (all.register_next()) {
  }
  EXPECT_EQ(all.progress().registered, 1u);
  EXPECT_EQ(all.progress().failed, 2u);
  EXPECT_NE(all.progress().failure.find("MEMLOCK"), std::string::npos) << all.progress().failure;
  EXPECT_EQ(failures, std::vector<std::string>{all.progress().failure}) << "once for one cause";
}

TEST_F(region_registry_test, several_threads_share_the_work) {
  auto& all = make(200);
  std::vector<std::thread> helpers;
  for (int i = 0; i < 4; ++i)
    helpers.emplace_back([&all] {
      while (all.register_next()) {
      }
    });
  served_chunks served;
  while (served.size() < all.chunks()) {
    if (!all.take_registered(served))
      std::this_thread::yield();
  }
  for (auto& each : helpers)
    each.join();
  std::vector<bool> seen(all.chunks());
  for (const auto& each : served.chunks()) {
    EXPECT_FALSE(seen[each.index]);
    seen[each.index] = true;
  }
  for (std::size_t i = 0; i < steps.size(); ++i)
    EXPECT_EQ(steps[i].first, i + 1);
  EXPECT_EQ(all.progress().registered_bytes, pool->region().size());
}

TEST_F(region_registry_test, the_regions_end_with_it) {
  auto& all = make(5);
  while (all.register_next()) {
  }
  EXPECT_EQ(fabric.objects().regions, 3u);
  registry.reset();
  EXPECT_EQ(fabric.objects().regions, 0u);
}

} // namespace
} // namespace peercache::rdma::region_registry_test

// Tests of the buffers that small READs land in: who has which, and that they run out.

#include "client/read/landing_stock.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

namespace peercache::client::landing_stock_test {
namespace {

class landing_stock_test : public testing::Test {
protected:
  landing_stock_test() {
    client_options options;
    options.rails.mode = rdma::plane_mode::tcp;
    auto made = read_plane::create(options);
    EXPECT_TRUE(made);
    plane = std::move(*made);
  }
  void stock_of(std::uint32_t buffers, std::size_t bytes) {
    auto made = landing_stock::create(*plane, buffers, bytes);
    ASSERT_TRUE(made);
    stock = std::move(*made);
  }

  std::unique_ptr<read_plane> plane;
  std::unique_ptr<landing_stock> stock;
};

TEST_F(landing_stock_test, each_buffer_has_one_holder_until_none_is_left) {
  for (const std::uint32_t buffers : {1u, 5u, landing_stock::buffers_max}) {
    stock_of(buffers, 100);
    std::vector<landing_stock::lease> held;
    std::set<std::byte*> begins;
    for (std::uint32_t i = 0; i < buffers; ++i) {
      held.push_back(stock->take());
      ASSERT_TRUE(held.back());
      EXPECT_EQ(held.back().bytes().size(), 128u) << "whole cache lines";
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(held.back().bytes().data()) % 64, 0u);
      std::fill(held.back().bytes().begin(), held.back().bytes().end(), std::byte(i));
      begins.insert(held.back().bytes().data());
    }
    EXPECT_EQ(begins.size(), buffers);
    EXPECT_FALSE(stock->take());
    EXPECT_TRUE(stock->take().bytes().empty());
    for (std::uint32_t i = 0; i < buffers; ++i)
      for (const auto byte : held[i].bytes())
        ASSERT_EQ(byte, std::byte(i)) << "buffers do not overlap";
    auto* const back = held.front().bytes().data();
    held.front() = {};
    EXPECT_EQ(stock->take().bytes().data(), back) << "what is given back is taken again";
  }
}

TEST_F(landing_stock_test, a_lease_that_moves_stays_one_lease) {
  stock_of(1, 64);
  auto one = stock->take();
  landing_stock::lease other(std::move(one));
  EXPECT_FALSE(one);
  EXPECT_TRUE(other);
  EXPECT_FALSE(stock->take());
  one = std::move(other);
  EXPECT_TRUE(one);
  one = {};
  EXPECT_TRUE(stock->take());
}

TEST_F(landing_stock_test, threads_never_have_one_buffer_together) {
  stock_of(3, 64);
  std::atomic<int> shared{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 20'000; ++i)
        if (const auto mine = stock->take()) {
          std::fill(mine.bytes().begin(), mine.bytes().end(), std::byte(thread));
          shared += std::any_of(mine.bytes().begin(), mine.bytes().end(),
                                [thread](auto byte) { return byte != std::byte(thread); });
        }
    });
  for (auto& thread : threads)
    thread.join();
  EXPECT_EQ(shared, 0);
  std::vector<landing_stock::lease> all;
  while (auto next = stock->take())
    all.push_back(std::move(next));
  EXPECT_EQ(all.size(), 3u);
}

} // namespace
} // namespace peercache::client::landing_stock_test

#include "rdma/served_spans.hpp"

#include "common/test_guards.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

namespace peercache::rdma::served_spans_test {
namespace {

class served_spans_test : public testing::Test {
protected:
  served_spans_test() {
    key.bytes[5] = 9;
    leases[1].key = key;
    leases[1].generation = 4;
  }

  std::uint64_t at(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory.data() + offset);
  }

  std::array<slot_entry, 3> leases{};
  page_key key;
  std::array<std::byte, 4000> memory{};
  served_spans spans{leases};
};

TEST_F(served_spans_test, covers_what_lies_in_one_span) {
  ASSERT_TRUE(spans.add(std::span(memory).subspan(0, 1000)));
  ASSERT_TRUE(spans.add(std::span(memory).subspan(2000, 1000)));
  const auto reading = spans.read();
  EXPECT_TRUE(reading.covers(memory_rows::one_piece(at(0), 1000)));
  EXPECT_TRUE(reading.covers({at(2000), 100, 10, 50}));
  EXPECT_TRUE(reading.covers({at(2000), 300, 4, 100})) << "the last row ends with the span";
  EXPECT_FALSE(reading.covers({at(2000), 301, 4, 100}));
  EXPECT_FALSE(reading.covers(memory_rows::one_piece(at(0), 1001)));
  EXPECT_FALSE(reading.covers(memory_rows::one_piece(at(1000), 1)));
  EXPECT_FALSE(reading.covers(memory_rows::one_piece(at(1999), 1)));
  EXPECT_FALSE(reading.covers(memory_rows::one_piece(at(3000), 1)));
  EXPECT_FALSE(reading.covers({at(0), 2000, 2, 100})) << "from one span into the next";
}

TEST_F(served_spans_test, refuses_memory_that_it_has) {
  ASSERT_TRUE(spans.add(std::span(memory).subspan(1000, 1000)));
  EXPECT_FALSE(spans.add(memory));
  EXPECT_FALSE(spans.add(std::span(memory).subspan(1500, 10)));
  EXPECT_FALSE(spans.add(std::span(memory).subspan(0, 1001)));
  EXPECT_FALSE(spans.add({}));
  EXPECT_TRUE(spans.add(std::span(memory).subspan(0, 1000)));
  EXPECT_TRUE(spans.add(std::span(memory).subspan(2000, 1000)));
  EXPECT_FALSE(spans.remove(memory.data() + 1));
  EXPECT_TRUE(spans.remove(memory.data() + 1000));
  EXPECT_FALSE(spans.read().covers(memory_rows::one_piece(at(1000), 1)));
  EXPECT_TRUE(spans.add(std::span(memory).subspan(1000, 1000)));
}

TEST_F(served_spans_test, judges_by_generation_and_key) {
  EXPECT_EQ(spans.judge({1}, {4}, key), page_status::hit);
  EXPECT_EQ(spans.judge({1}, {6}, key), page_status::stale);
  EXPECT_EQ(spans.judge({0}, {4}, key), page_status::stale);
  EXPECT_EQ(spans.judge({3}, {4}, key), page_status::stale) << "there is no such lease";
  EXPECT_EQ(spans.judge({1}, {4}, page_key{}), page_status::wrong_key);
  leases[1].generation = 5;
  EXPECT_EQ(spans.judge({1}, {4}, key), page_status::stale);
  EXPECT_EQ(spans.judge({1}, {5}, key), page_status::stale) << "odd, whoever names it";
  const guard_switched_off generations(guard::generation);
  EXPECT_EQ(spans.judge({1}, {4}, key), page_status::hit);
  const guard_switched_off keys(guard::key);
  EXPECT_EQ(spans.judge({1}, {4}, page_key{}), page_status::hit);
}

TEST_F(served_spans_test, a_removal_waits_until_nobody_reads) {
  ASSERT_TRUE(spans.add(memory));
  std::atomic<bool> reads{true};
  std::atomic<bool> overlapped{false};
  std::optional<served_spans::reading> reading(spans.read());
  std::thread owner([&] {
    EXPECT_TRUE(spans.remove(memory.data()));
    overlapped = reads.load();
  });
  for (int i = 0; i < 100; ++i)
    std::this_thread::yield();
  EXPECT_TRUE(reading->covers(memory_rows::one_piece(at(0), 4000)));
  reads = false;
  reading.reset();
  owner.join();
  EXPECT_FALSE(overlapped);
}

TEST_F(served_spans_test, what_is_read_is_not_removed) {
  ASSERT_TRUE(spans.add(std::span(memory).subspan(0, 1000)));
  auto reading = spans.read();
  EXPECT_FALSE(spans.remove_unless_read(memory.data()));
  EXPECT_FALSE(spans.remove_unless_read(memory.data() + 1)) << "which span is read is not known";
  EXPECT_TRUE(reading.covers(memory_rows::one_piece(at(0), 1000)));
  reading = spans.read();
  EXPECT_FALSE(spans.remove_unless_read(memory.data())) << "one of two has ended";
  reading = {};
  EXPECT_TRUE(spans.remove_unless_read(memory.data() + 1)) << "no span begins there";
  EXPECT_TRUE(spans.read().covers(memory_rows::one_piece(at(0), 1000)));
  EXPECT_TRUE(spans.remove_unless_read(memory.data()));
  EXPECT_FALSE(spans.read().covers(memory_rows::one_piece(at(0), 1)));
}

TEST_F(served_spans_test, nobody_begins_to_read_while_a_removal_waits) {
  ASSERT_TRUE(spans.add(memory));
  constexpr std::uint32_t begun_max = 100'000'000;
  std::atomic<std::uint32_t> begun{0};
  std::optional<served_spans::reading> reading(spans.read());
  std::thread owner([&] { EXPECT_TRUE(spans.remove(memory.data())); });
  std::thread other([&] {
    while (begun < begun_max && spans.read().covers(memory_rows::one_piece(at(0), 4000)))
      ++begun;
  });
  for (std::uint32_t yields = 0, before = 0; yields < 20'000 && begun < begun_max; ++yields) {
    std::this_thread::yield();
    if (std::exchange(before, begun.load()) != begun)
      yields = 0;
  }
  reading.reset();
  owner.join();
  other.join();
  EXPECT_LT(begun, begun_max);
}

TEST_F(served_spans_test, without_the_pin_guard_memory_is_removed_while_it_is_read) {
  ASSERT_TRUE(spans.add(std::span(memory).subspan(0, 1000)));
  ASSERT_TRUE(spans.add(std::span(memory).subspan(1000, 1000)));
  const auto reading = spans.read();
  EXPECT_FALSE(spans.remove_unless_read(memory.data()));
  const guard_switched_off off(guard::pin);
  EXPECT_TRUE(spans.remove_unless_read(memory.data()));
  EXPECT_TRUE(spans.remove(memory.data() + 1000));
  EXPECT_FALSE(reading.covers(memory_rows::one_piece(at(0), 1)));
}

} // namespace
} // namespace peercache::rdma::served_spans_test

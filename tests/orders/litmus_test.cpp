// Tests of the checker itself, by programs whose answers are known from the literature.

#include "litmus.hpp"

#include <gtest/gtest.h>

namespace peercache::litmus {
namespace {

using enum order;

constexpr int x = 0;
constexpr int y = 1;

bool store_buffering(order stores, order loads, order fences) {
  return allows({{store(x, 1, stores), fence(fences), load(y, loads)},
                 {store(y, 1, stores), fence(fences), load(x, loads)}},
                [](const readings& read) { return read.at(0, 2) == 0 && read.at(1, 2) == 0; });
}

TEST(litmus, two_threads_may_miss_each_others_stores_unless_all_is_seq_cst) {
  EXPECT_TRUE(store_buffering(relaxed, relaxed, relaxed));
  EXPECT_TRUE(store_buffering(release, acquire, acq_rel));
  EXPECT_TRUE(store_buffering(seq_cst, acquire, relaxed));
  EXPECT_FALSE(store_buffering(seq_cst, seq_cst, relaxed));
  EXPECT_FALSE(store_buffering(relaxed, relaxed, seq_cst));
}

bool message_passing(order written, order read, order writer_fence, order reader_fence) {
  return allows({{store(x, 1, relaxed), fence(writer_fence), store(y, 1, written)},
                 {load(y, read), fence(reader_fence), load(x, relaxed)}},
                [](const readings& saw) { return saw.at(1, 0) == 1 && saw.at(1, 2) == 0; });
}

TEST(litmus, a_message_is_whole_with_release_and_acquire_on_either_side) {
  EXPECT_FALSE(message_passing(release, acquire, relaxed, relaxed));
  EXPECT_FALSE(message_passing(relaxed, relaxed, release, acquire));
  EXPECT_FALSE(message_passing(release, relaxed, relaxed, acquire));
  EXPECT_TRUE(message_passing(relaxed, acquire, relaxed, relaxed));
  EXPECT_TRUE(message_passing(release, relaxed, relaxed, relaxed));
  EXPECT_TRUE(message_passing(relaxed, relaxed, release, relaxed));
}

TEST(litmus, an_exchange_hands_a_release_on) {
  const auto handed = [](step middle) {
    return allows({{store(x, 1, relaxed), store(y, 1, release)},
                   {middle},
                   {load(y, acquire), load(x, relaxed)}},
                  [](const readings& read) {
                    return read.at(1, 0) == 1 && read.at(2, 0) == 2 && read.at(2, 1) == 0;
                  });
  };
  EXPECT_FALSE(handed(exchange(y, 2, relaxed)));
}

TEST(litmus, causes_go_through_a_third_thread) {
  const auto broken = [](order how) {
    return allows({{store(x, 1, relaxed)},
                   {load(x, relaxed), store(y, 1, how)},
                   {load(y, acquire), load(x, relaxed)}},
                  [](const readings& read) {
                    return read.at(1, 0) == 1 && read.at(2, 0) == 1 && read.at(2, 1) == 0;
                  });
  };
  EXPECT_FALSE(broken(release));
  EXPECT_TRUE(broken(relaxed));
}

TEST(litmus, readers_agree_on_the_order_of_independent_writes_only_with_seq_cst) {
  const auto differ = [](order how) {
    return allows({{store(x, 1, how == seq_cst ? seq_cst : release)},
                   {store(y, 1, how == seq_cst ? seq_cst : release)},
                   {load(x, how), load(y, how)},
                   {load(y, how), load(x, how)}},
                  [](const readings& read) {
                    return read.at(2, 0) == 1 && read.at(2, 1) == 0 && read.at(3, 0) == 1 &&
                           read.at(3, 1) == 0;
                  });
  };
  EXPECT_TRUE(differ(acquire));
  EXPECT_FALSE(differ(seq_cst));
}

TEST(litmus, a_place_never_goes_back) {
  EXPECT_FALSE(
      allows({{store(x, 1, relaxed)}, {load(x, relaxed), load(x, relaxed)}},
             [](const readings& read) { return read.at(1, 0) == 1 && read.at(1, 1) == 0; }));
}

TEST(litmus, a_store_overtakes_a_load_unless_there_are_release_and_acquire) {
  const auto overtaken = [](order stores, order loads) {
    return allows({{load(x, loads), store(y, 1, stores)}, {load(y, loads), store(x, 1, stores)}},
                  [](const readings& read) { return read.at(0, 0) == 1 && read.at(1, 0) == 1; });
  };
  EXPECT_TRUE(overtaken(relaxed, relaxed));
  EXPECT_TRUE(overtaken(release, relaxed));
  EXPECT_FALSE(overtaken(release, acquire));
}

TEST(litmus, two_exchanges_never_read_the_same_value) {
  EXPECT_FALSE(allows({{exchange(x, 1, relaxed)}, {exchange(x, 2, relaxed)}},
                      [](const readings& read) { return read.at(0, 0) == read.at(1, 0); }));
  EXPECT_TRUE(
      allows({{load(x, relaxed), store(x, 1, relaxed)}, {load(x, relaxed), store(x, 2, relaxed)}},
             [](const readings& read) { return read.at(0, 0) == read.at(1, 0); }));
}

} // namespace
} // namespace peercache::litmus

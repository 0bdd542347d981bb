#include "common/published.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace peercache {
namespace {

TEST(published, a_reader_keeps_the_version_that_it_loaded) {
  published<std::string> text{"first"};
  const auto first = text.load();
  text.store("second");
  EXPECT_EQ(*first, "first");
  EXPECT_EQ(*text.load(), "second");
}

/// Two threads publish vectors of equal numbers while two others read: `scripts/test --tsan`
/// reports a race here when `published` keeps an atomic pointer of libstdc++ 12.
TEST(published, versions_are_whole_whoever_publishes_meanwhile) {
  constexpr int versions = 2000;
  published<std::vector<int>> numbers{std::vector<int>(8, 0)};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 2; ++writer)
    threads.emplace_back([&] {
      for (int i = 1; i <= versions; ++i)
        numbers.store(std::vector<int>(8, i));
    });
  for (int reader = 0; reader < 2; ++reader)
    threads.emplace_back([&] {
      for (int i = 0; i < versions; ++i) {
        const auto now = numbers.load();
        EXPECT_EQ(*now, std::vector<int>(8, now->front()));
      }
    });
  for (auto& each : threads)
    each.join();
  EXPECT_EQ(numbers.load()->front(), versions);
}

} // namespace
} // namespace peercache

#include "client/read/reader_name.hpp"

#include <gtest/gtest.h>

#include <set>

namespace peercache::client {
namespace {

TEST(reader_name, clients_that_live_at_once_have_different_names) {
  std::set<std::string> names;
  for (const auto* host : {"gpu-1", "gpu-2", ""})
    for (const std::uint64_t pid_namespace : {4026531836u, 4026532001u})
      for (const std::uint64_t pid : {1u, 7u}) // Equal pids occur in different containers.
        for (const std::uint32_t number : {0u, 1u})
          names.insert(reader_name({host, pid_namespace, pid}, number));
  EXPECT_EQ(names.size(), 3u * 2 * 2 * 2);
}

TEST(reader_name, the_same_place_has_the_same_name_again) {
  EXPECT_EQ(reader_name({"gpu-1", 1, 7}, 0), reader_name({"gpu-1", 1, 7}, 0));
  EXPECT_EQ(reader_name(process_place::own(), 3), reader_name(process_place::own(), 3));
}

TEST(reader_name, fits_into_a_hello) {
  const process_place longest{std::string(64, 'h'), ~std::uint64_t{0}, 1u << 22};
  EXPECT_LE(reader_name(longest, ~std::uint32_t{0}).size(), 40u);
}

} // namespace
} // namespace peercache::client

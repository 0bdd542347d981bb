#include "common/loopback.hpp"

#include <gtest/gtest.h>

namespace peercache {
namespace {

TEST(loopback, is_only_this_hosts_addresses) {
  for (const char* host : {"127.0.0.1", "127.255.255.254", "localhost", "::1"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host :
       {"", "0.0.0.0", "10.0.0.1", "128.0.0.1", "::", "fd00::1", "127.0.0.1.example.com", "127.0.0",
        "127.0.0.1.", "127.0.0.256", "127.0.0.1.1", "127", "127..0.1", "localhost2", "-127.0.0.1",
        "127.0.0.1 "})
    EXPECT_FALSE(is_loopback(host)) << host;
}

} // namespace
} // namespace peercache

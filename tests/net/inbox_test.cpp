#include "net/inbox.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace peercache::net {
namespace {

using namespace std::chrono_literals;

TEST(inbox, wakes_the_server_and_keeps_the_order) {
  auto server = std::move(*event_poll::create());
  inbox<int> to{server};
  EXPECT_TRUE(to.take().empty());
  std::thread other([&] {
    to.push(1);
    to.push(2);
  });
  EXPECT_FALSE(server.collect(10s).empty()) << "a push did not wake the server";
  other.join();
  EXPECT_EQ(to.take(), (std::vector{1, 2}));
  EXPECT_TRUE(to.take().empty());
}

TEST(inbox, frees_what_comes_after_the_servers_end) {
  const auto thing = std::make_shared<int>(7);
  auto server = std::make_unique<event_poll>(std::move(*event_poll::create()));
  inbox<std::shared_ptr<int>> to{*server};
  to.push(thing);
  to.close();
  EXPECT_EQ(thing.use_count(), 1) << "what nobody has taken is freed";
  server.reset();
  to.push(thing);
  EXPECT_EQ(thing.use_count(), 1);
  EXPECT_TRUE(to.take().empty());
}

} // namespace
} // namespace peercache::net

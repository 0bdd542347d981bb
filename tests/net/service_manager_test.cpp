#include "net/service_manager.hpp"

#include "tests/support/notify_socket.hpp"

#include <chrono>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

namespace peercache::net {

using std::chrono::milliseconds;
using tests::notify_socket;

TEST(service_manager, gets_the_state_by_a_path_and_by_an_abstract_name) {
  const auto id = std::to_string(::getpid());
  const auto path = testing::TempDir() + "peercache-notify-" + id;
  for (const auto& address : {path, "@peercache-notify-" + id}) {
    notify_socket manager(address);
    ASSERT_TRUE(tell_service_manager(address.c_str(), "READY=1", milliseconds(20))) << address;
    EXPECT_EQ(manager.next(milliseconds(0)), "READY=1") << address;
    EXPECT_EQ(manager.next(milliseconds(0)), std::nullopt) << address;
  }
  ::unlink(path.c_str());
}

TEST(service_manager, that_is_not_there_is_told_nothing) {
  EXPECT_TRUE(tell_service_manager(nullptr, "READY=1", milliseconds(20)));
}

TEST(service_manager, an_address_at_which_nobody_listens_is_an_error_that_names_it) {
  const auto told = tell_service_manager("/nowhere/notify", "READY=1", milliseconds(20));
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code, errc::io_failed);
  EXPECT_NE(told.error().message.find("/nowhere/notify"), std::string::npos);
}

TEST(service_manager, an_address_of_another_kind_is_refused) {
  for (const auto& address : {std::string(), std::string("@"), std::string("relative/notify"),
                              std::string("vsock:2:1234"), "/" + std::string(107, 'x')}) {
    const auto told = tell_service_manager(address.c_str(), "READY=1", milliseconds(20));
    ASSERT_FALSE(told) << address;
    EXPECT_EQ(told.error().code, errc::invalid_argument) << address;
  }
}

TEST(service_manager, that_reads_nothing_does_not_hold_the_node_up_for_ever) {
  const auto address = "@peercache-notify-full-" + std::to_string(::getpid());
  notify_socket manager(address);
  result<void> told;
  for (int sent = 0; told && sent < 10'000; ++sent)
    told = tell_service_manager(address.c_str(), "READY=1", milliseconds(20));
  ASSERT_FALSE(told) << "the queue of a socket has no end here";
  EXPECT_EQ(told.error().code, errc::io_failed);
}

} // namespace peercache::net

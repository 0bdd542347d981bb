#include "rdma/verbs/rail_choice.hpp"

#include "rdma/verbs/device.hpp"

#include <gtest/gtest.h>

namespace peercache::rdma::rail_choice_test {
namespace {

verbs::port_report port_of(std::string device, bool usable) {
  verbs::port_report made;
  made.device = std::move(device);
  made.port = 1;
  made.usable = usable;
  if (!usable)
    made.why_not = "the port is down";
  return made;
}

const verbs::device_listing none{{}, "no device"};
const verbs::device_listing two{{port_of("a", true), port_of("b", true)}, {}};
const verbs::device_listing one_is_down{{port_of("a", true), port_of("b", false)}, {}};

TEST(rail_choice, auto_takes_every_usable_device_and_says_what_it_left_out) {
  auto chosen = choose_rails({}, one_is_down);
  ASSERT_TRUE(chosen);
  ASSERT_EQ(chosen->rails.size(), 1u);
  EXPECT_EQ(chosen->rails[0].device, "a");
  EXPECT_EQ(chosen->why, "verbs: a/1; not b: the port is down");
}

TEST(rail_choice, auto_without_a_device_is_tcp_and_says_why) {
  auto chosen = choose_rails({}, none);
  ASSERT_TRUE(chosen);
  EXPECT_TRUE(chosen->rails.empty());
  EXPECT_EQ(chosen->why, "tcp: no device");
}

TEST(rail_choice, tcp_looks_at_no_device) {
  auto chosen = choose_rails({.mode = plane_mode::tcp}, two);
  ASSERT_TRUE(chosen);
  EXPECT_TRUE(chosen->rails.empty());
}

TEST(rail_choice, verbs_refuses_to_go_without) {
  EXPECT_FALSE(choose_rails({.mode = plane_mode::verbs}, none));
  EXPECT_TRUE(choose_rails({.mode = plane_mode::verbs}, one_is_down));
  EXPECT_FALSE(choose_rails({.mode = plane_mode::verbs, .devices = {"a", "b"}}, one_is_down));
  EXPECT_FALSE(choose_rails({.mode = plane_mode::verbs, .devices = {"c"}}, two));
}

TEST(rail_choice, pages_inside_tls_take_no_rail) {
  auto chosen = choose_rails({.pages_in_tls = true}, two);
  ASSERT_TRUE(chosen);
  EXPECT_TRUE(chosen->rails.empty());
  EXPECT_EQ(chosen->why, "tcp: pages are inside TLS (tls.data = full)");
  EXPECT_FALSE(choose_rails({.mode = plane_mode::verbs, .pages_in_tls = true}, two));
}

TEST(rail_choice, named_devices_are_rails_in_the_order_of_their_names) {
  auto chosen = choose_rails({.devices = {"b", "a"}}, two);
  ASSERT_TRUE(chosen);
  ASSERT_EQ(chosen->rails.size(), 2u);
  EXPECT_EQ(chosen->rails[0].device, "b");
}

TEST(rail_choice, a_path_that_would_wait_for_ever_is_refused) {
  rail_settings settings;
  settings.path.retries = 7;
  EXPECT_FALSE(choose_rails(settings, two));
}

} // namespace
} // namespace peercache::rdma::rail_choice_test

#include "client/handoff/host_names.hpp"

#include <gtest/gtest.h>

namespace peercache::client::test {
namespace {

class host_names_test : public testing::Test {
protected:
  std::string address_of(const std::string& name) {
    const auto address = names.address_of(name);
    return address ? *address : address.error().message;
  }

  int looked_up = 0;
  bool known = true;
  host_names names{[this](const std::string& name) -> result<std::string> {
    ++looked_up;
    if (!known)
      return {errc::unreachable, "no such host"};
    return "10.0.0." + std::to_string(name.size());
  }};
};

TEST_F(host_names_test, look_a_name_up_once) {
  EXPECT_EQ(address_of("a"), "10.0.0.1");
  EXPECT_EQ(address_of("bb"), "10.0.0.2");
  known = false;
  EXPECT_EQ(address_of("a"), "10.0.0.1");
  EXPECT_EQ(looked_up, 2);
}

TEST_F(host_names_test, look_a_name_up_anew_when_nobody_was_there) {
  address_of("a");
  address_of("bb");
  names.forget("10.0.0.1");
  address_of("a");
  address_of("bb");
  EXPECT_EQ(looked_up, 3);
}

TEST_F(host_names_test, keep_no_failure) {
  known = false;
  EXPECT_EQ(address_of("a"), "no such host");
  known = true;
  EXPECT_EQ(address_of("a"), "10.0.0.1");
}

TEST_F(host_names_test, are_so_many_at_most) {
  for (std::size_t i = 0; i <= host_names::names_max; ++i)
    address_of(std::to_string(i));
  looked_up = 0;
  address_of("0");
  EXPECT_EQ(looked_up, 0);
  EXPECT_EQ(address_of(std::to_string(host_names::names_max)), "10.0.0.4");
  EXPECT_EQ(looked_up, 1);
}

} // namespace
} // namespace peercache::client::test

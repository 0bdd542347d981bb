#pragma once

#include <cstdlib>
#include <gtest/gtest.h>
#include <string>

namespace peercache::rdma {

inline void run_in_shell(const std::string& command) {
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

/// Cuts, while it lives, the network link of the guest's device rxe<number>. The devices rxe0 and
/// rxe1 are linked, and rxe2 and rxe3 (tests/verbs/second_pair). The kernel forgets routes through
/// a link that is down, so the destructor makes them again as scripts/soft-roce-guest/main does.
class cut_link {
public:
  explicit cut_link(int number) : number_(number) {
    run_in_shell("ip link set " + end() + " down");
  }
  ~cut_link() {
    run_in_shell("ip link set " + end() + " up && ip route replace " + address(number_ ^ 1) +
                 " dev " + end() + " src " + address(number_) + " table 10" +
                 std::to_string(number_));
  }
  cut_link(const cut_link&) = delete;
  cut_link& operator=(const cut_link&) = delete;

private:
  std::string end() const { return "v" + std::to_string(number_); }
  static std::string address(int number) {
    return "10.0." + std::to_string(number / 2) + "." + std::to_string(number % 2 + 1);
  }

  const int number_;
};

/// While it lives, delays packets that leave the device rxe<number>, by these arguments of tc's
/// netem ("delay 200ms", "rate 40mbit").
class slow_link {
public:
  slow_link(int number, const std::string& how) : end_("v" + std::to_string(number)) {
    run_in_shell("tc qdisc add dev " + end_ + " root netem limit 100000 " + how);
  }
  ~slow_link() { run_in_shell("tc qdisc del dev " + end_ + " root"); }
  slow_link(const slow_link&) = delete;
  slow_link& operator=(const slow_link&) = delete;

private:
  const std::string end_;
};

} // namespace peercache::rdma

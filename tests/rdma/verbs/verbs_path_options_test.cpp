#include "rdma/verbs/queue_pair.hpp"

#include <gtest/gtest.h>
#include <set>

namespace peercache::rdma::verbs::verbs_path_options_test {
namespace {

TEST(verbs_path_options, the_defaults_are_sound) {
  EXPECT_TRUE(check({}));
}

/// A provider may wait four times as long as the nominal time-out, which is 1.07 s here.
TEST(verbs_path_options, a_refusal_says_for_how_long_a_dead_peer_may_not_show) {
  const auto checked = check({.timeout = 16, .retries = 3});
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find("only after 4.29"), std::string::npos)
      << checked.error().message;
}

TEST(verbs_path_options, what_could_wait_for_ever_or_fits_no_packet_is_refused) {
  struct option_case {
    path_options options;
    bool sound;
  };
  const std::vector<option_case> table = {
      {{.retries = 0}, false},
      {{.retries = 1}, true},
      {{.retries = 6}, true},
      {{.retries = 7}, false},
      {{.rnr_retries = 0}, true},
      {{.rnr_retries = 7}, false},
      {{.timeout = 0}, false},
      {{.timeout = 1}, true},
      {{.timeout = 32}, false},
      {{.service_level = 15}, true},
      {{.service_level = 16}, false},
      {{.hop_limit = 0}, false},
      {{.hop_limit = 1}, true},
      {{.traffic_class = 255}, true},
      // A time-out of n is 4.096 µs × 2^n: 15 is 0.134 s, 16 is 0.268 s, 17 is 0.537 s.
      {{.timeout = 15, .retries = 6}, true},
      {{.timeout = 16, .retries = 2}, true},
      {{.timeout = 16, .retries = 3}, false},
      {{.timeout = 17, .retries = 1}, false},
      {{.timeout = 31, .retries = 1}, false}};
  for (std::size_t index = 0; index < table.size(); ++index) {
    const auto checked = check(table[index].options);
    EXPECT_EQ(static_cast<bool>(checked), table[index].sound) << index;
    if (!checked) {
      EXPECT_EQ(checked.error().code, errc::invalid_argument) << index;
    }
  }
}

TEST(verbs_psn, is_random_and_has_24_bits) {
  std::set<std::uint32_t> seen;
  std::uint32_t ever = 0;
  for (int round = 0; round < 1000; ++round) {
    const std::uint32_t psn = random_psn();
    EXPECT_LE(psn, 0xffffffU);
    ever |= psn;
    seen.insert(psn);
  }
  EXPECT_EQ(ever, 0xffffffU);
  EXPECT_GT(seen.size(), 990U);
}

TEST(verbs_status, names_are_words) {
  EXPECT_STREQ(status_name(IBV_WC_SUCCESS), "success");
  EXPECT_STREQ(status_name(IBV_WC_REM_ACCESS_ERR), "remote access error");
  EXPECT_STREQ(status_name(IBV_WC_RETRY_EXC_ERR), "retries exceeded");
  EXPECT_STREQ(status_name(IBV_WC_WR_FLUSH_ERR), "flushed");
  EXPECT_STREQ(status_name(IBV_WC_TM_ERR), "other error");
}

} // namespace
} // namespace peercache::rdma::verbs::verbs_path_options_test

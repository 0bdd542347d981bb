#include "client/options.hpp"

#include <gtest/gtest.h>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;

TEST(options_of, takes_each_from_its_row) {
  config::node_config config;
  config.client.node_host = "host7";
  config.client.node_port = 7;
  config.cluster.name = "blue";
  config.client.timeout = 123ms;
  config.client.verify_sample = 17;
  config.client.location_cache_keys = 1000;
  config.client.unacknowledged_bytes_max = 2000;
  config.data.max_channels_per_peer = 3;
  config.data.plane = config::data_plane_mode::tcp;
  config.rdma.bounce_bytes = 4000;
  config.rdma.devices = {"mlx5_7"};
  const auto options = options_of(config);
  EXPECT_EQ(options.node_host, "host7");
  EXPECT_EQ(options.node_port, 7u);
  EXPECT_EQ(options.cluster, "blue");
  EXPECT_EQ(options.timeout, 123ms);
  EXPECT_EQ(options.verify_sample, 17u);
  EXPECT_EQ(options.location_cache_keys, 1000u);
  EXPECT_EQ(options.unacknowledged_bytes_max, 2000u);
  EXPECT_EQ(options.channels_per_peer_max, 3u);
  EXPECT_EQ(options.rails.mode, rdma::plane_mode::tcp);
  EXPECT_EQ(options.bounce_bytes, 4000u);
  EXPECT_EQ(options.rails.devices, std::vector<std::string>{"mlx5_7"});
  EXPECT_TRUE(options.wait_for_node) << "no row says otherwise";
}

TEST(options_of, each_way_that_a_page_comes_is_compared_as_its_own_row_says) {
  config::node_config config;
  config.client.verify_own_host = verify_mode::off;
  config.client.verify_tcp = verify_mode::sample;
  config.client.verify_rdma = verify_mode::always;
  const auto options = options_of(config);
  EXPECT_EQ(options.verify_own_host, verify_mode::off);
  EXPECT_EQ(options.verify_tcp, verify_mode::sample);
  EXPECT_EQ(options.verify_rdma, verify_mode::always);
}

TEST(options_of, what_becomes_of_duplicates_is_the_rows_to_say) {
  config::node_config config;
  config.set.duplicate = duplicate_mode::store;
  EXPECT_EQ(options_of(config).duplicate, duplicate_mode::store);
  config.set.duplicate = duplicate_mode::skip;
  EXPECT_EQ(options_of(config).duplicate, duplicate_mode::skip);
}

} // namespace
} // namespace peercache::client

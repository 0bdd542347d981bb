#include "cli/bench/bench_rdma.hpp"

#include "bench/page_content.hpp"
#include "cli/bench/bench_perftest.hpp"
#include "common/slot_entry.hpp"

#include <algorithm>
#include <gtest/gtest.h>

namespace peercache::cli::bench_rdma_test {
namespace {

constexpr const char* read_bw_output = R"(
---------------------------------------------------------------------------------------
                    RDMA_Read BW Test
 Mtu             : 4096[B]
 local address: LID 0000 QPN 0x0011 PSN 0x65536
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      256              77.99              64.09  		   0.001025
---------------------------------------------------------------------------------------
)";

constexpr const char* read_lat_output = R"(
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]
 4096    1000          57.85          935.04       66.86     	       70.04
)";

TEST(perftest_output, the_average_bandwidth_is_found_in_the_row_of_the_page_size) {
  const auto rate = average_mib_per_second(read_bw_output, 65536);
  ASSERT_TRUE(rate);
  EXPECT_DOUBLE_EQ(*rate, 64.09);
}

TEST(perftest_output, the_typical_latency_is_neither_the_least_nor_the_average) {
  const auto typical = typical_us(read_lat_output, 4096);
  ASSERT_TRUE(typical);
  EXPECT_DOUBLE_EQ(*typical, 66.86);
}

TEST(perftest_output, without_a_row_of_that_size_the_error_repeats_what_was_said) {
  EXPECT_FALSE(average_mib_per_second(read_bw_output, 4096));
  const auto rate = average_mib_per_second("Couldn't connect to 127.0.0.1:18515\n", 65536);
  ASSERT_FALSE(rate);
  EXPECT_NE(rate.error().message.find("Couldn't connect"), std::string::npos);
  EXPECT_FALSE(average_mib_per_second(" 65536  256  0.00  0.00  0.0\n", 65536));
}

rdma::verbs::port_report port_named(const std::string& name, bool usable = true) {
  rdma::verbs::port_report port;
  port.device = name;
  port.port = 1;
  port.usable = usable;
  port.why_not = usable ? "" : "the link is down";
  port.gid_index = 3;
  port.can.mtu_bytes = 4096;
  port.can.initiator_depth = 16;
  port.can.responder_depth = 16;
  return port;
}

TEST(perftest_options, what_both_ends_agree_on_is_the_least_of_both) {
  perftest_run run{port_named("a"), port_named("b"), 65536, 100, 128};
  run.server.can.mtu_bytes = 1024;
  run.server.can.responder_depth = 8;
  const auto made = perftest_options(run, run.reader);
  EXPECT_EQ(made, (std::vector<std::string>{"-F", "-d", "a", "-i", "1", "-s", "65536", "-n", "100",
                                            "-o", "8", "-m", "1024", "-x", "3"}));
}

TEST(perftest_options, infiniband_needs_no_gid) {
  perftest_run run{port_named("a"), port_named("b"), 4096, 5, 1};
  run.reader.layer = rdma::verbs::link_layer::infiniband;
  const auto made = perftest_options(run, run.reader);
  EXPECT_EQ(std::count(made.begin(), made.end(), "-x"), 0);
}

TEST(bench_rdma_ports, the_server_gets_the_next_usable_device) {
  const rdma::verbs::device_listing found{
      {port_named("a", false), port_named("b"), port_named("c")}, ""};
  const auto ports = choose_ports({}, found);
  ASSERT_TRUE(ports);
  EXPECT_EQ(ports->reader.device, "b");
  EXPECT_EQ(ports->server.device, "c");
}

TEST(bench_rdma_ports, one_device_reads_from_itself) {
  const auto ports = choose_ports({}, {{port_named("a")}, ""});
  ASSERT_TRUE(ports);
  EXPECT_EQ(ports->server.device, "a");
}

TEST(bench_rdma_ports, without_a_device_the_error_says_why) {
  const auto none = choose_ports({}, {{}, "the kernel has no RDMA support loaded"});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("no RDMA support loaded"), std::string::npos);
  rdma_bench_options options;
  options.device = "a";
  const auto down = choose_ports(options, {{port_named("a", false), port_named("b")}, ""});
  ASSERT_FALSE(down);
  EXPECT_NE(down.error().message.find("the link is down"), std::string::npos);
}

TEST(rdma_page_plan, pages_of_all_sizes_lie_side_by_side) {
  const auto plan = rdma_page_plan::make({4096, 5000, 65536}, 1u << 20);
  ASSERT_TRUE(plan);
  const auto& runs = plan->runs();
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].pages, 256u);
  EXPECT_EQ(runs[1].first_granule, 256u);
  EXPECT_EQ(runs[1].pages, 209u);
  EXPECT_EQ(runs[2].first_granule, 256u + 2 * 209);
  EXPECT_EQ(plan->granules(), 256u + 2 * 209 + 256);
  EXPECT_FALSE(rdma_page_plan::make({0}, 1u << 20));
  EXPECT_FALSE(rdma_page_plan::make({std::uint64_t{1} << 40}, 1u << 20));
}

TEST(rdma_bench_pool, holds_the_pages_that_a_reader_asks_for) {
  const auto plan = rdma_page_plan::make({4096, 65536}, 1u << 20);
  ASSERT_TRUE(plan);
  const auto pool = rdma_bench_pool::make(*plan);
  ASSERT_TRUE(pool);
  const auto served = pool->served();
  const auto& run = plan->runs()[1];
  const auto page = rdma_page_plan::page(run, 15);
  const auto& entry = reinterpret_cast<const slot_entry*>(served.region.data())[page.slot.value];
  EXPECT_EQ(entry.generation.load(), page.gen.value);
  EXPECT_EQ(entry.key, page.key);
  EXPECT_EQ(entry.length_bytes, 65536u);
  const std::span<const std::byte> bytes{
      served.pages + std::size_t{page.slot.value} * limits::granule_bytes, 65536};
  EXPECT_EQ(bench::check_page(rdma_page_plan::id(run, 15), bytes).wrong_bytes, 0u);
}

} // namespace
} // namespace peercache::cli::bench_rdma_test

#include "cli/bench/bench_row.hpp"

#include <gtest/gtest.h>

namespace peercache::cli {

TEST(bench_row, the_form_of_a_result_is_the_one_that_later_work_keeps) {
  bench_row row{.name = "set", .page_bytes = 1u << 20, .batch = 32, .verify = true, .target = 1.0};
  row.rounds.add({.units = 200, .seconds = 1, .call_us = {5}},
                 {.units = 100, .seconds = 1, .call_us = {9}});
  auto json = to_json(std::vector{row})["results"][0];
  EXPECT_EQ(json["name"], "set");
  EXPECT_EQ(json["page_bytes"], 1048576);
  EXPECT_EQ(json["batch"], 32);
  EXPECT_EQ(json["verify"], true);
  EXPECT_EQ(json["bytes_per_second"], 200.0);
  EXPECT_EQ(json["limit_bytes_per_second"], 100.0);
  EXPECT_EQ(json["pages_per_second"], 200.0 / (1u << 20));
  EXPECT_EQ(json["ratio"], 2.0);
  EXPECT_EQ(json["p50_us"], 5.0);
  EXPECT_EQ(json["p99_us"], 5.0);
  EXPECT_EQ(json["limit_p50_us"], 9.0);
  EXPECT_EQ(json["met"], true);
}

TEST(bench_row, a_latency_meets_its_target_from_below) {
  bench_row row{.name = "exists", .batch = 1, .kind = ratio_kind::latency, .target = 2.0};
  row.rounds.add({.units = 1, .seconds = 1, .call_us = {30}},
                 {.units = 1, .seconds = 1, .call_us = {10}});
  EXPECT_EQ(row.ratio(), 3.0);
  EXPECT_FALSE(row.met());
  EXPECT_EQ(row.to_json()["keys_per_second"], 1.0);
}

TEST(bench_row, a_rate_is_compared_with_its_target_and_not_with_the_limit) {
  bench_row row{.name = "exists_pipelined", .batch = 128, .kind = ratio_kind::rate, .target = 100};
  row.rounds.add({.units = 150, .seconds = 1, .call_us = {1}},
                 {.units = 1000, .seconds = 1, .call_us = {1}});
  EXPECT_TRUE(row.met());
}

TEST(bench_row, a_lock_held_too_long_misses_though_the_rate_is_met) {
  bench_row row{.name = "hicache_get", .page_bytes = 1u << 20, .batch = 128, .target = 0.95};
  row.rounds.add({.units = 100, .seconds = 1, .call_us = {5}},
                 {.units = 100, .seconds = 1, .call_us = {5}});
  row.gil_held_max = 0.02;
  EXPECT_TRUE(row.met()) << "nobody measured it";
  row.gil_held = 0.019;
  EXPECT_TRUE(row.met());
  EXPECT_NE(to_text({row}, false).find("held for 1.90 % of a call, < 2 % ok"), std::string::npos);
  row.gil_held = 0.021;
  EXPECT_FALSE(row.met());
  EXPECT_TRUE(row.rate_is_met());
  EXPECT_EQ(row.to_json()["gil_held_max"], 0.02);
  EXPECT_NE(to_text({row}, false).find("held for 2.10 % of a call, < 2 % MISSED"),
            std::string::npos);
}

TEST(bench_row, what_a_call_costs_and_redis_takes_are_told_where_they_were_measured) {
  bench_row row{.name = "exists", .batch = 1, .kind = ratio_kind::latency, .target = 1.2};
  row.rounds.add({.units = 1, .seconds = 1, .call_us = {50}},
                 {.units = 1, .seconds = 1, .call_us = {45}});
  EXPECT_FALSE(row.to_json().contains("cpu_us_per_call"));
  row.call = call_cost{44.25, 2.0};
  EXPECT_EQ(row.to_json()["cpu_us_per_call"], 44.25);
  EXPECT_EQ(row.to_json()["switches_per_call"], 2.0);
  EXPECT_FALSE(row.to_json().contains("redis_p50_us")) << "redis-server may not be installed";
  EXPECT_NE(to_text({row}, false).find("44.2 us of processor and 2.0 context switches a call"),
            std::string::npos);
  EXPECT_FALSE(row.to_json().contains("limit_cpu_us_per_call"));
  row.limit_call = call_cost{31.5, 1.5};
  EXPECT_EQ(row.to_json()["limit_cpu_us_per_call"], 31.5);
  EXPECT_EQ(row.to_json()["limit_switches_per_call"], 1.5);
  EXPECT_NE(to_text({row}, false).find("; the limit 31.5 us and 1.5"), std::string::npos);
  row.redis_p50_us = 41;
  EXPECT_EQ(row.to_json()["redis_p50_us"], 41.0);
  EXPECT_NE(to_text({row}, false).find("redis-server answers in 41.0 us"), std::string::npos);
}

TEST(bench_row, what_one_core_of_the_asked_node_answers_is_told_where_it_was_measured) {
  bench_row row{.name = "exists_pipelined", .batch = 128, .kind = ratio_kind::rate, .target = 5e6};
  row.rounds.add({.units = 8192, .seconds = 0.002, .call_us = {2000}},
                 {.units = 8192, .seconds = 0.001, .call_us = {1000}});
  EXPECT_FALSE(row.to_json().contains("keys_per_node_second"));
  row.keys_per_node_second = 7'500'000;
  EXPECT_EQ(row.to_json()["keys_per_node_second"], 7.5e6);
  EXPECT_NE(to_text({row}, false).find("one core of the asked node answers 7,500,000 keys/s"),
            std::string::npos);
  EXPECT_FALSE(row.met()) << "the target is the caller's rate";
}

TEST(bench_row, the_store_and_the_processors_share_are_told_where_they_were_measured) {
  bench_row row{.name = "disk_write", .page_bytes = 1u << 20, .batch = 64};
  row.rounds.add({.units = 90, .seconds = 1, .call_us = {5}},
                 {.units = 100, .seconds = 1, .call_us = {9}});
  EXPECT_FALSE(row.to_json().contains("store"));
  EXPECT_FALSE(row.to_json().contains("cpu_seconds_per_gib"));
  row.store = "bucket";
  row.cpu = cpu_cost{0.25, 0.5};
  EXPECT_EQ(row.to_json()["store"], "bucket");
  EXPECT_EQ(row.to_json()["cpu_seconds_per_gib"], 0.25);
  EXPECT_EQ(row.to_json()["limit_cpu_seconds_per_gib"], 0.5);
  const auto text = to_text({row}, false);
  EXPECT_NE(text.find("disk_write (bucket) of 1.0 MiB: 0.250 CPU seconds per GiB, the limit 0.500"),
            std::string::npos)
      << text;
}

} // namespace peercache::cli

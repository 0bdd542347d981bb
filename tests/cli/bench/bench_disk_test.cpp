#include "cli/bench/bench_disk.hpp"

#include <algorithm>
#include <gtest/gtest.h>

namespace peercache::cli::bench_disk_test {

namespace {

bool has(const std::vector<std::string>& options, const std::string& option) {
  return std::find(options.begin(), options.end(), option) != options.end();
}

/// A report of fio that has only the fields that `read_fio_report` reads.
constexpr std::string_view report = R"({
  "fio version": "fio-3.33",
  "jobs": [{
    "error": 0,
    "read": {"io_bytes": 0, "runtime": 0, "clat_ns": {"min": 0}},
    "write": {"io_bytes": 2000000, "runtime": 500,
              "clat_ns": {"percentile": {"50.000000": 26083}}}
  }]
})";

} // namespace

TEST(bench_disk, fio_does_the_same_work_past_the_page_cache) {
  fio_run run{.what = fio_run::kind::write,
              .file = "/disk/f",
              .block_bytes = 4096,
              .total_bytes = 131072,
              .depth = 16};
  const auto writes = fio_options(run, "/disk/f.report");
  for (const char* option :
       {"--ioengine=io_uring", "--direct=1", "--rw=write", "--bs=4096", "--size=131072",
        "--iodepth=16", "--filename=/disk/f", "--output-format=json", "--output=/disk/f.report",
        "--fallocate=native", "--fixedbufs", "--registerfiles"})
    EXPECT_TRUE(has(writes, option)) << option;
  EXPECT_TRUE(has(writes, "--end_fsync=1")) << "our pages are durable in the end";
  EXPECT_TRUE(has(writes, "--mem=mmapshared")) << "as a pool";
  run.total_bytes = 3 * 4096;
  EXPECT_TRUE(has(fio_options(run, "/disk/f.report"), "--iodepth=3")) << "each buffer is used";
  run.huge_pages = true;
  EXPECT_FALSE(has(fio_options(run, "/disk/f.report"), "--mem=mmapshared"));
  run.what = fio_run::kind::read;
  run.registered = false;
  const auto reads = fio_options(run, "/disk/f.report");
  EXPECT_TRUE(has(reads, "--rw=randread"));
  EXPECT_FALSE(has(reads, "--end_fsync=1"));
  EXPECT_FALSE(has(reads, "--fixedbufs"));
}

TEST(bench_disk, fios_report_gives_bytes_seconds_and_the_typical_latency) {
  auto sample = read_fio_report(report, fio_run::kind::write);
  ASSERT_TRUE(sample) << sample.error().message;
  EXPECT_EQ(sample->units, 2'000'000);
  EXPECT_EQ(sample->seconds, 0.5);
  ASSERT_EQ(sample->call_us.size(), 1u);
  EXPECT_DOUBLE_EQ(sample->call_us[0], 26.083);
}

TEST(bench_disk, a_report_without_figures_is_an_error_that_shows_it) {
  const auto fault_of = [](std::string_view text) {
    auto sample = read_fio_report(text, fio_run::kind::write);
    return sample ? std::string("accepted") : sample.error().message;
  };
  EXPECT_NE(fault_of("fio: no such device").find("fio: no such device"), std::string::npos);
  EXPECT_NE(fault_of("").find("printed no report"), std::string::npos);
  EXPECT_NE(fault_of(R"({"jobs": []})").find("printed no report"), std::string::npos);
  EXPECT_NE(fault_of(R"({"jobs": [{"error": 28}]})").find("ended with error 28"),
            std::string::npos);
  auto nothing_read = read_fio_report(report, fio_run::kind::read);
  ASSERT_FALSE(nothing_read);
  EXPECT_NE(nothing_read.error().message.find("moved nothing"), std::string::npos);
}

TEST(bench_disk, a_round_moves_its_bytes_but_no_more_than_its_pages_and_at_least_one) {
  disk_bench_options options;
  options.round_bytes = 64u << 20;
  options.round_pages = 1000;
  EXPECT_EQ(options.pages_of(1u << 20), 64u);
  EXPECT_EQ(options.pages_of(4096), 1000u);
  EXPECT_EQ(options.pages_of(128u << 20), 1u);
}

TEST(bench_disk, small_pages_have_their_own_target) {
  EXPECT_EQ(disk_target(4096), 0.7);
  EXPECT_EQ(disk_target(256u << 10), 0.9);
  EXPECT_EQ(disk_target(4u << 20), 0.9);
}

} // namespace peercache::cli::bench_disk_test

#include "cli/bench/bench_fio.hpp"

#include "cli/process.hpp"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace peercache::cli {

namespace {

constexpr std::chrono::minutes fio_at_most{10};

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

/// CPU time, user and kernel, of all child processes that have ended.
double cpu_seconds_of_children() {
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

} // namespace

std::vector<std::string> fio_options(const fio_run& run, const std::string& output_file) {
  const bool writes = run.what == fio_run::kind::write;
  // With registered buffers fio 3.39 fails at its last fsync, unless each of them was used.
  const auto depth = std::max<std::uint64_t>(
      1, std::min<std::uint64_t>(run.depth, run.total_bytes / run.block_bytes));
  std::vector<std::string> options = {"--name=peercache",
                                      "--ioengine=io_uring",
                                      "--direct=1",
                                      fmt::format("--rw={}", writes ? "write" : "randread"),
                                      fmt::format("--bs={}", run.block_bytes),
                                      fmt::format("--size={}", run.total_bytes),
                                      fmt::format("--iodepth={}", depth),
                                      fmt::format("--filename={}", run.file),
                                      "--output-format=json",
                                      fmt::format("--output={}", output_file)};
  if (writes)
    options.insert(options.end(), {"--fallocate=native", "--end_fsync=1"});
  else
    options.insert(options.end(), {"--randrepeat=0", "--invalidate=0"});
  options.push_back(run.huge_pages ? "--mem=malloc" : "--mem=mmapshared");
  if (run.registered)
    options.insert(options.end(), {"--fixedbufs", "--registerfiles"});
  return options;
}

result<bench::round_sample> read_fio_report(std::string_view report, fio_run::kind what) {
  const auto all = nlohmann::json::parse(report, nullptr, false);
  const auto wrong = [&](std::string_view why) -> error {
    return {errc::incompatible, fmt::format("fio {}; it said:\n{}", why, report)};
  };
  try {
    const auto& job = all.at("jobs").at(0);
    if (const auto failed = job.at("error").get<int>(); failed != 0)
      return wrong(fmt::format("ended with error {}", failed));
    const auto& side = job.at(what == fio_run::kind::write ? "write" : "read");
    bench::round_sample sample;
    sample.units = side.at("io_bytes").get<double>();
    sample.seconds = side.at("runtime").get<double>() / 1e3;
    if (sample.units <= 0 || sample.seconds <= 0)
      return wrong("moved nothing");
    sample.call_us = {side.at("clat_ns").at("percentile").at("50.000000").get<double>() / 1e3};
    return sample;
  } catch (const nlohmann::json::exception&) {
    return wrong("printed no report");
  }
}

result<disk_sample> run_fio(const fio_run& run) {
  auto program = find_program("fio", "fio");
  if (!program)
    return program.error();
  const auto output_file = run.file + ".report";
  spawn_options options;
  options.arguments = fio_options(run, output_file);
  options.arguments.insert(options.arguments.begin(), *program);
  if (run.huge_pages) // GLIBC_TUNABLES makes malloc of glibc 2.35 and later ask for huge pages.
    options.environment.emplace_back("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
  const auto before = cpu_seconds_of_children();
  auto fio = child_process::spawn(options);
  if (!fio)
    return fio.error();
  const auto ended = fio->wait(fio_at_most);
  const auto report = content_of(output_file);
  ::unlink(output_file.c_str());
  if (!ended)
    return {errc::timed_out, "fio took more than ten minutes"};
  if (*ended != 0)
    return {errc::io_failed, fmt::format("fio ended with {}; it said:\n{}", *ended, report)};
  auto sample = read_fio_report(report, run.what);
  if (!sample)
    return sample.error();
  return disk_sample{*std::move(sample), cpu_seconds_of_children() - before};
}

} // namespace peercache::cli

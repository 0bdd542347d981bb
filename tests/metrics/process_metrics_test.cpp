#include "metrics/process_metrics.hpp"
#include "metrics/registry.hpp"
#include "tests/support/qemu_user.hpp"

#include <ctime>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <map>
#include <thread>
#include <unistd.h>

namespace peercache::metrics::process_metrics_test {
namespace {

std::map<std::string, double> values_of(const std::string& folder = "/proc/self") {
  std::map<std::string, double> values;
  for (const auto& each : process_metrics(folder))
    values[each.name] = each.value;
  return values;
}

TEST(process_metrics, follow_what_the_process_does) {
  const auto before = values_of();
  const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  double threads = 0;
  std::thread other([&] { threads = values_of()["process_threads"]; });
  other.join();
  const auto after = values_of();
  ::close(file);
  EXPECT_EQ(after.at("process_open_fds"), before.at("process_open_fds") + 1);
  EXPECT_GE(after.at("process_cpu_seconds_total"), before.at("process_cpu_seconds_total"));
  EXPECT_GT(after.at("process_max_fds"), after.at("process_open_fds"));
  EXPECT_EQ(after.at("process_start_time_seconds"), before.at("process_start_time_seconds"));
  if (under_qemu_user())
    GTEST_SKIP() << "qemu-user makes /proc/self/stat up: no threads and no memory";
  EXPECT_GE(threads, 2);
  EXPECT_GT(after.at("process_resident_memory_bytes"), 1e6);
  EXPECT_GT(after.at("process_virtual_memory_bytes"), after.at("process_resident_memory_bytes"));
}

TEST(process_metrics, the_process_started_before_it_was_asked_and_after_the_machine) {
  const auto start = values_of().at("process_start_time_seconds");
  const auto now = static_cast<double>(std::time(nullptr));
  EXPECT_LE(start, now + 1);
  timespec up{};
  ::clock_gettime(CLOCK_BOOTTIME, &up);
  EXPECT_GE(start, now - static_cast<double>(up.tv_sec) - 2);
}

TEST(process_metrics, what_cannot_be_read_is_left_out) {
  const auto values = values_of("/nowhere");
  EXPECT_EQ(values.size(), 1u);
  EXPECT_TRUE(values.contains("process_max_fds")); // The limit can be told without an open file.
}

TEST(process_metrics, have_the_names_that_others_look_for) {
  const auto text = registry().text(process_metrics());
  for (const auto* name : {"process_cpu_seconds_total ", "process_resident_memory_bytes ",
                           "process_start_time_seconds ", "process_open_fds "})
    EXPECT_NE(text.find(std::string("\n") + name), std::string::npos) << text;
  EXPECT_NE(text.find("# TYPE process_cpu_seconds_total counter"), std::string::npos);
}

} // namespace
} // namespace peercache::metrics::process_metrics_test

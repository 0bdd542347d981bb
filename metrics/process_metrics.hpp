#pragma once

#include "metrics/metric_table.hpp"

#include <string>
#include <vector>

namespace peercache::metrics {

/// A number that the kernel knows of this process.
struct process_metric {
  const char* name = nullptr;
  const char* help = nullptr;
  double value = 0;
  metric_type type = metric_type::gauge;
};

/// The kernel's numbers about this process, under the names that Prometheus' client libraries give
/// them (process_cpu_seconds_total and its like), so that common dashboards find them.
/// Source: "Writing client libraries", section "Process metrics", of Prometheus' documentation.
/// A number that cannot be read is left out.
/// Threads: any.
/// @param folder the process's folder in /proc, for tests
std::vector<process_metric> process_metrics(const std::string& folder = "/proc/self");

} // namespace peercache::metrics

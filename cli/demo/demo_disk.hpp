#pragma once

#include "cli/demo/demo_report.hpp"
#include "cli/node_process.hpp"
#include "client/cache_client.hpp"
#include "common/page_key.hpp"

#include <chrono>
#include <cstdint>
#include <vector>

namespace peercache::cli {

/// Waits until no page is on its way to any node's disk; returns how many pages the nodes' disks
/// hold, as the nodes count them.
result<std::uint64_t> settle_disks(const std::vector<node_process>& nodes,
                                   std::chrono::milliseconds timeout);

/// Ends all nodes with SIGKILL and starts them again under their names, on their disks. Returns
/// when all nodes are ready, which they are once their disks are scanned.
result<void> kill_and_restart(std::vector<node_process>& nodes);

/// Gets each page of a trace once and compares every byte, to count how many are found.
class disk_survey {
public:
  disk_survey(std::uint32_t page_bytes, const key_space& space)
      : page_bytes_(page_bytes), space_(space) {}

  void run(client::cache_client& cache, const std::vector<std::uint64_t>& ids);

  std::uint64_t found() const noexcept { return found_; }
  std::uint64_t wrong_bytes() const noexcept { return wrong_bytes_; }

private:
  const std::uint32_t page_bytes_;
  const key_space& space_;
  std::uint64_t found_ = 0;
  std::uint64_t wrong_bytes_ = 0;
};

} // namespace peercache::cli

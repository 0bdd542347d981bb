#include "cli/demo/demo_disk.hpp"

#include "bench/page_content.hpp"
#include "cli/disk_status.hpp"
#include "client/admin_client.hpp"

#include <algorithm>
#include <csignal>
#include <optional>
#include <string>
#include <thread>

namespace peercache::cli {

using metrics::metric;
namespace {

using namespace std::chrono_literals;

constexpr auto settle_at_most = 60s;
constexpr auto restart_at_most = 60s;
constexpr std::size_t survey_batch = 64;

result<client::node_status> status_of(const node_process& node, std::chrono::milliseconds timeout) {
  auto admin = client::admin_client::connect("127.0.0.1", node.ports().control_port,
                                             node.launch().cluster, timeout, node.launch().tls);
  if (!admin)
    return admin.error();
  return (*admin)->status();
}

/// Waits until, for at most `settle_at_most`, no page is on its way to one node's disk and two
/// reports in a row count the same: the pages that a report counts are older than its queue.
/// Returns how many pages the disk holds.
result<std::uint64_t> settle_disk(const node_process& node, std::chrono::milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + settle_at_most;
  std::optional<std::uint64_t> before;
  for (;;) {
    auto status = status_of(node, timeout);
    if (!status)
      return status.error();
    const bool known = !status->lacks(link::node_parts::disk);
    const bool late = std::chrono::steady_clock::now() >= until;
    if (late && !known)
      return {errc::timed_out, "the disk tier of " + node.launch().name + " does not answer it"};
    if (known && !status->is(metric::disk_on))
      return {errc::io_failed, node.launch().name + " has no disk tier: " + status->disk.why_off};
    const auto pages = status->count(metric::disk_records);
    const bool idle = known && status->count(metric::disk_queue_bytes) == 0;
    if ((idle && before == pages) || late)
      return pages;
    before = idle ? std::optional(pages) : std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(report_pause_ms));
  }
}

} // namespace

result<std::uint64_t> settle_disks(const std::vector<node_process>& nodes,
                                   std::chrono::milliseconds timeout) {
  std::uint64_t all = 0;
  for (const auto& node : nodes) {
    auto pages = settle_disk(node, timeout);
    if (!pages)
      return pages;
    all += *pages;
  }
  return all;
}

result<void> kill_and_restart(std::vector<node_process>& nodes) {
  for (auto& node : nodes)
    node.process().signal(SIGKILL);
  for (auto& node : nodes)
    node.process().wait(10s);
  const auto head = nodes.front().address();
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (auto again = nodes[i].restart(i == 0 ? std::vector<std::string>{} : std::vector{head});
        !again)
      return again;
  for (const auto& node : nodes)
    if (auto whole = wait_for_members(node, nodes.size(), restart_at_most); !whole)
      return whole;
  return {};
}

void disk_survey::run(client::cache_client& cache, const std::vector<std::uint64_t>& ids) {
  std::vector<std::byte> memory(survey_batch * page_bytes_);
  for (std::size_t done = 0; done < ids.size(); done += survey_batch) {
    const auto count = std::min(survey_batch, ids.size() - done);
    std::vector<client::get_page> pages(count);
    std::vector<page_part> parts(count);
    std::vector<client::page_result> results(count);
    for (std::size_t i = 0; i < count; ++i) {
      parts[i] = {memory.data() + i * page_bytes_, page_bytes_};
      pages[i].key = space_.key_of(std::to_string(ids[done + i]));
      pages[i].parts = {&parts[i], 1};
    }
    cache.get(pages, results);
    for (std::size_t i = 0; i < count; ++i) {
      if (results[i].status != page_status::hit)
        continue;
      ++found_;
      wrong_bytes_ +=
          bench::check_page(static_cast<std::uint32_t>(ids[done + i]), {parts[i].data, page_bytes_})
              .wrong_bytes;
    }
  }
}

} // namespace peercache::cli

#include "stress_report.hpp"

namespace peercache::stress {

namespace {

nlohmann::json by_reason(const std::array<std::atomic<std::uint64_t>, page_status_count>& counts) {
  auto reasons = nlohmann::json::object();
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] != 0)
      reasons[std::string(to_string(static_cast<page_status>(i)))] = counts[i].load();
  return reasons;
}

} // namespace

nlohmann::json report_of(const stress_plan& plan, const stress_ledger& ledger) {
  auto hits_from = [&](page_origin origin) {
    return ledger.hits_by_origin[static_cast<std::size_t>(origin)].load();
  };
  return {{"seed", plan.seed},
          {"ops", ledger.ops.load()},
          {"gets", ledger.gets.load()},
          {"hits", ledger.hits.load()},
          {"hits_own_host", hits_from(page_origin::own_host)},
          {"hits_other_host", hits_from(page_origin::other_host)},
          {"wrong_bytes", ledger.wrong_bytes.load()},
          {"wrong_pages", ledger.wrong_pages.load()},
          {"calls", ledger.calls.load()},
          {"deadline_overruns", ledger.deadline_overruns.load()},
          {"latest_return_ms", static_cast<double>(ledger.latest_return_us.load()) / 1000.0},
          {"longest_stall_ms",
           std::chrono::duration<double, std::milli>(ledger.stalls.longest()).count()},
          {"view_regressions", ledger.view_regressions.load()},
          {"connects", ledger.reconnects.load()},
          {"get_results", by_reason(ledger.got)},
          {"set_results", by_reason(ledger.put)},
          {"pool_share", static_cast<double>(pool_bytes_per_node(plan) * plan.nodes) /
                             static_cast<double>(working_set_bytes(plan))}};
}

} // namespace peercache::stress

#include "heal_check.hpp"

#include "host_reader.hpp"
#include "tests/real/stress/stress_worker.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <thread>

namespace peercache::chaos {

namespace {

constexpr std::chrono::milliseconds pause{20};
constexpr std::chrono::seconds records_limit{10};

double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

} // namespace

heal_check::heal_check(const chaos_plan& plan, const chaos_cluster& cluster,
                       const cluster_watch& watch, stress::stress_ledger& ledger)
    : plan_(plan), cluster_(cluster), watch_(watch), ledger_(ledger) {
  for (std::uint32_t id = 0; id < plan.load.keys; ++id) {
    keys_.push_back(stress::key_of(id));
    ids_.emplace(keys_.back(), id);
  }
  for (std::uint32_t host = 0; host < cluster.hosts(); ++host)
    readers_.push_back(std::make_unique<host_reader>(plan, ledger, real::net_lab::address(host),
                                                     cluster.cluster_name(), cluster.client_tls()));
}

heal_check::~heal_check() = default;

heal_report heal_check::run(clock::time_point since, std::chrono::milliseconds view_limit) {
  heal_report report;
  if (!wait_for_one_view(report, since, view_limit))
    return report;
  const auto begin = view_limit > plan_.heal_limit ? clock::now() : since;
  auto until = begin + plan_.heal_limit;
  let_workers_rest();
  for (std::uint32_t host = 0; host < cluster_.hosts(); ++host)
    if (!cluster_.running(host))
      readers_[host]->forget();
  count_stale_records(report);
  judge_pages(report, until);
  report.keys_seconds = seconds_since(since);
  judge_records(report, clock::now() + records_limit);
  report.healed = report.fault.empty();
  ledger_.readers_rest = false;
  ledger_.writers_rest = false;
  return report;
}

bool heal_check::wait_for_one_view(heal_report& report, clock::time_point since,
                                   std::chrono::milliseconds limit) {
  auto nodes = cluster_.all_running();
  while (!watch_.one_view(nodes, since)) {
    report.view_seconds = seconds_since(since);
    if (clock::now() - since > limit) {
      report.fault = "no view is shared by all: " + watch_.views(nodes);
      return false;
    }
    std::this_thread::sleep_for(pause);
  }
  report.view_seconds = seconds_since(since);
  return true;
}

void heal_check::let_workers_rest() {
  ledger_.readers_rest = true;
  ledger_.writers_rest = true;
  auto until = clock::now() + std::chrono::seconds(3);
  // A resting worker counts as running for a moment in each turn of its loop, so one look that
  // finds no running worker suffices.
  while (ledger_.rounds_running != 0 && clock::now() < until)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

/// Reads the tables of all pools again. Returns the numbers of the pages in them.
heal_check::page_ids heal_check::ids_in_pools(heal_report& report) {
  page_ids ids;
  pools_.clear();
  report.pages = 0;
  report.unread_pools = 0;
  for (auto host : cluster_.all_running()) {
    auto inc = watch_.latest(host).inc;
    auto scanned = scan_pool(cluster_.pool_prefix(), cluster_.node_name(host), inc);
    if (!scanned) {
      ++report.unread_pools;
      continue;
    }
    for (const auto& [key, gen] : *scanned)
      if (auto known = ids_.find(key); known != ids_.end())
        ids.push_back(known->second);
    report.pages += scanned->size();
    pools_.emplace(inc, std::move(*scanned));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

/// Waits until no shard has a record of a process that is not a member. Uses the shards' own
/// counts, because clients ignore records of dead processes.
void heal_check::judge_records(heal_report& report, clock::time_point until) {
  auto nodes = cluster_.all_running();
  do {
    auto asked_at = clock::now();
    while (!watch_.one_view(nodes, asked_at) && clock::now() < until)
      std::this_thread::sleep_for(pause);
    report.dead_records = 0;
    for (auto host : nodes)
      report.dead_records += watch_.latest(host).dead_records;
    if (report.dead_records == 0)
      return;
  } while (clock::now() < until);
  report.fault += fmt::format("{}the directory has {} records of processes that are gone",
                              report.fault.empty() ? "" : "; ", report.dead_records);
}

/// Counts records that name a living process which does not have the page. Such records do not fail
/// the run: each costs a reader one miss.
void heal_check::count_stale_records(heal_report& report) {
  auto first = cluster_.all_running().front();
  std::vector<std::vector<directory::page_location>> told;
  std::thread([&] {
    cluster_.net().enter(first);
    told = readers_[first]->locate(keys_);
  }).join();
  ids_in_pools(report);
  for (std::size_t i = 0; i < told.size(); ++i)
    for (const auto& location : told[i]) {
      auto pool = pools_.find(location.holder);
      if (pool == pools_.end() || location.where != directory::tier::memory)
        continue;
      auto page = pool->second.find(keys_[i]);
      report.stale_records += page == pool->second.end() || page->second != location.gen;
    }
}

/// Describes in which pools a page is, and where the directory says that it is.
std::string heal_check::describe(std::uint32_t host, std::uint32_t id) {
  auto name_of = [this](const incarnation& inc) {
    for (auto at : cluster_.all_running())
      if (watch_.latest(at).inc == inc)
        return cluster_.node_name(at);
    return std::string("nobody");
  };
  auto text = fmt::format("; {} misses {}: in", cluster_.node_name(host), to_string(keys_[id]));
  for (const auto& [inc, pages] : pools_)
    if (auto page = pages.find(keys_[id]); page != pages.end())
      text += fmt::format(" {} (generation {})", name_of(inc), page->second.value);
  std::vector<std::vector<directory::page_location>> told;
  std::thread([&] {
    cluster_.net().enter(host);
    told = readers_[host]->locate({&keys_[id], 1});
  }).join();
  text += told.empty() ? ", the directory cannot be asked" : ", the directory says";
  for (const auto& locations : told)
    for (const auto& where : locations)
      text +=
          fmt::format(" {} ({}, generation {})", name_of(where.holder),
                      where.where == directory::tier::disk ? "disk" : "memory", where.gen.value);
  return text;
}

void heal_check::judge_pages(heal_report& report, clock::time_point until) {
  auto nodes = cluster_.all_running();
  auto first = ids_in_pools(report);
  std::vector<page_ids> missing(cluster_.hosts(), first);
  while (true) {
    std::vector<std::thread> threads;
    for (auto host : nodes)
      threads.emplace_back([&, host] {
        cluster_.net().enter(host);
        missing[host] = readers_[host]->unreadable(missing[host], keys_);
      });
    for (auto& thread : threads)
      thread.join();
    // Pages that left all pools in the meantime need not be found.
    auto there = ids_in_pools(report);
    report.unreadable = 0;
    for (auto host : nodes) {
      std::erase_if(missing[host], [&](std::uint32_t id) {
        return !std::binary_search(there.begin(), there.end(), id);
      });
      report.unreadable += missing[host].size();
    }
    const bool in_time = clock::now() <= until;
    if (report.unreadable == 0 && report.unread_pools == 0 && in_time)
      return;
    if (!in_time)
      break;
    std::this_thread::sleep_for(pause);
  }
  report.fault += report.fault.empty() ? "" : "; ";
  if (report.unreadable != 0) {
    report.fault += fmt::format("{} pages that are in pools cannot be read", report.unreadable);
    for (auto host : nodes)
      for (std::size_t i = 0; i < std::min<std::size_t>(2, missing[host].size()); ++i)
        report.fault += describe(host, missing[host][i]);
  } else if (report.unread_pools != 0) {
    report.fault += fmt::format("{} pools cannot be looked at", report.unread_pools);
  } else {
    report.fault += "it took too long until all pages could be read";
  }
}

} // namespace peercache::chaos

#include "cli/demo/demo_report.hpp"

#include "cli/output.hpp"

#include <fmt/format.h>
#include <numeric>

namespace peercache::cli {

namespace {

nlohmann::json by_reason(const std::array<std::uint64_t, page_status_count>& counts) {
  auto reasons = nlohmann::json::object();
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] != 0)
      reasons[std::string(to_string(static_cast<page_status>(i)))] = counts[i];
  return reasons;
}

std::string in_words(const nlohmann::json& reasons) {
  std::string text;
  for (const auto& [reason, count] : reasons.items())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                        human_count(count.get<std::uint64_t>()), reason);
  return text.empty() ? "none" : text;
}

nlohmann::json misses_by_reason(const demo_counts& counts) {
  auto reasons = by_reason(counts.misses);
  if (counts.misses_behind_a_miss != 0)
    reasons["behind_a_miss"] = counts.misses_behind_a_miss;
  return reasons;
}

nlohmann::json bytes_by_source(const demo_report& report) {
  auto sources = nlohmann::json::object();
  for (std::size_t i = 1; i < report.bytes_by_origin.size(); ++i)
    sources[std::string(to_string(static_cast<page_origin>(i)))] = report.bytes_by_origin[i];
  return sources;
}

} // namespace

std::uint64_t demo_counts::misses_total() const {
  return std::accumulate(misses.begin(), misses.end(), misses_behind_a_miss);
}

double demo_counts::hit_rate() const {
  return pages == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(pages);
}

double demo_report::ratio_to_lru() const {
  return lru_hit_rate > 0 ? counts.hit_rate() / lru_hit_rate : 0;
}

double demo_report::second_life::share_found() const {
  return found_before == 0 ? 0
                           : static_cast<double>(found_again) / static_cast<double>(found_before);
}

nlohmann::json demo_report::to_json() const {
  nlohmann::json made = {{"trace", trace},
                         {"nodes", nodes},
                         {"data_plane", data_plane},
                         {"page_bytes", page_bytes},
                         {"pool_bytes", pool_bytes},
                         {"requests", counts.requests},
                         {"pages", counts.pages},
                         {"hits", counts.hits},
                         {"hit_rate", counts.hit_rate()},
                         {"misses", misses_by_reason(counts)},
                         {"misses_total", counts.misses_total()},
                         {"wrong_bytes", counts.wrong_bytes},
                         {"wrong_pages", counts.wrong_pages},
                         {"evictions", evictions},
                         {"pages_put", counts.pages_put},
                         {"puts_skipped", by_reason(counts.puts_skipped)},
                         {"puts_unpublished", counts.puts_unpublished},
                         {"bytes_by_source", bytes_by_source(*this)},
                         {"elapsed_s", elapsed_s},
                         {"global_lru_hit_rate", lru_hit_rate},
                         {"unlimited_hit_rate", unlimited_hit_rate},
                         {"ratio_to_global_lru", ratio_to_lru()}};
  if (disk_bytes != 0)
    made["disk"] = {{"size_bytes", disk_bytes}, {"pages", on_disk}};
  if (restarted)
    made["restarted"] = {{"pages_found_before", restarted->found_before},
                         {"pages_found_again", restarted->found_again},
                         {"share_found_again", restarted->share_found()},
                         {"hit_rate", restarted->counts.hit_rate()},
                         {"hits", restarted->counts.hits},
                         {"wrong_bytes", restarted->wrong_bytes}};
  return made;
}

std::string demo_report::to_text() const {
  fact_list facts;
  facts.add("trace", trace);
  facts.add("nodes", fmt::format("{} with a pool of {} each, pages of {}", nodes,
                                 human_bytes(pool_bytes), human_bytes(page_bytes)));
  facts.add("data plane", data_plane);
  facts.add("requests", human_count(counts.requests));
  facts.add("pages asked for", human_count(counts.pages));
  facts.add("hits",
            fmt::format("{} ({})", human_count(counts.hits), human_percent(counts.hit_rate())));
  facts.add("  one LRU of this size", fmt::format("{} simulated; the cluster reaches {:.3f} of it",
                                                  human_percent(lru_hit_rate), ratio_to_lru()));
  facts.add("  room for everything", human_percent(unlimited_hit_rate) + " simulated");
  facts.add("misses", fmt::format("{}: {}", human_count(counts.misses_total()),
                                  in_words(misses_by_reason(counts))));
  facts.add("pages put", human_count(counts.pages_put));
  facts.add("puts skipped", in_words(by_reason(counts.puts_skipped)));
  facts.add("evictions", human_count(evictions));
  for (std::size_t i = 1; i < bytes_by_origin.size(); ++i)
    if (bytes_by_origin[i] != 0)
      facts.add("from " + std::string(to_string(static_cast<page_origin>(i))),
                human_bytes(bytes_by_origin[i]));
  if (disk_bytes != 0)
    facts.add("on disk", fmt::format("{} pages, {} for each node", human_count(on_disk),
                                     human_bytes(disk_bytes)));
  if (restarted) {
    facts.add("after kill -9 of all", fmt::format("{} pages found again: {} of those before",
                                                  human_count(restarted->found_again),
                                                  human_percent(restarted->share_found())));
    facts.add("  the trace once more", human_percent(restarted->counts.hit_rate()) + " hits");
  }
  facts.add("elapsed", fmt::format("{:.1f} s", elapsed_s));
  facts.add("wrong bytes",
            human_count(counts.wrong_bytes + (restarted ? restarted->wrong_bytes : 0)));
  return facts.to_string();
}

} // namespace peercache::cli

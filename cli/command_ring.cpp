#include "cli/command.hpp"
#include "discovery/hash_ring.hpp"
#include "metrics/metric_table.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace peercache::cli {

using metrics::metric;

namespace {

struct ring_row {
  const discovery::member* member = nullptr;
  discovery::hash_ring::share share; ///< The node's share of the keys; zero while it drains.
};

std::vector<ring_row> rows_of(const discovery::view& view, std::size_t replicas) {
  const auto shares = discovery::hash_ring(view.members).shares(replicas);
  std::vector<ring_row> rows;
  for (const auto& member : view.members) {
    const auto at = std::find_if(shares.begin(), shares.end(),
                                 [&](const auto& share) { return share.id == member.id; });
    rows.push_back({&member, at == shares.end() ? discovery::hash_ring::share{member.id} : *at});
  }
  std::sort(rows.begin(), rows.end(), [](const ring_row& a, const ring_row& b) {
    return discovery::natural_less(a.member->name, b.member->name);
  });
  return rows;
}

void print_ring(const global_options& globals, const discovery::view& view, std::size_t replicas) {
  const auto rows = rows_of(view, replicas);
  using side = text_table::align;
  text_table table({{"NODE"},
                    {"FIRST OWNER OF", side::right},
                    {fmt::format("ONE OF {} OWNERS OF", replicas), side::right},
                    {"TO THE MEAN", side::right}});
  const auto owners =
      std::count_if(rows.begin(), rows.end(), [](const ring_row& r) { return r.share.first > 0; });
  auto nodes = nlohmann::json::array();
  const auto copies = static_cast<double>(
      std::min<std::size_t>(replicas, std::max<std::size_t>(static_cast<std::size_t>(owners), 1)));
  double fullest = 0;
  for (const auto& [member, share] : rows) {
    const auto to_mean = share.listed * static_cast<double>(owners) / copies;
    fullest = std::max(fullest, to_mean);
    table.add_row({member->name + (member->draining ? " (draining)" : ""),
                   human_percent(share.first), human_percent(share.listed),
                   fmt::format("{:.2f}", to_mean)});
    nodes.push_back({{"name", member->name},
                     {"draining", member->draining},
                     {"first_owner_share", share.first},
                     {"owner_share", share.listed},
                     {"to_mean", to_mean}});
  }
  print(globals,
        {{"term", view.term},
         {"version", view.version},
         {"replicas", replicas},
         {"virtual_nodes", discovery::hash_ring::virtual_nodes},
         {"max_to_mean", fullest},
         {"nodes", nodes}},
        table.to_string(colour_allowed(stdout)));
}

exit_code show_ring(const global_options& globals) {
  auto admin = connect_admin(globals);
  if (!admin)
    return fail(globals, admin.error());
  auto view = (*admin)->view();
  auto status = (*admin)->status();
  if (!view || !status)
    return fail(globals, view ? status.error() : view.error());
  const auto replicas = std::clamp<std::size_t>(status->count(metric::directory_owners), 1,
                                                discovery::hash_ring::replicas_max);
  print_ring(globals, *view, replicas);
  return exit_code::ok;
}

} // namespace

void add_ring_command(command_line& line) {
  auto* command =
      line.app.add_subcommand("ring", "Which share of the keys each node's directory shard owns");
  command->callback([&line] { line.action = show_ring; });
}

} // namespace peercache::cli

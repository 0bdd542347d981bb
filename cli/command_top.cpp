#include "cli/cluster_history.hpp"
#include "cli/command.hpp"
#include "metrics/metric_table.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <numeric>
#include <thread>
#include <unistd.h>

namespace peercache::cli {

using metrics::metric;

namespace {

struct top_arguments {
  bool once = false;
  std::chrono::milliseconds every{2000};
};

/// A node's activity per second in the newest step of its history.
struct node_rates {
  double gets = 0;  ///< Pages that were asked for, per second.
  double share = 0; ///< Hits among the pages that were asked for, from 0 to 1.
  double read_bytes = 0, stored_bytes = 0, evictions = 0;
  std::uint64_t get_p50_ns = 0, get_p99_ns = 0;
};

node_rates rates_of(const link::history_point& step) {
  node_rates rates;
  const auto seconds = static_cast<double>(std::max<std::uint64_t>(step.span_ms, 1)) / 1000;
  const auto sum = [](const auto& all) {
    return static_cast<double>(std::accumulate(all.begin(), all.end(), std::uint64_t{0}));
  };
  const auto hits = sum(step.hits), pages = hits + sum(step.misses);
  rates.gets = pages / seconds;
  rates.share = pages > 0 ? hits / pages : 0;
  rates.read_bytes = static_cast<double>(step.get_bytes) / seconds;
  rates.stored_bytes = static_cast<double>(step.set_bytes) / seconds;
  rates.evictions = static_cast<double>(step.evictions) / seconds;
  rates.get_p50_ns = step.get_ns[0];
  rates.get_p99_ns = step.get_ns[2];
  return rates;
}

std::string bytes_a_second(double bytes) {
  return human_bytes(static_cast<std::uint64_t>(bytes)) + "/s";
}

std::string micros(std::uint64_t ns) {
  return ns == 0 ? "" : fmt::format("{:.0f} us", static_cast<double>(ns) / 1000);
}

nlohmann::json rates_json(const node_rates& rates) {
  return {{"gets_per_s", rates.gets},
          {"hit_share", rates.share},
          {"read_bytes_per_s", rates.read_bytes},
          {"stored_bytes_per_s", rates.stored_bytes},
          {"evictions_per_s", rates.evictions},
          {"get_p50_ns", rates.get_p50_ns},
          {"get_p99_ns", rates.get_p99_ns}};
}

/// The cells of a node's pool and of its newest step.
void add_cells(const node_answer& answer, const std::optional<link::history_point>& step,
               std::vector<std::string>& cells, nlohmann::json& node) {
  if (answer.status) {
    const auto used = answer.status->count(metric::pool_bytes_used);
    const auto capacity = answer.status->count(metric::pool_bytes_capacity);
    node["pool_bytes_used"] = used;
    node["pool_bytes_capacity"] = capacity;
    cells.push_back(capacity == 0
                        ? ""
                        : human_percent(static_cast<double>(used) / static_cast<double>(capacity)));
  }
  if (!answer.status || !step)
    return;
  const auto rates = rates_of(*step);
  node["rates"] = rates_json(rates);
  cells.insert(cells.end(),
               {fmt::format("{:.1f}", rates.gets), rates.gets > 0 ? human_percent(rates.share) : "",
                bytes_a_second(rates.read_bytes), bytes_a_second(rates.stored_bytes),
                micros(rates.get_p50_ns), micros(rates.get_p99_ns),
                fmt::format("{:.1f}", rates.evictions)});
}

/// Prints the present figures of all nodes; with `over`, in place of what the terminal shows.
exit_code print_top(const global_options& globals, bool over) {
  auto admin = connect_admin(globals);
  if (!admin)
    return fail(globals, admin.error());
  auto view = (*admin)->view();
  auto status = (*admin)->status();
  if (!view || !status)
    return fail(globals, view ? status.error() : view.error());
  const auto answers = ask_all(*view, globals);
  const auto memories = ask_memories(*view, globals);
  using side = text_table::align;
  text_table table({{"NODE"},
                    {"STATE"},
                    {"POOL", side::right},
                    {"GETS/S", side::right},
                    {"HITS", side::right},
                    {"READ", side::right},
                    {"STORED", side::right},
                    {"GET P50", side::right},
                    {"P99", side::right},
                    {"EVICTED/S", side::right}});
  auto nodes = nlohmann::json::array();
  // `answers` and `memories` have all members of the view, in the natural order of their names.
  for (std::size_t i = 0; i < answers.size(); ++i) {
    std::vector<std::string> cells{answers[i].member.name, state_of(answers[i])};
    nlohmann::json node{{"name", answers[i].member.name}, {"state", state_of(answers[i])}};
    add_cells(answers[i], memories[i].said ? newest_of(*memories[i].said) : std::nullopt, cells,
              node);
    table.add_row(std::move(cells));
    nodes.push_back(std::move(node));
  }
  for (const auto& each : view->gone) {
    table.add_row({each.name, fmt::format("gone since {}", since_of(each))});
    nodes.push_back({{"name", each.name}, {"state", "gone"}});
  }
  const auto faults = link::faults_of(*status, *view, answers);
  const auto head = fmt::format(
      "{}  {}  {}\n", status->self.name, link::time_text(status->unix_ms),
      faults.empty() ? "well" : fmt::format("{} faults (peercache status)", faults.size()));
  if (over)
    fmt::print("\x1b[H\x1b[2J");
  print(globals, {{"asked", status->self.name}, {"faults", faults.size()}, {"nodes", nodes}},
        head + table.to_string(colour_allowed(stdout)));
  std::fflush(stdout);
  return faults.empty() ? exit_code::ok : exit_code::degraded;
}

exit_code show_top(const global_options& globals, const top_arguments& arguments) {
  const bool over =
      !arguments.once && globals.format == output_format::table && ::isatty(STDOUT_FILENO) == 1;
  for (;;) {
    const auto code = print_top(globals, over);
    if (arguments.once || std::ferror(stdout) != 0)
      return code;
    std::this_thread::sleep_for(arguments.every);
  }
}

} // namespace

void add_top_command(command_line& line) {
  auto* command = line.app.add_subcommand(
      "top", "What all nodes do now: gets, hits, throughput and times of their last ten seconds, "
             "renewed until Ctrl-C (3, with --once: something is wrong)");
  auto arguments = std::make_shared<top_arguments>();
  command->add_flag("--once", arguments->once, "Print it once and end");
  command->callback([&line, arguments] {
    line.action = [arguments](const global_options& globals) {
      return show_top(globals, *arguments);
    };
  });
}

} // namespace peercache::cli

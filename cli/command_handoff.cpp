#include "cli/cluster_health.hpp"
#include "cli/cluster_history.hpp"
#include "cli/command.hpp"
#include "cli/members.hpp"
#include "metrics/metric_table.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace peercache::cli {

using metrics::metric;

namespace {

constexpr std::array<std::string_view, 2> sides{"prefill", "decode"};

/// A reason for which hand-overs of a worker have failed.
struct last_failure {
  std::string node, worker, text;
  std::uint64_t seconds_ago = 0;
};

std::vector<last_failure> failures_of(const client::node_status& status, std::uint64_t now) {
  std::vector<last_failure> all;
  for (const auto& [which, value] : status.samples.values()) {
    if (which.id != metric::handoff_last_failure_seconds)
      continue;
    const auto at = static_cast<std::uint64_t>(value);
    all.push_back({status.self.name, which.words[0], which.words[1], now > at ? now - at : 0});
  }
  return all;
}

/// What a metric of one host says of one side, by its second label (a reason, a state); zeros are
/// left out.
nlohmann::json counts_of(const client::node_status& status, metric id, std::string_view side) {
  auto counts = nlohmann::json::object();
  for (const auto& [which, value] : status.samples.values())
    if (which.id == id && which.words[0] == side && value != 0)
      counts[which.words[1]] = static_cast<std::uint64_t>(value);
  return counts;
}

/// The states of rooms for people, for example "3 transferring, 1 bootstrapping".
std::string states_text(const nlohmann::json& states) {
  std::vector<std::string> parts;
  for (const auto& [state, rooms] : states.items())
    parts.push_back(fmt::format("{} {}", rooms.get<std::uint64_t>(), state));
  return parts.empty() ? "0" : fmt::format("{}", fmt::join(parts, ", "));
}

/// The workers of one side on one host: rooms and connections that are open now, and totals of what
/// has ended.
struct side_row {
  nlohmann::json states;
  std::uint64_t peers, succeeded, failed, bytes;

  side_row(const client::node_status& status, std::string_view side)
      : states(counts_of(status, metric::handoff_rooms, side)),
        peers(status.samples.count(metric::handoff_peers, {side})),
        succeeded(status.samples.count(metric::handoff_rooms_total, {side, "succeeded"})),
        failed(status.samples.count(metric::handoff_rooms_total, {side, "failed"})),
        bytes(status.samples.count(metric::handoff_bytes_total, {side})) {}

  bool is_empty() const noexcept { return states.empty() && peers + succeeded + failed == 0; }
  std::uint64_t rooms() const {
    std::uint64_t sum = 0;
    for (const auto& each : states)
      sum += each.get<std::uint64_t>();
    return sum;
  }
};

/// What one side of a host has handed over per second, in the newest step of the node's history.
struct side_rates {
  double rooms = 0, bytes = 0;

  side_rates(const link::history_point& step, std::size_t side) {
    const auto seconds = static_cast<double>(std::max<std::uint64_t>(step.span_ms, 1)) / 1000;
    rooms = static_cast<double>(step.rooms_handed_over[side]) / seconds;
    bytes = static_cast<double>(step.bytes_handed_over[side]) / seconds;
  }
};

std::string milliseconds_text(std::uint64_t ns) {
  return fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
}

/// All figures and failures of all hosts that the command shows.
class report {
public:
  /// @param step the newest step of the node's history; nothing where none has ended
  void add(const client::node_status& status, const std::optional<link::history_point>& step,
           std::uint64_t now) {
    for (std::size_t side = 0; side < sides.size(); ++side)
      if (const side_row row(status, sides[side]); !row.is_empty())
        add_side(status, row, side, step);
    for (auto& each : failures_of(status, now))
      failures_.push_back(std::move(each));
  }
  void add_fault(const discovery::member& member, const error& fault) {
    table_.add_row({member.name, std::string(to_string(fault.code))});
    json_.push_back({{"node", member.name}, {"fault", fault.message}});
  }

  nlohmann::json json() const {
    auto last = nlohmann::json::array();
    for (const auto& each : failures_)
      last.push_back({{"node", each.node},
                      {"worker", each.worker},
                      {"reason", each.text},
                      {"seconds_ago", each.seconds_ago}});
    return {{"workers", json_}, {"last_failures", last}};
  }
  std::string text() {
    if (json_.empty())
      return "no worker that hands prompts over has reported to a node of this cluster\n";
    auto shown = table_.to_string(colour_allowed(stdout));
    std::sort(failures_.begin(), failures_.end(), [](const auto& one, const auto& other) {
      return one.seconds_ago < other.seconds_ago;
    });
    for (const auto& each : failures_)
      shown += fmt::format("{} on {}, {} ago: {}\n", each.worker, each.node,
                           human_duration(std::chrono::seconds(each.seconds_ago)), each.text);
    return shown;
  }

private:
  void add_side(const client::node_status& status, const side_row& row, std::size_t which,
                const std::optional<link::history_point>& step) {
    const auto took = status.samples.latency(metric::handoff_seconds, {});
    const bool timed = sides[which] == "decode" && took.count != 0;
    json_.push_back({{"node", status.self.name},
                     {"side", sides[which]},
                     {"rooms", row.rooms()},
                     {"states", row.states},
                     {"peers", row.peers},
                     {"succeeded", row.succeeded},
                     {"failed", row.failed},
                     {"failures", counts_of(status, metric::handoff_failures_total, sides[which])},
                     {"bytes", row.bytes}});
    std::vector<std::string> cells{status.self.name,           std::string(sides[which]),
                                   states_text(row.states),    human_count(row.peers),
                                   human_count(row.succeeded), human_count(row.failed),
                                   human_bytes(row.bytes)};
    if (step) {
      const side_rates rates(*step, which);
      json_.back()["rooms_per_s"] = rates.rooms;
      json_.back()["bytes_per_s"] = rates.bytes;
      cells.push_back(fmt::format("{:.1f}", rates.rooms));
      cells.push_back(human_bytes(static_cast<std::uint64_t>(rates.bytes)) + "/s");
    } else {
      cells.insert(cells.end(), 2, "-");
    }
    if (timed) {
      json_.back()["p50_us"] = took.quantile_ns(0.5) / 1000;
      json_.back()["p99_us"] = took.quantile_ns(0.99) / 1000;
    }
    for (const auto quantile : {0.5, 0.99})
      cells.push_back(timed ? milliseconds_text(took.quantile_ns(quantile)) : "-");
    table_.add_row(std::move(cells));
  }

  using side = text_table::align;
  text_table table_{{{"NODE"},
                     {"SIDE"},
                     {"ROOMS"},
                     {"PEERS", side::right},
                     {"SUCCEEDED", side::right},
                     {"FAILED", side::right},
                     {"BYTES", side::right},
                     {"ROOMS/S", side::right},
                     {"RATE", side::right},
                     {"P50", side::right},
                     {"P99", side::right}}};
  nlohmann::json json_ = nlohmann::json::array();
  std::vector<last_failure> failures_;
};

exit_code show_handoff(const global_options& globals) {
  auto view = ask_view(globals);
  if (!view)
    return fail(globals, view.error());
  report shown;
  bool all = true;
  const auto now = static_cast<std::uint64_t>(std::time(nullptr));
  // Both lists have all members of the view, in the natural order of their names.
  const auto answers = ask_all(*view, globals);
  const auto memories = ask_memories(*view, globals);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto& status = answers[i].status;
    all = all && status;
    if (status)
      shown.add(*status, memories[i].said ? newest_of(*memories[i].said) : std::nullopt, now);
    else
      shown.add_fault(answers[i].member, answers[i].fault);
  }
  print(globals, shown.json(), shown.text());
  return all ? exit_code::ok : exit_code::degraded;
}

} // namespace

void add_handoff_command(command_line& line) {
  auto* command = line.app.add_subcommand(
      "handoff", "Prompts that go from prefill to decode: rooms, peers, rates, times, and why the "
                 "last ones failed (3: not all nodes answer)");
  command->callback([&line] { line.action = show_handoff; });
}

} // namespace peercache::cli

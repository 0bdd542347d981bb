#include "cli/cluster_health.hpp"
#include "cli/command.hpp"
#include "cli/members.hpp"
#include "metrics/metric_table.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <fmt/format.h>
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

nlohmann::json reasons_of(const client::node_status& status, std::string_view side) {
  auto reasons = nlohmann::json::object();
  for (const auto& [which, value] : status.samples.values())
    if (which.id == metric::handoff_failures_total && which.words[0] == side && value != 0)
      reasons[which.words[1]] = static_cast<std::uint64_t>(value);
  return reasons;
}

/// The workers of one side on one host: rooms and connections that are open now, and totals of what
/// has ended.
struct side_row {
  std::uint64_t rooms, peers, succeeded, failed, bytes;

  side_row(const client::node_status& status, std::string_view side)
      : rooms(status.samples.count(metric::handoff_rooms, {side})),
        peers(status.samples.count(metric::handoff_peers, {side})),
        succeeded(status.samples.count(metric::handoff_rooms_total, {side, "succeeded"})),
        failed(status.samples.count(metric::handoff_rooms_total, {side, "failed"})),
        bytes(status.samples.count(metric::handoff_bytes_total, {side})) {}

  bool is_empty() const noexcept { return rooms + peers + succeeded + failed == 0; }
};

std::string milliseconds_text(std::uint64_t ns) {
  return fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
}

/// All figures and failures of all hosts that the command shows.
class report {
public:
  void add(const client::node_status& status, std::uint64_t now) {
    const auto took = status.samples.latency(metric::handoff_seconds, {});
    for (const auto side : sides) {
      const side_row row(status, side);
      if (row.is_empty())
        continue;
      const bool timed = side == "decode" && took.count != 0;
      table_.add_row({status.self.name, std::string(side), human_count(row.rooms),
                      human_count(row.peers), human_count(row.succeeded), human_count(row.failed),
                      human_bytes(row.bytes),
                      timed ? milliseconds_text(took.quantile_ns(0.5)) : "-",
                      timed ? milliseconds_text(took.quantile_ns(0.99)) : "-"});
      json_.push_back({{"node", status.self.name},
                       {"side", side},
                       {"rooms", row.rooms},
                       {"peers", row.peers},
                       {"succeeded", row.succeeded},
                       {"failed", row.failed},
                       {"failures", reasons_of(status, side)},
                       {"bytes", row.bytes}});
      if (timed) {
        json_.back()["p50_us"] = took.quantile_ns(0.5) / 1000;
        json_.back()["p99_us"] = took.quantile_ns(0.99) / 1000;
      }
    }
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
  using side = text_table::align;
  text_table table_{{{"NODE"},
                     {"SIDE"},
                     {"ROOMS", side::right},
                     {"PEERS", side::right},
                     {"SUCCEEDED", side::right},
                     {"FAILED", side::right},
                     {"BYTES", side::right},
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
  for (const auto& answer : ask_all(*view, globals)) {
    const auto& status = answer.status;
    all = all && status;
    if (status)
      shown.add(*status, now);
    else
      shown.add_fault(answer.member, answer.fault);
  }
  print(globals, shown.json(), shown.text());
  return all ? exit_code::ok : exit_code::degraded;
}

} // namespace

void add_handoff_command(command_line& line) {
  auto* command = line.app.add_subcommand(
      "handoff", "Prompts that go from prefill to decode: rooms, peers, times, and why the last "
                 "ones failed (3: not all nodes answer)");
  command->callback([&line] { line.action = show_handoff; });
}

} // namespace peercache::cli

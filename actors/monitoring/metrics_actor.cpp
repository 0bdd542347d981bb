#include "actors/monitoring/metrics_actor.hpp"

#include "actors/monitoring/status_json.hpp"
#include "common/fault_ids.hpp"
#include "common/log.hpp"
#include "link/beats.hpp"

#include <cstdint>
#include <utility>

namespace peercache::actors {

using metrics::metric;

namespace {

metrics::samples samples_of(const std::vector<rdma::rail_servers::rail_snapshot>& rails) {
  metrics::samples now;
  for (const auto& [rail, stats] : rails) {
    now.set(metric::rdma_rail_serving, {rail}, stats.serving);
    now.set(metric::rdma_readers, {rail}, stats.sessions);
    now.set(metric::rdma_region_bytes, {rail}, stats.regions.registered_bytes);
    now.set(metric::rdma_chunks_failed, {rail}, stats.regions.failed);
    now.set(metric::rdma_windows_failed_total, {rail}, stats.windows_failed);
  }
  return now;
}

metrics::samples samples_of(const page_server::snapshot& server) {
  metrics::samples now;
  now.set(metric::data_connections, server.connections);
  now.set(metric::data_pages_sent_total, server.stats.payloads);
  now.set(metric::data_bytes_sent_total, server.stats.bytes_sent);
  return now;
}

metrics::samples samples_of(const served_datagrams::counts& served) {
  metrics::samples now;
  now.set(metric::directory_datagrams_total, {"answered"}, served.answered);
  now.set(metric::directory_datagrams_total, {"over_tcp"}, served.sent_to_tcp);
  now.set(metric::directory_datagrams_total, {"refused"}, served.refused);
  now.set(metric::directory_datagrams_total, {"paced"}, served.paced);
  return now;
}

/// A number for each fault id; 0 for faults that the cluster does not have.
metrics::samples samples_of(const std::map<std::string, std::size_t>& faults) {
  metrics::samples now;
  for (const auto* id : fault_ids::all) {
    const auto found = faults.find(id);
    now.set(metric::cluster_faults, {id}, found == faults.end() ? 0 : found->second);
  }
  return now;
}

} // namespace

void metrics_state::publish(const node_report& node) {
  auto& board = *options.board;
  board.numbers.take(node.samples);
  board.numbers.take(samples_of(options.page_server_stats()));
  board.numbers.take(samples_of(options.rail_stats()));
  board.numbers.take(samples_of(options.datagram_stats()));
  board.numbers.take(samples_of(*board.faults.load()));
  board.status.store(status_json(node));
  board.has_numbers = true;
}

bool metrics_state::is_watched(std::chrono::steady_clock::time_point now) const {
  const auto last = options.board->looked.load();
  return last != decltype(last){} && now - last <= options.watching_lasts;
}

void metrics_state::remember(const node_report& node, node_history::time_point now,
                             std::uint64_t unix_ms) {
  const auto known = events.known();
  events.take(node, unix_ms);
  bool news = events.known() != known;
  // Missing counters are 0, and the next report would count all that they ever counted as one step.
  // A later report, which has them all, ends the step.
  if (node.silent.empty() && history.due(unix_ms)) {
    auto all = node.samples;
    all.take(samples_of(options.page_server_stats()));
    history.take(all, now, unix_ms);
    news = true;
  }
  if (news)
    options.board->own_history.store({history.points(), events.events()});
}

void metrics_state::remember(const discovery::view& view, std::uint64_t unix_ms) {
  events.take(view, unix_ms);
  options.board->own_history.store({history.points(), events.events()});
}

namespace {

using metrics_pointer = metrics_actor::stateful_pointer<metrics_state>;

/// Asks the gateway for the node's status, and tells who waits for it. Does nothing while an
/// earlier question is open: its answer is told to all who wait by then, however old it is.
void ask_for_report(metrics_pointer self) {
  auto& state = self->state;
  if (std::exchange(state.asks, true))
    return;
  const auto ended = [self] {
    self->state.asks = false;
    self->state.options.board->wishes.fulfil();
  };
  const auto asked = self->clock().now();
  self->request(state.options.gateway, std::chrono::seconds(3), status_atom_v)
      .then(
          [self, ended, asked](const node_report& node) {
            self->state.publish(node);
            self->state.options.board->reported = asked;
            self->state.remember(node, self->clock().now(), self->state.options.today());
            ended();
          },
          [self, ended](const caf::error& why) {
            log::warn("metrics: no report: {}", self->system().render(why));
            ended();
          });
}

void plan_beat(metrics_pointer self) {
  const auto& options = self->state.options;
  const auto rest = static_cast<std::uint64_t>(options.rest_interval.count());
  if (self->state.is_watched(std::chrono::steady_clock::now()))
    beat_within(self, options.interval);
  else
    beat_at(self, self->clock().now() + std::chrono::milliseconds(rest - options.today() % rest));
}

} // namespace

metrics_actor::behavior_type run_metrics(metrics_pointer self, metrics_options options) {
  self->state.options = std::move(options);
  self->state.events = event_log(self->state.options.self);
  self->send(self, beat_atom_v, from_here{});
  return {
      [self](topology_atom, const topology_ptr& next) {
        self->state.remember(next->view, self->state.options.today());
      },
      [self](turn_atom, from_here) {
        auto& board = *self->state.options.board;
        if (has_new_numbers(board, self->clock().now()))
          board.wishes.fulfil(); // A report has come since the scrape looked.
        else
          ask_for_report(self);
      },
      [self](beat_atom, from_here) {
        ask_for_report(self);
        plan_beat(self);
      },
  };
}

} // namespace peercache::actors

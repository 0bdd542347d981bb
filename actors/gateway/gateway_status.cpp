#include "actors/gateway/gateway_status.hpp"

#include "actors/gateway/gateway_welcome.hpp"
#include "common/assert.hpp"
#include "common/unix_time.hpp"
#include "discovery/view_codec.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace peercache::actors {

using metrics::metric;

namespace {

using namespace std::chrono_literals;

/// A node_report whose parts come from several actors; the last part to come delivers the report.
struct report_in_parts {
  node_report report;
  /// Number of parts that have not come. The gateway itself is one, until it has asked all actors.
  std::size_t missing = 1;
  caf::typed_response_promise<node_report> promise;
  /// Faults: callers that the gateway refuses. Delivered together with those that membership
  /// refuses.
  std::vector<node_fault> refused;

  void finish_one() {
    PEERCACHE_ASSERT(missing > 0); // Each part comes once, or fails once.
    if (--missing > 0)
      return;
    auto& told = report.membership.faults;
    told.insert(told.end(), refused.begin(), refused.end());
    promise.deliver(std::move(report));
  }
};

/// Asks an actor for its numbers, and for a report where `more` names a place for one. If the actor
/// does not answer within a second, the status lacks its numbers and its report, and says so.
/// @param name what the status calls the actor (`link::node_parts`)
template <class Actor, class... More>
void add_part(gateway_pointer self, const std::shared_ptr<report_in_parts>& whole, const char* name,
              const Actor& whom, More node_report::*... more) {
  if (!whom)
    return;
  ++whole->missing;
  self->request(whom, 1s, stats_atom_v)
      .then(
          [whole, more...](const metrics::samples& numbers, More&... answer) {
            whole->report.samples.take(numbers);
            ((whole->report.*more = std::move(answer)), ...);
            whole->finish_one();
          },
          [whole, name](const caf::error&) {
            whole->report.silent.emplace_back(name);
            whole->finish_one();
          });
}

/// The numbers that the gateway itself knows, and the sum of its clients'.
metrics::samples samples_of(gateway_pointer self) {
  const auto& state = self->state;
  auto now = state.sessions.totals();
  const auto uptime =
      std::chrono::duration_cast<std::chrono::milliseconds>(self->clock().now() - state.started);
  now.set(metric::build_info, {state.options.version}, 1);
  now.set(metric::data_plane_info, {state.options.data_plane}, 1);
  now.set(metric::uptime_seconds, static_cast<double>(uptime.count()) / 1000);
  now.set(metric::ready, state.ready());
  now.set(metric::tls, state.options.tls);
  now.set(metric::insecure, is_insecure(state));
  now.set(metric::sessions, state.sessions.all().size());
  if (!state.options.disk)
    now.set(metric::disk_scanned_ratio, 1); // Without a disk tier nothing has to be scanned.
  return now;
}

} // namespace

caf::result<node_report> report_of_node(gateway_pointer self) {
  namespace parts = link::node_parts;
  const auto& options = self->state.options;
  auto whole = std::make_shared<report_in_parts>();
  auto& report = whole->report;
  report.member = discovery::encode_member(options.self);
  report.unready_reason = self->state.unready_reason();
  report.data_plane = options.data_plane;
  report.version = options.version;
  report.samples = samples_of(self);
  report.lookup_port = options.lookup_port;
  report.common_options = options.common_options;
  report.unix_ms = unix_ms();
  whole->refused = self->state.refused.faults(self->clock().now());
  whole->promise = self->make_response_promise<node_report>();
  auto promise = whole->promise;
  add_part(self, whole, parts::pool, options.pool);
  add_part(self, whole, parts::directory, options.directory, &node_report::directory);
  add_part(self, whole, parts::membership, options.membership, &node_report::membership);
  add_part(self, whole, parts::disk, options.disk, &node_report::disk);
  add_part(self, whole, parts::links, options.links, &node_report::links);
  add_part(self, whole, parts::promoter, options.promoter);
  add_part(self, whole, parts::clearing, options.clearing);
  add_part(self, whole, parts::overlap, options.overlap);
  whole->finish_one();
  return promise;
}

} // namespace peercache::actors

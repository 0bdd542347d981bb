// The node's HTTP port, and the actors that make its answers.

#include "actors/link_names.hpp"
#include "actors/node/node_impl.hpp"
#include "common/assert.hpp"
#include "link/thread_actor.hpp"
#include "metrics/process_metrics.hpp"

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace peercache::actors {

result<void> node::impl::open_http() {
  if (!config_.metrics.enabled)
    return {};
  metrics::http_content content{
      [board = board_] {
        board->scraped.store(std::chrono::steady_clock::now());
        return board->has_numbers ? board->numbers.text(metrics::process_metrics()) : std::string();
      },
      [board = board_, watched = supervision_] { return readiness_of(*board, watched); },
      [board = board_] {
        board->scraped.store(std::chrono::steady_clock::now());
        return *board->status.load();
      },
      {}};
  if (config_.metrics.dashboard)
    content.api = [board = board_](const std::string& name, const metrics::http_parameters& query) {
      return answer_api(*board, name, query);
    };
  content.query = [board = board_](bool by_hash, std::string body, metrics::http_reply reply) {
    board->ask_for_overlap(by_hash, std::move(body), std::move(reply));
  };
  content.renew = [board = board_](std::function<void()> done) {
    renew_numbers(*board, std::move(done));
  };
  metrics::http_options http;
  http.host = config_.metrics.bind;
  http.port = config_.net.http_port;
  http.tls = tls_;
  http.open_to_strangers = config_.metrics.readers == config::http_readers::anyone;
  auto server = metrics::http_server::listen(http, std::move(content));
  if (!server)
    return server.error();
  http_ = std::move(*server);
  self_.http_port = http_->port();
  return {};
}

void node::impl::spawn_metrics() {
  PEERCACHE_ASSERT(gateway_ && pages_ && rails_ && http_);
  metrics_options options;
  options.gateway = gateway_;
  options.self = self_.name;
  options.page_server_stats = [server = pages_.get()] { return server->latest(); };
  options.rail_stats = [rails = rails_.get()] { return rails->latest(); };
  options.datagram_stats = [served = lookups_->served()] { return served->counted(); };
  options.board = board_;
  metrics_ = system_->spawn(run_metrics, std::move(options));
  board_->want_numbers = [metrics = metrics_] {
    caf::anon_send(metrics, turn_atom_v, from_here{});
  };
  spawn_overview();
  http_thread_ =
      spawn_thread_actor(*system_, "peercache-http", [server = http_.get()] { server->run(); });
}

void node::impl::spawn_overview() {
  overview_options options;
  options.cluster = config_.cluster.name;
  options.self = self_;
  options.gateway = gateway_;
  options.board = board_;
  options.replicas = config_.directory.replicas;
  options.epochs = memory_->epochs();
  overview_ = system_->spawn(run_overview, std::move(options));
  board_->look = [overview = overview_] { caf::anon_send(overview, turn_atom_v, from_here{}); };
  board_->ask_for_key = [overview = overview_](const page_key& key) {
    caf::anon_send(overview, locate_atom_v, to_string(key), from_here{});
  };
}

void node::impl::spawn_overlap() {
  overlap_options options;
  options.own = self_.id;
  options.directory = directory_;
  options.replicas = config_.directory.replicas;
  options.epochs = memory_->epochs();
  options.gpu_keys = config_.overlap.gpu_keys;
  overlap_ = system_->spawn(run_overlap, std::move(options));
  board_->ask_for_overlap = [overlap = overlap_, &clock = system_->clock()](
                                bool by_hash, std::string body, metrics::http_reply reply) {
    caf::anon_send(overlap, locate_atom_v,
                   std::make_shared<overlap_call>(
                       overlap_call{std::move(body), by_hash, std::move(reply), clock.now()}));
  };
}

} // namespace peercache::actors

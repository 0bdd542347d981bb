#include "client/read/read_plane.hpp"

#include "client/read/peer_health.hpp"
#include "client/read/reader_name.hpp"
#include "common/log.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/tcp/tcp_transport.hpp"
#include "rdma/verbs/rail_choice.hpp"
#include "rdma/verbs/verbs_transport.hpp"

namespace peercache::client {

using metrics::metric;

namespace {

std::string next_name() {
  static std::atomic<std::uint32_t> made{0};
  return reader_name(process_place::own(), made.fetch_add(1));
}

/// The metrics of one kind of connection that have a label for the peer.
struct peer_metrics {
  metric reads, bytes, errors;
};

void add_peers(metrics::samples& totals, const rdma::peer_counters& counters,
               const peer_metrics& as) {
  counters.for_each([&](const std::string& peer, const rdma::peer_counts& counts) {
    totals.add(as.reads, {peer}, counts.reads);
    totals.add(as.bytes, {peer}, counts.bytes);
    totals.add(as.errors, {peer}, counts.errors);
  });
}

} // namespace

read_plane::read_plane(std::shared_ptr<rdma::device_memory> device,
                       std::shared_ptr<net::tls_context> tls)
    : reader_(incarnation::random()), name_(next_name()), device_(std::move(device)),
      tls_(std::move(tls)) {}
read_plane::~read_plane() = default;

result<std::unique_ptr<read_plane>> read_plane::create(const client_options& options,
                                                       std::shared_ptr<rdma::device_memory> device,
                                                       std::shared_ptr<net::tls_context> tls) {
  auto choice = rdma::choose_rails(options.rails);
  if (!choice)
    return choice.error();
  std::unique_ptr<read_plane> made{new read_plane(std::move(device), std::move(tls))};
  made->choice_ = choice->why;
  for (const auto& rail : choice->rails) {
    auto added = made->add_rail(rail.device, rail.port, options);
    if (added)
      continue;
    if (options.rails.mode == rdma::plane_mode::verbs)
      return added.error();
    made->choice_ += "; not " + rail.device + ": " + added.error().message;
    log::warn("client: rail {} is left out: {}", rail.device, added.error().message);
  }
  if (options.rails.mode != rdma::plane_mode::verbs)
    if (auto added = made->add_tcp(options); !added)
      return added.error();
  return made;
}

result<void> read_plane::add_rail(const std::string& device, std::uint8_t port,
                                  const client_options& options) {
  rdma::verbs_data_plane_options verbs;
  verbs.channels.channels_per_peer_max = options.channels_per_peer_max;
  verbs.channels.connect_timeout = options.page_connect_timeout;
  verbs.channels.breaker.slow_start_calls = peer_health::slow_start_calls;
  verbs.path = options.rails.path;
  verbs.rail = static_cast<std::uint8_t>(rails_.size());
  verbs.reader = reader_;
  verbs.name = name_;
  verbs.bounce_bytes = options.bounce_bytes;
  verbs.tls = tls_;
  auto rail = rdma::reader_rail::open(device, {port, options.rails.gid_index}, verbs);
  if (!rail)
    return rail.error();
  auto plane = rdma::make_verbs_data_plane(**rail);
  if (!plane)
    return plane.error();
  rails_.push_back(std::move(*rail));
  add_lane(rdma::read_lane::kind::rail, device + '/' + std::to_string(port), std::move(*plane));
  lanes_.back()->usable = &rails_.back()->counters.usable;
  lanes_.back()->numa_node = rails_.back()->device->port().numa_node;
  return {};
}

result<void> read_plane::add_tcp(const client_options& options) {
  rdma::tcp_data_plane_options tcp;
  tcp.channels.channels_per_peer_max = options.channels_per_peer_max;
  tcp.channels.connect_timeout = options.page_connect_timeout;
  tcp.channels.breaker.slow_start_calls = peer_health::slow_start_calls;
  tcp.channels.counters = &tcp_peers_;
  tcp.device = device_.get();
  tcp.tls = tls_;
  tcp.pages_in_tls = options.rails.pages_in_tls;
  auto plane = rdma::make_tcp_data_plane(tcp);
  if (!plane)
    return plane.error();
  add_lane(rdma::read_lane::kind::tcp, "tcp", std::move(*plane));
  return {};
}

void read_plane::add_lane(rdma::read_lane::kind how, std::string name,
                          std::unique_ptr<rdma::data_plane> plane) {
  planes_.push_back(std::move(plane));
  rdma::data_plane_loop_options loop_options;
  loop_options.callers =
      how == rdma::read_lane::kind::rail ? rdma::callers_run::polling : rdma::callers_run::sleeping;
  loops_.push_back(std::make_unique<rdma::data_plane_loop>(*planes_.back(), loop_options));
  auto lane = std::make_unique<rdma::read_lane>();
  lane->how = how;
  lane->name = std::move(name);
  lane->submit = [loop = loops_.back().get()](rdma::read_batch& batch) { loop->submit(batch); };
  lane->read_now = [loop = loops_.back().get()](rdma::read_batch& batch) { loop->read_now(batch); };
  lane->cancel = [loop = loops_.back().get()](const rdma::read_batch& batch) {
    loop->cancel(batch);
  };
  lanes_.push_back(std::move(lane));
}

rdma::data_plane* read_plane::take_tcp_plane() {
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    if (lanes_[i]->how == rdma::read_lane::kind::tcp) {
      auto* const plane = planes_[i].get();
      lanes_[i]->submit = [plane](rdma::read_batch& batch) { plane->submit(batch); };
      lanes_[i]->read_now = nullptr;
      lanes_[i]->cancel = [plane](const rdma::read_batch& batch) { plane->cancel(batch); };
      return plane;
    }
  return nullptr;
}

void read_plane::add_to(metrics::samples& totals) const {
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    const auto& counters = rails_[i]->counters;
    const auto& rail = lanes_[i]->name;
    totals.set(metric::rdma_reads_total, {rail}, counters.payload_reads.load());
    totals.set(metric::rdma_read_bytes_total, {rail}, counters.payload_bytes.load());
    totals.set(metric::rdma_bounced_bytes_total, {rail}, counters.bounced_bytes.load());
    totals.set(metric::rdma_channels, {rail}, counters.channels.load());
    for (std::size_t status = 0; status < counters.errors.size(); ++status)
      if (auto count = counters.errors[status].load(); count != 0)
        totals.add(metric::rdma_errors_total, {rail, rdma::rail_counters::status_name(status)},
                   count);
    add_peers(totals, counters.peers,
              {metric::rdma_peer_reads_total, metric::rdma_peer_bytes_total,
               metric::rdma_peer_errors_total});
  }
  add_peers(
      totals, tcp_peers_,
      {metric::tcp_peer_reads_total, metric::tcp_peer_bytes_total, metric::tcp_peer_errors_total});
}

result<void> read_plane::register_buffer(std::span<std::byte> memory) {
  const bool was_noted = device_ && device_->holds(memory.data());
  if (device_)
    device_->add(memory);
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    auto added = rails_[i]->destinations->add(memory, device_.get());
    if (added)
      continue;
    // What an earlier call has registered stays.
    while (i-- > 0)
      rails_[i]->destinations->remove(memory.data());
    if (device_ && !was_noted)
      device_->remove(memory.data());
    return added;
  }
  return {};
}

void read_plane::unregister_buffer(const std::byte* begin) {
  for (auto& rail : rails_)
    rail->destinations->remove(begin);
  if (device_)
    device_->remove(begin);
}

void read_plane::stop() noexcept {
  stop_.store(true, std::memory_order_release);
  for (auto& loop : loops_)
    loop->wake();
}

} // namespace peercache::client

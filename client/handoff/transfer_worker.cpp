#include "client/handoff/transfer_worker.hpp"

#include "client/handoff/transfer_worker_impl.hpp"
#include "client/handoff/worker_reader.hpp"
#include "common/log.hpp"
#include "net/socket.hpp"

namespace peercache::client {

using handoff::call_state;

namespace {

error closed_transfer_worker() {
  return {errc::closed, "the transfer engine is closed"};
}

result<void> resolve_own_host(worker_options& options) {
  auto host = net::resolve_host(options.host);
  if (!host)
    return host.error();
  if (*host == "0.0.0.0" || *host == "::")
    return {errc::invalid_argument,
            "a transfer engine is to listen on " + *host +
                ", which tells others no address at which to read its memory; name one of this "
                "host's addresses"};
  options.host = *std::move(host);
  return {};
}

handoff::hello hello_of(const worker_options& options, const memory_server& served,
                        const incarnation& process) {
  handoff::hello self;
  self.side = handoff::engine_side::transfer;
  self.process = process;
  self.node = node_id_of(options.name);
  self.data_port = served.port();
  self.rails = served.rails();
  self.cluster = options.cluster;
  self.data_host = options.host;
  return self;
}

} // namespace

transfer_worker::transfer_worker(std::unique_ptr<impl> made) : impl_(std::move(made)) {}

transfer_worker::~transfer_worker() {
  if (impl_->home.is_here())
    impl_->end();
  else [[maybe_unused]]
    auto* const parents = impl_.release();
}

result<std::unique_ptr<transfer_worker>> transfer_worker::start(worker_options options) {
  if (auto resolved = resolve_own_host(options); !resolved)
    return resolved.error();
  const auto process = incarnation::random();
  auto tls = worker_tls::open(options.tls);
  if (!tls)
    return tls.error();
  auto served = memory_server::listen(options, process, *tls);
  if (!served)
    return served.error();
  auto plane = reader_of(options, tls->context());
  if (!plane)
    return plane.error();
  auto links =
      handoff::worker_links::listen(tls->links_at(options), hello_of(options, **served, process));
  if (!links)
    return links.error();
  auto made = std::make_unique<impl>(std::move(options), std::move(*tls), std::move(*served),
                                     std::move(*plane), std::move(*links), process);
  made->spawn();
  std::unique_ptr<transfer_worker> worker{new transfer_worker(std::move(made))};
  log::info("handoff: transfer engine {} listens on {} port {}; {}", to_string(process),
            worker->impl_->options.host, worker->port(), worker->data_plane());
  return worker;
}

std::uint16_t transfer_worker::port() const noexcept {
  return impl_->links->port();
}

const std::string& transfer_worker::data_plane() const noexcept {
  return impl_->plane->choice();
}

result<void> transfer_worker::register_memory(const handoff::memory_range& memory) {
  if (!impl_->home.is_here())
    return closed_transfer_worker();
  return impl_->register_memory(memory);
}

bool transfer_worker::overlaps(const handoff::memory_range& memory) const {
  if (!impl_->home.is_here())
    return false;
  std::lock_guard guard{impl_->lock};
  return impl_->machine.overlaps(memory);
}

result<void> transfer_worker::unregister_memory(std::uint64_t address) {
  if (!impl_->home.is_here())
    return closed_transfer_worker();
  return impl_->unregister_memory(address);
}

result<handoff::call_id> transfer_worker::begin(handoff::transfer_direction direction,
                                                handoff::worker_address with,
                                                std::vector<handoff::transfer_piece> pieces,
                                                std::chrono::nanoseconds timeout) {
  if (!impl_->home.is_here())
    return closed_transfer_worker();
  const auto until = std::chrono::steady_clock::now() + timeout;
  auto host = impl_->names.address_of(with.host);
  if (!host)
    return host.error();
  with.host = *std::move(host);
  std::lock_guard guard{impl_->lock};
  if (impl_->closed)
    return closed_transfer_worker();
  auto begun = impl_->machine.calls().begin({direction, std::move(with), std::move(pieces), until});
  impl_->links->wake();
  return begun;
}

transfer_outcome transfer_worker::wait(handoff::call_id id) {
  if (!impl_->home.is_here())
    return {call_state::failed, closed_transfer_worker().message};
  return impl_->wait(id);
}

transfer_outcome transfer_worker::take(handoff::call_id id) {
  if (!impl_->home.is_here())
    return {call_state::failed, closed_transfer_worker().message};
  std::lock_guard guard{impl_->lock};
  return impl_->take_outcome(id);
}

void transfer_worker::close() {
  if (impl_->home.is_here())
    impl_->shut();
}

transfer_stats transfer_worker::stats() const {
  if (!impl_->home.is_here())
    return {};
  std::lock_guard guard{impl_->lock};
  auto now = impl_->counted;
  now.calls = impl_->machine.calls().open();
  now.requests = impl_->machine.requests();
  now.leases = impl_->leases.taken();
  now.ranges = impl_->machine.memory_ranges();
  return now;
}

} // namespace peercache::client

#include "actors/serving/page_server.hpp"

#include "common/assert.hpp"
#include "rdma/server_loop.hpp"

namespace peercache::actors {

using namespace std::chrono_literals;
using rdma::clock;

namespace {

constexpr auto publish_interval = 100ms;
static_assert(publish_interval <= rdma::server_sleep_max,
              "what has moved is published before a rest");
/// The longest sleep of a server at rest: nothing but events and the ends of sessions wake it.
constexpr auto rest_max = 1h;

} // namespace

page_status pool_page_source::pin(slot_id slot, generation gen, const page_key& key,
                                  std::uint32_t length_bytes, std::span<const std::byte>& bytes) {
  auto status = slots_.pin_if(slot, gen, key, length_bytes);
  if (status != page_status::hit)
    return status;
  slots_.count_use(slot);
  bytes = slots_.bytes(slot, length_bytes);
  return status;
}

void pool_page_source::unpin(slot_id slot) {
  slots_.unpin(slot);
}

result<std::unique_ptr<page_server>>
page_server::listen(const rdma::tcp_page_server_options& options, storage::slot_table slots) {
  std::unique_ptr<page_server> made{new page_server{slots}};
  auto server = rdma::tcp_page_server::listen(options, made->source_);
  if (!server)
    return server.error();
  made->server_ = std::move(*server);
  made->port_ = made->server_->port();
  return made;
}

void page_server::publish() {
  published_.store({server_->stats(), server_->connections(), server_->pinned_bytes()});
}

void page_server::run() {
  PEERCACHE_ASSERT(server_ != nullptr); // A page server does not run after `close`.
  auto publish_at = clock::now();
  const auto publish_sometimes = [&](clock::time_point now) {
    if (now < publish_at)
      return;
    publish();
    publish_at = now + publish_interval;
  };
  rdma::run_server(*server_, stop_, publish_sometimes, rdma::server_spin, rest_max);
}

void page_server::stop() noexcept {
  stop_.store(true, std::memory_order_release);
  server_->wake();
}

} // namespace peercache::actors

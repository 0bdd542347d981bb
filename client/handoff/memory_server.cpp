#include "client/handoff/memory_server.hpp"

#include "client/handoff/loop_spin.hpp"
#include "common/interruption.hpp"
#include "handoff/links/link_options.hpp"
#include "rdma/server_loop.hpp"

#include <algorithm>
#include <chrono>

namespace peercache::client {

namespace {

constexpr std::chrono::milliseconds before_connect_timeout{70};

} // namespace

result<std::unique_ptr<memory_server>> memory_server::listen(const worker_options& options,
                                                             const incarnation& process,
                                                             const worker_tls& tls) {
  if (auto may =
          handoff::may_listen(options.host, tls.context() != nullptr, options.insecure_cluster);
      !may)
    return may.error();
  std::unique_ptr<memory_server> made{new memory_server(options.leases_max, gpu_of(options))};
  auto choice = rdma::choose_rails(options.rails);
  if (!choice)
    return choice.error();
  rdma::verbs_server_options verbs;
  verbs.cluster = options.cluster;
  verbs.inc = process;
  verbs.node = options.name;
  // Readers here wait for longer than those of pools (`page_connect_timeout`); refusals come
  // before.
  verbs.answer_wait =
      std::max(options.page_connect_timeout, before_connect_timeout) - before_connect_timeout;
  auto rails = rdma::rail_servers::open(*choice, options.rails, verbs,
                                        rdma::served_region::leases(made->leases_));
  if (!rails)
    return rails.error();
  made->rails_ = std::move(*rails);
  rdma::tcp_page_server_options tcp;
  tcp.host = options.host;
  tcp.cluster = options.cluster;
  tcp.inc = process;
  tcp.device = made->gpu_.get();
  tcp.handshakes = tls.handshakes();
  tcp.pages_in_tls = options.rails.pages_in_tls;
  if (made->rails_->rails() != 0)
    tcp.on_verbs_hello = [rails = made->rails_.get()](
                             net::stream_socket socket, const rdma::verbs_hello& greeting,
                             auto came_at) { rails->accept(std::move(socket), greeting, came_at); };
  auto pages = rdma::tcp_page_server::listen(tcp, made->spans_);
  if (!pages)
    return pages.error();
  made->pages_ = std::move(*pages);
  made->port_ = made->pages_->port();
  return made;
}

result<void> memory_server::add_one(std::span<std::byte> memory) {
  if (auto added = spans_.add(memory); !added)
    return added;
  // `gpu_` may learn of the memory late, because no lease names it before `add` has returned.
  if (gpu_)
    gpu_->add(memory);
  auto added = rails_->add_span(memory, gpu_.get());
  if (!added)
    remove({memory});
  return added;
}

result<void> memory_server::add(const std::vector<std::span<std::byte>>& memory,
                                bool until_interrupted) {
  for (std::size_t i = 0; i < memory.size(); ++i) {
    auto added = until_interrupted && interruption::look() ? result<void>(interrupted_start())
                                                           : add_one(memory[i]);
    if (added)
      continue;
    remove({memory.begin(), memory.begin() + static_cast<std::ptrdiff_t>(i)});
    return added;
  }
  return {};
}

void memory_server::remove(const std::vector<std::span<std::byte>>& memory) {
  for (const auto& each : memory) {
    rails_->remove_span(each.data());
    spans_.remove(each.data());
    if (gpu_)
      gpu_->remove(each.data());
  }
}

std::vector<std::function<void()>> memory_server::bodies() {
  std::vector<std::function<void()>> all;
  const auto spin = loop_spin(own_processors(), rdma::server_spin);
  all.emplace_back([this, spin] {
    rdma::run_server(
        *pages_, stop_, [](rdma::clock::time_point) {}, spin);
  });
  for (std::size_t rail = 0; rail < rails_->rails(); ++rail)
    all.emplace_back([this, rail] { rails_->run(rail); });
  if (rails_->rails() != 0)
    all.emplace_back([this] { rails_->register_region(); });
  return all;
}

void memory_server::stop() noexcept {
  stop_.store(true, std::memory_order_release);
  pages_->wake();
  rails_->stop();
}

} // namespace peercache::client

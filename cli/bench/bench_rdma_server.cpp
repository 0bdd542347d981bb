#include "cli/bench/bench_rdma.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/page_source.hpp"
#include "rdma/tcp/tcp_page_server.hpp"
#include "rdma/verbs/verbs_rail_server.hpp"

#include <cstdio>
#include <poll.h>
#include <unistd.h>

namespace peercache::cli {

namespace {

/// How often the server wakes without a request. Only handshakes wait for it, and waking costs the
/// machine that is measured.
constexpr auto nap = std::chrono::milliseconds(10);

/// Refuses pages over TCP: clients read this server's pages only by one-sided READs.
class no_pages final : public rdma::page_source {
public:
  page_status pin(slot_id, generation, const page_key&, std::uint32_t,
                  std::span<const std::byte>&) override {
    return page_status::stale;
  }
  void unpin(slot_id) override {}
};

bool parent_is_gone() {
  pollfd in{STDIN_FILENO, POLLIN, 0};
  return ::poll(&in, 1, 0) > 0;
}

result<std::unique_ptr<rdma::verbs_rail_server>> open_rail(const std::string& name,
                                                           const rdma_bench_pool& pool) {
  auto device = rdma::verbs::device::open(name, {});
  if (!device)
    return device.error();
  rdma::verbs_server_options options;
  options.cluster = rdma_bench_cluster;
  options.inc = rdma_bench_life;
  options.node = "bench";
  auto rail = rdma::verbs_rail_server::create(std::move(*device), options, pool.served());
  while (rail && (*rail)->regions().register_next()) {
  }
  if (rail && (*rail)->regions().progress().failed != 0)
    return {errc::out_of_memory, (*rail)->regions().progress().failure};
  return rail;
}

result<void> serve(const std::string& device, const rdma_bench_pool& pool) {
  auto rail = open_rail(device, pool);
  if (!rail)
    return rail.error();
  rdma::tcp_page_server_options options;
  options.cluster = rdma_bench_cluster;
  options.inc = rdma_bench_life;
  options.on_verbs_hello = [&rail](net::stream_socket socket, const rdma::verbs_hello& greeting,
                                   auto came_at) {
    (*rail)->accept(std::move(socket), greeting, came_at);
  };
  no_pages nothing;
  auto door = rdma::tcp_page_server::listen(options, nothing);
  if (!door)
    return door.error();
  std::printf("port=%u\n", (*door)->port());
  std::fflush(stdout);
  while (!parent_is_gone()) {
    const auto now = rdma::clock::now();
    bool moved = (*door)->poll(now);
    moved |= (*rail)->poll(now);
    if (moved)
      continue;
    (*door)->wait(nap);
    (*rail)->wait(nap);
  }
  return {};
}

} // namespace

exit_code serve_rdma_bench(const std::string& device, const std::vector<std::uint64_t>& sizes,
                           std::uint64_t run_bytes) {
  auto plan = rdma_page_plan::make(sizes, run_bytes);
  auto pool = plan ? rdma_bench_pool::make(*plan) : result<rdma_bench_pool>(plan.error());
  const auto served = pool ? serve(device, *pool) : result<void>(pool.error());
  if (served)
    return exit_code::ok;
  std::fprintf(stderr, "rdma server: %s\n", to_string(served.error()).c_str());
  return exit_code_of(served.error().code);
}

} // namespace peercache::cli

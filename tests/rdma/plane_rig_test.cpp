#include "tests/rdma/plane_rig.hpp"

#include <sched.h>

namespace peercache::rdma {

namespace {

class memory_rig final : public plane_rig {
public:
  explicit memory_rig(data_service what) : plane_rig(what), reader_(network_, {.seed = 42}) {}

  data_plane& plane() override { return reader_; }
  void serve(test_pool& pool, const incarnation& inc, fault what) override {
    using behaviour = memory_network::behaviour;
    const behaviour acts[] = {behaviour::serves, behaviour::silent, behaviour::breaks,
                              behaviour::corrupts};
    served = &pool;
    if (lent != nullptr)
      network_.attach("host", 1, inc, lent->spans, acts[static_cast<std::size_t>(what)]);
    else
      network_.attach("host", 1, inc, pool, acts[static_cast<std::size_t>(what)]);
  }
  void stop_serving() override { network_.detach("host", 1); }
  peer_endpoint peer(const incarnation& inc) const override {
    return {{1}, inc, "host", 1, "c", 0, service};
  }
  void step() override {
    now += std::chrono::microseconds(50);
    reader_.poll(now);
  }

private:
  memory_network network_;
  memory_data_plane reader_;
};

/// Returns a port on which nobody listens: one that the kernel has just given out and got back.
std::uint16_t unused_port() {
  auto listener = net::listen_on("127.0.0.1", 0, 1);
  return net::local_port(*listener);
}

} // namespace

std::unique_ptr<plane_rig> make_memory_rig(data_service what) {
  return std::make_unique<memory_rig>(what);
}
std::unique_ptr<plane_rig> make_tcp_rig(data_service what) {
  return std::make_unique<tcp_rig>(tcp_data_plane_options{}, what);
}

tcp_rig::tcp_rig(const tcp_data_plane_options& opts, data_service what)
    : plane_rig(what), port(unused_port()) {
  auto made = make_tcp_data_plane(opts);
  EXPECT_TRUE(made);
  reader = std::move(*made);
  if (opts.tls)
    handshakes = rig_certificates::handshakes();
}

void tcp_rig::serve(test_pool& pool, const incarnation& inc, fault what) {
  tcp_page_server_options opts;
  opts.inc = inc;
  opts.faults.mute_hello = what == fault::silent;
  if (what == fault::breaks) {
    opts.faults.send_chunk_bytes = 10'000;
    opts.faults.close_after_bytes = 40'000;
  }
  opts.faults.flip_byte_one_in = what == fault::corrupts ? 1 : 0;
  serve(pool, opts);
}

void tcp_rig::serve(test_pool& pool, tcp_page_server_options opts) {
  server.reset();
  opts.port = port;
  opts.cluster = "test";
  opts.handshakes = handshakes.get();
  served = &pool;
  auto made = lent != nullptr ? tcp_page_server::listen(opts, lent->spans)
                              : tcp_page_server::listen(opts, pool);
  ASSERT_TRUE(made) << made.error().message;
  server = std::move(*made);
}

void tcp_rig::step() {
  now += std::chrono::microseconds(10);
  if (handshakes)
    handshakes->turn(clock::duration::zero());
  const bool served = server != nullptr && server->poll(now);
  // Loopback delivers bytes at once, unless the kernel defers the delivery: then it needs this CPU.
  if (!reader->poll(now) && !served && ++idle_steps % 64 == 0)
    sched_yield();
}

} // namespace peercache::rdma

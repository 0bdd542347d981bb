#include "rdma/tcp/tcp_page_server.hpp"
#include "tests/fuzz/fuzz_input.hpp"

#include <array>
#include <poll.h>
#include <sys/socket.h>

namespace {

using namespace peercache;

constexpr incarnation served{1, 1};

/// A page source with one page in one slot. Counts the pins.
class one_page final : public rdma::page_source {
public:
  page_status pin(slot_id slot, generation gen, const page_key& key, std::uint32_t length_bytes,
                  std::span<const std::byte>& bytes) override {
    if (slot.value != 0 || gen != generation{2} || key != page_key{} ||
        length_bytes != page_.size())
      return page_status::stale;
    ++pins;
    bytes = page_;
    return page_status::hit;
  }
  void unpin(slot_id) override { --pins; }

  int pins = 0;

private:
  std::array<std::byte, 4096> page_{};
};

/// Polls the server until it has nothing left to do; reads and drops its answers.
void serve(rdma::tcp_page_server& server, const net::unique_fd& peer) {
  std::array<char, 65536> answer;
  for (int idle = 0; idle < 3;) {
    idle = server.poll(rdma::clock::now()) ? 0 : idle + 1;
    while (::recv(peer.get(), answer.data(), answer.size(), MSG_DONTWAIT) > 0)
      idle = 0;
  }
}

} // namespace

/// Sends any bytes to the page server, with or without a valid hello first.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  static one_page pool;
  static auto server = [] {
    rdma::tcp_page_server_options options;
    options.inc = served;
    return std::move(*rdma::tcp_page_server::listen(options, pool));
  }();
  auto peer = std::move(*net::start_connect("127.0.0.1", server->port(), {}));
  pollfd connected{peer.get(), POLLOUT, 0};
  ::poll(&connected, 1, 1000);
  if (in.value<std::uint8_t>() % 2 == 0) {
    rdma::hello hello;
    hello.cluster = rdma::cluster_digest("");
    hello.inc = served;
    ::send(peer.get(), &hello, sizeof hello, MSG_NOSIGNAL);
  }
  while (!in.empty()) {
    const auto bytes = in.piece();
    ::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    serve(*server, peer);
  }
  peer.reset();
  while (server->connections() > 0)
    server->poll(rdma::clock::now());
  PEERCACHE_ASSERT(pool.pins == 0);
  return 0;
}

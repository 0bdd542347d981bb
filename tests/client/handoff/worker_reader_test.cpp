#include "client/handoff/worker_reader.hpp"
#include "net/socket.hpp"

#include <gtest/gtest.h>

#include <array>

namespace peercache::client::test {
namespace {

using std::chrono::milliseconds;

/// Reads a page from a peer whose port accepts connections and never answers.
/// @param patience until the read's deadline @return how the read ended
page_status read_from_a_mute_peer(const worker_options& options, milliseconds patience) {
  const auto mute = net::listen_on("127.0.0.1", 0, 8);
  EXPECT_TRUE(mute);
  auto reader = reader_of(options);
  EXPECT_TRUE(reader);
  std::array<std::byte, 4096> page{};
  rdma::read_batch batch;
  batch.peer.host = "127.0.0.1";
  batch.peer.port = net::local_port(*mute);
  batch.pages.push_back({.length_bytes = page.size(), .part_count = 1});
  batch.parts.push_back({page.data(), page.size()});
  batch.deadline = rdma::clock::now() + patience;
  auto* plane = (*reader)->take_tcp_plane();
  plane->submit(batch);
  while (!batch.complete()) {
    plane->poll(rdma::clock::now());
    plane->wait(milliseconds(10));
  }
  plane->shutdown();
  return batch.pages.front().status;
}

worker_options options_with(milliseconds connect_timeout) {
  worker_options options;
  options.rails.mode = rdma::plane_mode::tcp;
  options.page_connect_timeout = connect_timeout;
  return options;
}

TEST(worker_reader, waits_for_a_peer_that_is_slow_to_connect_as_long_as_its_worker_says) {
  EXPECT_EQ(read_from_a_mute_peer(options_with(milliseconds(20)), milliseconds(60'000)),
            page_status::unreachable);
  // The read's 700 ms are longer than the default wait for a connection, which must not end it.
  EXPECT_EQ(read_from_a_mute_peer(options_with(milliseconds(60'000)), milliseconds(700)),
            page_status::timed_out);
}

} // namespace
} // namespace peercache::client::test

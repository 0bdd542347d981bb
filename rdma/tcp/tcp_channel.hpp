#pragma once

#include "net/stream_socket.hpp"
#include "rdma/page_channel.hpp"
#include "rdma/page_receiver.hpp"
#include "rdma/tcp/tcp_options.hpp"
#include "rdma/tcp/tcp_protocol.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace peercache::rdma {

/// One TCP connection of a reader to a page server: connect, hello, then requests of one batch at a
/// time, several of them ahead of their answers. Threads, ownership, errors: as page_channel says.
class tcp_channel final : public page_channel {
public:
  tcp_channel(std::uint64_t id, net::stream_socket socket, const peer_endpoint& peer,
              const tcp_data_plane_options& opts, clock::time_point now);

  bool carries_nothing() const noexcept override { return sent_.empty(); }
  void on_events(std::uint32_t events) noexcept override;
  progress step(std::size_t& bytes_left) override;
  std::vector<sub_request> close() noexcept override;

private:
  bool finish_connect();
  void send_requests();
  bool flush();
  bool receive(std::size_t& bytes_left, bool& moved);
  bool receive_head(bool& moved);
  bool receive_payload(std::size_t& bytes_left, bool& moved);
  bool on_head();
  bool on_hello_answer();
  bool on_answer_head();
  void payload_done();
  bool on_verdicts();
  void answer_done();
  bool check_silence();
  /// Reads once from the connection into `to`. `bytes` is 0 when there is nothing to read now.
  /// Returns false when the connection is dead.
  bool read_into(std::span<const iovec> to, std::size_t& bytes, bool past_tls = false);
  bool may_read_on(std::size_t bytes, std::size_t asked) const noexcept;
  std::size_t head_bytes() const noexcept;

  // Members that stay constant after construction.
  const tcp_data_plane_options& options_;
  const std::uint64_t cluster_;
  const incarnation inc_;
  const data_service service_;

  net::stream_socket socket_;
  /// What is inside TLS: what this side wants before the hello's answer, and what both sides agreed
  /// on after it.
  tls_extent extent_;
  bool readable_ = false;
  bool writable_ = false;
  /// The stream has ended; bytes that came before its end may still be unread.
  bool hung_up_ = false;

  /// Requests that were sent and not answered, oldest first; at most `requests_ahead_max`.
  std::vector<sub_request> sent_;
  std::uint64_t next_request_id_ = 1;

  /// Bytes of the hello or of requests to send; those from `out_sent_` on are not in the socket
  /// yet.
  std::vector<std::byte> out_;
  std::size_t out_sent_ = 0;
  alignas(8) std::array<std::byte, answer_head_bytes_max> head_;
  std::size_t head_have_ = 0;
  /// The payloads of the oldest request have arrived, and its verdicts are next.
  bool awaits_verdicts_ = false;
  page_receiver payload_;
};

} // namespace peercache::rdma

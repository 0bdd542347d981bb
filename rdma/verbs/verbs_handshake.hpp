#pragma once

#include "net/stream_socket.hpp"
#include "rdma/page_channel.hpp"
#include "rdma/verbs/remote_region.hpp"
#include "rdma/verbs/verbs_protocol.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace peercache::rdma {

/// The reader's end of a channel's control connection: hello, answer, ready, then chunks of the
/// region as the peer registers them. Knows no verbs object. Threads: none. Errors: `step` returns
/// `broken`, and `why()` returns the reason.
class verbs_handshake {
public:
  using loss_reason = page_channel::loss_reason;
  enum class state : std::uint8_t {
    connecting,
    greeting, ///< The hello goes out; the server's answer is awaited.
    answered, ///< The server has accepted: connect the queue pair to `answer()`, then call `ready`.
    open,
    broken
  };

  /// @param socket as `stream_socket::dialled` makes it
  verbs_handshake(net::stream_socket socket, const verbs_hello& greeting);

  void on_events(std::uint32_t events) noexcept;
  /// Sends and receives what can be sent and received without blocking.
  state step();
  void ready();

  loss_reason why() const noexcept { return why_; }
  const verbs_answer& answer() const noexcept { return answer_; }
  const remote_region& region() const noexcept { return region_; }
  void close() noexcept { socket_.close(); }

private:
  bool flush();
  bool receive();
  /// Takes the messages at the front of `in_` that are whole. False when a message breaks the
  /// protocol.
  bool take_messages();
  bool take_answer(const verbs_answer& answer);
  bool broken(loss_reason why) noexcept;
  template <class T>
  void append(const T& message);

  net::stream_socket socket_;
  const incarnation inc_; ///< The incarnation that the reader expects of the server.
  const data_service service_;
  state state_ = state::connecting;
  loss_reason why_ = loss_reason::none;
  bool readable_ = false;
  bool writable_ = false;
  verbs_answer answer_;
  remote_region region_;
  std::vector<std::byte> out_;
  std::size_t out_sent_ = 0;
  std::array<std::byte, 4096> in_;
  std::size_t in_have_ = 0;
};

} // namespace peercache::rdma

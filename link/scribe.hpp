#pragma once

#include "common/log_limit.hpp"
#include "link/basp_guard.hpp"
#include "net/tls_session.hpp"

#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/rw_state.hpp>
#include <caf/io/network/stream.hpp>
#include <caf/io/scribe.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace peercache::link {

/// How a connection of CAF's multiplexer moves bytes: plain, or under TLS that stands already.
class connection_bytes {
public:
  using socket = caf::io::network::native_socket;
  using rw_state = caf::io::network::rw_state;

  explicit connection_bytes(std::optional<net::tls_session> tls) : tls_(std::move(tls)) {}

  rw_state read_some(std::size_t& got, socket fd, void* bytes, std::size_t count);
  rw_state write_some(std::size_t& done, socket fd, const void* bytes, std::size_t count);
  /// Drops what was received and not handed out. From now on reads fail, as if the connection were
  /// over.
  void discard() noexcept;
  /// Whether `threshold` received bytes wait in this process, where no event of the socket tells of
  /// them.
  bool must_read_more(socket fd, std::size_t threshold) const noexcept;

private:
  rw_state read_ahead(std::size_t& got, socket fd, void* bytes, std::size_t count);

  std::optional<net::tls_session> tls_;
  /// Bytes of a plain connection that were received before CAF asked for them: CAF reads a header,
  /// then what the header announces, then whether there is more, and each of the three would be a
  /// system call.
  std::vector<char> ahead_;
  std::size_t given_ = 0; ///< How many bytes of `ahead_` CAF has.
  /// Whether the socket had nothing more when `ahead_` was received. The next read then asks no
  /// more: an event tells of what comes later.
  bool drained_ = false;
  bool discarded_ = false;
};

/// Logs and counts connections that were ended because of a message. Threads: CAF's multiplexer.
class refused_messages {
public:
  /// Counts a connection. Logs at most one line a minute for each peer. @param peer its address
  void add(const std::string& peer, std::string_view why);

private:
  std::uint64_t count_ = 0;
  log_limit lines_;
};

/// One connection of CAF's multiplexer, like CAF's `scribe_impl`, under TLS if it is given a
/// session. The connection ends when the peer announces more than the limits, for CAF itself would
/// make room for all of it at once, up to 4 GiB; and when the peer sends a broker of BASP what
/// `basp_guard` refuses.
///
/// Threads: CAF's multiplexer, except construction. Limits: 64 KiB in the greeting, 64 MiB later.
class scribe final : public caf::io::scribe {
public:
  /// @param connected the socket, which this object closes @param refused outlives this object
  scribe(caf::io::network::default_multiplexer& loop, caf::io::network::native_socket connected,
         std::optional<net::tls_session> tls, refused_messages& refused);

  bool consume(caf::execution_unit* context, const void* bytes, std::size_t count) override;
  void configure_read(caf::io::receive_policy::config config) override;
  void ack_writes(bool enable) override { stream_.ack_writes(enable); }
  std::vector<char>& wr_buf() override { return stream_.wr_buf(); }
  std::vector<char>& rd_buf() override { return stream_.rd_buf(); }
  void flush() override { stream_.flush(this); }
  /// Like `flush`, but sends at once what the socket takes: CAF would first ask the kernel when the
  /// socket can be written to, and then ask it not to tell.
  void flush_now();
  void graceful_shutdown() override;
  std::string addr() const override;
  std::uint16_t port() const override;
  void add_to_loop() override { stream_.activate(this); }
  /// Bytes that were received ahead stay in the connection, and no event tells of them when the
  /// scribe comes back into the loop: only the peer's next bytes do. Brokers of ours halt none, so
  /// no scribe comes back.
  void remove_from_loop() override { stream_.passivate(); }

private:
  /// A stream of CAF that tells whether it waits until the socket can be written to, and that can
  /// end its reads.
  class stream final : public caf::io::network::stream {
  public:
    stream(caf::io::network::default_multiplexer& loop, connection_bytes::socket connected,
           std::optional<net::tls_session> tls)
        : caf::io::network::stream(loop, connected), bytes_(std::move(tls)) {}
    void handle_event(caf::io::network::operation what) override {
      handle_event_impl(what, bytes_);
    }
    void discard() noexcept { bytes_.discard(); }
    bool sends() const noexcept { return state_.writing; }
    bool tells_of_writes() const noexcept { return state_.ack_writes; }

  private:
    connection_bytes bytes_;
  };

  const bool under_tls_; // Before `stream_`, which takes the session.
  stream stream_;
  refused_messages& refused_;
  basp_guard guard_;
  bool launched_ = false;
  int reads_ = 0;
};

} // namespace peercache::link

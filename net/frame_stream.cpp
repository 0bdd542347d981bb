#include "net/frame_stream.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace peercache::net {

namespace {

/// A buffer that was larger than this gives its memory back when it is empty.
constexpr std::size_t buffer_kept_bytes = 1u << 20;

void clear_buffer(std::string& buffer) noexcept {
  buffer.clear();
  if (buffer.capacity() > buffer_kept_bytes)
    std::string().swap(buffer);
}

} // namespace

void frame_stream::on_events(std::uint32_t events) noexcept {
  const bool over = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  readable_ |= over || (events & EPOLLIN) != 0;
  writable_ |= over || (events & EPOLLOUT) != 0;
}

void frame_stream::push_greeting(std::string_view bytes) {
  PEERCACHE_ASSERT(out_.empty() && !has_sent_);
  out_.append(bytes);
}

bool frame_stream::push(std::string_view payload, std::size_t payload_bytes_max) {
  if (queued_bytes() + frames::length_bytes + payload.size() > queue_bytes_max_)
    return false;
  frames::append_frame(out_, payload, payload_bytes_max);
  return true;
}

/// Takes the next step of a dialled connection's connect and TLS handshake. True when frames may
/// travel.
bool frame_stream::shake_hands() noexcept {
  if (!socket_.is_to_establish())
    return true;
  if (ended_ || (!writable_ && !readable_))
    return false;
  const auto now = socket_.establish();
  if (now == stream_socket::step::refused) {
    fault_ = errno;
    ended_ = true;
  }
  // Once TLS stands, each direction may be tried; before, an event tells when the handshake can go
  // on.
  readable_ = writable_ = now == stream_socket::step::established;
  return readable_;
}

void frame_stream::flush() noexcept {
  if (!shake_hands())
    return;
  while (writable_ && queued_bytes() > 0) {
    const auto done = socket_.send(out_.data() + sent_, queued_bytes());
    if (done >= 0) {
      sent_ += static_cast<std::size_t>(done);
      has_sent_ = true;
    } else if (errno != EINTR) {
      writable_ = false;
      if (errno != EAGAIN && errno != ENOTCONN) {
        fault_ = errno;
        // The next `receive` takes what the other side sent before the failure, and then finds the
        // end.
        readable_ = true;
      }
    }
  }
  drop_sent();
}

void frame_stream::drop_sent() noexcept {
  if (sent_ == out_.size()) {
    clear_buffer(out_);
    sent_ = 0;
  } else if (sent_ >= buffer_kept_bytes && sent_ > out_.size() / 2) {
    out_.erase(0, std::exchange(sent_, 0));
  }
}

void frame_stream::finish() noexcept {
  PEERCACHE_ASSERT(queued_bytes() == 0);
  socket_.finish();
}

std::size_t frame_stream::receive(std::size_t bytes_max) {
  drop_taken();
  if (socket_.is_to_establish())
    return 0;
  char piece[65536];
  std::size_t total = 0;
  while (readable_ && !ended_ && total < bytes_max) {
    const auto got = socket_.receive(piece, std::min(sizeof piece, bytes_max - total));
    if (got > 0) {
      in_.append(piece, static_cast<std::size_t>(got));
      total += static_cast<std::size_t>(got);
    } else if (got < 0 && (errno == EAGAIN || errno == ENOTCONN)) {
      readable_ = false;
      ended_ = fault_ != 0;
    } else if (got == 0 || errno != EINTR) {
      if (got < 0 && fault_ == 0)
        fault_ = errno;
      ended_ = true;
    }
  }
  return total;
}

std::string frame_stream::fault_text() const {
  PEERCACHE_ASSERT(fault_ != 0);
  const auto refusal = fault_ == EPROTO ? socket_.refusal() : std::string();
  return refusal.empty() ? std::strerror(fault_) : "TLS: " + refusal;
}

std::optional<std::string_view> frame_stream::take(std::size_t payload_bytes_max) noexcept {
  if (too_long_)
    return std::nullopt;
  auto rest = std::string_view(in_).substr(taken_);
  std::string_view payload;
  if (!frames::take_frame(rest, payload, too_long_, payload_bytes_max))
    return std::nullopt;
  taken_ = in_.size() - rest.size();
  return payload;
}

void frame_stream::drop_taken() noexcept {
  if (taken_ == in_.size())
    clear_buffer(in_);
  else
    in_.erase(0, taken_);
  taken_ = 0;
}

void frame_stream::discard() noexcept {
  clear_buffer(in_);
  taken_ = 0;
}

} // namespace peercache::net

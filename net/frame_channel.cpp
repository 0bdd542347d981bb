#include "net/frame_channel.hpp"

#include "common/assert.hpp"
#include "common/checksum.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <poll.h>
#include <sys/socket.h>

namespace peercache::net {

namespace frames {
static_assert(greeting_bytes == 4 + 4 + 8 + sizeof(incarnation));
namespace {

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

} // namespace

std::string greeting(std::uint32_t version, std::string_view cluster, const incarnation& meant,
                     std::uint32_t of) {
  std::string out;
  append(out, of);
  append(out, version);
  append(out, checksum_of(std::as_bytes(std::span{cluster})));
  append(out, meant.high);
  append(out, meant.low);
  PEERCACHE_ASSERT(out.size() == greeting_bytes);
  return out;
}

void append_frame(std::string& out, std::string_view payload, std::size_t bytes_max) {
  PEERCACHE_ASSERT(payload.size() <= bytes_max &&
                   bytes_max <= std::numeric_limits<std::uint32_t>::max());
  append(out, static_cast<std::uint32_t>(payload.size()));
  out.append(payload);
}

bool take_frame(std::string_view& bytes, std::string_view& payload, bool& too_long,
                std::size_t bytes_max) noexcept {
  std::uint32_t length = 0;
  if (bytes.size() < sizeof length)
    return false;
  std::memcpy(&length, bytes.data(), sizeof length);
  too_long = length > bytes_max;
  if (too_long || bytes.size() - sizeof length < length)
    return false;
  payload = bytes.substr(sizeof length, length);
  bytes.remove_prefix(sizeof length + length);
  return true;
}

} // namespace frames

result<std::unique_ptr<frame_channel>> frame_channel::open(const std::string& host,
                                                           std::uint16_t port, std::string greeting,
                                                           tls_context* tls) {
  PEERCACHE_ASSERT(greeting.size() == frames::greeting_bytes);
  auto socket = start_connect(host, port, {});
  if (!socket)
    return socket.error();
  std::unique_ptr<frame_channel> made{new frame_channel{std::move(*socket), std::move(greeting)}};
  if (tls != nullptr)
    made->tls_.emplace(tls->dialled(made->fd()));
  return made;
}

bool frame_channel::lives() const noexcept {
  char next;
  const auto got = ::recv(fd(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN));
}

void frame_channel::ask(std::string_view question, std::size_t frame_bytes) {
  PEERCACHE_ASSERT(unanswered_ == 0 && frame_bytes > 0);
  answer_.clear();
  for (; !question.empty(); ++unanswered_) {
    auto some = question.substr(0, frame_bytes);
    frames::append_frame(out_, some);
    question.remove_prefix(some.size());
  }
}

void frame_channel::add(std::string_view payload) {
  PEERCACHE_ASSERT(!payload.empty());
  frames::append_frame(out_, payload);
  ++unanswered_;
}

bool frame_channel::send_some() {
  PEERCACHE_ASSERT(sent_ <= out_.size());
  while (sent_ < out_.size()) {
    const auto* next = out_.data() + sent_;
    const auto left = out_.size() - sent_;
    auto done = tls_ ? tls_->send(next, left) : ::send(fd(), next, left, MSG_NOSIGNAL);
    if (done < 0)
      return errno == EAGAIN || errno == EINTR || errno == ENOTCONN || errno == EINPROGRESS;
    sent_ += static_cast<std::size_t>(done);
  }
  out_.clear();
  sent_ = 0;
  return true;
}

bool frame_channel::receive_some() {
  char piece[65536];
  while (unanswered_ > 0) {
    auto got = tls_ ? tls_->receive(piece, sizeof piece) : ::recv(fd(), piece, sizeof piece, 0);
    if (got == 0)
      return false;
    if (got < 0)
      return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
    in_.append(piece, static_cast<std::size_t>(got));
    std::string_view rest = in_, payload;
    bool too_long = false;
    while (unanswered_ > 0 && frames::take_frame(rest, payload, too_long)) {
      answer_.append(payload);
      --unanswered_;
    }
    if (too_long || (unanswered_ == 0 && !rest.empty()))
      // The server broke the protocol: a frame is too long, or there are more answers than
      // questions.
      return false;
    in_.erase(0, in_.size() - rest.size());
  }
  return true;
}

frame_channel::state frame_channel::advance() {
  const bool sending = !out_.empty();
  if (!send_some())
    return state::broken;
  // The question has only just been sent, so no answer can have come yet and nothing is read.
  if (sending && out_.empty())
    return state::asking;
  if (!receive_some())
    return state::broken;
  return unanswered_ == 0 ? state::answered : state::asking;
}

short frame_channel::events() const noexcept {
  if (tls_ && !tls_->established())
    return tls_->awaited();
  return static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT);
}

} // namespace peercache::net

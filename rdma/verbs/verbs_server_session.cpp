#include "rdma/verbs/verbs_server_session.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sys/uio.h>
#include <utility>

namespace peercache::rdma {

namespace {

constexpr int looks_per_idle_timeout = 4;

bool would_block() noexcept {
  return errno == EAGAIN || errno == EWOULDBLOCK;
}

} // namespace

verbs_server_session::verbs_server_session(net::stream_socket socket, verbs::queue_pair pair,
                                           const verbs_answer& answer, const served& what,
                                           const verbs_server_options& options,
                                           clock::time_point now)
    : socket_(std::move(socket)), pair_(std::move(pair)), answer_(answer),
      has_windows_(what.windows), wanted_(what.windows ? what.chunks : 0),
      windows_wait_(options.windows_wait),
      answer_until_(std::min(what.came_at, now) + options.answer_wait), began_at_(now),
      looked_at_(now), quiet_since_(now) {}

verbs_server_session::~verbs_server_session() {
  if (has_windows_)
    retire();
}

void verbs_server_session::retire() noexcept {
  if (std::exchange(retired_, true))
    return;
  // A READ that comes late meets a queue pair that is silent, as without windows, and not a key
  // that has ended, for which the device would report an abuse.
  pair_.stop();
  socket_.close();
}

void verbs_server_session::turn_away(const verbs_answer& refusal) noexcept {
  PEERCACHE_ASSERT(!answered());
  [[maybe_unused]] const auto sent = socket_.send(&refusal, sizeof refusal);
}

bool verbs_server_session::waits(clock::time_point now) const noexcept {
  return !answered() && windows_.chunks().size() < wanted_ && !windows_.begun(now, windows_wait_) &&
         now < answer_until_;
}

bool verbs_server_session::waits_in_vain(clock::time_point now) const noexcept {
  return !answered() && wanted_ != 0 && windows_.chunks().empty() && !waits(now);
}

void verbs_server_session::on_events(std::uint32_t events) noexcept {
  const bool over = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  readable_ |= over || (events & EPOLLIN) != 0;
  writable_ |= over || (events & EPOLLOUT) != 0;
}

verbs_server_session::progress verbs_server_session::step(clock::time_point now,
                                                          std::span<const region_chunk> announced) {
  const auto sent_before = sent_bytes_;
  if (!waits(now) && !send(now, has_windows_ ? windows_.chunks() : announced))
    return progress::closed;
  const auto received = receive();
  const bool sent = sent_bytes_ != sent_before;
  return received == progress::blocked && sent ? progress::moved : received;
}

bool verbs_server_session::send(clock::time_point now, std::span<const region_chunk> announced) {
  const auto head = std::as_bytes(std::span(&answer_, 1));
  const auto tail = std::as_bytes(announced);
  const auto all_bytes = head.size() + tail.size();
  PEERCACHE_ASSERT(sent_bytes_ <= all_bytes); // The list of chunks only grows.
  while (writable_ && sent_bytes_ < all_bytes) {
    const auto of_head = head.subspan(std::min(sent_bytes_, head.size()));
    const auto of_tail = tail.subspan(sent_bytes_ - (head.size() - of_head.size()));
    std::array<iovec, 2> pieces{{{const_cast<std::byte*>(of_head.data()), of_head.size()},
                                 {const_cast<std::byte*>(of_tail.data()), of_tail.size()}}};
    const auto done = socket_.send(pieces);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0 && !would_block())
      return false;
    writable_ = done >= 0;
    if (done > 0) {
      sent_bytes_ += static_cast<std::uint64_t>(done);
      stalled_since_.reset();
    }
  }
  if (sent_bytes_ < all_bytes && !stalled_since_)
    stalled_since_ = now;
  return true;
}

verbs_server_session::progress verbs_server_session::receive() {
  auto outcome = progress::blocked;
  while (readable_) {
    const bool was_established = established();
    std::byte unexpected;
    std::byte* to = was_established ? &unexpected : ready_.data() + ready_have_;
    const auto room = was_established ? 1 : ready_.size() - ready_have_;
    const auto got = socket_.receive(to, room);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && would_block()) {
      readable_ = false;
      break;
    }
    if (got <= 0)
      return progress::closed;
    // A reader cannot be ready before it has the whole answer, and says nothing after its ready
    // message: any other byte breaks the protocol.
    if (was_established || sent_bytes_ < sizeof answer_)
      return progress::violated;
    const auto have = ready_have_ + static_cast<std::size_t>(got);
    const verbs_ready expected;
    if (std::memcmp(ready_.data(), &expected, have) != 0)
      return progress::violated;
    ready_have_ = have;
    outcome = progress::moved;
  }
  return outcome;
}

std::optional<session_end>
verbs_server_session::overdue(clock::time_point now,
                              const verbs_server_options& options) const noexcept {
  if (!established() && now - began_at_ >= options.hello_timeout)
    return session_end::no_ready;
  if (stalled_since_ && now - *stalled_since_ >= options.send_timeout)
    return session_end::stalled;
  if (windows_.stuck(now, options.send_timeout))
    return session_end::no_window;
  return std::nullopt;
}

bool verbs_server_session::wants_look(clock::time_point now,
                                      const verbs_server_options& options) const noexcept {
  return established() && now - looked_at_ >= options.idle_timeout / looks_per_idle_timeout;
}

bool verbs_server_session::look(clock::time_point now,
                                const verbs_server_options& options) noexcept {
  looked_at_ = now;
  const auto psn = pair_.expected_psn();
  // The session of a device that does not tell the number counts as in use: to keep an idle session
  // is better than to end a session that is in use.
  if (!psn || psn != expected_psn_)
    quiet_since_ = now;
  expected_psn_ = psn;
  return now - quiet_since_ >= options.idle_timeout;
}

} // namespace peercache::rdma
